//! Zstandard, RFC 8878: any number of frames, skippable frames among them.
//!
//! The frame headers are read here, so that a window beyond the limit is refused with its size, and so that what lies
//! between the frames is ours to judge. The checksums of frames are verified by libzstd.

use bytes::{Buf, Bytes, BytesMut};
use zstd_safe::{DCtx, DParameter};

use crate::decode::{Limits, Machine, Step, room, skip, skip_zeros, too_large, trailing};
use crate::gather::Gather;
use crate::zstd::in_place::{Fed, InPlace};
use crate::{Bin, Error, Kind, Result, spare};

mod in_place;
mod parallel;
mod split;

pub(crate) use parallel::Parallel;

/// The zstd decoder. It holds the window the frames ask for, within [`Limits::memory`].
pub(crate) struct Zstd {
    memory: u64,
    state: State,
    header: Gather<HEADER_MAX>,
    /// A header that came in pieces, still to be decoded.
    front: Bytes,
    /// For frames with a large window, and for callers that want small pieces.
    context: DCtx<'static>,
    output: BytesMut,
    bin: Bin,
    /// For all others.
    place: InPlace,
    /// Which of the two decodes the frame at hand.
    in_place: bool,
    /// Whether a frame with data was seen, so that zeros can be padding.
    frames: bool,
    /// How many bytes the frame at hand must give, where it says so.
    size: Option<u64>,
    /// How many it gave.
    made: u64,
}

#[derive(Clone, Copy)]
enum State {
    /// Before a frame, behind a whole number of them.
    Between,
    /// Before a frame that must come.
    Header,
    SkipLen,
    Skip(u32),
    Body,
    Padding,
}

impl Zstd {
    pub(crate) fn new(limits: Limits, bin: &Bin) -> Result<Self> {
        let mut context = DCtx::try_create()
            .ok_or_else(|| Error::new(Kind::Memory, "no memory is left for the decoder").of(Self::NAME))?;
        context
            .set_parameter(DParameter::WindowLogMax(MAX_WINDOW_LOG))
            .map_err(|code| Error::new(Kind::Ours, name(code)).of(Self::NAME))?;
        let memory = limits.memory;
        Ok(Self {
            memory,
            state: State::Header,
            header: Gather::default(),
            front: Bytes::new(),
            context,
            output: BytesMut::new(),
            bin: bin.clone(),
            place: InPlace::new()?,
            in_place: false,
            frames: false,
            size: None,
            made: 0,
        })
    }

    /// The same behind frames that another decoder has seen.
    fn behind_frames(self) -> Self {
        Self { state: State::Between, frames: true, ..self }
    }

    /// Judges a frame header, and begins its frame.
    fn admit(&mut self, header: Header) -> Result<()> {
        if header.dictionary {
            return Err(Error::new(Kind::Unsupported, "it needs a dictionary; recompress it without one"));
        }
        if header.window > 1 << MAX_WINDOW_LOG {
            return Err(Error::new(
                Kind::Unsupported,
                format!("its window of {} MiB is more than zstd itself can decode", header.window >> 20),
            ));
        }
        if header.window > self.memory {
            return Err(too_large("its window", header.window, self.memory));
        }
        self.frames = true;
        self.size = header.size;
        self.made = 0;
        self.in_place = header.window <= in_place::MAX_WINDOW && self.bin.size() >= in_place::BLOCK_MAX;
        if self.in_place {
            self.place.begin(header.window).map_err(damaged)?;
        }
        Ok(())
    }

    /// Decodes the frame at hand from the front of `input`.
    fn feed(&mut self, input: &mut Bytes) -> Result<Fed> {
        let before = self.waiting();
        let fed = if self.in_place { self.place.feed(input).map_err(damaged)? } else { self.stream(input)? };
        self.made = self.made.saturating_add((self.waiting() - before) as u64);
        match self.size {
            // libzstd compares them by itself, but not where an empty block ends a frame that it sees in pieces, and block
            // by block only at the end.
            Some(size) if self.made > size || (fed == Fed::Complete && size != self.made) => Err(Error::new(
                Kind::Corrupt,
                format!("a frame gives {} bytes instead of {size}; the file is damaged, get it again", self.made),
            )),
            _ => Ok(fed),
        }
    }

    /// Decodes through libzstd's own window.
    fn stream(&mut self, input: &mut Bytes) -> Result<Fed> {
        if self.output.capacity() == 0 {
            self.output = self.bin.take();
        }
        loop {
            let done = spare::unzstd(&mut self.context, input, &mut self.output);
            input.advance(done.used);
            if done.status.map_err(damaged)? == 0 {
                return Ok(Fed::Complete);
            }
            if room(&self.output) == 0 {
                return Ok(Fed::Made);
            }
            if done.used == 0 && done.made == 0 {
                return Ok(Fed::NeedInput);
            }
        }
    }

    /// How many bytes were made and not given.
    fn waiting(&self) -> usize {
        self.place.made() + self.output.len()
    }
}

/// What libzstd says, as an error.
fn damaged(code: usize) -> Error {
    Error::new(
        Kind::Corrupt,
        format!("the compressed data are damaged ({}); the file can't be used, get it again", name(code)),
    )
}

impl Machine for Zstd {
    const NAME: &'static str = "zstd";
    const UNIT: &'static str = "zstd frame";

