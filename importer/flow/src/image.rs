//! What an image is, told to people.

use importer_disk::parallels::Parallels;
use importer_disk::probe::{self, Verdict};
use importer_disk::qcow2::Qcow2;
use importer_disk::qed::Qed;
use importer_disk::raw::Raw;
use importer_disk::vdi::Vdi;
use importer_disk::vhd::Vhd;
use importer_disk::vhdx::Vhdx;
use importer_disk::vmdk::Vmdk;
use importer_disk::{Feature, Format};

use crate::Result;

/// What an image is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// The wrappers around it, outermost first: `gzip`, `tar`, …
    pub wrappers: Vec<&'static str>,
    /// The format, as qemu-img names it.
    pub format: &'static str,
    /// Size of the disk as the guest sees it, in bytes; `None` as long as a raw stream has not ended.
    pub virtual_size: Option<u64>,
    /// Guest bytes that are not known to be zero; `None` where that takes reading everything.
    pub allocated: Option<u64>,
    /// Whether it is a CD-ROM image.
    pub cdrom: bool,
    /// What else there is to say about it.
    pub features: Vec<Feature>,
}

/// The feature that names what an image may be instead of its format, where only its end would tell.
pub const MAYBE: &str = "maybe";

/// How the bytes come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// At any offset.
    Ranged,
    /// Once, in order.
    Streamed,
    /// The same, for a target that takes the disk in order.
    InOrder,
}

/// What is to be done with a file that begins so.
pub(crate) enum Reader {
    /// Its format has tables.
    Format(Box<dyn Format>),
    /// It is raw, of unknown length or read once.
    Raw {
        /// Whether it is a CD-ROM image.
        cdrom: bool,
    },
}

/// The reader for a file that begins with `head`.
pub(crate) fn reader(head: &[u8], file_len: Option<u64>, access: Access) -> Result<Reader> {
    let verdict = probe::probe(head)?;
    if let (Verdict::Raw(_), Some(len)) = (verdict, file_len) {
        probe::whole(head, len)?;
    }
    let format: Box<dyn Format> = match (verdict, access, file_len) {
        (Verdict::Qcow2, Access::Ranged, _) => Box::new(Qcow2::open(head, file_len)?),
        (Verdict::Qcow2, ..) => Box::new(Qcow2::open(head, file_len)?.with_references()),
        // Also the kinds that it refuses by name.
        (Verdict::VmdkSparse | Verdict::VmdkDescriptor | Verdict::VmdkCowd | Verdict::VmdkSeSparse, access, _) => {
            let vmdk = Vmdk::open(head, file_len)?;
            Box::new(if access == Access::InOrder { vmdk.in_order() } else { vmdk })
        }
        (Verdict::Vdi, ..) => Box::new(Vdi::open(head, file_len)?),
        (Verdict::VhdDynamic, ..) => Box::new(Vhd::open_dynamic(head, file_len)?),
        (Verdict::Vhdx, ..) => Box::new(Vhdx::open(head, file_len)?),
        (Verdict::Qed, ..) => Box::new(Qed::open(head, file_len)?),
        (Verdict::Parallels, ..) => Box::new(Parallels::open(head, file_len)?),
        (Verdict::Iso, Access::Ranged, Some(len)) => Box::new(Raw::iso(len)),
        (Verdict::Raw(sign), Access::Ranged, Some(len)) => Box::new(Raw::disk(len, sign)),
        (Verdict::Iso, ..) => return Ok(Reader::Raw { cdrom: true }),
        (Verdict::Raw(_), ..) => return Ok(Reader::Raw { cdrom: false }),
    };
    Ok(Reader::Format(format))
}
