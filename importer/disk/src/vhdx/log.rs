//! The log of an image that was not closed properly, replayed in memory. (MS-VHDX 2.3)
//!
//! > If the storage media on which the file is stored is read-only or the file is opened in read-only mode, the
//! > implementation cannot allow reads from the virtual disk without replaying the log in memory. (Note 5 to 2.3.3)
//!
//! (qemu-img refuses to read such an image, and asks for it to be made writable.)

use super::entry::Ring;
use super::header::Header;
use super::overlay::Overlay;
use super::sequence::active_sequence;
use crate::guid::Guid;
use crate::{Error, Found, HostOffset, Kind, Page, Result};

/// The log as it comes in. Costs its length while it does, and as much again at most for the bytes it replays.
#[derive(Debug)]
pub(super) struct Log {
    at: u64,
    guid: Guid,
    /// Parts of a page each, empty until they come.
    parts: Vec<Vec<u8>>,
}

/// What a log did.
#[derive(Debug)]
pub(super) struct Replayed {
    pub(super) overlay: Overlay,
    /// How many entries it had.
    pub(super) entries: usize,
    /// A file shorter than this was cut after the log was written.
    pub(super) flushed_file_len: u64,
}

impl Log {
    /// The largest log that is replayed: 16 MiB. Hyper-V writes logs of 1 MiB, qemu of 1 MiB unless told otherwise.
    const MAX_LEN: u32 = 16 << 20;

    /// The log that `header` says must be replayed.
    pub(super) fn new(header: &Header) -> Result<Self> {
        if header.log_len > Self::MAX_LEN {
            let message = format!(
                "it was not closed properly, and its log of {} bytes is more than the {} that are replayed; attach it to \
                 Hyper-V once, or repair it with qemu-img check -r all",
                header.log_len,
                Self::MAX_LEN
            );
            return Err(Error::new(Kind::Unsupported, message).at(header.log_at));
        }
        let parts = header.log_len / Page::MAX;
        Ok(Self { at: header.log_at, guid: header.log_guid, parts: vec![Vec::new(); parts as usize] })
    }

    /// Asks for its pages.
    pub(super) fn ask(&self, tag: u32, found: &mut Found) -> Result<()> {
        (0..).zip(&self.parts).try_for_each(|(index, _)| {
            let at = self.at + index * u64::from(Page::MAX);
            found.page(Page { at: HostOffset(at), len: Page::MAX, min: Page::MAX, tag, index })
        })
    }

    /// Takes in a page.
    pub(super) fn take(&mut self, page: &Page, bytes: &[u8]) -> Result<()> {
        if bytes.len() != Page::MAX as usize {
            return Err(Error::new(Kind::Truncated, "the file ends within the log").at(page.at.0));
        }
        if let Some(part) = usize::try_from(page.index).ok().and_then(|index| self.parts.get_mut(index)) {
            *part = bytes.to_vec();
        }
        Ok(())
    }

    /// Whether all of it is there.
    pub(super) fn is_complete(&self) -> bool {
        self.parts.iter().all(|part| !part.is_empty())
    }

    /// Replays it.
    pub(super) fn replay(self) -> Result<Replayed> {
        let (at, guid) = (self.at, self.guid);
        let ring = Ring::new(self.parts, Page::MAX as usize);
        let read = || {
            let entries = active_sequence(&ring, guid)?;
            let mut overlay = Overlay::default();
            entries.iter().try_for_each(|entry| entry.replay(&ring, &mut overlay))?;
            let (mut flushed_file_len, mut last_file_len) = (0, 0);
            if let Some(head) = entries.last() {
                (flushed_file_len, last_file_len) = (head.flushed_file_len, head.last_file_len);
            }
            overlay.file_len = overlay.file_len.max(last_file_len);
            Ok(Replayed { overlay, entries: entries.len(), flushed_file_len })
        };
        read().map_err(|error: Error| error.at(at))
    }
}
