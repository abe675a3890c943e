//! How checksums are made.

use std::fmt;

use sha2::Digest;

/// How a checksum is made. MD5 and SHA-1 find damage; against somebody who means it, only the others help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// MD5.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
    /// GOST R 34.11-2012 with 256 bits (RFC 6986). In hexadecimal it begins with the first byte of the output, as
    /// `openssl dgst -md_gost12_256` and `rhash --gost12-256` print it; the RFC prints the same number from its other end.
    Streebog256,
    /// The same with 512 bits.
    Streebog512,
}

impl Algorithm {
    /// All there are.
    pub const ALL: [Self; 6] =
        [Self::Md5, Self::Sha1, Self::Sha256, Self::Sha512, Self::Streebog256, Self::Streebog512];

    /// Its name, as it stands before a checksum.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
            Self::Streebog256 => "streebog256",
            Self::Streebog512 => "streebog512",
        }
    }

    /// The algorithm that is called so, by us or by what writes lists (coreutils, BSD, openssl, rhash): in any case, with
    /// or without hyphens.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let mut plain = name.trim().to_ascii_lowercase();
        plain.retain(|c| c != '-' && c != '_');
        Some(match plain.as_str() {
            "md5" => Self::Md5,
            "sha1" => Self::Sha1,
            "sha256" | "sha2256" => Self::Sha256,
            "sha512" | "sha2512" => Self::Sha512,
            "streebog256" | "gost12256" | "mdgost12256" => Self::Streebog256,
            "streebog512" | "gost12512" | "mdgost12512" => Self::Streebog512,
            _ => return None,
        })
    }

    /// Length of a hash in bytes.
    pub(super) fn len(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 | Self::Streebog256 => 32,
            Self::Sha512 | Self::Streebog512 => 64,
        }
    }

    /// A hash of which nothing has come.
    pub(super) fn begin(self) -> Box<dyn Hash> {
        match self {
            Self::Md5 => Box::new(md5::Md5::new()),
            Self::Sha1 => Box::new(sha1::Sha1::new()),
            Self::Sha256 => Box::new(sha2::Sha256::new()),
            Self::Sha512 => Box::new(sha2::Sha512::new()),
            Self::Streebog256 => Box::new(streebog::Streebog256::new()),
            Self::Streebog512 => Box::new(streebog::Streebog512::new()),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A hash under way.
pub(super) trait Hash: Send {
    fn push(&mut self, bytes: &[u8]);
    fn finish(self: Box<Self>) -> Vec<u8>;
}

impl<D: Digest + Send> Hash for D {
    fn push(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        self.finalize().to_vec()
    }
}
