//! Text where a disk should be: pages, error messages, pointers, descriptors.
//!
//! What is plainly something else by its first bytes (a page, a pointer, a descriptor) is refused whatever follows. All
//! else must be text as far as one sees. If that is the whole file, it is no disk. If the first 64 KiB are text and more
//! follows, it is nearly always a log or a table, but it may be a disk that somebody filled with letters: then its length
//! decides, which is a multiple of the sector by chance once in 512 times. Letters with zeros behind them, as on a tape or
//! a floppy, are no text.

use super::HEAD_LEN;
use crate::{Error, Kind, Result, SECTOR};

/// Refuses what is text by itself.
pub(super) fn refuse(head: &[u8]) -> Result<()> {
    let text = start(head);
    let short = head.len() < HEAD_LEN;
    let what = match by_first_bytes(text) {
        Some(what) => what,
        None if is_utf16(head) => "text".to_owned(),
        None if is_text(head) => match by_kind(text) {
            Some(what) => what.to_owned(),
            None if short => "text, perhaps a message of the server".to_owned(),
            None => return Ok(()),
        },
        None => return Ok(()),
    };
    Err(refusal(&what, text))
}

/// Refuses a long text that has not the length of a disk.
pub(super) fn refuse_odd(head: &[u8], len: u64) -> Result<()> {
    if head.len() < HEAD_LEN || len.is_multiple_of(SECTOR) || !is_text(head) {
        return Ok(());
    }
    Err(refusal(&format!("text, and its {len} bytes are no whole number of sectors"), start(head)))
}

fn refusal(what: &str, text: &[u8]) -> Error {
    Error::new(Kind::NotADisk, format!("not a disk image: got {what}: '{}'", words(text, 60)))
}

/// Where the first word is.
fn start(head: &[u8]) -> &[u8] {
    head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start()
}

/// What so begins, and no disk does.
fn by_first_bytes(text: &[u8]) -> Option<String> {
    let begins = |prefixes: &[&[u8]]| prefixes.iter().any(|prefix| begins_with(text, prefix));
    let early = text.get(..text.len().min(4096)).unwrap_or_default();
    let xml = begins(&[b"<?xml"]);
    Some(if begins(&LFS_POINTERS) {
        "a git-lfs pointer, not the file itself; fetch that with git lfs pull, or use its download address".to_owned()
    } else if begins(&HTML) || (xml && element(early, b"html").is_some()) {
        page(text)
    } else if text.starts_with(b"<") && (has(early, b"<Envelope") || has(early, b"<ovf:Envelope")) {
        "an OVF descriptor; import the OVA, or the disk that it names".to_owned()
    } else if let Some(what) = error_document(early) {
        what
    } else if text.starts_with(b"<") && element(early, b"metalink").is_some() {
        "a metalink; use an address that is in it".to_owned()
    } else if xml {
        "XML".to_owned()
    } else {
        return None;
    })
}

/// What a text is by its first letters.
fn by_kind(text: &[u8]) -> Option<&'static str> {
    match text {
        _ if HTML_FRAGMENTS.iter().any(|name| is_tag(text, name)) => Some(PAGE),
        [b'{' | b'[', ..] => Some("JSON"),
        [b'<', ..] => Some("XML"),
        [b'#', b'!', ..] => Some("a script"),
        _ => None,
    }
}

/// A page, by its title if it has one.
fn page(text: &[u8]) -> String {
    let title = element(text, b"title").map(|title| words(title, 80)).filter(|title| !title.is_empty());
    match title {
        Some(title) => PAGE.replacen("HTML", &format!("HTML, '{title}'"), 1),
        None => PAGE.to_owned(),
    }
}

/// What an object store answers when it has no object to give.
fn error_document(text: &[u8]) -> Option<String> {
    let error = element(text, b"Error").filter(|_| text.starts_with(b"<"))?;
    let part = |name| element(error, name).map(|part| words(part, 80)).filter(|part| !part.is_empty());
    let said = [part(b"Code"), part(b"Message")].into_iter().flatten().collect::<Vec<_>>().join(": ");
    (!said.is_empty()).then(|| format!("XML, an error message of the server ({said})"))
}

/// What is inside the first element of this name, as far as it is there.
fn element<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let open = text.iter().enumerate().filter(|(_, byte)| **byte == b'<').find_map(|(at, _)| {
        let tag = text.get(at..)?;
        is_tag(tag, name).then_some(tag)
    })?;
    let inside = open.get(open.iter().position(|byte| *byte == b'>')? + 1..)?;
    let close = inside.windows(2 + name.len()).position(|window| {
        window.starts_with(b"</") && window.get(2..).is_some_and(|rest| rest.eq_ignore_ascii_case(name))
    });
    inside.get(..close.unwrap_or(inside.len()))
}

/// Whether a text begins with a tag of this name, in any case.
fn is_tag(text: &[u8], name: &[u8]) -> bool {
    let after = text.strip_prefix(b"<").filter(|rest| begins_with(rest, name)).and_then(|rest| rest.get(name.len()));
    after.is_some_and(|byte| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/'))
}

fn begins_with(text: &[u8], prefix: &[u8]) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

fn has(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Two bytes a character, by the mark at the start and the empty half of the first ones.
fn is_utf16(head: &[u8]) -> bool {
    let empty_half = match head {
        [0xff, 0xfe, ..] => 1,
        [0xfe, 0xff, ..] => 0,
        _ => return false,
    };
    let rest = head.get(2..head.len().min(66)).unwrap_or_default();
    rest.len() >= 8 && rest.as_chunks::<2>().0.iter().all(|unit| unit.get(empty_half) == Some(&0))
}

/// All of it printable. A file in an old 8-bit encoding passes when nine of ten bytes are ASCII.
fn is_text(head: &[u8]) -> bool {
    let control = |byte: &u8| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f | 0x7f);
    if head.iter().any(control) {
        return false;
    }
    let utf8 = match std::str::from_utf8(head) {
        Ok(_) => true,
        // Cut inside the last character.
        Err(error) => error.error_len().is_none(),
    };
    utf8 || head.iter().filter(|byte| byte.is_ascii()).count() >= head.len() / 10 * 9
}

/// The start of a text, fit to be shown: at most `most` characters, only ASCII, on one line.
fn words(text: &[u8], most: usize) -> String {
    let mut shown = String::new();
    for byte in text.iter().filter(|byte| **byte != 0).take(400) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' if !shown.is_empty() && !shown.ends_with(' ') => shown.push(' '),
            b' ' | b'\t' | b'\n' | b'\r' => {}
            0x21..=0x7e => shown.push(char::from(*byte)),
            _ => shown.push('?'),
        }
        if shown.len() >= most {
            shown.push('…');
            break;
        }
    }
    shown.trim_end().to_owned()
}

const PAGE: &str = "HTML, perhaps an error or login page; open the address in a browser";

const LFS_POINTERS: [&[u8]; 2] = [b"version https://git-lfs", b"version https://hawser"];

/// Long enough to be no accident.
const HTML: [&[u8]; 9] =
    [b"<!doctype html", b"<html", b"<head", b"<body", b"<script", b"<title>", b"<iframe", b"<style", b"<!--"];

/// Tags that pages without a head begin with, as browsers know them. So short that the rest must be text too.
const HTML_FRAGMENTS: [&[u8]; 14] =
    [b"a", b"b", b"p", b"br", b"h1", b"h2", b"h3", b"div", b"font", b"meta", b"center", b"table", b"title", b"pre"];
