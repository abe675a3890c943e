//! zlib, RFC 1950: what HTTP calls the content encoding "deflate". Some servers send bare deflate, RFC 1951, for it.
//!
//! The Adler-32 of zlib is verified; bare deflate has nothing to verify.

use bytes::{Buf, Bytes, BytesMut};
use flate2::{Decompress, Status};

use crate::decode::{Fill, Filled, room, trailing};
use crate::gather::Gather;
use crate::{Error, Kind, Result, spare};

/// The decoder for both. It holds a 32 KiB window.
pub(crate) struct Zlib {
    state: State,
    field: Gather<2>,
    inflate: Decompress,
}

enum State {
    /// Before the two bytes that tell which it is.
    Head,
    /// What of these is not inflated yet.
    Start(Bytes),
    Body,
    /// Behind the only stream.
    End,
}

impl Zlib {
    pub(crate) fn new() -> Self {
        Self { state: State::Head, field: Gather::default(), inflate: Decompress::new(true) }
    }

    fn inflate(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<Option<Filled>> {
        let done = spare::inflate(&mut self.inflate, input, output, CALL);
        input.advance(done.used);
        match done.status {
            Ok(Status::StreamEnd) => self.state = State::End,
            Ok(_) if room(output) == 0 => return Ok(Some(Filled::OutputFull)),
            Ok(_) if done.used == 0 && done.made == 0 => return Ok(Some(Filled::NeedInput)),
            Ok(_) => {}
            Err(_) => {
                let message = "the compressed data are damaged; the file can't be used, get it again";
                return Err(Error::new(Kind::Corrupt, message));
            }
        }
        Ok(None)
    }
}

impl Fill for Zlib {
    const NAME: &'static str = "zlib";
    const UNIT: &'static str = "zlib stream";

    fn fill(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<Filled> {
        loop {
            let filled = match &mut self.state {
                State::Head => {
                    let Some(head) = self.field.take::<2>(input) else { return Ok(Filled::NeedInput) };
                    self.inflate = Decompress::new(is_header(head));
                    self.state = State::Start(Bytes::copy_from_slice(&head));
                    None
                }
                State::Start(head) if head.is_empty() => {
                    self.state = State::Body;
                    None
                }
                State::Start(head) => {
                    let mut head = std::mem::take(head);
                    self.state = State::Body;
                    let filled = self.inflate(&mut head, output)?;
                    if !head.is_empty() {
                        self.state = State::Start(head);
                    }
                    filled.filter(|filled| *filled == Filled::OutputFull)
                }
                State::Body => self.inflate(input, output)?,
                State::End if input.has_remaining() => return Err(trailing(Self::UNIT)),
                State::End => Some(Filled::Boundary),
            };
            if let Some(filled) = filled {
                return Ok(filled);
            }
        }
    }
}

/// Whether these two bytes begin a zlib stream. Bare deflate begins so only with a stored block of odd padding, which
/// nobody writes.
fn is_header([method, flags]: [u8; 2]) -> bool {
    method & 0x0f == 8 && method >> 4 <= 7 && u16::from_be_bytes([method, flags]).is_multiple_of(31)
}

/// Output of one call of zlib at most, in bytes.
const CALL: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Pieces, decode, decodes_to, disk_like, tool, truncations_fail};
    use crate::{Limits, Wrapper};

    fn packed(data: &[u8]) -> Vec<u8> {
        tool("pigz", &["-c", "-z"], data)
    }

    fn bare(zlib: &[u8]) -> &[u8] {
        &zlib[2..zlib.len() - 4]
    }

    #[test]
    fn with_a_header_and_without() {
        for len in [0, 1, 3000, 600_000] {
            let data = disk_like(len);
            let packed = packed(&data);
            decodes_to(Wrapper::Zlib, Limits::default(), &packed, &data);
            decodes_to(Wrapper::Zlib, Limits::default(), bare(&packed), &data);
        }
        // The shortest there is.
        decodes_to(Wrapper::Zlib, Limits::default(), &[3, 0], b"");
        decodes_to(Wrapper::Zlib, Limits::default(), &[0x4b, 4, 0], b"a");
    }

    #[test]
    fn damage_is_noticed() {
        let data = disk_like(1500);
        let packed = packed(&data);
        truncations_fail(Wrapper::Zlib, Limits::default(), &packed, |_| false);
        truncations_fail(Wrapper::Zlib, Limits::default(), bare(&packed), |_| false);
        // A flip of the two bytes that tell which it is may make bare deflate of it, which nothing guards.
        for at in 2..packed.len() {
            let mut bad = packed.clone();
            bad[at] ^= 4;
            let got = decode(Wrapper::Zlib, Limits::default(), &bad, Pieces::Of(5), 1 << 16);
            assert!(got.is_err() || got.unwrap() == data, "{at}");
        }
        let error = decode(Wrapper::Zlib, Limits::default(), &[&packed, &[0][..]].concat(), Pieces::Of(5), 1 << 16);
        assert_eq!(error.unwrap_err().kind(), Kind::Trailing);
    }
}
