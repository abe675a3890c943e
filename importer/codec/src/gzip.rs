//! gzip, RFC 1952: any number of members, as `cat`, bgzip and pigz -i make them.
//!
//! The header's own checksum, the CRC-32 and the length of every member are verified.

use bytes::{Buf, Bytes, BytesMut};
use crc32fast::Hasher;
use flate2::{Decompress, Status};

use crate::decode::{Fill, Filled, room, skip_zeros, trailing};
use crate::gather::Gather;
use crate::{Error, Kind, Result, spare};

/// The gzip decoder. It holds a 32 KiB window.
pub(crate) struct Gzip {
    state: State,
    field: Gather<8>,
    inflate: Decompress,
    /// Checksum of the header, then of the data.
    crc: Hasher,
    /// Length of the member's data modulo 2^32.
    size: u32,
    flags: u8,
}

#[derive(Clone, Copy)]
enum State {
    /// Before a member that must come.
    Magic,
    /// The rest of the fixed header.
    Fixed,
    ExtraLen,
    Extra(u16),
    Name,
    Comment,
    HeaderCrc,
    Body,
    Trailer,
    /// Behind a member.
    Between,
    Padding,
}

impl Gzip {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Magic,
            field: Gather::default(),
            inflate: Decompress::new(false),
            crc: Hasher::new(),
            size: 0,
            flags: 0,
        }
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Skips a string that ends with a zero. True when the zero was found.
    fn string(&mut self, input: &mut Bytes) -> bool {
        let end = input.iter().position(|&byte| byte == 0);
        let len = end.map_or(input.len(), |at| at + 1);
        self.crc.update(&input.split_to(len));
        end.is_some()
    }

    fn check_trailer(&mut self, trailer: [u8; 8]) -> Result<()> {
        let [c0, c1, c2, c3, s0, s1, s2, s3] = trailer;
        let crc = std::mem::take(&mut self.crc).finalize();
        if u32::from_le_bytes([c0, c1, c2, c3]) != crc {
            return Err(Error::new(
                Kind::Corrupt,
                "the checksum of a member does not match its data; the file is damaged, get it again",
            ));
        }
        if u32::from_le_bytes([s0, s1, s2, s3]) != self.size {
            return Err(Error::new(
                Kind::Corrupt,
                "the length of a member does not match its data; the file is damaged, get it again",
            ));
        }
        Ok(())
    }
}

impl Fill for Gzip {
    const NAME: &'static str = "gzip";
    const UNIT: &'static str = "gzip member";

    fn fill(&mut self, input: &mut Bytes, output: &mut BytesMut) -> Result<Filled> {
        loop {
            let state = self.state;
            self.state = match state {
                State::Between => match input.first() {
                    None => return Ok(Filled::Boundary),
                    Some(0) => State::Padding,
                    Some(&MAGIC0) => State::Magic,
                    Some(_) => return Err(trailing(Self::UNIT)),
                },
                State::Padding => {
                    skip_zeros(input);
                    if input.has_remaining() {
                        return Err(trailing(Self::UNIT));
                    }
                    return Ok(Filled::Boundary);
                }
                State::Magic => match self.field.take(input) {
                    None => return Ok(Filled::NeedInput),
                    Some([MAGIC0, MAGIC1]) => State::Fixed,
                    Some(_) => return Err(trailing(Self::UNIT)),
                },
                State::Fixed => {
                    let Some(fixed) = self.field.take::<8>(input) else { return Ok(Filled::NeedInput) };
                    let [method, flags, ..] = fixed;
                    if method != DEFLATE || flags & RESERVED != 0 {
                        return Err(Error::new(
                            Kind::Unsupported,
                            format!("method {method} with flags {flags:#04x} is not known; recompress it with gzip"),
                        ));
                    }
                    self.flags = flags;
                    self.crc = Hasher::new();
                    self.crc.update(&[MAGIC0, MAGIC1]);
                    self.crc.update(&fixed);
                    State::ExtraLen
                }
                State::ExtraLen if !self.has(FEXTRA) => State::Name,
                State::ExtraLen => match self.field.take(input) {
                    None => return Ok(Filled::NeedInput),
                    Some(len) => {
                        self.crc.update(&len);
                        State::Extra(u16::from_le_bytes(len))
                    }
                },
                State::Extra(0) => State::Name,
                State::Extra(left) => {
                    let part = input.split_to(input.len().min(left.into()));
                    self.crc.update(&part);
                    // The part is no longer than `left`.
                    let left = left.saturating_sub(u16::try_from(part.len()).unwrap_or(u16::MAX));
                    if left != 0 {
                        self.state = State::Extra(left);
                        return Ok(Filled::NeedInput);
                    }
                    State::Name
                }
                State::Name if !self.has(FNAME) || self.string(input) => State::Comment,
                State::Comment if !self.has(FCOMMENT) || self.string(input) => State::HeaderCrc,
                State::Name | State::Comment => return Ok(Filled::NeedInput),
                State::HeaderCrc => {
                    if self.has(FHCRC) {
                        let Some(want) = self.field.take::<2>(input) else { return Ok(Filled::NeedInput) };
                        let [b0, b1, ..] = self.crc.clone().finalize().to_le_bytes();
                        if want != [b0, b1] {
                            return Err(Error::new(
                                Kind::Corrupt,
                                "the checksum of a header is wrong; the file is damaged, get it again",
                            ));
                        }
                    }
                    self.inflate.reset(false);
                    self.crc = Hasher::new();
                    self.size = 0;
                    State::Body
                }
                State::Body => {
                    let from = output.len();
                    let done = spare::inflate(&mut self.inflate, input, output, CALL);
                    input.advance(done.used);
                    self.crc.update(output.get(from..).unwrap_or_default());
                    // CALL bounds it.
                    self.size = self.size.wrapping_add(u32::try_from(done.made).unwrap_or_default());
                    match done.status {
                        Ok(Status::StreamEnd) => State::Trailer,
                        Ok(_) if room(output) == 0 => return Ok(Filled::OutputFull),
                        Ok(_) if done.used == 0 && done.made == 0 => return Ok(Filled::NeedInput),
                        Ok(_) => State::Body,
                        Err(_) => {
                            return Err(Error::new(
                                Kind::Corrupt,
                                "the compressed data are damaged; the file can't be used, get it again",
                            ));
                        }
                    }
                }
                State::Trailer => {
                    let Some(trailer) = self.field.take(input) else { return Ok(Filled::NeedInput) };
                    self.check_trailer(trailer)?;
                    State::Between
                }
            }
        }
    }
}

const MAGIC0: u8 = 0x1f;
const MAGIC1: u8 = 0x8b;
pub(crate) const DEFLATE: u8 = 8;
const FHCRC: u8 = 0x02;
const FEXTRA: u8 = 0x04;
const FNAME: u8 = 0x08;
const FCOMMENT: u8 = 0x10;
pub(crate) const RESERVED: u8 = 0xe0;

/// Output of one call of zlib at most, in bytes, so that the checksum reads it while it is in the cache.
const CALL: usize = 256 << 10;

#[cfg(test)]
mod tests;
