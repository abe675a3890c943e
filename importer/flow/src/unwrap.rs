//! Wrappers, found by content and taken off in layers.

use bytes::Bytes;
use importer_codec::archive::{Member, Part};
use importer_codec::{Bin, Decode, Limits, Status, Wrapper, wrapper};

use crate::peek::{Peeked, peek};
use crate::threaded::Threaded;
use crate::{Error, Kind, Piece, Result, Stream};

/// What is inside all wrappers.
pub(crate) struct Unwrapped {
    /// The first bytes: [`importer_disk::probe::HEAD_LEN`] of them, or all.
    pub(crate) head: Bytes,
    /// The whole stream, from its first byte.
    pub(crate) stream: Peeked,
    /// The wrappers taken off, outermost first.
    pub(crate) wrappers: Vec<&'static str>,
}

/// How to take wrappers off.
#[derive(Clone, Debug)]
pub(crate) struct Unwrapping {
    pub(crate) limits: Limits,
    /// The member of an archive that is wanted.
    pub(crate) disk: Option<String>,
    /// Where buffers come from.
    pub(crate) bin: Bin,
}

/// Takes all wrappers off. Each decoder runs on a thread of its own.
pub(crate) fn unwrap(stream: Box<dyn Stream>, how: &Unwrapping) -> Result<Unwrapped> {
    let mut wrappers = Vec::new();
    let mut stream = stream;
    loop {
        let (head, peeked) = peek(stream, importer_disk::probe::HEAD_LEN)?;
        let Some(found) = wrapper::detect(&head).map_err(refused)? else {
            if let Some(disk) = &how.disk
                && !wrappers.contains(&Wrapper::Tar.name())
            {
                let disk = disk.escape_debug();
                let message = format!("--disk {disk} chooses from an archive, and the source is none: leave it out");
                return Err(Error::new(Kind::Usage, message));
            }
            return Ok(Unwrapped { head, stream: peeked, wrappers });
        };
        if wrappers.len() == MAX_DEPTH {
            let message =
                format!("more than {MAX_DEPTH} wrappers around each other ({}, {found})", wrappers.join(", "));
            return Err(Error::new(Kind::Unsafe, message));
        }
        wrappers.push(found.name());
        let inner: Box<dyn Stream> = match found.decoder(how.limits, &how.bin).map_err(refused)? {
            Some(decoder) => {
                Box::new(Decoded { input: Input::new(Box::new(peeked)), decoder, wrapper: found, done: false })
            }
            None => Box::new(Archived {
                input: Input::new(Box::new(peeked)),
                member: Member::new(how.disk.clone()),
                done: false,
            }),
        };
        stream = Box::new(Threaded::new(&format!("unwrap-{found}"), QUEUE, inner)?);
    }
}

/// Undoes one encoding, on a thread of its own.
pub(crate) fn decode(stream: Box<dyn Stream>, wrapper: Wrapper, limits: Limits) -> Result<Box<dyn Stream>> {
    let (_, peeked) = peek(stream, 0)?;
    match wrapper.decoder(limits, &Bin::default()).map_err(refused)? {
        Some(decoder) => {
            let decoded = Decoded { input: Input::new(Box::new(peeked)), decoder, wrapper, done: false };
            Ok(Box::new(Threaded::new(&format!("decode-{wrapper}"), QUEUE, Box::new(decoded))?))
        }
        None => Err(Error::new(Kind::Ours, "an archive is no encoding")),
    }
}

/// What a codec says, as an error of the pipeline.
pub(crate) fn refused(error: importer_codec::Error) -> Error {
    use importer_codec::Kind as Codec;
    let kind = match error.kind() {
        Codec::Memory | Codec::Oversized | Codec::External => Kind::Unsafe,
        Codec::Ours => Kind::Ours,
        _ => Kind::NotUsable,
    };
    Error::new(kind, error.to_string())
}

/// Input of a decoder: pieces, one at a time.
pub(crate) struct Input {
    stream: Box<dyn Stream>,
    pub(crate) bytes: Bytes,
    /// Zeros that come before more is brought, for those who want to know.
    pub(crate) hole: u64,
    pub(crate) end: bool,
}

impl Input {
    pub(crate) fn new(stream: Box<dyn Stream>) -> Self {
        Self { stream, bytes: Bytes::new(), hole: 0, end: false }
    }

    /// Brings more when there is none. There may be none after that, before a hole. Says nothing about the end unless it is
    /// reached.
    pub(crate) fn fill(&mut self) -> Result<()> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        if !self.bytes.is_empty() || self.end {
            return Ok(());
        }
        if self.hole > 0 {
            let len = usize::try_from(self.hole).unwrap_or(ZEROS.len()).min(ZEROS.len());
            self.bytes = Bytes::from_static(&ZEROS).slice(..len);
            self.hole -= len as u64;
            return Ok(());
        }
        match self.stream.next()? {
            Some(Piece::Bytes(bytes)) => self.bytes = bytes,
            Some(Piece::Hole(len)) => self.hole = len,
            None => self.end = true,
        }
        Ok(())
    }
}

/// A decoded stream.
struct Decoded {
    input: Input,
    decoder: Box<dyn Decode>,
    wrapper: Wrapper,
    done: bool,
}

impl Stream for Decoded {
    fn next(&mut self) -> Result<Option<Piece>> {
        if self.done {
            return Ok(None);
        }
        loop {
            self.input.fill()?;
            let status = self
                .decoder
                .decode(&mut self.input.bytes, self.input.end)
                .map_err(|error| refused(error).within(format_args!("the {} wrapper", self.wrapper)))?;
            match status {
                Status::NeedInput if self.input.end && self.input.bytes.is_empty() => {
                    return Err(Error::new(Kind::Ours, "a decoder waits for more than there is"));
                }
                Status::NeedInput => {}
                Status::Made(piece) => return Ok(Some(Piece::Bytes(piece))),
                Status::Zeros(len) => return Ok(Some(Piece::Hole(len))),
                Status::Done => {
                    self.done = true;
                    return Ok(None);
                }
            }
        }
    }
}

/// The one disk in an archive.
struct Archived {
    input: Input,
    member: Member,
    done: bool,
}

impl Stream for Archived {
    fn next(&mut self) -> Result<Option<Piece>> {
        while !self.done {
            match self.member.next(&mut self.input.bytes, self.input.end).map_err(refused)? {
                Some(Part::Data(bytes)) => return Ok(Some(Piece::Bytes(bytes))),
                Some(Part::Hole(len)) => return Ok(Some(Piece::Hole(len))),
                Some(Part::End) => self.done = true,
                None if self.input.end => {
                    return Err(Error::new(Kind::Ours, "an archive waits for more than there is"));
                }
                None => self.input.fill()?,
            }
        }
        Ok(None)
    }
}

/// Pieces that wait between two decoders: with the two in hand, 1.5 MiB.
const QUEUE: usize = 4;
/// An image in a tar in a compressor, and one more.
const MAX_DEPTH: usize = 3;
