//! Base64 as it stands in files of credentials (RFC 4648, 4 and 5).

/// The bytes of a text, with or without padding, in either alphabet; `None` for what is none.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.trim().trim_end_matches('=');
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        (bits, count) = (bits << 6 | u32::from(digit), count + 6);
        if count >= 8 {
            count -= 8;
            out.push(u8::try_from(bits >> count & 0xff).ok()?);
            bits &= (1 << count) - 1;
        }
    }
    // One digit alone is no byte.
    (count < 6).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_in_the_rfc() {
        for (text, plain) in
            [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYg", "foob"), (" Zm9vYmFy\n", "foobar")]
        {
            assert_eq!(decode(text).unwrap(), plain.as_bytes());
        }
        assert_eq!(decode("/+++").unwrap(), decode("_---").unwrap());
        for text in ["Z", "Zm9vY", "Zm9v!", "é"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
