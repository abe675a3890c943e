//! What an image is wrapped in, by content alone.

use std::fmt;

use crate::bzip2::Bzip2;
use crate::decode::{Buffered, Decode, Decoder, Limits};
use crate::gzip::Gzip;
use crate::lz4::Lz4;
use crate::tar;
use crate::xz::Xz;
use crate::zlib::Zlib;
use crate::zstd::Zstd;
use crate::{Bin, Error, Kind, Result, gzip, lz4, xz, zstd};

/// What an image can be wrapped in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wrapper {
    /// gzip, RFC 1952; bgzip too.
    Gzip,
    /// xz.
    Xz,
    /// Zstandard, RFC 8878.
    Zstd,
    /// bzip2.
    Bzip2,
    /// The lz4 frame format.
    Lz4,
    /// zlib, RFC 1950, or deflate without it. Only as a content encoding of HTTP: no file is told to be it.
    Zlib,
    /// A tar archive; an OVA too. It is read by [`archive::Member`](crate::archive::Member).
    Tar,
}

impl Wrapper {
    /// The decoder for it, whose pieces fill the buffers of `bin` as far as it can choose; `None` for [`Wrapper::Tar`], whose events are more than bytes.
    pub fn decoder(self, limits: Limits, bin: &Bin) -> Result<Option<Box<dyn Decode>>> {
        Ok(Some(match self {
            Self::Gzip => Box::new(Decoder::new(Buffered::new(Gzip::new(), bin))),
            Self::Xz => Box::new(Decoder::new(Buffered::new(Xz::new(limits), bin))),
            Self::Zstd if limits.threads > 1 => Box::new(zstd::Parallel::new(limits, bin)?),
            Self::Zstd => Box::new(Decoder::new(Zstd::new(limits, bin)?)),
            Self::Bzip2 => Box::new(Decoder::new(Buffered::new(Bzip2::new(), bin))),
            Self::Lz4 => Box::new(Decoder::new(Buffered::new(Lz4::new(), bin))),
            Self::Zlib => Box::new(Decoder::new(Buffered::new(Zlib::new(), bin))),
            Self::Tar => return Ok(None),
        }))
    }

    /// Its name, as a report spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
            Self::Lz4 => "lz4",
            Self::Zlib => "zlib",
            Self::Tar => "tar",
        }
    }
}

impl fmt::Display for Wrapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How many bytes [`detect`] wants to see. Fewer will do when the file has no more.
pub const HEAD: usize = 512;

/// Says what a file is wrapped in, by its first [`HEAD`] bytes or more; `None` when in nothing we know.
///
/// Archives and compressors that are known but not read are an error that says what to do. Where the magic number is
/// short, what follows it is checked as well, because these bytes may be the start of a raw disk.
pub fn detect(head: &[u8]) -> Result<Option<Wrapper>> {
    if let Some(error) = refused(head) {
        return Err(error);
    }
    Ok(known(head))
}

fn known(head: &[u8]) -> Option<Wrapper> {
    match head {
        [0x1f, 0x8b, gzip::DEFLATE, flags, ..] if flags & gzip::RESERVED == 0 => Some(Wrapper::Gzip),
        [b'B', b'Z', b'h', b'1'..=b'9', rest @ ..]
            if rest.starts_with(&BZIP2_BLOCK) || rest.starts_with(&BZIP2_END) =>
        {
            Some(Wrapper::Bzip2)
        }
        _ if head.starts_with(&xz::MAGIC) => Some(Wrapper::Xz),
        _ => framed(head).or_else(|| tar::is_header(head).then_some(Wrapper::Tar)),
    }
}

/// zstd or lz4, whose files may both begin with skippable frames of the same kind.
fn framed(head: &[u8]) -> Option<Wrapper> {
    let mut rest = head;
    let mut skipped = false;
    loop {
        let Some((magic, behind)) = rest.split_first_chunk::<4>() else {
            // Skippable frames to the end of what we see. Of the two formats only zstd's tools begin with them.
            return skipped.then_some(Wrapper::Zstd);
        };
        match *magic {
            zstd::MAGIC => return Some(Wrapper::Zstd),
            lz4::MAGIC => return Some(Wrapper::Lz4),
            magic if zstd::is_skippable(magic) => {
                let (len, behind) = behind.split_first_chunk::<4>()?;
                let len = usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX);
                rest = behind.get(len..).unwrap_or_default();
                skipped = true;
            }
            _ => return None,
        }
    }
}

/// The refusal of what is known but not read.
fn refused(head: &[u8]) -> Option<Error> {
    let (what, why) = match head {
        [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] | [b'P', b'K', 7, 8, ..] => {
            ("a zip archive", "its contents can't be trusted in one pass; unzip it and give the disk image in it")
        }
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => {
            ("a 7z archive", "its directory is at its end; extract it (7z x) and give the disk image in it")
        }
        [b'R', b'a', b'r', b'!', 0x1a, 0x07, 0x00 | 0x01, ..] => {
            ("a rar archive", "extract it (unrar x) and give the disk image in it")
        }
        [0x1f, 0x9d, flags, ..] if flags & 0x60 == 0 && matches!(flags & 0x1f, 9..=16) => {
            ("compressed with compress (.Z)", "it has no checksum; recompress it with gzip, xz or zstd")
        }
        _ if is_lzma_alone(head) => {
            ("an lzma file of the old kind (lzma_alone)", "it has no checksum; recompress it with xz or zstd")
        }
        _ if head.starts_with(&lz4::LEGACY) => return Some(lz4::legacy()),
        _ => return None,
    };
    Some(Error::new(Kind::Unsupported, format!("this is {what}: {why}")))
}

/// Whether these are the 13 bytes of an .lzma header and the first of its data. There is no magic number, so the
/// header must be one that an encoder writes: default properties, a dictionary of 2^n or 2^n + 2^(n-1) bytes, a
/// length under 256 GiB or none, and the zero that every range coder begins with.
fn is_lzma_alone(head: &[u8]) -> bool {
    let &[0x5d, d0, d1, d2, d3, s0, s1, s2, s3, s4, s5, s6, s7, 0, ..] = head else { return false };
    let dictionary = u32::from_le_bytes([d0, d1, d2, d3]);
    let size = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
    let top = dictionary.checked_ilog2().map_or(0, |log| 1u32 << log);
    let usual = dictionary >= 4096 && (dictionary == top || dictionary == top | top >> 1 || dictionary == u32::MAX);
    usual && (size == u64::MAX || size < 1 << 38)
}

/// The magic number of a block, and of the end of a stream: the digits of pi, and of its root.
const BZIP2_BLOCK: [u8; 6] = [0x31, 0x41, 0x59, 0x26, 0x53, 0x59];
const BZIP2_END: [u8; 6] = [0x17, 0x72, 0x45, 0x38, 0x50, 0x90];

#[cfg(test)]
mod tests;
