//! What a parser implements, and what it finds.

use crate::{Body, Error, Extent, Kind, Page, Result};

/// A disk image parser.
///
/// The contract, in order:
/// 1. [`start`](Self::start) is called once and emits the first pages.
/// 2. Each page goes to [`expand`](Self::expand) exactly once, in any order, with its bytes. A parser that must see one
///    page before it can read another emits the second only from the first's `expand`.
/// 3. As soon as the size of the disk is known, [`geometry`](Self::geometry) is `Some` and stays the same.
/// 4. When no page is outstanding, [`finish`](Self::finish) is called once.
///
/// All extents emitted from start to finish partition the guest disk `0..virtual_size`: no gap, no overlap. Unallocated
/// space is emitted as [`Body::Zero`].
pub trait Format: Send {
    /// Emits the first pages.
    fn start(&mut self, found: &mut Found) -> Result<()>;

    /// Reads one page. `bytes` is `page.len` long, or shorter (at least `page.min`) when the file ends there.
    fn expand(&mut self, page: &Page, bytes: &[u8], found: &mut Found) -> Result<()>;

    /// The shape of the disk, once it is known.
    fn geometry(&self) -> Option<Geometry>;

    /// Called once, when every page was expanded, with the length of the image file where it is known. Emits what can
    /// only be known at the end (the gaps of a stream), and makes the checks that need the whole picture.
    fn finish(&mut self, file_len: Option<u64>, found: &mut Found) -> Result<()>;

    /// What a person should know about this image, for `inspect`. Complete once `geometry` is known.
    fn features(&self) -> Vec<Feature>;

    /// The name of the format, as qemu-img spells it.
    fn name(&self) -> &'static str;

    /// Whether the disk lies in the file as it is: then the holes of the file, where there are some, are those of the disk.
    fn plain(&self) -> bool {
        false
    }

    /// True when pages and data form one chain from the start of the file to its end (streamOptimized VMDK), so that
    /// reading by ranges gains nothing.
    fn sequential(&self) -> bool {
        false
    }

    /// How often the image's own bookkeeping says that the host block holding `host` is referenced by the active disk,
    /// and the block's length; `None` when that is not known. It is only ever used to let go of held bytes early: a
    /// wrong answer costs a second pass, never wrong data.
    fn references(&self, host: u64) -> Option<(u32, u64)> {
        let _ = host;
        None
    }
}

/// The shape of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Size of the disk as the guest sees it, in bytes. `None` for a raw stream of unknown length.
    pub virtual_size: Option<u64>,
    /// True for a CD-ROM image (ISO 9660).
    pub cdrom: bool,
}

/// One fact about an image, for people and for `inspect --json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// What it is, in camelCase: `clusterSize`, `compression`, `snapshots`, …
    pub name: &'static str,
    /// Its value.
    pub value: FeatureValue,
}

/// The value of a [`Feature`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeatureValue {
    /// A count or a size in bytes.
    Number(u64),
    /// Present or not.
    Flag(bool),
    /// A name.
    Text(String),
}

impl Feature {
    /// A count or a size in bytes.
    #[must_use]
    pub fn number(name: &'static str, value: u64) -> Self {
        Self { name, value: FeatureValue::Number(value) }
    }

    /// Present or not.
    #[must_use]
    pub fn flag(name: &'static str, value: bool) -> Self {
        Self { name, value: FeatureValue::Flag(value) }
    }

    /// A name. The caller has made sure it holds no control characters.
    pub fn text(name: &'static str, value: impl Into<String>) -> Self {
        Self { name, value: FeatureValue::Text(value.into()) }
    }
}

/// What a parser has found: pages it needs, extents it can name, ranges that hold nothing for the guest.
///
/// Adjacent extents that continue each other are joined as they come in, so that a table with sequential entries costs
/// one extent, not thousands.
#[derive(Debug, Default)]
pub struct Found {
    /// Pages to bring.
    pub pages: Vec<Page>,
    /// Extents, in the order found.
    pub extents: Vec<Extent>,
    /// Host ranges `(start, end)` that are known to hold no guest data (headers, refcounts), so that a stream lets go
    /// of them.
    pub skips: Vec<(u64, u64)>,
}

impl Found {
    /// Adds a page.
    pub fn page(&mut self, page: Page) -> Result<()> {
        if page.len == 0 || page.len > Page::MAX || page.min > page.len {
            return Err(Error::new(Kind::Ours, format!("page of {} bytes", page.len)).at(page.at.0));
        }
        if page.at.checked_add(u64::from(page.len)).is_none() {
            return Err(Error::new(Kind::Corrupt, "table lies beyond any file").at(page.at.0));
        }
        self.pages.push(page);
        Ok(())
    }

    /// Adds an extent; joins it to the one before when it continues it.
    pub fn extent(&mut self, extent: Extent) {
        if extent.len == 0 {
            return;
        }
        if let Some(last) = self.extents.last_mut()
            && last.end() == extent.guest.0
            && continues(last, &extent)
        {
            last.len += extent.len;
            return;
        }
        self.extents.push(extent);
    }

    /// Names a host range that holds no guest data beyond the extents already named.
    pub fn skip(&mut self, start: u64, end: u64) {
        if start < end {
            self.skips.push((start, end));
        }
    }
}

/// Whether `next`, which begins in the guest where `last` ends, also goes on in the file where `last` ends.
pub(crate) fn continues(last: &Extent, next: &Extent) -> bool {
    match (&last.body, &next.body) {
        (Body::Zero, Body::Zero) => true,
        (Body::Data { at: a }, Body::Data { at: b }) => a.0.checked_add(last.len) == Some(b.0),
        _ => false,
    }
}
