//! A header block.

use super::sparse::Map;
use super::{BLOCK, EntryKind, Extension};
use crate::{Error, Kind, Result};

/// What a header block says.
pub(super) struct Header {
    pub(super) path: Vec<u8>,
    pub(super) link: Vec<u8>,
    pub(super) kind: EntryKind,
    /// Length of the data in the archive, in bytes.
    pub(super) size: u64,
    pub(super) mode: u32,
    /// The map of an old GNU sparse file, and whether more blocks of it follow.
    pub(super) sparse: Option<(Map, bool)>,
    flag: u8,
}

impl Header {
    pub(super) fn parse(block: &[u8; BLOCK]) -> Result<Self> {
        if !checksum_matches(block) {
            return Err(Error::new(
                Kind::Corrupt,
                "the checksum of a header is wrong; the archive is damaged, get it again",
            ));
        }
        let flag = flag(block);
        let size = number(field(block, SIZE))
            .ok_or_else(|| Error::new(Kind::Corrupt, "the size of an entry is no number; the archive is damaged"))?;
        let mode = number(field(block, MODE)).and_then(|mode| u32::try_from(mode).ok()).unwrap_or_default();
        let kind = match flag {
            0 | b'0' | b'7' | b'S' => EntryKind::Regular,
            b'1' => EntryKind::Hardlink,
            b'2' => EntryKind::Symlink,
            b'3' => EntryKind::CharDevice,
            b'4' => EntryKind::BlockDevice,
            b'5' => EntryKind::Directory,
            b'6' => EntryKind::Fifo,
            b'M' => {
                return Err(Error::new(
                    Kind::Unsupported,
                    "it is one volume of a multi-volume archive; join the volumes with GNU tar and give the disk image",
                ));
            }
            other => EntryKind::Other(other),
        };
        let mut path = text(field(block, NAME)).to_vec();
        if field(block, MAGIC) == USTAR {
            // star has times behind a shorter prefix.
            let prefix = if field(block, STAR) == b"tar\0" { STAR_PREFIX } else { PREFIX };
            let prefix = text(field(block, prefix));
            if !prefix.is_empty() {
                path = [prefix, b"/", &path].concat();
            }
        }
        let sparse = if flag == b'S' {
            if field(block, MAGIC) == USTAR {
                return Err(Error::new(
                    Kind::Unsupported,
                    "it has a sparse file in star's own format; repack it with GNU tar",
                ));
            }
            let real = number(field(block, REAL_SIZE))
                .ok_or_else(|| Error::new(Kind::Corrupt, "the size of a sparse file is no number"))?;
            let mut map = Map::new(real);
            map.entries(field(block, SPARSE))?;
            Some((map, field(block, SPARSE_MORE) != [0]))
        } else {
            None
        };
        Ok(Self { path, link: text(field(block, LINK)).to_vec(), kind, size, mode, sparse, flag })
    }

    /// What kind of extension header it is, if it is one, and how long it may be.
    pub(super) fn extension(&self) -> Option<(Extension, usize)> {
        match self.flag {
            // X: Solaris' older name for it.
            b'x' | b'X' => Some((Extension::Pax, PAX_MAX)),
            b'g' => Some((Extension::Global, PAX_MAX)),
            b'L' => Some((Extension::LongName, LONG_MAX)),
            b'K' => Some((Extension::LongLink, LONG_MAX)),
            _ => None,
        }
    }
}

/// Whether this is the header of an archive's first entry.
pub(super) fn is_header(block: &[u8; BLOCK]) -> bool {
    if !checksum_matches(block) {
        return false;
    }
    let magic = field(block, MAGIC);
    if magic == USTAR || magic == GNU {
        return true;
    }
    // A v7 header has no magic number: its numbers must be numbers, and its name a name.
    let numbers = [MODE, UID, GID, SIZE, MTIME].into_iter().all(|place| number(field(block, place)).is_some());
    let name = text(field(block, NAME));
    numbers && !name.is_empty() && matches!(flag(block), 0 | b'0'..=b'7')
}

/// The sum of all bytes, with blanks for the checksum. Some old writers summed signed bytes.
fn checksum_matches(block: &[u8; BLOCK]) -> bool {
    let Some(want) = number(field(block, CHECKSUM)).and_then(|want| i64::try_from(want).ok()) else { return false };
    let (mut unsigned, mut signed) = (0i64, 0i64);
    for (at, &byte) in block.iter().enumerate() {
        let byte = if (CHECKSUM.0..CHECKSUM.0 + CHECKSUM.1).contains(&at) { b' ' } else { byte };
        unsigned += i64::from(byte);
        signed += i64::from(byte.cast_signed());
    }
    want == unsigned || want == signed
}

/// A number: octal digits, or base 256 when the first bit is set. `None` when it is neither, or negative, or beyond
/// 2^64.
pub(super) fn number(field: &[u8]) -> Option<u64> {
    if let Some((first, rest)) = field.split_first()
        && first & 0x80 != 0
    {
        return rest.iter().try_fold(u64::from(first & 0x7f), |value, &byte| {
            value.checked_mul(256).and_then(|value| value.checked_add(u64::from(byte)))
        });
    }
    let field = field.trim_ascii_start();
    let digits = field.iter().position(|byte| !matches!(byte, b'0'..=b'7')).unwrap_or(field.len());
    let (digits, rest) = field.split_at_checked(digits)?;
    if !matches!(rest.first(), None | Some(0 | b' ')) {
        return None;
    }
    digits.iter().try_fold(0u64, |value, &digit| {
        value.checked_mul(8).and_then(|value| value.checked_add(u64::from(digit - b'0')))
    })
}

/// The bytes before the first zero.
fn text(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn flag(block: &[u8; BLOCK]) -> u8 {
    field(block, FLAG).first().copied().unwrap_or_default()
}

fn field(block: &[u8; BLOCK], (at, len): (usize, usize)) -> &[u8] {
    block.get(at..at + len).unwrap_or_default()
}

const NAME: (usize, usize) = (0, 100);
const MODE: (usize, usize) = (100, 8);
const UID: (usize, usize) = (108, 8);
const GID: (usize, usize) = (116, 8);
const SIZE: (usize, usize) = (124, 12);
const MTIME: (usize, usize) = (136, 12);
const CHECKSUM: (usize, usize) = (148, 8);
const FLAG: (usize, usize) = (156, 1);
const LINK: (usize, usize) = (157, 100);
const MAGIC: (usize, usize) = (257, 8);
const PREFIX: (usize, usize) = (345, 155);
const STAR_PREFIX: (usize, usize) = (345, 131);
const STAR: (usize, usize) = (508, 4);
/// Old GNU: four runs, whether more follow, the real size.
const SPARSE: (usize, usize) = (386, 4 * 24);
const SPARSE_MORE: (usize, usize) = (482, 1);
const REAL_SIZE: (usize, usize) = (483, 12);

const USTAR: &[u8] = b"ustar\x0000";
const GNU: &[u8] = b"ustar  \0";

/// The longest PAX header accepted, in bytes.
const PAX_MAX: usize = 1 << 20;
/// The longest GNU long name accepted, in bytes.
const LONG_MAX: usize = 64 << 10;
