//! What a replayed log says is elsewhere in the file, kept in memory.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{Error, Kind, Result};

/// Ranges of the file that hold something else than the file does. Later ones replace what they overlap.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    patches: BTreeMap<u64, Patch>,
    /// How long the file is at least, once the log was replayed; what lies behind its real end reads as zeros.
    pub(super) file_len: u64,
}

#[derive(Debug)]
struct Patch {
    end: u64,
    /// `None` for zeros.
    bytes: Option<Bytes>,
}

/// Where a part of a range is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// In the file, at its place.
    File,
    /// Nowhere: zeros.
    Zero,
    /// Here.
    Bytes(Bytes),
}

impl Overlay {
    /// The largest number of patches kept (about 70 bytes each, besides the bytes they hold). A log of 16 MiB holds up to
    /// 4096 sectors, and half a million zeroed ranges if it was made to be large.
    const MAX: usize = 1 << 16;

    /// Puts `bytes` at `at`.
    pub(super) fn write(&mut self, at: u64, bytes: Bytes) -> Result<()> {
        self.put(at, bytes.len() as u64, Some(bytes))
    }

    /// Puts `len` zeros at `at`.
    pub(super) fn zero(&mut self, at: u64, len: u64) -> Result<()> {
        self.put(at, len, None)
    }

    fn put(&mut self, start: u64, len: u64, bytes: Option<Bytes>) -> Result<()> {
        let Some(end) = start.checked_add(len) else {
            return Err(Error::new(Kind::Corrupt, format!("the log writes to {start:#x}, beyond any file")));
        };
        if start == end {
            return Ok(());
        }
        self.clear(start, end);
        self.patches.insert(start, Patch { end, bytes });
        self.file_len = self.file_len.max(end);
        if self.patches.len() > Self::MAX {
            let message = format!("the log writes to more than {} places", Self::MAX);
            return Err(Error::new(Kind::Oversized, message));
        }
        Ok(())
    }

    /// Makes room: cuts every patch that reaches into `start..end`.
    fn clear(&mut self, start: u64, end: u64) {
        let before = self.patches.range(..start).next_back().map(|(at, _)| *at);
        for at in before.into_iter().chain(self.patches.range(start..end).map(|(at, _)| *at).collect::<Vec<_>>()) {
            let Some(patch) = self.patches.remove(&at) else { continue };
            if at < start {
                let head = Patch { end: patch.end.min(start), bytes: part(&patch.bytes, at, at, patch.end.min(start)) };
                self.patches.insert(at, head);
            }
            if patch.end > end {
                let tail = Patch { end: patch.end, bytes: part(&patch.bytes, at, end, patch.end) };
                self.patches.insert(end, tail);
            }
        }
    }

    /// Splits the range `start..start + len` of the file by where its parts are found, in order.
    pub(super) fn split(&self, start: u64, len: u64, mut emit: impl FnMut(u64, u64, Part)) {
        let end = start.saturating_add(len);
        let before = self.patches.range(..start).next_back();
        let mut at = start;
        for (from, patch) in before.into_iter().chain(self.patches.range(start..end)) {
            let (from_here, to) = ((*from).max(start), patch.end.min(end));
            if to <= at {
                continue;
            }
            if at < from_here {
                emit(at, from_here - at, Part::File);
            }
            let found = match part(&patch.bytes, *from, from_here, to) {
                Some(bytes) => Part::Bytes(bytes),
                None => Part::Zero,
            };
            emit(from_here, to - from_here, found);
            at = to;
        }
        if at < end {
            emit(at, end - at, Part::File);
        }
    }

    /// `bytes` of the file at `at`, as they are after the replay. Copies only what the log touches.
    pub(super) fn apply<'a>(&self, at: u64, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut patched = Cow::Borrowed(bytes);
        self.split(at, bytes.len() as u64, |start, len, part| {
            let range = usize::try_from(start - at).ok().zip(usize::try_from(len).ok());
            let range = range.and_then(|(from, len)| Some(from..from.checked_add(len)?));
            match part {
                Part::File => {}
                Part::Zero => {
                    if let Some(target) = range.and_then(|range| patched.to_mut().get_mut(range)) {
                        target.fill(0);
                    }
                }
                Part::Bytes(bytes) => {
                    if let Some(target) = range.and_then(|range| patched.to_mut().get_mut(range)) {
                        target.copy_from_slice(&bytes);
                    }
                }
            }
        });
        patched
    }
}

/// What a patch that starts at `at` has for `start..end`, which lies within it.
fn part(bytes: &Option<Bytes>, at: u64, start: u64, end: u64) -> Option<Bytes> {
    let bytes = bytes.as_ref()?;
    let index = |offset: u64| usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
    Some(bytes.slice(index(start)..index(end)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a plain array: patches in order, then any range of it, cut and patched.
        #[test]
        fn reads_as_if_written(
            ops in prop::collection::vec((0u64..200, 1u64..40, any::<bool>()), 0..30),
            (at, len) in (0u64..200, 0u64..60),
        ) {
            let file: Vec<u8> = (0..300u32).map(|i| i as u8).collect();
            let (mut overlay, mut model) = (Overlay::default(), file.clone());
            for (number, (start, len, zero)) in ops.into_iter().enumerate() {
                let range = start as usize..(start + len) as usize;
                if zero {
                    overlay.zero(start, len).unwrap();
                    model[range].fill(0);
                } else {
                    let bytes = vec![number as u8 | 0x80; len as usize];
                    model[range].copy_from_slice(&bytes);
                    overlay.write(start, bytes.into()).unwrap();
                }
            }
            let range = at as usize..(at + len) as usize;
            prop_assert_eq!(&*overlay.apply(at, &file[range.clone()]), &model[range]);
            let mut next = at;
            overlay.split(at, len, |start, len, part| {
                assert!(start == next && len > 0);
                assert!(!matches!(part, Part::Bytes(bytes) if bytes.len() as u64 != len));
                next += len;
            });
            prop_assert_eq!(next, at + len);
        }
    }

    #[test]
    fn what_is_not_touched_is_not_copied() {
        let mut overlay = Overlay::default();
        overlay.zero(4096, 4096).unwrap();
        assert!(matches!(overlay.apply(0, &[1; 4096]), Cow::Borrowed(_)));
        assert!(matches!(overlay.apply(8192, &[1; 4096]), Cow::Borrowed(_)));
        assert_eq!(overlay.apply(8191, &[1; 2])[..], [0, 1]);
        assert_eq!(overlay.file_len, 8192);
    }

    #[test]
    fn the_number_of_patches_is_bounded() {
        let mut overlay = Overlay::default();
        let refused = (0..1 << 20).find_map(|n| overlay.zero(n * 8192, 4096).err()).unwrap();
        assert_eq!(refused.kind(), Kind::Oversized);
        assert_eq!(overlay.zero(u64::MAX, 1).unwrap_err().kind(), Kind::Corrupt);
    }
}
