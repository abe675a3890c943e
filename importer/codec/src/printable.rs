//! Names out of a file, safe to show.

use std::fmt::Write;

/// A name for a message: control characters escaped, not UTF-8 replaced, cut after 200 characters.
pub(crate) fn printable(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    let mut shown = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == 200 {
            shown.push('…');
            break;
        }
        if c.is_control() {
            // Writing to a string does not fail.
            let _ = write!(shown, "{}", c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn a_name_can_not_draw_on_the_terminal() {
        assert_eq!(printable(b"a\x1b[31mb\nc\xff"), "a\\u{1b}[31mb\\nc\u{fffd}");
        assert_eq!(printable(&[b'x'; 1000]).chars().count(), 201);
        assert_eq!(printable("disk ímynd.img".as_bytes()), "disk ímynd.img");
    }
}
