//! VMDK, the format of VMware: monolithicSparse and streamOptimized, the two kinds that are one file.
//!
//! Everything else is refused by name: a descriptor without its data, a part of a split disk, a snapshot, a device.
//!
//! Facts and choices, beyond the specification ("Virtual Disk Format 5.0"):
//! - the size of the disk is the capacity in the header, as for qemu. VirtualBox rounds it up to a whole grain, so the
//!   extent line of the descriptor may name up to a grain less; any other difference is refused;
//! - of the two grain directories only the first is read, whatever flag 2 says, as qemu does;
//! - a file without an embedded descriptor is taken for a part of a split disk: all programs that write a whole disk
//!   embed one, and parts written by VMware (no place for it) and qemu (an empty place) have none.

mod census;
mod delta;
mod descriptor;
mod directory;
mod grains;
mod header;
mod marker;
mod roles;
mod sparse;
mod stream;
mod tables;

use crate::{Error, Feature, Format, Found, Geometry, HostOffset, Kind, Page, Result, SECTOR};

use descriptor::Descriptor;
use header::{Header, Layout};
use sparse::Sparse;
use stream::Stream;

pub use descriptor::refuse;

/// A VMDK image that is one file.
#[derive(Debug)]
pub struct Vmdk {
    header: Header,
    /// Known from the start when it is in the head.
    descriptor: Option<Descriptor>,
    walk: Walk,
}

#[derive(Debug)]
enum Walk {
    Sparse(Box<Sparse>),
    Stream(Box<Stream>),
}

impl Vmdk {
    /// Reads the first bytes of a file, at least 512 unless it is shorter; with some KiB more the embedded descriptor
    /// is judged at once. `file_len` is the length of the file where it is known: what reaches beyond it is refused
    /// sooner.
    ///
    /// Also refuses, by name, the kinds of VMDK that are not one whole disk. Allocates nothing by what the header says.
    pub fn open(head: &[u8], file_len: Option<u64>) -> Result<Self> {
        Self::read(head, file_len).map_err(|error| error.of(NAME))
    }

    /// For a target that takes the disk in order: refuses a stream whose grains are not in that order, and gives the zeros
    /// between them with each grain. Without it they are known at the end only.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        if let Walk::Stream(stream) = &mut self.walk {
            stream.in_order();
        }
        self
    }

    fn read(head: &[u8], file_len: Option<u64>) -> Result<Self> {
        if let Some(error) = delta::refuse(head) {
            return Err(error);
        }
        if !head.starts_with(b"KDMV") {
            return Err(descriptor::refuse(head));
        }
        let (capacity, descriptor_len) = header::claims(head)?;
        let text = descriptor_text(head, descriptor_len);
        // A header without a disk may only carry the descriptor of a flat one.
        if capacity == 0
            && let Some(descriptor) = text.map(Descriptor::parse).transpose()?.flatten()
            && !matches!(descriptor.extents.as_slice(), [part] if part.kind == "SPARSE")
        {
            return Err(descriptor.refusal());
        }
        let header = Header::parse(head)?;
        let descriptor = match text {
            _ if header.descriptor_len == 0 => return Err(a_part()),
            Some(text) => Some(admit(&header, text)?),
            None => None,
        };
        let walk = match header.layout {
            Layout::Plain => Walk::Sparse(Box::new(Sparse::new(header, file_len)?)),
            Layout::Stream => Walk::Stream(Box::new(Stream::new(header, file_len)?)),
        };
        Ok(Self { header, descriptor, walk })
    }

    fn start_walk(&mut self, found: &mut Found) -> Result<()> {
        match &mut self.walk {
            Walk::Sparse(sparse) => sparse.start(found),
            Walk::Stream(stream) => stream.start(found),
        }
    }
}

impl Format for Vmdk {
    fn start(&mut self, found: &mut Found) -> Result<()> {
        let started = match self.descriptor {
            Some(_) => self.start_walk(found),
            // Nothing else before it is known to be a disk. It stands before all else in the file, too.
            None => match u32::try_from(self.header.descriptor_len * SECTOR) {
                Ok(len) => found.page(Page { at: HostOffset(SECTOR), len, min: len, tag: tag::DESCRIPTOR, index: 0 }),
                Err(_) => Err(Error::new(Kind::Ours, "descriptor too large")),
            },
        };
        started.map_err(|error| error.of(NAME))
    }

