//! Which versions and ciphers of TLS are taken.
//!
//! The profiles are Mozilla's, as the operators of KubeVirt and OpenShift name them.

use std::str::FromStr;

use importer_flow::{Error, Kind, Result};
use rustls::crypto::{CryptoProvider, ring};
use rustls::{CipherSuite, SupportedCipherSuite, SupportedProtocolVersion};

/// A set of rules with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// All that is secure enough for somebody: here the same as `Intermediate`.
    Old,
    /// TLS 1.2 with ciphers that keep secrets and authenticate, and 1.3.
    Intermediate,
    /// TLS 1.3.
    Modern,
    /// What is said besides.
    Custom,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 1.0, which nobody should speak.
    Tls10,
    /// 1.1, the same.
    Tls11,
    /// 1.2.
    Tls12,
    /// 1.3.
    Tls13,
}

/// Which versions and ciphers are taken.
#[derive(Clone, Debug)]
pub struct Rules {
    versions: Vec<&'static SupportedProtocolVersion>,
    suites: Vec<SupportedCipherSuite>,
    notices: Vec<String>,
}

impl Rules {
    /// What a profile says; `Custom` says `min` and `ciphers`, by the names of OpenSSL or IANA. What there is not is left
    /// out, and [said](Self::notices).
    ///
    /// # Errors
    ///
    /// `Kind::Usage` for a version or ciphers beside a profile that says them.
    pub fn new(profile: Profile, min: Option<Version>, ciphers: &[String]) -> Result<Self> {
        if profile != Profile::Custom && (min.is_some() || !ciphers.is_empty()) {
            let message = "a profile of TLS says its version and ciphers: give them with the profile custom only";
            return Err(Error::new(Kind::Usage, message));
        }
        let mut notices = Vec::new();
        let min = match profile {
            Profile::Old => Version::Tls10,
            Profile::Intermediate => Version::Tls12,
            Profile::Modern => Version::Tls13,
            Profile::Custom => min.unwrap_or(Version::Tls12),
        };
        if min < Version::Tls12 {
            notices.push("versions of TLS before 1.2, and the ciphers they need, are not spoken here".to_owned());
        }
        let versions = match min {
            Version::Tls13 => vec![&rustls::version::TLS13],
            _ => vec![&rustls::version::TLS13, &rustls::version::TLS12],
        };
        let mut suites = ring::ALL_CIPHER_SUITES.to_vec();
        suites.retain(|suite| versions.contains(&suite.version()));
        if min == Version::Tls13 && !ciphers.is_empty() {
            notices.push("with TLS 1.3 alone there are no ciphers to choose: all of its own are taken".to_owned());
        } else if !ciphers.is_empty() {
            choose(&mut suites, ciphers, &mut notices);
        }
        Ok(Self { versions, suites, notices })
    }

    /// What was asked for and is not done, for the log.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    pub(super) fn versions(&self) -> &[&'static SupportedProtocolVersion] {
        &self.versions
    }

    pub(super) fn provider(&self) -> CryptoProvider {
        CryptoProvider { cipher_suites: self.suites.clone(), ..ring::default_provider() }
    }
}

