//! bzip2: any number of streams, as `cat`, pbzip2 and lbzip2 make them. All checksums are verified.

use ::bzip2::{Decompress, Status};
use bytes::{Buf, Bytes, BytesMut};

use crate::decode::{Fill, Filled, room, skip_zeros, trailing};
use crate::gather::Gather;
use crate::{Error, Kind, Result, spare};

/// The bzip2 decoder. It holds up to 4 MiB for a block of 900 kB.
pub(crate) struct Bzip2 {
    state: State,
    magic: Gather<4>,
    /// The decoder of the stream at hand.
    stream: Option<Decompress>,
}

#[derive(Clone, Copy)]
enum State {
    /// Before a stream that must come.
    Magic,
    Body,
    /// Behind a stream.
    Between,
    Padding,
}

impl Bzip2 {
    pub(crate) fn new() -> Self {
        Self { state: State::Magic, magic: Gather::default(), stream: None }
    }

    /// Gives bytes to libbz2: how many it used, and whether the stream is complete; `None` when it needs more input.
    fn feed(&mut self, input: &[u8], output: &mut BytesMut) -> Result<(usize, Option<bool>)> {
        let stream = self.stream.get_or_insert_with(|| Decompress::new(false));
        let done = spare::bunzip2(stream, input, output);
        match done.status {
            Ok(Status::StreamEnd) => {
                self.stream = None;
                Ok((done.used, Some(true)))
            }
            Ok(Status::MemNeeded) => Err(Error::new(Kind::Memory, "no memory is left for the decoder")),
            Ok(_) if done.used == 0 && done.made == 0 => Ok((0, None)),
            Ok(_) => Ok((done.used, Some(false))),
            Err(_) => {
                Err(Error::new(Kind::Corrupt, "the compressed data are damaged; the file can't be used, get it again"))
            }
        }
    }
}

impl Fill for Bzip2 {
    const NAME: &'static str = "bzip2";
    const UNIT: &'static str = "bzip2 stream";

    fn fill(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<Filled> {
        loop {
            let state = self.state;
            self.state = match state {
                State::Between => match input.first() {
                    None => return Ok(Filled::Boundary),
                    Some(0) => State::Padding,
                    Some(b'B') => State::Magic,
                    Some(_) => return Err(trailing(Self::UNIT)),
                },
                State::Padding => {
                    skip_zeros(input);
                    if input.has_remaining() {
                        return Err(trailing(Self::UNIT));
                    }
                    return Ok(Filled::Boundary);
                }
                State::Magic => match self.magic.take(input) {
                    None => return Ok(Filled::NeedInput),
                    Some(magic @ [b'B', b'Z', b'h', b'1'..=b'9']) => {
                        self.feed(&magic, output)?;
                        State::Body
                    }
                    Some(_) => return Err(trailing(Self::UNIT)),
                },
                State::Body => {
                    let (used, complete) = self.feed(input, output)?;
                    input.advance(used);
                    match complete {
                        Some(true) => State::Between,
                        _ if room(output) == 0 => return Ok(Filled::OutputFull),
                        Some(false) => State::Body,
                        None => return Ok(Filled::NeedInput),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
