//! Forms with a file in them (multipart/form-data, RFC 7578 and 2046), read while they come.

mod disposition;
mod file;

use std::fmt;

use bytes::{Buf, Bytes};
use memchr::memmem::Finder;

pub use disposition::Head;
pub use file::FilePart;

/// A parser without IO: bytes go in as they come, the contents of parts come out as slices of them. It keeps a head of at
/// most 8 KiB and nothing else.
pub struct Form {
    /// The end of a line, two dashes, and the boundary: what stands between the parts. The first byte is the only CR in it,
    /// so where it begins to match and then doesn't, it can't have begun anywhere in between.
    delimiter: Bytes,
    finder: Finder<'static>,
    state: State,
    /// How much of the delimiter the last input ended with.
    matched: usize,
    rest: Bytes,
    line: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first part: nobody's.
    Preamble,
    /// Behind a delimiter, which may have been the last.
    Delimited,
    Head,
    Content,
    /// Behind the last delimiter: nobody's.
    Over,
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A part begins.
    Head(Head),
    /// The next bytes of its content.
    Content(Bytes),
    /// It is complete.
    End,
    /// So is the form.
    Over,
}

/// Why it is no form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the form can't be read: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

impl Form {
    /// A form whose parts are told apart as its `Content-Type` says.
    ///
    /// # Errors
    ///
    /// It is no form, or has no boundary that could be one.
    pub fn new(content_type: &str) -> Result<Self, Malformed> {
        let (kind, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
        if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
            return Err(Malformed("its Content-Type is not multipart/form-data"));
        }
        let boundary = disposition::parameter(parameters, "boundary");
        let boundary = boundary.ok_or(Malformed("its Content-Type has no boundary"))?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&byte);
        if boundary.is_empty() || boundary.len() > 70 || boundary.ends_with(' ') || !boundary.bytes().all(plain) {
            return Err(Malformed("its boundary is not one of 1 to 70 letters, digits and marks"));
        }
        let delimiter = Bytes::from(format!("\r\n--{boundary}"));
        let finder = Finder::new(&delimiter).into_owned();
        // The first delimiter may stand at the very start, where no line ends.
        Ok(Self { delimiter, finder, state: State::Preamble, matched: 2, rest: Bytes::new(), line: Vec::new() })
    }

    /// Takes the next bytes. Only when [`event`](Self::event) has nothing more of the last.
    pub fn feed(&mut self, bytes: Bytes) {
        debug_assert!(self.rest.is_empty(), "bytes are lost");
        self.rest = bytes;
    }

    /// What came; `None` when more bytes are needed.
    ///
    /// # Errors
    ///
    /// It is no form. Then nothing more comes out.
    pub fn event(&mut self) -> Result<Option<Event>, Malformed> {
        while !self.rest.is_empty() {
            match self.state {
                State::Preamble => {
                    if self.scan() == Scan::Delimiter {
                        self.state = State::Delimited;
                    }
                }
                State::Content => match self.scan() {
                    Scan::Bytes(bytes) => return Ok(Some(Event::Content(bytes))),
                    Scan::Delimiter => {
                        self.state = State::Delimited;
                        return Ok(Some(Event::End));
                    }
                    Scan::Nothing => {}
                },
                State::Delimited => {
                    self.line.push(self.rest.get_u8());
                    match self.line.as_slice() {
                        [b'-'] => {}
                        [b'-', b'-'] => {
                            self.state = State::Over;
                            return Ok(Some(Event::Over));
                        }
                        [padding @ .., b'\r', b'\n'] if is_padding(padding) => {
                            self.line.clear();
                            self.state = State::Head;
                        }
                        [padding @ .., b'\r'] | padding if padding.len() < MAX_PADDING && is_padding(padding) => {}
                        _ => return Err(Malformed("something stands behind a boundary")),
                    }
                }
                State::Head => {
                    self.line.push(self.rest.get_u8());
                    // The line end behind the delimiter may be the one before an empty line: a part without a head.
                    if self.line == b"\r\n" || self.line.ends_with(b"\r\n\r\n") {
                        let head = Head::parse(&self.line)?;
                        self.line.clear();
                        self.state = State::Content;
                        return Ok(Some(Event::Head(head)));
                    }
                    if self.line.len() >= MAX_HEAD {
                        return Err(Malformed("the head of a part is too long"));
                    }
                }
                State::Over => self.rest.clear(),
            }
        }
        Ok(None)
    }

    /// Whether the last delimiter was there.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Looks for the delimiter.
    fn scan(&mut self) -> Scan {
        if self.matched > 0 {
            let missing = self.delimiter.get(self.matched..).unwrap_or_default();
            let same = missing.iter().zip(&self.rest).take_while(|(one, other)| one == other).count();
            if same == missing.len() {
                self.matched = 0;
                self.rest.advance(same);
                return Scan::Delimiter;
            }
            if same == self.rest.len() {
                self.matched += same;
                self.rest.clear();
                return Scan::Nothing;
            }
            let held = self.delimiter.slice(..self.matched);
            self.matched = 0;
            return Scan::Bytes(held);
        }
        match self.finder.find(&self.rest) {
            Some(0) => {
                self.rest.advance(self.delimiter.len());
                Scan::Delimiter
            }
            Some(at) => Scan::Bytes(self.rest.split_to(at)),
            None => {
                let from = self.rest.len().saturating_sub(self.delimiter.len() - 1);
                let tail = self.rest.get(from..).unwrap_or_default();
                let last = tail.iter().rposition(|byte| *byte == b'\r').and_then(|at| tail.get(at..));
                self.matched = last.filter(|last| self.delimiter.starts_with(last)).map_or(0, <[u8]>::len);
                let bytes = self.rest.split_to(self.rest.len() - self.matched);
                self.rest.clear();
                if bytes.is_empty() { Scan::Nothing } else { Scan::Bytes(bytes) }
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Scan {
    Bytes(Bytes),
    Delimiter,
    Nothing,
}

fn is_padding(text: &[u8]) -> bool {
    text.iter().all(|byte| matches!(byte, b' ' | b'\t'))
}

const MAX_HEAD: usize = 8 << 10;
const MAX_PADDING: usize = 256;

#[cfg(test)]
mod tests;
