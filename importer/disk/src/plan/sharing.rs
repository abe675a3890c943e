//! How often an image uses its own data.

use crate::{Error, Kind, Result};

/// Counts references to the bytes of a file, to refuse an image that uses the same ones over and over: no tool writes
/// one, and it is how a small file unfolds into a disk of data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sharing {
    /// Bytes of the file that extents refer to, counted once per reference.
    referred: u64,
    /// Guest bytes of extents that begin where another does.
    shared: u64,
}

impl Sharing {
    /// An extent refers to `len` bytes of the file.
    pub(super) fn refer(&mut self, len: u64) {
        self.referred = self.referred.saturating_add(len);
    }

    /// An extent of `len` guest bytes begins where another does.
    pub(super) fn share(&mut self, len: u64) {
        self.shared = self.shared.saturating_add(len);
    }

    /// Refuses what is beyond all use. `there` is how long the file is, as far as that is known.
    pub(super) fn check(&self, there: u64) -> Result<()> {
        let allowed = there.saturating_mul(MAX_SHARING).saturating_add(SHARING_SLACK);
        if self.shared.max(self.referred) <= allowed {
            return Ok(());
        }
        let message = format!(
            "the image unfolds a file of {there} bytes by using the same data more than {MAX_SHARING} times over; it is \
             refused as an expansion bomb"
        );
        Err(Error::new(Kind::Bomb, message))
    }
}

/// How many times over an image may refer to its own data. Snapshots don't count: only the active layer is read.
const MAX_SHARING: u64 = 8;
/// Room for small images, whose last clusters are longer than the file.
const SHARING_SLACK: u64 = 16 << 20;
