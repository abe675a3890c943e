//! Names out of an image, made safe to show.

/// Bytes from an image as one short printable line: control characters and invalid UTF-8 become `?`, a trailing NUL
/// padding is cut, and more than 200 characters become `…`.
#[must_use]
pub fn printable(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    // Also what turns the direction of writing round: it makes a name look like another.
    let turns = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let clean = |c: char| if c.is_control() || turns(c) || c == char::REPLACEMENT_CHARACTER { '?' } else { c };
    let lossy = String::from_utf8_lossy(bytes.get(..bytes.len().min(1024)).unwrap_or_default());
    let mut line: String = lossy.chars().map(clean).take(200).collect();
    if lossy.chars().count() > 200 {
        line.push('…');
    }
    line
}

/// The same for UTF-16.
pub(crate) fn printable_utf16(units: impl Iterator<Item = u16>) -> String {
    // A name of 200 characters has at most 400 units.
    let units = units.take_while(|unit| *unit != 0).take(402);
    let name: String = char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    printable(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_terminal_acts_on_gets_through() {
        assert_eq!(printable(b"a\x1b[31mb\xff\0c"), "a?[31mb?");
        assert_eq!(printable("x\u{202e}gpj".as_bytes()), "x?gpj");
        assert_eq!(printable("ä".repeat(300).as_bytes()).chars().count(), 201);
    }
}