    fn step(&mut self, input: &mut Bytes) -> Result<Step> {
        loop {
            let state = self.state;
            self.state = match state {
                State::Between => match input.first() {
                    None => return Ok(Step::Boundary),
                    Some(0) => State::Padding,
                    Some(_) => State::Header,
                },
                State::Padding => {
                    skip_zeros(input);
                    if input.has_remaining() {
                        return Err(trailing(Self::UNIT));
                    }
                    return Ok(Step::Boundary);
                }
                State::Header => match self.header(input)? {
                    Some(state) => state,
                    None => return Ok(Step::NeedInput),
                },
                State::SkipLen => match self.header.take(input) {
                    Some(len) => State::Skip(u32::from_le_bytes(len)),
                    None => return Ok(Step::NeedInput),
                },
                State::Skip(left) => match u32::try_from(skip(input, left.into())).unwrap_or_default() {
                    0 if self.frames => State::Between,
                    0 => State::Header,
                    left => {
                        self.state = State::Skip(left);
                        return Ok(Step::NeedInput);
                    }
                },
                State::Body => {
                    // What the other decoder has made comes first.
                    let other = if self.in_place { self.output.len() } else { self.place.made() };
                    if other > 0 {
                        return Ok(Step::Made(self.rest()));
                    }
                    let mut front = std::mem::take(&mut self.front);
                    let fed = if front.is_empty() { self.feed(input)? } else { self.feed(&mut front)? };
                    self.front = front;
                    match fed {
                        Fed::Complete => State::Between,
                        Fed::Made => return Ok(Step::Made(self.rest())),
                        Fed::NeedInput if input.is_empty() => return Ok(Step::NeedInput),
                        Fed::NeedInput => State::Body,
                    }
                }
            }
        }
    }

    fn rest(&mut self) -> Bytes {
        match self.place.take() {
            piece if piece.is_empty() => std::mem::take(&mut self.output).freeze(),
            piece => piece,
        }
    }
}

impl Zstd {
    /// Reads a frame header; gives the state behind it, or `None` when there is not enough of it.
    fn header(&mut self, input: &mut Bytes) -> Result<Option<State>> {
        // Where it lies in one piece it stays in the input: libzstd then sees a small frame as a whole, and decodes it
        // straight into the output.
        if self.header.bytes().is_empty()
            && input.starts_with(&MAGIC)
            && let Some(header) = Header::parse(input)?
        {
            self.admit(header)?;
            return Ok(Some(State::Body));
        }
        let mut want = MAGIC.len();
        loop {
            if !self.header.fill(want, input) {
                return Ok(None);
            }
            let have = self.header.bytes();
            match have.first_chunk() {
                Some(&MAGIC) => {}
                Some(&magic) if is_skippable(magic) => {
                    self.header.clear();
                    return Ok(Some(State::SkipLen));
                }
                _ => return Err(trailing(Self::UNIT)),
            }
            if let Some(header) = Header::parse(have)? {
                self.front = Bytes::copy_from_slice(have);
                self.header.clear();
                self.admit(header)?;
                return Ok(Some(State::Body));
            }
            want = have.len() + 1;
        }
    }
}

/// What a frame header (RFC 8878, 3.1.1.1) says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    /// Window size in bytes.
    window: u64,
    /// Whether it names a dictionary.
    dictionary: bool,
    /// How many bytes the frame gives, where it is known.
    size: Option<u64>,
}

impl Header {
    /// Reads the header at the front of `bytes`, which begin with the magic number; `None` when they are too few.
    fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        let mut rest = bytes.get(MAGIC.len()..).unwrap_or_default().iter().copied();
        let Some(descriptor) = rest.next() else { return Ok(None) };
        if descriptor & 0x08 != 0 {
            return Err(Error::new(Kind::Unsupported, "a frame has a reserved bit set; it needs a newer decoder"));
        }
        let single = descriptor & 0x20 != 0;
        let mut window = 0;
        if !single {
            let Some(byte) = rest.next() else { return Ok(None) };
            let base = 1u64 << (10 + (byte >> 3));
            window = base + base / 8 * u64::from(byte & 7);
        }
        let dictionary_len = match descriptor & 3 {
            3 => 4,
            len => usize::from(len),
        };
        let size_len = match descriptor >> 6 {
            0 => usize::from(single),
            1 => 2,
            2 => 4,
            _ => 8,
        };
        if rest.len() < dictionary_len + size_len {
            return Ok(None);
        }
        let dictionary = rest.by_ref().take(dictionary_len).fold(false, |any, byte| any | (byte != 0));
        let size = rest.take(size_len).rev().fold(0u64, |size, byte| size << 8 | u64::from(byte));
        let size = if size_len == 2 { size + 256 } else { size };
        if single {
            window = size;
        }
        Ok(Some(Self { window, dictionary, size: (size_len > 0).then_some(size) }))
    }
}

/// Whether this is the magic number of a skippable frame, of zstd and lz4 alike.
pub(crate) fn is_skippable([first, rest @ ..]: [u8; 4]) -> bool {
    first & 0xf0 == 0x50 && rest == [0x2a, 0x4d, 0x18]
}

/// The name of an error of libzstd.
pub(crate) fn name(code: usize) -> &'static str {
    zstd_safe::get_error_name(code)
}

pub(crate) const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Magic, descriptor, window, dictionary id, content size.
const HEADER_MAX: usize = 4 + 1 + 1 + 4 + 8;

/// What libzstd can decode on a 64-bit machine.
const MAX_WINDOW_LOG: u32 = 31;

#[cfg(test)]
mod tests;
