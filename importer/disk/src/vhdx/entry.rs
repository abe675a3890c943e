//! One entry of the log, and the ring of sectors it lies in. (MS-VHDX 2.3.1)

use bytes::Bytes;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::overlay::Overlay;
use crate::crc32c::Crc32c;
use crate::guid::Guid;
use crate::{Error, Kind, Result};

/// A sector of the log, in bytes. Everything in it is aligned to that.
pub(super) const LOG_SECTOR: usize = 4096;

/// The log as a ring of sectors, in the parts in which it was read.
#[derive(Debug)]
pub(super) struct Ring {
    parts: Vec<Vec<u8>>,
    part_sectors: usize,
    sectors: usize,
}

impl Ring {
    /// A ring of the parts in order, each of which has `part_len` bytes (a multiple of the sector) but for the last.
    pub(super) fn new(parts: Vec<Vec<u8>>, part_len: usize) -> Self {
        let sectors = parts.iter().map(Vec::len).sum::<usize>() / LOG_SECTOR;
        Self { parts, part_sectors: (part_len / LOG_SECTOR).max(1), sectors }
    }

    /// Its length in sectors.
    pub(super) fn sectors(&self) -> usize {
        self.sectors
    }

    /// The sector with this number; behind the last follows the first.
    fn sector(&self, number: usize) -> Option<&[u8; LOG_SECTOR]> {
        let number = number.checked_rem(self.sectors)?;
        let (part, within) = (number / self.part_sectors, number % self.part_sectors);
        self.parts.get(part)?.as_chunks().0.get(within)
    }

    /// Whether an entry could start at this sector.
    fn starts(&self, number: usize) -> Option<&Top> {
        let (top, _) = Top::ref_from_prefix(self.sector(number)?).ok()?;
        (top.signature == *b"loge").then_some(top)
    }
}

/// An entry whose header, descriptors, data sectors and checksum are all right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its first sector in the ring.
    pub(super) start: usize,
    /// How many it has.
    pub(super) sectors: usize,
    pub(super) sequence: u64,
    /// The first sector of the oldest entry that must be replayed with it.
    pub(super) tail: usize,
    descriptors: usize,
    /// How long the file was for certain when this was written.
    pub(super) flushed_file_len: u64,
    /// How long the file must be to hold everything.
    pub(super) last_file_len: u64,
}

impl Entry {
    /// The entry that starts at this sector of the ring, if there is a valid one with this identifier. `hashed` counts the
    /// sectors a checksum was computed of.
    pub(super) fn read(ring: &Ring, start: usize, guid: Guid, hashed: &mut usize) -> Option<Self> {
        let top = ring.starts(start)?;
        let (len, tail) = (top.len.get() as usize, top.tail.get() as usize);
        let sectors = len / LOG_SECTOR;
        let aligned = len % LOG_SECTOR == 0 && tail % LOG_SECTOR == 0;
        let within = sectors <= ring.sectors() && tail / LOG_SECTOR < ring.sectors();
        if Guid(top.guid) != guid || !aligned || !within || top.sequence == 0 {
            return None;
        }
        let entry = Self {
            start,
            sectors,
            sequence: top.sequence.get(),
            tail: tail / LOG_SECTOR,
            descriptors: top.descriptors.get() as usize,
            flushed_file_len: top.flushed_file_len.get(),
            last_file_len: top.last_file_len.get(),
        };
        // The structure comes first, because it is cheap: the sectors of a well-formed entry can't start another, so
        // that checksums are computed over each sector of the ring about once, whatever is in it.
        (entry.is_well_formed(ring) && entry.checksum(ring, hashed)? == top.checksum.get()).then_some(entry)
    }

    /// How many sectors its header and descriptors take.
    fn descriptor_sectors(&self) -> usize {
        (size_of::<Top>() + self.descriptors * size_of::<Descriptor>()).div_ceil(LOG_SECTOR)
    }

