//! What a stream decoder is.

use bytes::{Buf, Bytes, BytesMut};

use crate::{Bin, Error, Kind, Result};

/// A stream decoder, pushed: compressed bytes go in, pieces come out.
///
/// It reads all members, frames and streams to the true end of the input. The memory it holds is bounded by its
/// [`Limits`] whatever the input asks for. Pieces come one at a time, so that a bomb costs time in the caller's hands,
/// never memory.
pub trait Decode: Send {
    /// Decodes from the front of `input`, up to the next piece of output.
    ///
    /// What was used is taken off `input`. `end` says that no more input will come after this one; it may be passed at
    /// any time, and must stay true after that.
    ///
    /// Errors are final: the same error comes again from then on.
    fn decode(&mut self, input: &mut Bytes, end: bool) -> Result<Status>;

    /// How many bytes of input were used so far.
    fn consumed(&self) -> u64;
}

/// What a decoder has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    /// All input was used, and more must come. Never with `end`.
    NeedInput,
    /// The next piece of output, never empty; call again with what is left of the input.
    Made(Bytes),
    /// The next piece of output is this many zeros, never none.
    Zeros(u64),
    /// The input is complete, and all output was given.
    Done,
}

/// What a decoder may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest window or dictionary a stream may ask for, with the decoder's own needs, in bytes (zstd, xz). The
    /// other formats have a fixed size: gzip 64 KiB, bzip2 4 MiB, lz4 9 MiB.
    pub memory: u64,
    /// The most memory for decoding blocks or frames side by side, in bytes (xz; zstd needs no more than 8 MiB). A block
    /// that does not fit beside the others waits; one that does not fit at all is decoded as a stream, in one thread.
    pub parallel: u64,
    /// How many blocks or frames may be decoded side by side (xz, zstd); 1 makes no thread.
    pub threads: u32,
}

impl Default for Limits {
    /// 128 MiB each, as `zstd -d` allows without `--long`, and two threads.
    fn default() -> Self {
        Self { memory: 128 << 20, parallel: 128 << 20, threads: 2 }
    }
}

/// One format's state machine. What is the same for all of them is in [`Decoder`].
pub(crate) trait Machine: Send {
    /// The name of the format.
    const NAME: &'static str;
    /// What its stream consists of.
    const UNIT: &'static str;

    /// Goes on until it has a piece or needs something.
    fn step(&mut self, input: &mut Bytes) -> Result<Step>;

    /// What was made and not given yet; asked for when the input is at its end.
    fn rest(&mut self) -> Bytes;
}

/// What a [`Machine`] has come to.
#[derive(Debug)]
pub(crate) enum Step {
    /// More input; without it the stream is cut.
    NeedInput,
    /// More input, or the end: the last unit is complete. The input is empty.
    Boundary,
    /// A piece of output, not empty.
    Made(Bytes),
}

/// A [`Machine`] with its place in the stream.
pub(crate) struct Decoder<M> {
    machine: M,
    consumed: u64,
    failed: Option<Error>,
}

impl<M: Machine> Decoder<M> {
    pub(crate) fn new(machine: M) -> Self {
        Self::behind(machine, 0)
    }

    /// For a stream of which another decoder has used so many bytes.
    pub(crate) fn behind(machine: M, consumed: u64) -> Self {
        Self { machine, consumed, failed: None }
    }
}

impl<M: Machine> Decode for Decoder<M> {
    fn decode(&mut self, input: &mut Bytes, end: bool) -> Result<Status> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let before = input.remaining();
        let step = self.machine.step(input);
        self.consumed += (before - input.remaining()) as u64;
        let status = match step {
            Ok(Step::Made(piece)) => Ok(Status::Made(piece)),
            // Or the caller would ask for ever.
            Ok(Step::Boundary | Step::NeedInput) if input.has_remaining() => {
                Err(Error::new(Kind::Ours, "the decoder makes no progress"))
            }
            Ok(Step::Boundary) if end => {
                let rest = self.machine.rest();
                Ok(if rest.is_empty() { Status::Done } else { Status::Made(rest) })
            }
            Ok(Step::NeedInput) if end => Err(Error::new(
                Kind::Truncated,
                format!("the data end in the middle of a {}; the file is cut, get it again", M::UNIT),
            )),
            Ok(Step::Boundary | Step::NeedInput) => Ok(Status::NeedInput),
            Err(error) => Err(error),
        };
        status.map_err(|error| {
            let error = error.of(M::NAME).at(self.consumed);
            self.failed = Some(error.clone());
            error
        })
    }

    fn consumed(&self) -> u64 {
        self.consumed
    }
}

/// A format whose library writes wherever it is told to: [`Buffered`] makes a [`Machine`] of it.
pub(crate) trait Fill: Send {
    /// The name of the format.
    const NAME: &'static str;
    /// What its stream consists of.
    const UNIT: &'static str;

    /// Goes on until it needs something. Appends to `output`, which has room and is never grown.
    fn fill(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<Filled>;
}

/// What a [`Fill`] needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// More input; without it the stream is cut.
    NeedInput,
    /// More input, or the end: the last unit is complete. The input is empty.
    Boundary,
    /// More room.
    OutputFull,
}

/// Gathers what a [`Fill`] makes into buffers of a [`Bin`].
pub(crate) struct Buffered<F> {
    fill: F,
    output: BytesMut,
    bin: Bin,
}

impl<F: Fill> Buffered<F> {
    pub(crate) fn new(fill: F, bin: &Bin) -> Self {
        Self { fill, output: BytesMut::new(), bin: bin.clone() }
    }
}

impl<F: Fill> Machine for Buffered<F> {
    const NAME: &'static str = F::NAME;
    const UNIT: &'static str = F::UNIT;

    fn step(&mut self, input: &mut Bytes) -> Result<Step> {
        if self.output.capacity() == 0 {
            self.output = self.bin.take();
        }
        if room(&self.output) == 0 {
            return Ok(Step::Made(self.rest()));
        }
        Ok(match self.fill.fill(input, &mut self.output)? {
            Filled::NeedInput => Step::NeedInput,
            Filled::Boundary => Step::Boundary,
            Filled::OutputFull => Step::Made(self.rest()),
        })
    }

    fn rest(&mut self) -> Bytes {
        std::mem::take(&mut self.output).freeze()
    }
}

/// The spare capacity of a buffer in bytes.
pub(crate) fn room(output: &BytesMut) -> usize {
    output.capacity() - output.len()
}

/// Takes the zeros off the front of `input`; gives how many there were.
pub(crate) fn skip_zeros(input: &mut Bytes) -> usize {
    let zeros = input.iter().position(|&byte| byte != 0).unwrap_or(input.len());
    input.advance(zeros);
    zeros
}

/// Takes up to `left` bytes off the front of `input`; gives how many remain to be skipped.
pub(crate) fn skip(input: &mut Bytes, left: u64) -> u64 {
    let len = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
    input.advance(len);
    left - len as u64
}

/// The error for bytes behind the last unit.
pub(crate) fn trailing(unit: &str) -> Error {
    Error::new(
        Kind::Trailing,
        format!("something that is no {unit} follows the last {unit}; the file is damaged or was put together wrongly"),
    )
}

/// A number of bytes as whole MiB, rounded up.
pub(crate) fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// The error for a stream that needs more memory than is allowed.
pub(crate) fn too_large(what: &str, needed: u64, allowed: u64) -> Error {
    Error::new(
        Kind::Memory,
        format!(
            "{what} needs {} MiB of memory and {} MiB are allowed; raise --memory to at least {}Mi",
            mib(needed),
            allowed >> 20,
            mib(needed)
        ),
    )
}
