//! The fixed VHD: a raw disk with a footer behind it.

use super::footer::{DiskType, Footer};
use crate::{Error, Feature, Kind, Result, SECTOR};

/// What the footer at the end of a fixed VHD says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedVhd {
    /// Size of the disk in bytes: so much of the file, from its start, is the disk.
    pub virtual_size: u64,
    /// The program that made it, to be shown.
    pub creator: String,
    /// The virtual machine was suspended: its disk lacks what its memory, saved elsewhere, had not written yet.
    pub saved_state: bool,
}

impl FixedVhd {
    /// What a person should know about this image.
    #[must_use]
    pub fn features(&self) -> Vec<Feature> {
        vec![
            Feature::text("subformat", "fixed"),
            Feature::text("creator", self.creator.clone()),
            Feature::flag("savedState", self.saved_state),
        ]
    }
}

/// Looks for the footer of a fixed VHD in the last 512 bytes of a file of `file_len` bytes. `None` when there is none,
/// so that the file is what its start says. To be asked for a file that does not start as any other format does: a
/// dynamic VHD ends in a footer too.
///
/// qemu-img takes a fixed VHD for a raw disk, so that the footer becomes the last sector of the guest; with `-f vpc` it
/// cuts the disk at its geometry when `vpc ` or `qemu` made it. Neither is done here. The disk is the footer's *current
/// size*, as the specification has it, as Hyper-V and Azure do, and as `-f vpc` does for all other creators: every byte
/// of it is in the file, so the geometry (which Virtual PC rounds down) could only lose some. If the file holds more in
/// front of the footer than that, the rest is not part of the disk; if it holds less, it is truncated.
///
/// Footers of 511 bytes, from before Virtual PC 2004, are known too.
///
/// # Errors
/// Only when the file ends in the eight bytes `conectix` of a footer. The footer of a dynamic or differencing disk, or
/// one whose checksum is wrong, is Corrupt: such a file is a VHD with a damaged start or end, and taking it for raw
/// would give the guest a footer, or a block table, as its data.
pub fn fixed_footer(tail: &[u8; 512], file_len: u64) -> Result<Option<FixedVhd>> {
    let mut bytes = *tail;
    let mut len = Footer::LEN as u64;
    if tail.get(1..9) == Some(Footer::COOKIE.as_slice()) {
        bytes.rotate_left(1);
        let [.., last] = &mut bytes;
        *last = 0;
        len -= 1;
    } else if tail.get(..8) != Some(Footer::COOKIE.as_slice()) {
        return Ok(None);
    }
    let Some(disk_len) = file_len.checked_sub(len) else {
        return Err(Error::new(Kind::Ours, "a tail longer than its file").of("vhd"));
    };
    match read(&bytes, disk_len) {
        Ok(fixed) => Ok(Some(fixed)),
        Err(error) => Err(error.of("vhd").at(disk_len)),
    }
}

fn read(bytes: &[u8; 512], disk_len: u64) -> Result<FixedVhd> {
    let footer = Footer::read(bytes)?;
    if footer.disk_type != DiskType::Fixed {
        let message = "the file ends as a dynamic or differencing VHD does, but does not start as one: its start is \
                       missing or damaged";
        return Err(Error::new(Kind::Corrupt, message));
    }
    let virtual_size = footer.current_size;
    if virtual_size == 0 || virtual_size % SECTOR != 0 {
        let message = format!("the footer gives a disk of {virtual_size} bytes, which is no number of sectors");
        return Err(Error::new(Kind::Corrupt, message));
    }
    if virtual_size > disk_len {
        let message = format!("the footer gives a disk of {virtual_size} bytes, but the file holds {disk_len}");
        return Err(Error::new(Kind::Truncated, message));
    }
    Ok(FixedVhd { virtual_size, creator: footer.creator(), saved_state: footer.saved_state })
}
