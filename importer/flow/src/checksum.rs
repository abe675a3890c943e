//! Checksums over the bytes as received.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256, Sha512};

use crate::{Error, Kind, Result};

/// A checksum the source must have: `sha256:<hex>` or `sha512:<hex>`, in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    algorithm: Algorithm,
    expected: Vec<u8>,
}

/// How a checksum is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    fn len(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

impl FromStr for Checksum {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let usage = |what: &str| Error::new(Kind::Usage, format!("--checksum {text}: {what}"));
        let (name, hex) = text.split_once(':').ok_or_else(|| usage("write it as sha256:HEX or sha512:HEX"))?;
        let algorithm = match name.to_ascii_lowercase().as_str() {
            "sha256" => Algorithm::Sha256,
            "sha512" => Algorithm::Sha512,
            _ => return Err(usage("the algorithm is not known; sha256 and sha512 are")),
        };
        let expected = unhex(hex.trim()).ok_or_else(|| usage("the digest is not hexadecimal"))?;
        if expected.len() != algorithm.len() {
            return Err(usage(&format!("a {name} digest has {} hexadecimal digits", algorithm.len() * 2)));
        }
        Ok(Self { algorithm, expected })
    }
}

/// Hashes for a set of checksums, and sha256 for the report.
#[derive(Default)]
pub(crate) struct Hashes {
    sha256: Sha256,
    sha512: Option<Sha512>,
}

impl Hashes {
    pub(crate) fn new(checksums: &[Checksum]) -> Self {
        let sha512 = checksums.iter().any(|checksum| checksum.algorithm == Algorithm::Sha512).then(Sha512::new);
        Self { sha256: Sha256::new(), sha512 }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.sha256.update(bytes);
        if let Some(sha512) = &mut self.sha512 {
            sha512.update(bytes);
        }
    }

    pub(crate) fn update_zeros(&mut self, len: u64) {
        static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
        let mut left = len;
        while left > 0 {
            let part = usize::try_from(left).unwrap_or(ZEROS.len()).min(ZEROS.len());
            self.update(ZEROS.get(..part).unwrap_or_default());
            left -= part as u64;
        }
    }

    /// Compares with what was expected; gives `sha256:<hex>`.
    pub(crate) fn check(self, checksums: &[Checksum], source: &str) -> Result<String> {
        let sha256 = self.sha256.finalize();
        let sha512 = self.sha512.map(Digest::finalize);
        for checksum in checksums {
            let found: &[u8] = match checksum.algorithm {
                Algorithm::Sha256 => &sha256,
                Algorithm::Sha512 => sha512.as_deref().unwrap_or_default(),
            };
            if found != checksum.expected {
                let name = checksum.algorithm.name();
                let message = format!(
                    "{source}: the {name} checksum is {}, not {} as it should be; nothing was kept",
                    Hex(found),
                    Hex(&checksum.expected)
                );
                return Err(Error::new(Kind::Mismatch, message));
            }
        }
        Ok(format!("sha256:{}", Hex(&sha256)))
    }
}

/// Bytes in hexadecimal.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn parses_any_case_and_refuses_by_reason() {
        assert!(format!("SHA256:{}", EMPTY.to_uppercase()).parse::<Checksum>().is_ok());
        for (text, words) in [
            ("sha256", "write it as"),
            ("crc:00", "not known"),
            ("sha256:zz", "not hexadecimal"),
            ("sha256:00", "64 hexadecimal digits"),
            ("sha512:00", "128 hexadecimal digits"),
        ] {
            let error = text.parse::<Checksum>().unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
            assert_eq!(error.kind(), Kind::Usage);
        }
    }

    #[test]
    fn a_mismatch_names_both() {
        let right: Checksum = format!("sha256:{EMPTY}").parse().unwrap();
        let digest = Hashes::new(&[]).check(std::slice::from_ref(&right), "x").unwrap();
        assert_eq!(digest, format!("sha256:{EMPTY}"));
        let mut hashes = Hashes::new(&[]);
        hashes.update_zeros(3);
        let error = hashes.check(&[right], "x").unwrap_err();
        assert_eq!(error.kind(), Kind::Mismatch);
        assert!(error.to_string().contains(EMPTY) && error.to_string().contains("709e80c8"), "{error}");
    }
}
