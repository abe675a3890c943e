//! Which host blocks a block table has pointed to, for formats where no two entries may share one.

use std::collections::BTreeMap;

use crate::{Error, Kind, Result};

/// The places of blocks of one length, in units of the caller's choice (a sector, a MiB, a block). Refuses a block that
/// overlaps one already there.
///
/// The file is cut into bins as long as a block, so a bin can hold the start of at most one block, and a block can only
/// overlap those that start in its own bin or beside it. Bins are kept in chunks of 512: a bitmap as long as all blocks
/// of a chunk start at the same place within their bins, which is how disks are written, else a number for each. That
/// is 1 to 32 bits for a block of a dense file; a file that is scattered on purpose is refused at [`Claims::MAX_BYTES`].
#[derive(Debug)]
pub(crate) struct Claims {
    stride: u64,
    chunks: BTreeMap<u64, Chunk>,
    bytes: usize,
}

#[derive(Debug)]
enum Chunk {
    /// All blocks start `phase` units into their bins; a bit for each bin.
    Aligned { phase: u32, bins: [u64; 8] },
    /// How far into its bin a block starts, or [`FREE`].
    Mixed(Box<[u32; BINS]>),
}

impl Claims {
    /// What the claims may take in memory: 24 MiB, enough for 64 TiB of blocks of 1 MiB and for 8 TiB of blocks of 2 MiB
    /// with a start of their own each.
    pub(crate) const MAX_BYTES: usize = 24 << 20;

    /// No claims yet, on blocks `stride` units long (taken as at least 1 and at most 2^32 - 1).
    pub(crate) fn new(stride: u64) -> Self {
        Self { stride: stride.clamp(1, u64::from(FREE)), chunks: BTreeMap::new(), bytes: 0 }
    }

    /// Claims the block that starts at unit `at`.
    pub(crate) fn claim(&mut self, at: u64) -> Result<()> {
        let bin = at / self.stride;
        let Ok(phase) = u32::try_from(at % self.stride) else {
            return Err(Error::new(Kind::Ours, "block stride of 2^32 or more"));
        };
        let before = bin.checked_sub(1).and_then(|bin| self.phase(bin));
        let after = bin.checked_add(1).and_then(|bin| self.phase(bin));
        let taken = self.phase(bin).is_some();
        if taken || before.is_some_and(|before| before > phase) || after.is_some_and(|after| after < phase) {
            return Err(Error::new(Kind::Corrupt, "two blocks of the disk lie in the same place of the file"));
        }
        self.set(bin, phase);
        if self.bytes > Self::MAX_BYTES {
            let message = "the blocks are scattered too widely to be followed in bounded memory";
            return Err(Error::new(Kind::Oversized, message));
        }
        Ok(())
    }

    /// How far into bin `bin` a block starts, if one does.
    fn phase(&self, bin: u64) -> Option<u32> {
        let index = usize::try_from(bin % BINS as u64).ok()?;
        match self.chunks.get(&(bin / BINS as u64))? {
            Chunk::Aligned { phase, bins } => is_set(bins, index).then_some(*phase),
            Chunk::Mixed(phases) => phases.get(index).copied().filter(|phase| *phase != FREE),
        }
    }

    fn set(&mut self, bin: u64, phase: u32) {
        let Ok(index) = usize::try_from(bin % BINS as u64) else { return };
        let bytes = &mut self.bytes;
        let chunk = self.chunks.entry(bin / BINS as u64).or_insert_with(|| {
            *bytes += CHUNK_BYTES;
            Chunk::Aligned { phase, bins: [0; 8] }
        });
        if let Chunk::Aligned { phase: common, bins } = chunk
            && *common != phase
        {
            let mut phases = Box::new([FREE; BINS]);
            for (index, slot) in phases.iter_mut().enumerate() {
                if is_set(bins, index) {
                    *slot = *common;
                }
            }
            *bytes += BINS * 4;
            *chunk = Chunk::Mixed(phases);
        }
        match chunk {
            Chunk::Aligned { bins, .. } => {
                if let Some(word) = bins.get_mut(index / 64) {
                    *word |= 1 << (index % 64);
                }
            }
            Chunk::Mixed(phases) => {
                if let Some(slot) = phases.get_mut(index) {
                    *slot = phase;
                }
            }
        }
    }
}

fn is_set(bins: &[u64; 8], index: usize) -> bool {
    bins.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
}

const BINS: usize = 512;
const FREE: u32 = u32::MAX;
/// An entry of the map with what the tree adds to it when its nodes are half full.
const CHUNK_BYTES: usize = 2 * (size_of::<Chunk>() + 8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_may_touch_and_not_overlap() {
        let mut claims = Claims::new(4097);
        claims.claim(20).unwrap();
        claims.claim(20 + 4097).unwrap();
        claims.claim(20 + 3 * 4097 + 5).unwrap();
        for at in [20, 19, 0, 21, 20 + 4096, 20 + 2 * 4096, 20 + 2 * 4097 + 6, 20 + 3 * 4097, 20 + 4 * 4097 + 4] {
            assert_eq!(claims.claim(at).unwrap_err().kind(), Kind::Corrupt, "{at}");
        }
        claims.claim(20 + 2 * 4097).unwrap();
        claims.claim(20 + 4 * 4097 + 5).unwrap();
    }

    /// Hyper-V pads the blocks of a VHD to 4 KiB, so that no two start at the same place within their bins.
    #[test]
    fn padded_blocks_stay_small() {
        let mut claims = Claims::new(4097);
        for block in 0..1_044_480 {
            claims.claim(7 + block * 4104).unwrap();
        }
        assert!(claims.bytes < 6 << 20, "{}", claims.bytes);
    }

    #[test]
    fn a_dense_file_of_64_tib_fits() {
        let mut claims = Claims::new(1);
        // Every 64th block is enough to make all chunks.
        for block in (0..1u64 << 26).step_by(64) {
            claims.claim(block).unwrap();
        }
        assert_eq!(claims.claim(64).unwrap_err().kind(), Kind::Corrupt);
    }

    #[test]
    fn scattering_on_purpose_is_refused_in_bounded_memory() {
        let mut claims = Claims::new(2);
        let refused = (0..u64::MAX).find_map(|n| claims.claim(n * 4096 + n % 2).err()).unwrap();
        assert_eq!(refused.kind(), Kind::Oversized);
        assert!(claims.bytes < Claims::MAX_BYTES + 4096);
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_a_list(stride in 1u64..9, places in proptest::collection::vec(0u64..12_000, 0..80)) {
            let mut claims = Claims::new(stride);
            let mut model: Vec<u64> = Vec::new();
            for at in places {
                let free = model.iter().all(|other| at.abs_diff(*other) >= stride);
                proptest::prop_assert_eq!(claims.claim(at).is_ok(), free, "{}", at);
                if free {
                    model.push(at);
                }
            }
        }
    }
}
