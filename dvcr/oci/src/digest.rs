//! What bytes are known by.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::{Serialize, Serializer};
use sha2::Digest as _;

use crate::error::{Error, Kind, Result, shown};

/// The digest of some bytes: `sha256:…` or `sha512:…`, in lower case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest {
    algorithm: Algorithm,
    /// The value, and zeros behind it.
    value: [u8; 64],
}

/// How a digest is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// SHA-256: what everybody uses.
    #[default]
    Sha256,
    /// SHA-512.
    Sha512,
}

impl Algorithm {
    /// Its name in front of the colon.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    /// Bytes of a value.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

impl Digest {
    /// Understands `sha256:…` and `sha512:…`, strictly: lower case, and exactly as long as it has to be.
    ///
    /// # Errors
    ///
    /// `Kind::Digest` that says what is wrong.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |why: String| Error::new(Kind::Digest, format!("{} is no digest: {why}", shown(text)));
        let (name, value) = text.split_once(':').ok_or_else(|| wrong("write it as sha256:…".into()))?;
        let algorithm = match name {
            "sha256" => Algorithm::Sha256,
            "sha512" => Algorithm::Sha512,
            name => {
                let why = format!("the algorithm {} is not known, only sha256 and sha512 are", shown(name));
                return Err(wrong(why));
            }
        };
        let digits = algorithm.size() * 2;
        if value.len() != digits || !value.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(wrong(format!("a {name} has {digits} hexadecimal digits, in lower case")));
        }
        let digit = |digit: u8| if digit.is_ascii_digit() { digit - b'0' } else { digit - b'a' + 10 };
        let mut bytes = [0; 64];
        for (byte, pair) in bytes.iter_mut().zip(value.as_bytes().as_chunks::<2>().0) {
            *byte = digit(pair[0]) << 4 | digit(pair[1]);
        }
        Ok(Self { algorithm, value: bytes })
    }

    /// The SHA-256 of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::by(Algorithm::Sha256, bytes)
    }

    /// The digest of these bytes.
    #[must_use]
    pub fn by(algorithm: Algorithm, bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new(algorithm);
        hasher.update(bytes);
        hasher.finish()
    }

    /// How it is made.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The value: 32 or 64 bytes.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        self.value.get(..self.algorithm.size()).unwrap_or_default()
    }

    /// The value in hexadecimal, without the algorithm.
    #[must_use]
    pub fn hex(&self) -> String {
        let mut out = String::with_capacity(self.algorithm.size() * 2);
        for byte in self.value() {
            // Writing to a string does not fail.
            let _ = write!(out, "{byte:02x}");
        }
        out
    }

    /// Whether it is the digest of these bytes.
    #[must_use]
    pub fn proves(&self, bytes: &[u8]) -> bool {
        Self::by(self.algorithm, bytes) == *self
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm.name(), self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Makes a digest of bytes as they come. A clone goes on from the same point.
#[derive(Clone)]
pub struct Hasher(State);

#[derive(Clone)]
enum State {
    Sha256(sha2::Sha256),
    Sha512(Box<sha2::Sha512>),
}

impl Hasher {
    /// Of no bytes yet.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Self {
        Self(match algorithm {
            Algorithm::Sha256 => State::Sha256(sha2::Sha256::new()),
            Algorithm::Sha512 => State::Sha512(Box::default()),
        })
    }

    /// Of which algorithm it is.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match self.0 {
            State::Sha256(_) => Algorithm::Sha256,
            State::Sha512(_) => Algorithm::Sha512,
        }
    }

    /// These bytes come next.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Sha256(state) => state.update(bytes),
            State::Sha512(state) => state.update(bytes),
        }
    }

    /// The digest of all that came.
    #[must_use]
    pub fn finish(self) -> Digest {
        let mut value = [0; 64];
        let algorithm = match self.0 {
            State::Sha256(state) => {
                value.iter_mut().zip(state.finalize()).for_each(|(to, from)| *to = from);
                Algorithm::Sha256
            }
            State::Sha512(state) => {
                value.iter_mut().zip(state.finalize()).for_each(|(to, from)| *to = from);
                Algorithm::Sha512
            }
        };
        Digest { algorithm, value }
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let algorithm = match self.0 {
            State::Sha256(_) => Algorithm::Sha256,
            State::Sha512(_) => Algorithm::Sha512,
        };
        write!(f, "Hasher({})", algorithm.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn is_made_as_the_standard_says() {
        assert_eq!(Digest::of(b"").to_string(), EMPTY);
        // FIPS 180-4, the example "abc"
        let abc = "sha512:ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a\
                   2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f";
        assert_eq!(Digest::by(Algorithm::Sha512, b"abc").to_string(), abc);
        let mut hasher = Hasher::new(Algorithm::Sha256);
        hasher.update(b"a");
        let mut twin = hasher.clone();
        hasher.update(b"bc");
        twin.update(b"b");
        twin.update(b"c");
        assert_eq!(hasher.finish(), Digest::of(b"abc"));
        assert_eq!(twin.finish(), Digest::of(b"abc"));
        assert!(Digest::of(b"abc").proves(b"abc") && !Digest::of(b"abc").proves(b"abd"));
    }

    #[test]
    fn text_and_value_are_the_same() {
        let digest: Digest = EMPTY.parse().unwrap();
        assert_eq!(digest, Digest::of(b""));
        assert_eq!((digest.to_string().as_str(), digest.value().len()), (EMPTY, 32));
        assert_eq!(format!("sha256:{}", digest.hex()), EMPTY);
        let long = Digest::by(Algorithm::Sha512, b"x");
        assert_eq!((Digest::parse(&long.to_string()).unwrap(), long.value().len()), (long, 64));
    }

    #[test]
    fn anything_else_is_refused() {
        let upper = EMPTY.to_uppercase();
        let longer = format!("{EMPTY}0");
        let shorter = &EMPTY[..EMPTY.len() - 1];
        let wrong = EMPTY.replace("sha256", "sha512");
        let spaced = format!(" {EMPTY}");
        let twice = format!("sha256:{EMPTY}");
        let accented = EMPTY.replace('e', "é");
        for text in
            ["", "sha256", "sha256:", &upper, &longer, shorter, &wrong, &spaced, &twice, &accented, "sha384:00", ":00"]
        {
            let error = Digest::parse(text).unwrap_err();
            assert_eq!(error.kind(), Kind::Digest, "{text}");
            assert!(!error.to_string().contains('\n'));
        }
        let error = Digest::parse("md5:d41d8cd98f00b204e9800998ecf8427e").unwrap_err().to_string();
        assert!(error.contains("the algorithm md5 is not known"), "{error}");
    }
}