    fn expand(&mut self, page: &Page, bytes: &[u8], found: &mut Found) -> Result<()> {
        let expanded = match (page.tag, &mut self.walk) {
            (tag::DESCRIPTOR, _) => admit(&self.header, bytes).and_then(|descriptor| {
                self.descriptor = Some(descriptor);
                self.start_walk(found)
            }),
            (_, Walk::Sparse(sparse)) => sparse.expand(page, bytes, found),
            (_, Walk::Stream(stream)) => stream.expand(page, bytes, found),
        };
        expanded.map_err(|error| error.of(NAME))
    }

    fn geometry(&self) -> Option<Geometry> {
        self.descriptor.as_ref()?;
        Some(Geometry { virtual_size: Some(self.header.size()), cdrom: false })
    }

    fn finish(&mut self, file_len: Option<u64>, found: &mut Found) -> Result<()> {
        let finished = match &mut self.walk {
            Walk::Sparse(sparse) => sparse.finish(file_len),
            Walk::Stream(stream) => stream.finish(file_len, found),
        };
        finished.map_err(|error| error.of(NAME))
    }

    fn features(&self) -> Vec<Feature> {
        let header = &self.header;
        let packed = header.layout == Layout::Stream;
        let mut features = Vec::new();
        if let Some(descriptor) = &self.descriptor {
            features.push(Feature::text("createType", descriptor.create_type.clone()));
            if let Some(adapter) = &descriptor.adapter {
                features.push(Feature::text("adapterType", adapter.clone()));
            }
        }
        features.push(Feature::number("version", u64::from(header.version)));
        features.push(Feature::number("grainSize", header.grain_bytes()));
        features.push(Feature::text("compression", if packed { "zlib" } else { "none" }));
        features.push(Feature::flag("streamOptimized", packed));
        features.push(Feature::flag("zeroedGrains", header.zeroed));
        features.push(Feature::flag("redundantDirectory", header.redundant));
        features.push(Feature::flag("uncleanShutdown", header.unclean));
        features
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn sequential(&self) -> bool {
        matches!(self.walk, Walk::Stream(_))
    }
}

/// The place of the embedded descriptor, if all of it is in the head.
fn descriptor_text(head: &[u8], sectors: u64) -> Option<&[u8]> {
    let start = usize::try_from(SECTOR).ok()?;
    let end = usize::try_from((1 + sectors) * SECTOR).ok()?;
    head.get(start..end)
}

/// Whether the descriptor is that of one whole disk in one file: this one.
fn admit(header: &Header, text: &[u8]) -> Result<Descriptor> {
    let Some(descriptor) = Descriptor::parse(text)? else {
        return Err(a_part());
    };
    let whole = ["monolithicSparse", "streamOptimized"].contains(&descriptor.create_type.as_str());
    let [part] = descriptor.extents.as_slice() else {
        return Err(descriptor.refusal());
    };
    if !whole || part.kind != "SPARSE" || descriptor.count != 1 || descriptor.parent || descriptor.encrypted {
        return Err(descriptor.refusal());
    }
    if !part.accessible {
        return Err(Error::new(Kind::Unsupported, "the disk is marked NOACCESS"));
    }
    let sectors = part.sectors;
    if sectors != header.capacity && sectors.checked_next_multiple_of(header.grain) != Some(header.capacity) {
        let capacity = header.capacity;
        return Err(Error::new(
            Kind::Corrupt,
            format!("the disk has {capacity} sectors by the header, {sectors} by the descriptor"),
        ));
    }
    Ok(descriptor)
}

fn a_part() -> Error {
    Error::new(
        Kind::Incomplete,
        "one part of a split disk (NAME-s001.vmdk, …): its descriptor NAME.vmdk and maybe more parts are missing; make \
         one file of all of them where they are: qemu-img convert -O qcow2 NAME.vmdk disk.qcow2",
    )
}

const NAME: &str = "vmdk";

/// What a page holds.
mod tag {
    pub const DESCRIPTOR: u32 = 0;
    pub const DIRECTORY: u32 = 1;
    /// Grain tables whose index is the first grain.
    pub const TABLE: u32 = 2;
    pub const MARKER: u32 = 3;
    /// A grain table in a stream, whose index is its sector.
    pub const CHAIN_TABLE: u32 = 4;
    pub const FOOTER: u32 = 5;
    /// What is behind the end of a stream.
    pub const TAIL: u32 = 6;
}

#[cfg(test)]
mod tests;