    fn is_well_formed(&self, ring: &Ring) -> bool {
        if self.descriptors > self.sectors * (LOG_SECTOR / size_of::<Descriptor>()) {
            return false;
        }
        let mut next = self.descriptor_sectors();
        for number in 0..self.descriptors {
            let Some(descriptor) = self.descriptor(ring, number) else { return false };
            let aligned = descriptor.at.get() % LOG_SECTOR as u64 == 0;
            if descriptor.sequence != self.sequence || !aligned {
                return false;
            }
            match &descriptor.signature {
                b"zero" if descriptor.body.get() % LOG_SECTOR as u64 == 0 => {}
                b"desc" if self.data(ring, next).is_some() => next += 1,
                _ => return false,
            }
        }
        next.max(1) <= self.sectors
    }

    fn checksum(&self, ring: &Ring, hashed: &mut usize) -> Option<u32> {
        *hashed = hashed.checked_add(self.sectors)?;
        let mut crc = Crc32c::new();
        for number in 0..self.sectors {
            let sector = ring.sector(self.start + number)?;
            if number == 0 {
                let (before, rest) = sector.split_at_checked(4)?;
                crc.update(before);
                crc.update(&[0; 4]);
                crc.update(rest.get(4..)?);
            } else {
                crc.update(sector);
            }
        }
        Some(crc.value())
    }

    fn descriptor<'a>(&self, ring: &'a Ring, number: usize) -> Option<&'a Descriptor> {
        // They are as long as half the header and divide the sector, so none lies across two.
        let at = size_of::<Top>() + number * size_of::<Descriptor>();
        let sector = ring.sector(self.start + at / LOG_SECTOR)?;
        Some(Descriptor::ref_from_prefix(sector.get(at % LOG_SECTOR..)?).ok()?.0)
    }

    /// The data sector at this place of the entry, when it is one of this entry.
    fn data<'a>(&self, ring: &'a Ring, number: usize) -> Option<&'a Data> {
        if number >= self.sectors {
            return None;
        }
        let data = Data::ref_from_bytes(ring.sector(self.start + number)?).ok()?;
        let sequence = u64::from(data.sequence_high.get()) << 32 | u64::from(data.sequence_low.get());
        (data.signature == *b"data" && sequence == self.sequence).then_some(data)
    }

    /// Carries it out.
    pub(super) fn replay(&self, ring: &Ring, overlay: &mut Overlay) -> Result<()> {
        let lost = || Error::new(Kind::Ours, "an entry of the log was valid and is no more");
        let mut next = self.descriptor_sectors();
        for number in 0..self.descriptors {
            let descriptor = self.descriptor(ring, number).ok_or_else(lost)?;
            let at = descriptor.at.get();
            if descriptor.signature == *b"zero" {
                overlay.zero(at, descriptor.body.get())?;
                continue;
            }
            let data = self.data(ring, next).ok_or_else(lost)?;
            next += 1;
            let mut bytes = Vec::with_capacity(LOG_SECTOR);
            bytes.extend_from_slice(&descriptor.body.get().to_le_bytes());
            bytes.extend_from_slice(&data.bytes);
            bytes.extend_from_slice(&descriptor.trailing);
            overlay.write(at, Bytes::from(bytes))?;
        }
        Ok(())
    }
}

/// The header of an entry as it is in the file.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Top {
    signature: [u8; 4],
    checksum: U32,
    len: U32,
    tail: U32,
    sequence: U64,
    descriptors: U32,
    reserved: U32,
    guid: [u8; 16],
    flushed_file_len: U64,
    last_file_len: U64,
}

/// A descriptor as it is in the file.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Descriptor {
    signature: [u8; 4],
    /// The last four bytes of the sector to write.
    trailing: [u8; 4],
    /// The first eight bytes of the sector to write, or how many bytes to zero.
    body: U64,
    at: U64,
    sequence: U64,
}

/// A data sector as it is in the file.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Data {
    signature: [u8; 4],
    sequence_high: U32,
    bytes: [u8; 4084],
    sequence_low: U32,
}

const _: () = assert!(size_of::<Top>() == 64 && size_of::<Descriptor>() == 32 && size_of::<Data>() == LOG_SECTOR);
