//! Offsets that can't be confused: in the image file, and in the disk a guest sees.

use std::fmt;

/// A byte offset in the image file (qemu: host offset).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostOffset(pub u64);

/// A byte offset in the disk as the guest sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestOffset(pub u64);

impl HostOffset {
    /// The offset `len` bytes further on, or `None` past 2^64.
    #[must_use]
    pub fn checked_add(self, len: u64) -> Option<Self> {
        self.0.checked_add(len).map(Self)
    }
}

impl GuestOffset {
    /// The offset `len` bytes further on, or `None` past 2^64.
    #[must_use]
    pub fn checked_add(self, len: u64) -> Option<Self> {
        self.0.checked_add(len).map(Self)
    }
}

impl fmt::Display for HostOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for GuestOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
