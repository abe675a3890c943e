//! What stands in a certificate, for messages only. Trust never depends on this.

/// `"subject", issued by "issuer"`, by their common names.
pub(crate) fn describe(der: &[u8]) -> String {
    match Fields::read(der) {
        Some(fields) if fields.issuer == fields.subject => {
            format!("\"{}\", which is self-signed", name(fields.subject))
        }
        Some(fields) => format!("\"{}\", issued by \"{}\"", name(fields.subject), name(fields.issuer)),
        None => "unreadable".into(),
    }
}

/// The name of the authority that must be trusted for a server with the certificate `server` and these others: whoever
/// issued the last of them that leads on from the server's. `None` if the server's is signed by itself.
pub(crate) fn authority<'a>(server: &'a [u8], between: impl Iterator<Item = &'a [u8]> + Clone) -> Option<String> {
    let mut last = Fields::read(server).filter(|fields| fields.issuer != fields.subject)?;
    // Each may lead on once, so a circle ends.
    for _ in between.clone() {
        let next = between.clone().filter_map(Fields::read).find(|fields| fields.subject == last.issuer);
        match next {
            Some(next) if next.issuer != next.subject => last = next,
            _ => break,
        }
    }
    Some(name(last.issuer))
}

/// The last day on which a certificate is valid, in seconds since 1970 and as `2020-01-31`.
pub(crate) fn last_day(der: &[u8]) -> Option<(u64, String)> {
    let (_, rest) = time(Fields::read(der)?.validity)?;
    Some(time(rest)?.0)
}

/// The first day, in the same way.
pub(crate) fn first_day(der: &[u8]) -> Option<(u64, String)> {
    Some(time(Fields::read(der)?.validity)?.0)
}

/// Parts of a certificate (RFC 5280, 4.1):
/// `Certificate ::= SEQUENCE { TBSCertificate ::= SEQUENCE { [0] version OPTIONAL, serialNumber, signature, issuer,
/// validity, subject, …`
struct Fields<'a> {
    issuer: &'a [u8],
    validity: &'a [u8],
    subject: &'a [u8],
}

impl<'a> Fields<'a> {
    fn read(der: &'a [u8]) -> Option<Self> {
        let (certificate, _) = expect(der, SEQUENCE)?;
        let (mut rest, _) = expect(certificate, SEQUENCE)?;
        if let Some((_, after)) = expect(rest, VERSION) {
            rest = after;
        }
        let (_, rest) = expect(rest, INTEGER)?;
        let (_, rest) = expect(rest, SEQUENCE)?;
        let (issuer, rest) = expect(rest, SEQUENCE)?;
        let (validity, rest) = expect(rest, SEQUENCE)?;
        let (subject, _) = expect(rest, SEQUENCE)?;
        Some(Self { issuer, validity, subject })
    }
}

/// The first time in `bytes` (RFC 5280, 4.1.2.5), `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`, and what follows.
fn time(bytes: &[u8]) -> Option<((u64, String), &[u8])> {
    let (tag, text, rest) = element(bytes)?;
    let text = str::from_utf8(text).ok()?;
    let digits = text.strip_suffix('Z').filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))?;
    let text = match (tag, digits.len()) {
        (UTC_TIME, 12) if digits < "5" => format!("20{digits}"),
        (UTC_TIME, 12) => format!("19{digits}"),
        (GENERALIZED_TIME, 14) => digits.to_owned(),
        _ => return None,
    };
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let seconds = number(8, 10)? * 3600 + number(10, 12)? * 60 + number(12, 14)?;
    // Counted from the first of March, a leap day is the last of its year.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year.checked_sub(1)?, month + 9) };
    let days = 365 * years + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day;
    let seconds = days.checked_sub(DAYS_TO_1970)? * 86400 + seconds;
    Some(((seconds, format!("{year:04}-{month:02}-{day:02}")), rest))
}

/// The common name, or else the last organisation (unit), of a `SEQUENCE OF SET OF SEQUENCE { OID, string }`.
fn name(mut sets: &[u8]) -> String {
    let mut best: (bool, &[u8]) = (false, b"");
    while let Some((mut set, rest)) = expect(sets, SET) {
        sets = rest;
        while let Some((pair, rest)) = expect(set, SEQUENCE) {
            set = rest;
            let Some((oid, value)) = expect(pair, OID) else { continue };
            let Some((_, text, _)) = element(value) else { continue };
            let common = oid == COMMON_NAME;
            if common || (!best.0 && ORGANISATION.contains(&oid)) {
                best = (common, text);
            }
        }
    }
    let text = String::from_utf8_lossy(best.1);
    text.chars().filter(|char| !char.is_control() && *char != '"').take(100).collect()
}