/// Leaves those that are named, in their order. Those of TLS 1.3 are all left unless some are named, as in other programs.
fn choose(suites: &mut Vec<SupportedCipherSuite>, ciphers: &[String], notices: &mut Vec<String>) {
    let (mut chosen, mut missing) = (Vec::new(), Vec::new());
    for name in ciphers {
        let code = NAMES.iter().find(|(openssl, iana, _)| name == openssl || name == iana).map(|(_, _, code)| *code);
        match suites.iter().find(|suite| Some(suite.suite()) == code) {
            Some(suite) if chosen.contains(suite) => {}
            Some(suite) => chosen.push(*suite),
            None => missing.push(name.as_str()),
        }
    }
    if !missing.is_empty() {
        notices.push(format!("these ciphers are not spoken here, and left out: {}", missing.join(", ")));
    }
    if !chosen.iter().any(|suite| suite.tls13().is_some()) {
        chosen.extend(suites.iter().filter(|suite| suite.tls13().is_some()));
    }
    if !chosen.iter().any(|suite| suite.tls13().is_none()) {
        notices.push("no cipher of TLS 1.2 is left: only TLS 1.3 is spoken".to_owned());
    }
    *suites = chosen;
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "old" => Ok(Self::Old),
            "intermediate" => Ok(Self::Intermediate),
            "modern" => Ok(Self::Modern),
            "custom" => Ok(Self::Custom),
            _ => Err("there are modern, intermediate, old and custom".to_owned()),
        }
    }
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = ["VersionTLS", "TLSv", "TLS"].iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
        match number {
            "1.0" | "10" | "1" => Ok(Self::Tls10),
            "1.1" | "11" => Ok(Self::Tls11),
            "1.2" | "12" => Ok(Self::Tls12),
            "1.3" | "13" => Ok(Self::Tls13),
            _ => Err("write it as VersionTLS12 or 1.2".to_owned()),
        }
    }
}

/// The names of OpenSSL and of IANA.
const NAMES: [(&str, &str, CipherSuite); 9] = [
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256", CipherSuite::TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384", CipherSuite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256", CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
    (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn suites(rules: &Rules) -> Vec<CipherSuite> {
        rules.suites.iter().map(SupportedCipherSuite::suite).collect()
    }

    fn custom(min: Option<Version>, ciphers: &[&str]) -> Rules {
        let ciphers: Vec<String> = ciphers.iter().map(|&name| name.into()).collect();
        Rules::new(Profile::Custom, min, &ciphers).unwrap()
    }

    #[test]
    fn profiles() {
        for (profile, versions, ciphers, notices) in
            [(Profile::Modern, 1, 3, 0), (Profile::Intermediate, 2, 9, 0), (Profile::Old, 2, 9, 1)]
        {
            let rules = Rules::new(profile, None, &[]).unwrap();
            let found = (rules.versions().len(), rules.suites.len(), rules.notices().len());
            assert_eq!(found, (versions, ciphers, notices), "{profile:?}");
            Rules::new(profile, Some(Version::Tls12), &[]).unwrap_err();
            Rules::new(profile, None, &["ECDHE-RSA-AES128-GCM-SHA256".into()]).unwrap_err();
        }
    }

    #[test]
    fn ciphers_by_both_names_and_only_those_there_are() {
        let rules = custom(
            Some(Version::Tls10),
            &[
                "ECDHE-RSA-AES128-GCM-SHA256",
                "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
                "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                "DES-CBC3-SHA",
                "nonsense",
            ],
        );
        assert_eq!(rules.suites.len(), 2 + 3, "{:?}", suites(&rules));
        assert_eq!(suites(&rules)[0], CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256);
        assert_eq!(rules.notices().len(), 2);
        assert!(rules.notices()[1].ends_with(": DES-CBC3-SHA, nonsense"), "{:?}", rules.notices());
        let one = custom(None, &["TLS_AES_128_GCM_SHA256"]);
        assert_eq!(suites(&one), [CipherSuite::TLS13_AES_128_GCM_SHA256]);
        assert_eq!(custom(Some(Version::Tls13), &["TLS_AES_128_GCM_SHA256"]).suites.len(), 3);
        assert_eq!(custom(None, &["AES128-SHA"]).notices().len(), 2);
    }

    #[test]
    fn versions_as_everybody_writes_them() {
        for text in ["VersionTLS12", "1.2", "TLSv1.2", "TLS1.2"] {
            assert_eq!(text.parse(), Ok(Version::Tls12), "{text}");
        }
        for text in ["", "VersionTLS", "12.0", "SSLv3", "VersionTLS14"] {
            text.parse::<Version>().unwrap_err();
        }
    }
}
