//! Zeros found in data: they are cheaper to recognise than to write.

/// The granule in which zeros are looked for, in bytes, and aligned so in the guest disk: the block of nearly every
/// file system and the page of the page cache. A smaller hole would save nothing.
pub const BLOCK: usize = 4096;

/// Whether every byte is zero. Stops at the first 256 bytes that are not; runs at the speed of memory.
#[must_use]
pub fn is_zero(bytes: &[u8]) -> bool {
    // One branch for 256 bytes: what is between is vectorised.
    let (lines, rest) = bytes.as_chunks::<256>();
    lines.iter().all(|line| {
        let (words, _) = line.as_chunks::<16>();
        words.iter().fold(0, |or, word| or | u128::from_ne_bytes(*word)) == 0
    }) && rest.iter().fold(0, |or, byte| or | byte) == 0
}

/// Cuts `bytes`, which belong at guest offset `at`, into runs of data and runs of zeros.
///
/// A run begins and ends at a multiple of [`BLOCK`] of the guest disk, or at an end of `bytes`. Zeros shorter than
/// `gap` bytes that touch data stay in the data, so that writes stay large. `bytes` that are all zero are one zero run,
/// however short. A byte is looked at twice at most; nothing is copied.
#[must_use]
pub fn runs(at: u64, bytes: &[u8], gap: usize) -> Runs<'_> {
    let mut runs = Runs { at, bytes, gap: gap.max(1), zeros: 0 };
    runs.zeros = runs.span(0, true);
    if runs.zeros < runs.gap && runs.zeros < bytes.len() {
        runs.zeros = 0;
    }
    runs
}

/// A part of a buffer that is data, or zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    /// Guest offset of its first byte.
    pub at: u64,
    /// Its bytes, never empty.
    pub bytes: &'a [u8],
    /// Whether they are all zero.
    pub zero: bool,
}

/// The runs of a buffer, in order; see [`runs`].
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    at: u64,
    bytes: &'a [u8],
    gap: usize,
    /// How many bytes in front are known to be a zero run.
    zeros: usize,
}

// === impl Runs ===

impl<'a> Runs<'a> {
    /// How many bytes from `from` on are whole blocks that are zero, or that are not.
    fn span(&self, from: usize, zero: bool) -> usize {
        let mut rest = self.bytes.get(from..).unwrap_or_default();
        let mut at = self.at.wrapping_add(from as u64);
        let mut count = 0;
        while !rest.is_empty() {
            let (block, more) = rest.split_at(until_aligned(at).min(rest.len()));
            if is_zero(block) != zero {
                break;
            }
            count += block.len();
            at = at.wrapping_add(block.len() as u64);
            rest = more;
        }
        count
    }

    fn take(&mut self, len: usize, zero: bool) -> Run<'a> {
        let (bytes, rest) = self.bytes.split_at(len);
        let run = Run { at: self.at, bytes, zero };
        self.at = self.at.wrapping_add(len as u64);
        self.bytes = rest;
        run
    }
}

impl<'a> Iterator for Runs<'a> {
    type Item = Run<'a>;

    fn next(&mut self) -> Option<Run<'a>> {
        if self.bytes.is_empty() {
            return None;
        }
        if self.zeros > 0 {
            let len = std::mem::take(&mut self.zeros);
            return Some(self.take(len, true));
        }
        let mut len = 0;
        while len < self.bytes.len() {
            len += self.span(len, false);
            let zeros = self.span(len, true);
            if zeros >= self.gap {
                self.zeros = zeros;
                break;
            }
            len += zeros;
        }
        Some(self.take(len, false))
    }
}

/// How far it is from `at` to the next multiple of [`BLOCK`].
fn until_aligned(at: u64) -> usize {
    // The remainder is below 4096, so it fits.
    BLOCK - usize::try_from(at % BLOCK as u64).unwrap_or_default()
}

#[cfg(test)]
mod tests;
