//! A host range a parser must see.

use crate::HostOffset;

/// A host range that holds metadata. A parser emits pages; whoever drives it brings their bytes to
/// [`Format::expand`](crate::Format::expand), each exactly once, in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// First byte in the image file.
    pub at: HostOffset,
    /// Length in bytes; at most [`Page::MAX`].
    pub len: u32,
    /// How many bytes there must be. A file that ends sooner is truncated; one that ends between `min` and `len` gives
    /// a shorter page.
    pub min: u32,
    /// What it holds, in the parser's own terms.
    pub tag: u32,
    /// Which of them it is, in the parser's own terms (an index, a guest offset).
    pub index: u64,
}

impl Page {
    /// The largest page in bytes: 1 MiB. Larger tables are split. It bounds the memory for one page.
    pub const MAX: u32 = 1 << 20;

    /// The offset just behind the page.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.at.0.saturating_add(u64::from(self.len))
    }
}
