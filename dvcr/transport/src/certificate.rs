//! Who a certificate is about, for messages only.

/// `"subject", issued by "issuer"`, by their common names. Trust never depends on this.
pub(crate) fn describe(der: &[u8]) -> String {
    match names(der) {
        Some((issuer, subject)) if issuer == subject => format!("\"{subject}\", which is self-signed"),
        Some((issuer, subject)) => format!("\"{subject}\", issued by \"{issuer}\""),
        None => "unreadable".into(),
    }
}

/// Issuer and subject (RFC 5280, 4.1):
/// `Certificate ::= SEQUENCE { TBSCertificate ::= SEQUENCE { [0] version OPTIONAL, serialNumber, signature, issuer,
/// validity, subject, …`
fn names(der: &[u8]) -> Option<(String, String)> {
    let (certificate, _) = expect(der, SEQUENCE)?;
    let (mut rest, _) = expect(certificate, SEQUENCE)?;
    if let Some((_, after)) = expect(rest, VERSION) {
        rest = after;
    }
    let (_, rest) = expect(rest, INTEGER)?;
    let (_, rest) = expect(rest, SEQUENCE)?;
    let (issuer, rest) = expect(rest, SEQUENCE)?;
    let (_, rest) = expect(rest, SEQUENCE)?;
    let (subject, _) = expect(rest, SEQUENCE)?;
    Some((name(issuer), name(subject)))
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
            }
        }
        // Cut short, the outermost element is incomplete.
        assert_eq!(unreadable, der.len());
        assert_eq!(whole, "\"b\", issued by \"a\"");
    }
}
