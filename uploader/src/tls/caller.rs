//! Who a connection is from.

use hyper::StatusCode;
use hyper::http::Extensions;
use rustls::pki_types::CertificateDer;

use crate::der::{BOOLEAN, Der, INTEGER, OCTET_STRING, OID, SEQUENCE, SET};
use crate::refusal::Refusal;

/// Who a connection is from, as the certificate says that it has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Nobody is asked.
    Anybody,
    /// Somebody with a certificate of the right name.
    Known,
    /// Somebody without a certificate.
    Nobody,
    /// Somebody with a certificate of another name.
    Stranger,
}

impl Caller {
    /// Who has shown this certificate, whose signature was verified.
    pub(super) fn of(shown: Option<&CertificateDer<'_>>, name: Option<&str>) -> Self {
        match (shown, name) {
            (None, _) => Self::Nobody,
            (Some(_), None) => Self::Known,
            (Some(shown), Some(name)) => {
                let is_it = names(shown).is_some_and(|names| names.contains(&name.as_bytes()));
                if is_it { Self::Known } else { Self::Stranger }
            }
        }
    }

    /// Whether whoever sent a request may come in.
    ///
    /// # Errors
    ///
    /// 401 for who has no certificate, or one for another name.
    pub fn admit(request: &Extensions) -> Result<(), Refusal> {
        let why = match request.get().unwrap_or(&Self::Anybody) {
            Self::Anybody | Self::Known => return Ok(()),
            Self::Nobody => "this server takes uploads only from clients with a certificate",
            Self::Stranger => "your certificate is for another name than this server takes uploads from",
        };
        Err(Refusal::new(StatusCode::UNAUTHORIZED, "Unauthorized", why))
    }
}

/// The names in a certificate (RFC 5280): the common names of its subject, and its alternative names.
fn names<'a>(certificate: &'a CertificateDer<'_>) -> Option<Vec<&'a [u8]>> {
    let mut names = Vec::new();
    let mut body = Der::new(certificate).enter(SEQUENCE)?.enter(SEQUENCE)?;
    if body.tag() == Some(VERSION) {
        body.next()?;
    }
    body.take(INTEGER)?;
    // The algorithm, the issuer and the time.
    for _ in 0..3 {
        body.take(SEQUENCE)?;
    }
    let mut subject = body.enter(SEQUENCE)?;
    while let Some(mut part) = subject.enter(SET) {
        while let Some(mut attribute) = part.enter(SEQUENCE) {
            let is_name = attribute.take(OID)? == COMMON_NAME;
            let (_, value) = attribute.next()?;
            if is_name {
                names.push(value);
            }
        }
    }
    while let Some((tag, content)) = body.next() {
        if tag == EXTENSIONS {
            alternatives(content, &mut names)?;
        }
    }
    Some(names)
}

fn alternatives<'a>(extensions: &'a [u8], names: &mut Vec<&'a [u8]>) -> Option<()> {
    let mut extensions = Der::new(extensions).enter(SEQUENCE)?;
    while let Some(mut extension) = extensions.enter(SEQUENCE) {
        let is_names = extension.take(OID)? == ALTERNATIVE_NAMES;
        if extension.tag() == Some(BOOLEAN) {
            extension.next()?;
        }
        let value = extension.take(OCTET_STRING)?;
        if is_names {
            let mut list = Der::new(value).enter(SEQUENCE)?;
            while let Some((tag, name)) = list.next() {
                if matches!(tag, DNS | URI) {
                    names.push(name);
                }
            }
        }
    }
    Some(())
}

const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const DNS: u8 = 0x82;
const URI: u8 = 0x86;
/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// 2.5.29.17
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    #[test]
    fn names_of_the_subject_and_beside_it() {
        let mut params = CertificateParams::new(vec!["uploads.example.org".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::OrganizationName, "somebody");
        params.distinguished_name.push(DnType::CommonName, "images/jammy-vms/root");
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let of = |name| Caller::of(Some(certificate.der()), Some(name));
        assert_eq!(of("uploads.example.org"), Caller::Known);
        assert_eq!(of("images/jammy-vms/root"), Caller::Known);
        for other in ["", "somebody", "example.org", "images/jammy-vms/roo", "UPLOADS.EXAMPLE.ORG"] {
            assert_eq!(of(other), Caller::Stranger, "{other}");
        }
        assert_eq!(Caller::of(Some(certificate.der()), None), Caller::Known);
        assert_eq!(Caller::of(None, None), Caller::Nobody);
    }

    #[test]
    fn a_certificate_cut_short_is_a_stranger() {
        let certificate = rcgen::generate_simple_self_signed(vec!["a".to_owned()]).unwrap().cert;
        for len in 0..certificate.der().len() {
            let cut = CertificateDer::from(&certificate.der()[..len]);
            assert_eq!(Caller::of(Some(&cut), Some("a")), Caller::Stranger, "{len}");
        }
    }
}
