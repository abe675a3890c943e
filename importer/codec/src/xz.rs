//! xz: any number of streams with stream padding, blocks in parallel where the file has block sizes.
//!
//! `xz -T` and pixz write the sizes of a block in front of it, so that blocks can be decoded side by side in one pass;
//! other files are one block that is decoded as a stream. Padding is zeros in multiples of four, as the specification
//! (2.2) has it.

use bytes::{Buf, Bytes, BytesMut};
use liblzma::stream::{Error as LzmaError, MtStreamBuilder, Status, Stream};

use crate::decode::{Fill, Filled, Limits, mib, room, skip_zeros, too_large, trailing};
use crate::gather::Gather;
use crate::{Error, Kind, Result, spare};

/// The xz decoder. It holds the dictionary the file asks for within [`Limits::memory`], or whole blocks within
/// [`Limits::parallel`].
pub(crate) struct Xz {
    limits: Limits,
    state: State,
    header: Gather<12>,
    /// The decoder of the stream at hand.
    stream: Option<Stream>,
}

#[derive(Clone, Copy)]
enum State {
    /// Before a stream that must come.
    Header,
    Body,
    /// Behind a stream, and this many zeros modulo 4.
    Between(usize),
}

impl Xz {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, state: State::Header, header: Gather::default(), stream: None }
    }

    /// The most memory liblzma may use, in bytes. It has one number for the dictionary and for blocks side by side.
    fn memory(&self) -> u64 {
        if self.limits.threads > 1 { self.limits.memory.max(self.limits.parallel) } else { self.limits.memory }.max(1)
    }

    fn open(&self) -> Result<Stream> {
        let memory = self.memory();
        let stream = if self.limits.threads > 1 {
            MtStreamBuilder::new()
                .threads(self.limits.threads.min(MAX_THREADS))
                .memlimit_threading(self.limits.parallel)
                .memlimit_stop(memory)
                .decoder()
        } else {
            Stream::new_stream_decoder(memory, 0)
        };
        stream.map_err(|error| explain(error, None, memory))
    }

    /// Reads a stream header, and opens a decoder that has seen it.
    fn begin(&mut self, header: [u8; 12], output: &mut BytesMut) -> Result<()> {
        if header.first_chunk() != Some(&MAGIC) {
            return Err(trailing(Self::UNIT));
        }
        let [.., check, _, _, _, _] = header;
        if !CHECKS.contains(&check) {
            return Err(Error::new(
                Kind::Unsupported,
                format!("its data have a checksum of an unknown kind ({check}); recompress it with xz --check=crc64"),
            ));
        }
        let mut stream = self.open()?;
        let done = spare::unxz(&mut stream, &header, output);
        if let Err(error) = done.status {
            return Err(explain(error, Some(&mut stream), self.memory()));
        }
        self.stream = Some(stream);
        Ok(())
    }
}

impl Fill for Xz {
    const NAME: &'static str = "xz";
    const UNIT: &'static str = "xz stream";

    fn fill(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<Filled> {
        let memory = self.memory();
        loop {
            let state = self.state;
            self.state = match state {
                State::Header => {
                    if !self.header.fill(MAGIC.len(), input) {
                        return Ok(Filled::NeedInput);
                    }
                    if !self.header.bytes().starts_with(&MAGIC) {
                        return Err(trailing(Self::UNIT));
                    }
                    let Some(header) = self.header.take::<12>(input) else { return Ok(Filled::NeedInput) };
                    self.begin(header, output)?;
                    State::Body
                }
                State::Body => {
                    let Some(stream) = &mut self.stream else {
                        return Err(Error::new(Kind::Ours, "no stream is open"));
                    };
                    let done = spare::unxz(stream, input, output);
                    input.advance(done.used);
                    match done.status {
                        Ok(Status::StreamEnd) => {
                            self.stream = None;
                            State::Between(0)
                        }
                        Ok(_) if room(output) == 0 => return Ok(Filled::OutputFull),
                        // Blocks in other threads may still be at work; what they make is taken with the next input.
                        Ok(_) if input.is_empty() || done.used == 0 && done.made == 0 => return Ok(Filled::NeedInput),
                        Ok(_) => State::Body,
                        Err(error) => return Err(explain(error, Some(stream), memory)),
                    }
                }
                State::Between(zeros) => {
                    let zeros = (zeros + skip_zeros(input)) % 4;
                    self.state = State::Between(zeros);
                    match (input.first(), zeros) {
                        (None, 0) => return Ok(Filled::Boundary),
                        (None, _) => return Ok(Filled::NeedInput),
                        (Some(&first), 0) if first == MAGIC[0] => State::Header,
                        (Some(_), 0) => return Err(trailing(Self::UNIT)),
                        (Some(_), _) => {
                            return Err(Error::new(
                                Kind::Corrupt,
                                "the padding behind a stream is not a multiple of four bytes; the file is damaged",
                            ));
                        }
                    }
                }
            }
        }
    }
}

/// Puts an error of liblzma into words. `stream` is the one that met it.
fn explain(error: LzmaError, stream: Option<&mut Stream>, allowed: u64) -> Error {
    match error {
        LzmaError::MemLimit => match stream.and_then(|stream| memory_needed(stream, allowed)) {
            Some(needed) => too_large("this file", needed, allowed),
            None => Error::new(
                Kind::Memory,
                format!(
                    "this file needs more than the {} MiB of memory that are allowed; raise --memory",
                    mib(allowed)
                ),
            ),
        },
        LzmaError::Mem => {
            Error::new(Kind::Memory, "no memory is left for the decoder; give it more, or lower --memory")
        }
        LzmaError::Options | LzmaError::UnsupportedCheck => Error::new(
            Kind::Unsupported,
            "it uses a filter or an option that liblzma does not know; recompress it with plain xz",
        ),
        LzmaError::Data | LzmaError::Format => {
            Error::new(Kind::Corrupt, "the compressed data are damaged; the file can't be used, get it again")
        }
        LzmaError::Program | LzmaError::NoCheck => Error::new(Kind::Ours, format!("liblzma: {error}")),
    }
}

/// How much memory a stream that has met its limit wants, to the MiB.
///
/// liblzma has a call for this that the crate does not give, and that does not count the block at hand in the threaded
/// decoder. But a decoder that has met its limit goes on when the limit is raised, so the smallest limit at which it
/// does is the answer. It then reserves that much address space, and is dropped.
fn memory_needed(stream: &mut Stream, allowed: u64) -> Option<u64> {
    (mib(allowed.saturating_add(1))..=MAX_MEMORY_MIB).map(|mib| mib << 20).find(|&limit| {
        stream.set_memlimit(limit).is_ok()
            && !matches!(stream.process(&[], &mut [], liblzma::stream::Action::Run), Err(LzmaError::MemLimit))
    })
}

pub(crate) const MAGIC: [u8; 6] = *b"\xfd7zXZ\0";

/// The checks liblzma can verify: none, CRC32, CRC64, SHA-256.
const CHECKS: [u8; 4] = [0, 1, 4, 10];

/// The largest dictionary is 4 GiB less one byte; the rest is small.
const MAX_MEMORY_MIB: u64 = 4200;

/// More threads than this only cost memory.
const MAX_THREADS: u32 = 64;

#[cfg(test)]
mod tests;
