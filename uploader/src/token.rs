//! The secret in the address of an upload.

use std::fmt;

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// What is kept of a token: its SHA-256. Comparing hashes tells nothing of the token by the time it takes, and a dump of
/// memory or a log of it opens nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token([u8; 32]);

impl Token {
    /// A new secret of 32 letters and digits, 190 bits of chance, and what is kept of it.
    ///
    /// # Errors
    ///
    /// The system has no random numbers.
    pub fn generate() -> Result<(String, Self), ring::error::Unspecified> {
        let random = SystemRandom::new();
        let mut secret = String::with_capacity(LENGTH);
        let mut bytes = [0; 64];
        while secret.len() < LENGTH {
            random.fill(&mut bytes)?;
            // 248 is the largest multiple of 62: every letter is as likely as any other.
            let letters =
                bytes.iter().filter(|byte| **byte < 248).filter_map(|byte| LETTERS.get(usize::from(byte % 62)));
            secret.extend(letters.map(|letter| char::from(*letter)).take(LENGTH - secret.len()));
        }
        let token = Self::of(&secret);
        Ok((secret, token))
    }

    /// What is kept of a secret.
    #[must_use]
    pub fn of(secret: &str) -> Self {
        let mut hash = [0; 32];
        hash.iter_mut().zip(digest(&SHA256, secret.as_bytes()).as_ref()).for_each(|(to, from)| *to = *from);
        Self(hash)
    }

    /// What is kept, as the name of a file. It opens nothing.
    #[must_use]
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The same from the name of a file.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 || !digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(hash))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// As Deckhouse's addresses have them.
const LENGTH: usize = 32;
const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn tokens_are_letters_and_digits_and_all_different() {
        let all: HashSet<_> = (0..200).map(|_| Token::generate().unwrap().0).collect();
        assert_eq!(all.len(), 200);
        assert!(all.iter().all(|secret| secret.len() == 32 && secret.bytes().all(|b| b.is_ascii_alphanumeric())));
        let letters: HashSet<char> = all.iter().flat_map(|secret| secret.chars()).collect();
        assert_eq!(letters.len(), 62);
    }

    #[test]
    fn what_is_kept_shows_nothing() {
        let (secret, token) = Token::generate().unwrap();
        assert_eq!(Token::of(&secret), token);
        assert_eq!(Token::from_hex(&token.to_hex()), Some(token));
        assert_eq!((Token::from_hex("00"), Token::from_hex(&"+1".repeat(32))), (None, None));
        assert_ne!(Token::of("other"), token);
        assert_eq!(format!("{token:?}"), "Token");
    }
}
