//! Checksums of what was received.
//!
//! A checksum is of the object as its publisher lists it: the bytes of the file, before any wrapper is taken off. Where a
//! server applied a content encoding of its own, both the bytes that it sent and the object they decode to count: the one
//! is what curl would have saved, the other what was put on the server, and either hash fixes the bytes of both.

mod algorithm;
mod hashing;
mod list;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

pub use algorithm::Algorithm;
use algorithm::Hash;
pub(crate) use hashing::{Digests, Hashing};
pub use list::listed;

use crate::{Error, Kind, Result};

/// A checksum the source must have. Written `sha256:HEX`, in any case; displays in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksum {
    algorithm: Algorithm,
    expected: Vec<u8>,
}

impl Checksum {
    /// The checksum with these hexadecimal digits; `None` when they are no hash of this algorithm.
    #[must_use]
    pub fn new(algorithm: Algorithm, hex: &str) -> Option<Self> {
        let expected = unhex(hex).filter(|bytes| bytes.len() == algorithm.len())?;
        Some(Self { algorithm, expected })
    }

    /// How it is made.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Compares bytes with it, as they come.
    #[must_use]
    pub fn verifier(&self) -> Verifier {
        Verifier { hash: self.algorithm.begin(), expected: self.expected.clone() }
    }

    /// Finds this checksum among what was computed of one object; the first is that which is shown.
    fn check(&self, seen: &[Digests], source: &str) -> Result<()> {
        let found: Vec<_> = seen.iter().filter_map(|digests| digests.get(self.algorithm)).collect();
        if found.contains(&&*self.expected) {
            return Ok(());
        }
        let Some(shown) = found.first() else {
            return Err(Error::new(Kind::Ours, format!("nothing was hashed with {}", self.algorithm)));
        };
        let as_sent = found.get(1).map(|sent| format!(" ({} as the server encoded it)", Hex(sent)));
        let message = format!(
            "{source}: the {} checksum is {}{}, not {} as it should be; nothing was kept: the file is damaged, or another \
             than the one the checksum is of",
            self.algorithm,
            Hex(shown),
            as_sent.unwrap_or_default(),
            Hex(&self.expected)
        );
        Err(Error::new(Kind::Mismatch, message))
    }
}

/// Compares bytes with a [`Checksum`] as they come.
pub struct Verifier {
    hash: Box<dyn Hash>,
    expected: Vec<u8>,
}

impl Verifier {
    /// The next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.hash.push(bytes);
    }

    /// All have come: whether they are those that the checksum is of.
    #[must_use]
    pub fn matches(self) -> bool {
        self.hash.finish() == self.expected
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({})", Hex(&self.expected))
    }
}

/// Compares all checksums with what was computed of one object. Gives `sha256:HEX` of the first way to see it.
pub(crate) fn check(checksums: &[Checksum], seen: &[Digests], source: &str) -> Result<Option<String>> {
    checksums.iter().try_for_each(|checksum| checksum.check(seen, source))?;
    let sha256 = seen.first().and_then(|digests| digests.get(Algorithm::Sha256));
    Ok(sha256.map(|bytes| format!("sha256:{}", Hex(bytes))))
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm, Hex(&self.expected))
    }
}

impl FromStr for Checksum {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let usage = |what: &str| Error::new(Kind::Usage, format!("the checksum {text}: {what}"));
        let Some((name, hex)) = text.split_once(':') else {
            let digits = text.len();
            let of_len: Vec<_> = Algorithm::ALL.iter().filter(|algorithm| algorithm.len() * 2 == digits).collect();
            let names = of_len.iter().map(|algorithm| format!("{algorithm}:HEX")).collect::<Vec<_>>().join(" or ");
            return Err(if names.is_empty() || unhex(text).is_none() {
                usage("write it as ALGORITHM:HEX, for example sha256:HEX")
            } else {
                usage(&format!("say which algorithm it is of: with {digits} digits, {names}"))
            });
        };
        let Some(algorithm) = Algorithm::named(name) else {
            let known = Algorithm::ALL.map(Algorithm::name).join(", ");
            return Err(usage(&format!("the algorithm is not known; {known} are")));
        };
        let hex = hex.trim();
        if !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(usage("the digest is not hexadecimal"));
        }
        Self::new(algorithm, hex).ok_or_else(|| {
            usage(&format!("a {algorithm} digest has {} hexadecimal digits, not {}", algorithm.len() * 2, hex.len()))
        })
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