/// The content of the first element, if it has this tag, and what follows.
fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    element(bytes).filter(|(found, ..)| *found == tag).map(|(_, content, rest)| (content, rest))
}

/// Tag and content of the first element in DER, and what follows.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, bytes) = bytes.split_first()?;
    let (&first, bytes) = bytes.split_first()?;
    let (len, bytes) = match first {
        0..=0x7f => (usize::from(first), bytes),
        0x81..=0x83 => {
            let (digits, bytes) = bytes.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |len, &digit| len << 8 | usize::from(digit)), bytes)
        }
        _ => return None,
    };
    let (content, rest) = bytes.split_at_checked(len)?;
    Some((tag, content, rest))
}

const INTEGER: u8 = 0x02;
const OID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// From the last of February of the year 0 to the first of January 1970.
const DAYS_TO_1970: u64 = 719_469;
/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// 2.5.4.10 and 2.5.4.11
const ORGANISATION: [&[u8]; 2] = [&[0x55, 0x04, 0x0a], &[0x55, 0x04, 0x0b]];

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CertifiedIssuer, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn named(pairs: &[(DnType, &str)]) -> CertificateParams {
        let mut params = CertificateParams::new(vec!["host.example".into()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for (kind, name) in pairs {
            params.distinguished_name.push(kind.clone(), *name);
        }
        params
    }

    fn issued(issuer: &[(DnType, &str)], subject: &[(DnType, &str)]) -> Vec<u8> {
        let issuer = CertifiedIssuer::self_signed(named(issuer), KeyPair::generate().unwrap()).unwrap();
        named(subject).signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap().der().to_vec()
    }

    #[test]
    fn names_are_found() {
        let long = "n".repeat(200);
        let der = issued(
            &[(DnType::OrganizationName, "Works"), (DnType::CommonName, "Root \"1\"\n"), (DnType::CountryName, "XX")],
            &[(DnType::CountryName, "XX"), (DnType::OrganizationName, &long)],
        );
        assert_eq!(describe(&der), format!("\"{}\", issued by \"Root 1\"", &long[..100]));
        let own = named(&[(DnType::CommonName, "own")]).self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert_eq!(describe(own.der()), "\"own\", which is self-signed");
    }

    #[test]
    fn days_are_found() {
        let mut params = named(&[]);
        for ((year, month, day), seconds) in [
            ((1970, 1, 1), 0),
            ((2000, 2, 29), 951_782_400),
            ((2049, 12, 31), 2_524_521_600),
            ((2400, 3, 1), 13_574_649_600),
        ] {
            params.not_before = rcgen::date_time_ymd(year, month, day);
            params.not_after = params.not_before;
            let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
            let expected = Some((seconds, format!("{year:04}-{month:02}-{day:02}")));
            assert_eq!((first_day(&der), last_day(&der)), (expected.clone(), expected));
        }
    }

    #[test]
    fn the_authority_is_at_the_end_of_the_chain() {
        let chain = |pairs: &[(&str, &str)]| {
            let one = |(issuer, subject): &(&str, &str)| {
                issued(&[(DnType::CommonName, issuer)], &[(DnType::CommonName, subject)])
            };
            let all: Vec<_> = pairs.iter().map(one).collect();
            authority(&all[0], all[1..].iter().map(Vec::as_slice))
        };
        assert_eq!(chain(&[("a", "server")]), Some("a".into()));
        assert_eq!(chain(&[("a", "server"), ("c", "b"), ("b", "a"), ("d", "d")]), Some("c".into()));
        assert_eq!(chain(&[("a", "server"), ("a", "a")]), Some("a".into()));
        assert!(chain(&[("a", "server"), ("b", "a"), ("a", "b")]).is_some());
        let own = named(&[]).self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert_eq!(authority(own.der(), std::iter::empty()), None);
    }

    #[test]
    fn any_bytes_are_survived() {
        let der = issued(&[(DnType::CommonName, "a")], &[(DnType::CommonName, "b")]);
        let whole = describe(&der);
        let mut unreadable = 0;
        for cut in 0..der.len() {
            unreadable += usize::from(describe(&der[..cut]) == "unreadable");
            for bit in 0..8 {
                let mut flipped = der.clone();
                flipped[cut] ^= 1 << bit;
                assert!(describe(&flipped).len() < 500);
                let _ = (first_day(&flipped), last_day(&flipped), authority(&flipped, [&*der].into_iter()));
            }
        }
        // Cut short, the outermost element is incomplete.
        assert_eq!(unreadable, der.len());
        assert_eq!(whole, "\"b\", issued by \"a\"");
    }
}
