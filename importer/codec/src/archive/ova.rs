//! The disk of an OVA, by its descriptor.

use super::{Chosen, base, normal};
use crate::ovf::{self, Disk};
use crate::printable::printable;
use crate::tar::{Entry, EntryKind};
use crate::{Error, Kind, Result};

/// The choice by a descriptor.
pub(super) struct Ova {
    disk: Disk,
    /// The member's possible paths: beside the descriptor, as it is written and with `%20` and the like decoded.
    paths: Vec<Vec<u8>>,
    seen: Seen,
}

/// What was seen of the disk.
enum Seen {
    Nothing,
    /// The member itself.
    Whole,
    /// Chunks `NAME.000000000`, `NAME.000000001`, …: the next number, the bytes so far, and the size of the last.
    Chunks {
        next: u32,
        bytes: u64,
        last: u64,
    },
}

impl Ova {
    /// Reads a descriptor, found under `path`, and chooses the disk.
    pub(super) fn new(path: &[u8], xml: &[u8], want: Option<&str>) -> Result<Self> {
        let disks = ovf::disks(xml).map_err(|error| error.of("ovf"))?;
        let disk = choose(disks, want).and_then(|disk| disk.check().map(|()| disk)).map_err(|error| error.of("ovf"))?;
        let path = normal(path);
        let folder = path.strip_suffix(base(path)).unwrap_or_default();
        let written = disk.href.as_bytes();
        let mut paths: Vec<Vec<u8>> = Vec::new();
        for href in [written, &percent_decoded(written)] {
            paths.push([folder, normal(href)].concat());
        }
        paths.dedup();
        Ok(Self { disk, paths, seen: Seen::Nothing })
    }

    /// Decides on an entry; gives it when it is the disk or a chunk of it.
    pub(super) fn entry(&mut self, entry: &Entry) -> Result<Option<Chosen>> {
        let path = normal(&entry.path);
        let Some(suffix) = self.paths.iter().find_map(|name| path.strip_prefix(name.as_slice())) else {
            return Ok(None);
        };
        let chunk = match suffix {
            [] => None,
            [b'.', number @ ..] if number.len() == CHUNK_DIGITS => match chunk_number(number) {
                Some(number) => Some(number),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        if entry.kind != EntryKind::Regular {
            return Err(Error::new(
                Kind::Unsupported,
                format!("the disk {} is a link or a device, not a file; repack the archive", entry.name()),
            ));
        }
        let twice =
            || Error::new(Kind::Ambiguous, format!("the disk {} is there twice; repack the archive", entry.name()));
        let (size, seen) = match (chunk, &self.seen) {
            (None, Seen::Nothing) => (Some(entry.size), Seen::Whole),
            (Some(0), Seen::Nothing) => (self.disk.size, Seen::Chunks { next: 1, bytes: entry.size, last: entry.size }),
            (Some(number), &Seen::Chunks { next, bytes, last }) if number == next => {
                if self.disk.chunk.is_some_and(|chunk| chunk != last) {
                    return Err(Error::new(
                        Kind::Corrupt,
                        format!("the part before {} has {last} bytes, not a whole chunk", entry.name()),
                    ));
                }
                let bytes = bytes
                    .checked_add(entry.size)
                    .ok_or_else(|| Error::new(Kind::Corrupt, "the parts of the disk are larger than any disk"))?;
                (self.disk.size, Seen::Chunks { next: next.saturating_add(1), bytes, last: entry.size })
            }
            (Some(number), &Seen::Chunks { next, .. }) if number > next => return Err(out_of_order(entry)),
            (Some(_), Seen::Nothing) => return Err(out_of_order(entry)),
            _ => return Err(twice()),
        };
        self.seen = seen;
        Ok(Some(Chosen { name: printable(self.disk.href.as_bytes()), size, ova: true }))
    }

    /// Whether the archive had the disk, and all of it.
    pub(super) fn end(&self) -> Result<()> {
        let name = printable(self.disk.href.as_bytes());
        match (&self.seen, self.disk.size) {
            (Seen::Nothing, _) => Err(Error::new(
                Kind::NotFound,
                format!("the descriptor names the disk {name}, and the archive lacks it"),
            )),
            (&Seen::Chunks { next, bytes, .. }, Some(size)) if bytes != size => Err(Error::new(
                Kind::Truncated,
                format!(
                    "the {next} parts of {name} have {bytes} bytes, and the descriptor says {size}; parts are missing"
                ),
            )),
            _ => Ok(()),
        }
    }
}

fn out_of_order(entry: &Entry) -> Error {
    Error::new(
        Kind::Unsupported,
        format!("{} comes before the parts in front of it; repack the archive in order", entry.name()),
    )
}

/// The one disk, or the one that is wanted.
fn choose(mut disks: Vec<Disk>, want: Option<&str>) -> Result<Disk> {
    let list = |disks: &[Disk]| {
        let mut list = disks.iter().take(LISTED).map(Disk::describe).collect::<Vec<_>>().join(", ");
        if disks.len() > LISTED {
            list.push_str(", …");
        }
        list
    };
    if disks.is_empty() {
        return Err(Error::new(Kind::NotFound, "the descriptor names no disk with data"));
    }
    if let Some(want) = want {
        let name = want.as_bytes();
        let all = list(&disks);
        disks.retain(|disk| {
            disk.id == want || normal(disk.href.as_bytes()) == normal(name) || base(disk.href.as_bytes()) == name
        });
        if disks.is_empty() {
            return Err(Error::new(Kind::NotFound, format!("the descriptor names no disk {want:?}; it names {all}")));
        }
    }
    match disks.len() {
        1 => disks.pop().ok_or_else(|| Error::new(Kind::Ours, "one disk is none")),
        count => Err(Error::new(
            Kind::Ambiguous,
            format!("there are {count} disks: {}; choose one with --disk NAME", list(&disks)),
        )),
    }
}

fn chunk_number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0u32, |value, digit| {
        digit.is_ascii_digit().then(|| value.checked_mul(10)?.checked_add(u32::from(digit - b'0')))?
    })
}

/// A reference with `%XX` decoded. What is no such thing stays as it is.
fn percent_decoded(href: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(href.len());
    let mut rest = href;
    while let Some((&first, behind)) = rest.split_first() {
        let hex = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        if first == b'%'
            && let [high, low, behind @ ..] = behind
            && let (Some(high), Some(low)) = (hex(*high), hex(*low))
        {
            decoded.push(high << 4 | low);
            rest = behind;
            continue;
        }
        decoded.push(first);
        rest = behind;
    }
    decoded
}

/// Digits of a chunk's number (DSP0243 7.1).
const CHUNK_DIGITS: usize = 9;

/// How many disks a message lists.
const LISTED: usize = 16;
