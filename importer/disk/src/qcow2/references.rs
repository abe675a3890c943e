//! How often each cluster is still to be referred to, by the image's own refcounts.
//!
//! A stream holds bytes whose role it does not know yet. Compressed runs leave gaps behind, and only when every L2
//! table was seen is it certain that nothing refers to a gap. The refcounts say so earlier: a cluster with as many
//! references seen as its refcount has no more to come. They are evidence for letting go, never for correctness: where
//! they are wrong, the data is found missing and another pass brings it.

use std::collections::BTreeMap;

use crate::{Found, HostOffset, Page, field};

use super::{PAGE_LEN, TAG_REFCOUNT_BLOCK, TAG_REFCOUNTS};

/// Refcounts minus the references seen, per cluster, for the blocks that have arrived.
#[derive(Debug)]
pub(super) struct References {
    cluster: u64,
    /// Blocks of counts by their first cluster's number.
    blocks: BTreeMap<u64, Vec<u16>>,
    /// References seen before their block arrived.
    early: BTreeMap<u64, u16>,
    full: bool,
}

impl References {
    /// For refcounts of 16 bits, which is what every tool writes by default; for others no evidence is kept.
    pub(super) fn new(cluster: u64, refcount_order: u32) -> Option<Self> {
        (refcount_order == 4).then(|| Self { cluster, blocks: BTreeMap::new(), early: BTreeMap::new(), full: false })
    }

    /// Reads a part of the refcount table, or a part of a refcount block.
    pub(super) fn read(&mut self, page: &Page, bytes: &[u8], found: &mut Found) {
        if self.full {
            return;
        }
        match page.tag {
            TAG_REFCOUNTS => {
                for (entry, index) in field::be64(bytes).zip(page.index..) {
                    let block = entry & !511;
                    if block == 0 || block % self.cluster != 0 {
                        continue;
                    }
                    for part in (0..self.cluster).step_by(PAGE_LEN as usize) {
                        let len = u32::try_from((self.cluster - part).min(u64::from(PAGE_LEN))).unwrap_or(PAGE_LEN);
                        let index = index.saturating_mul(self.cluster / 2).saturating_add(part / 2);
                        let at = HostOffset(block + part);
                        // Evidence only: what is wrong with a refcount block is no reason to refuse the image.
                        let _ = found.page(Page { at, len, min: 0, tag: TAG_REFCOUNT_BLOCK, index });
                    }
                }
            }
            _ => self.read_block(page.index, bytes),
        }
    }

    fn read_block(&mut self, first: u64, bytes: &[u8]) {
        if (self.blocks.len() + 1) * PAGE_LEN as usize > MAX_BYTES {
            // Older blocks are of clusters that have passed.
            self.blocks.pop_first();
        }
        let mut counts: Vec<u16> = bytes.as_chunks().0.iter().map(|count| u16::from_be_bytes(*count)).collect();
        let end = first.saturating_add(counts.len() as u64);
        let later = self.early.split_off(&end);
        for (cluster, seen) in self.early.split_off(&first) {
            if let Some(count) = usize::try_from(cluster - first).ok().and_then(|index| counts.get_mut(index)) {
                *count = count.saturating_sub(seen);
            }
        }
        self.early.extend(later);
        self.blocks.insert(first, counts);
    }

    /// Notes a reference to the clusters of `host..host + len`.
    pub(super) fn refer(&mut self, host: u64, len: u64) {
        if self.full {
            return;
        }
        for cluster in host / self.cluster..=(host + len.max(1) - 1) / self.cluster {
            let block = self.blocks.range_mut(..=cluster).next_back();
            let count = block.and_then(|(first, counts)| counts.get_mut(usize::try_from(cluster - first).ok()?));
            if let Some(count) = count {
                *count = count.saturating_sub(1);
            } else {
                *self.early.entry(cluster).or_default() += 1;
                if self.early.len() > MAX_EARLY {
                    // Too much to follow: no evidence is better than wrong evidence.
                    self.full = true;
                    self.early.clear();
                    self.blocks.clear();
                }
            }
        }
    }

    /// How many references to the cluster of `host` are still to come, and the cluster's length.
    pub(super) fn left(&self, host: u64) -> Option<(u32, u64)> {
        let cluster = host / self.cluster;
        let (first, counts) = self.blocks.range(..=cluster).next_back()?;
        let count = counts.get(usize::try_from(cluster - first).ok()?)?;
        Some((u32::from(*count), self.cluster))
    }
}

/// Bound on the counts kept: 4 MiB, which follow 128 GiB of image file with clusters of 64 KiB.
const MAX_BYTES: usize = 4 << 20;
/// Bound on references seen before their counts (about 40 bytes each).
const MAX_EARLY: usize = 1 << 16;
