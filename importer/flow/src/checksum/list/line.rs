//! One line of a list of checksums.

/// A line that says something.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A hash.
    Sum(Sum),
    /// The algorithm of the hashes below.
    Section(String),
    /// From here on, what is signed.
    SignedMessage,
}

/// A hash, as it is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sum {
    /// What the line calls the algorithm.
    pub(super) tag: Option<String>,
    pub(super) hex: String,
    /// The path of the file; `None` where none is given, or it was standard input.
    pub(super) path: Option<Vec<u8>>,
}

impl Line {
    /// Understands a line that has no white space at its end. `None`: it says nothing.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        if line == b"-----BEGIN PGP SIGNED MESSAGE-----" {
            return Some(Self::SignedMessage);
        }
        if let Some(comment) = line.strip_prefix(b"#") {
            let comment = std::str::from_utf8(comment).ok()?;
            let mut words = comment.split_ascii_whitespace();
            return match (words.next(), words.next(), words.next()) {
                (Some(tag), Some(word), None) if word.eq_ignore_ascii_case("hash") => Some(Self::Section(tag.into())),
                _ => None,
            };
        }
        let (escaped, line) = match line.strip_prefix(b"\\") {
            Some(line) => (true, line),
            None => (false, line.trim_ascii_start()),
        };
        let sum = tagged(line).or_else(|| plain(line)).or_else(|| prefixed(line))?;
        let path = sum.path.map(|path| if escaped { unescaped(&path) } else { path });
        let path = path.map(|path| without_dot(&path).to_vec()).filter(|path| !is_standard_input(path));
        Some(Self::Sum(Sum { path, ..sum }))
    }
}

/// `SHA256 (NAME) = HASH`, and openssl's `SHA2-256(NAME)= HASH`.
fn tagged(line: &[u8]) -> Option<Sum> {
    let open = line.iter().position(|byte| *byte == b'(')?;
    let tag = line.get(..open)?.trim_ascii_end();
    let is_tag = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'/' | b'.');
    if tag.is_empty() || tag.len() > 30 || !tag.iter().all(is_tag) {
        return None;
    }
    // From the end: a name may have any of it.
    let equals = line.iter().rposition(|byte| *byte == b'=')?;
    let hex = hex(line.get(equals + 1..)?.trim_ascii())?;
    let name = line.get(open + 1..equals)?.trim_ascii_end().strip_suffix(b")")?;
    Some(Sum { tag: Some(String::from_utf8_lossy(tag).into_owned()), hex, path: Some(name.to_vec()) })
}

/// `HASH  NAME`, `HASH *NAME`, `HASH`.
fn plain(line: &[u8]) -> Option<Sum> {
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let hex = hex(line.get(..end)?)?;
    let rest = line.get(end..)?;
    let path = match rest {
        [_, b' ' | b'*', name @ ..] if !name.starts_with(b" ") => name,
        _ => {
            let name = rest.trim_ascii_start();
            name.strip_prefix(b"*").unwrap_or(name)
        }
    };
    Some(Sum { tag: None, hex, path: (!path.is_empty()).then(|| path.to_vec()) })
}

/// `sha256:HASH`, alone or before a name.
fn prefixed(line: &[u8]) -> Option<Sum> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (tag, rest) = (line.get(..colon)?, line.get(colon + 1..)?);
    let tag = String::from_utf8_lossy(tag).into_owned();
    super::Algorithm::named(&tag)?;
    plain(rest.trim_ascii_start()).map(|sum| Sum { tag: Some(tag), ..sum })
}

/// A hash, of whatever length hashes have.
fn hex(text: &[u8]) -> Option<String> {
    let of_hash = matches!(text.len(), 32 | 40 | 48 | 56 | 64 | 96 | 128);
    (of_hash && text.iter().all(u8::is_ascii_hexdigit)).then(|| String::from_utf8_lossy(text).into_owned())
}

/// A name as coreutils escape it.
fn unescaped(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut bytes = name.iter();
    while let Some(&byte) = bytes.next() {
        out.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(&other) => other,
                None => byte,
            },
            _ => byte,
        });
    }
    out
}

fn without_dot(path: &[u8]) -> &[u8] {
    let mut path = path;
    while let Some(rest) = path.strip_prefix(b"./") {
        path = rest;
    }
    path
}

/// What coreutils and openssl call a file that has no name.
fn is_standard_input(path: &[u8]) -> bool {
    matches!(path, b"-" | b"stdin" | b"*stdin")
}

/// The last part of a path, as Unix or Windows write it.
pub(super) fn base(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| matches!(byte, b'/' | b'\\')).next().unwrap_or_default()
}
