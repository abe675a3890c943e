//! Extents whose bytes are to come, by their place in the file.

use std::collections::BTreeMap;

use super::span::{host_end, host_start};
use crate::Extent;

/// Extents ordered by host offset, then guest offset: several guest ranges may share the same bytes.
#[derive(Debug, Default)]
pub(super) struct Pending {
    extents: BTreeMap<(u64, u64), Extent>,
}

impl Pending {
    pub(super) fn insert(&mut self, extent: Extent) {
        self.extents.insert((host_start(&extent), extent.guest.0), extent);
    }

    /// Takes the first extent that begins before `head`.
    pub(super) fn pop_before(&mut self, head: u64) -> Option<Extent> {
        let entry = self.extents.first_entry()?;
        (entry.key().0 < head).then(|| entry.remove())
    }

    /// The host ranges that begin before `head`.
    pub(super) fn begun(&self, head: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.extents.range(..(head, 0)).map(|(_, extent)| (host_start(extent), host_end(extent)))
    }

    /// Whether an extent begins at `host`.
    pub(super) fn has_start(&self, host: u64) -> bool {
        self.extents.range((host, 0)..=(host, u64::MAX)).next().is_some()
    }

    pub(super) fn first(&self) -> Option<&Extent> {
        self.extents.first_key_value().map(|(_, extent)| extent)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Extent> + '_ {
        self.extents.values()
    }

    pub(super) fn len(&self) -> usize {
        self.extents.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }
}
