//! Raw disks and ISO images: the bytes as they are.
//!
//! What lies at the end decides, too: a fixed VHD is a raw disk with a footer of 512 bytes, which is not the guest's, and
//! a DMG is known by its trailer only. [`Raw`] reads the last 512 bytes first, for a file that can be read at any offset;
//! [`RawStream`] holds them back, for one that passes once.
//!
//! A disk whose length is not a multiple of the sector is padded with zeros; nothing is ever cut. An ISO image is not cut
//! to the size its volume descriptor gives either: what mastering tools append (an EFI partition) lies behind it.

mod stream;
#[cfg(test)]
mod tests;

pub use stream::{RawEnd, RawStream};

use crate::probe::{self, RawSign, TAIL_LEN};
use crate::vhd::FixedVhd;
use crate::{
    Body, Error, Extent, Feature, Format, Found, Geometry, GuestOffset, HostOffset, Kind, MAX_VIRTUAL_SIZE, Page,
    Result, SECTOR,
};

/// A raw disk, an ISO image or a fixed VHD of known length, read at any offset.
#[derive(Debug)]
pub struct Raw {
    file_len: u64,
    sign: RawSign,
    cdrom: bool,
    end: Option<End>,
}

impl Raw {
    /// A raw disk of `file_len` bytes, whose start carries this sign.
    #[must_use]
    pub fn disk(file_len: u64, sign: RawSign) -> Self {
        Self { file_len, sign, cdrom: false, end: None }
    }

    /// An ISO image of `file_len` bytes.
    #[must_use]
    pub fn iso(file_len: u64) -> Self {
        Self { file_len, sign: RawSign::None, cdrom: true, end: None }
    }

    fn settle(&mut self, end: End, found: &mut Found) {
        let End { data_len, virtual_size, .. } = end;
        found.extent(Extent { guest: GuestOffset(0), len: data_len, body: Body::Data { at: HostOffset(0) } });
        found.extent(Extent { guest: GuestOffset(data_len), len: virtual_size - data_len, body: Body::Zero });
        found.skip(data_len, self.file_len);
        self.end = Some(end);
    }
}

impl Format for Raw {
    fn start(&mut self, found: &mut Found) -> Result<()> {
        let Some(at) = self.file_len.checked_sub(TAIL_LEN as u64) else {
            return Err(too_short(self.file_len).of(self.name()));
        };
        found
            .page(Page { at: HostOffset(at), len: TAIL, min: TAIL, tag: 0, index: 0 })
            .map_err(|error| error.of(self.name()))
    }

    fn expand(&mut self, _page: &Page, bytes: &[u8], found: &mut Found) -> Result<()> {
        let end = End::read(bytes, self.file_len).map_err(|error| error.of(self.name()))?;
        self.settle(end, found);
        Ok(())
    }

    fn geometry(&self) -> Option<Geometry> {
        self.end.as_ref().map(|end| Geometry { virtual_size: Some(end.virtual_size), cdrom: self.cdrom })
    }

    fn finish(&mut self, _file_len: Option<u64>, _found: &mut Found) -> Result<()> {
        Ok(())
    }

    fn plain(&self) -> bool {
        true
    }

    fn features(&self) -> Vec<Feature> {
        let mut features: Vec<_> = self.sign.name().map(|name| Feature::text("content", name)).into_iter().collect();
        if let Some(end) = &self.end {
            if end.virtual_size > end.data_len {
                features.push(Feature::number("padding", end.virtual_size - end.data_len));
            }
            features.extend(end.vhd.iter().flat_map(FixedVhd::features));
        }
        features
    }

    fn name(&self) -> &'static str {
        match &self.end {
            Some(End { vhd: Some(_), .. }) => "vhd",
            _ if self.cdrom => "iso",
            _ => "raw",
        }
    }
}

/// What the end of the file said.
#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    data_len: u64,
    virtual_size: u64,
    vhd: Option<FixedVhd>,
}

impl End {
    /// `tail` is the last 512 bytes of a file of `file_len`.
    fn read(tail: &[u8], file_len: u64) -> Result<Self> {
        let Some(tail) = tail.last_chunk::<TAIL_LEN>() else { return Err(too_short(file_len)) };
        if let Some(vhd) = probe::tail(tail, file_len)? {
            return Ok(Self { data_len: vhd.virtual_size, virtual_size: vhd.virtual_size, vhd: Some(vhd) });
        }
        match file_len.checked_next_multiple_of(SECTOR) {
            Some(virtual_size) if virtual_size <= MAX_VIRTUAL_SIZE => {
                Ok(Self { data_len: file_len, virtual_size, vhd: None })
            }
            _ => Err(Error::new(Kind::Oversized, format!("a disk of {file_len} bytes is impossible"))),
        }
    }
}

fn too_short(len: u64) -> Error {
    Error::new(Kind::NotADisk, format!("not a disk image: the file has {len} bytes, less than a sector of {SECTOR}"))
}

const TAIL: u32 = 512;
const _: () = assert!(TAIL as usize == TAIL_LEN);
