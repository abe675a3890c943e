//! `Authorization: Basic`.

use hyper::header::HeaderValue;

/// The header for these credentials (RFC 7617). Never shown by `Debug`, and not kept in an HTTP/2 header table.
pub(crate) fn basic(user: &[u8], password: &[u8]) -> HeaderValue {
    let encoded = format!("Basic {}", encode(&[user, b":", password].concat()));
    // Base64 has only characters that a header may have.
    let mut value = HeaderValue::from_str(&encoded).unwrap_or(HeaderValue::from_static(""));
    value.set_sensitive(true);
    value
}

/// The value of the `Authorization` header for these credentials (RFC 7617).
#[must_use]
pub fn basic_authorization(user: &str, password: &str) -> String {
    format!("Basic {}", encode(format!("{user}:{password}").as_bytes()))
}

fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let value = group.iter().fold(0_u32, |value, &byte| value << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        for at in 0..4 {
            let digit = ALPHABET.get((value >> (18 - 6 * at) & 63) as usize).filter(|_| at <= group.len());
            out.push(digit.map_or('=', |&digit| char::from(digit)));
        }
    }
    out
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_in_the_rfc() {
        // RFC 4648, 10
        let pairs =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
        for (plain, encoded) in pairs {
            assert_eq!(encode(plain.as_bytes()), encoded);
        }
        assert_eq!(encode(&[0xff, 0xef, 0xbe]), "/+++");
        // RFC 7617, 2
        assert_eq!(basic(b"Aladdin", b"open sesame"), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    }

    #[test]
    fn is_not_shown() {
        assert_eq!(format!("{:?}", basic(b"user", b"password")), "Sensitive");
    }
}
