//! A long table of fixed-size entries, read in pages of 64 KiB.

use crate::{Error, Found, HostOffset, Kind, Page, Result};

/// A block table somewhere in the file. Only [`Table::AHEAD`] pages are asked for at a time: each page read asks for the
/// one so many further on. The memory for outstanding pages is therefore the same for every size a header may claim,
/// and a table that reaches beyond the end of the file costs nothing.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    at: u64,
    len: u64,
    tag: u32,
    unread: u64,
}

impl Table {
    /// Length of a page in bytes.
    pub(crate) const PAGE: u32 = 64 << 10;
    /// How many pages are outstanding at most: 4 MiB of table.
    const AHEAD: u64 = 64;

    /// The table of `len` bytes at `at`, whose pages carry `tag` and their number as the index.
    pub(crate) fn new(at: u64, len: u64, tag: u32) -> Result<Self> {
        if at.checked_add(len).is_none() {
            return Err(Error::new(Kind::Corrupt, "the block table lies beyond any file").at(at));
        }
        Ok(Self { at, len, tag, unread: len.div_ceil(u64::from(Self::PAGE)) })
    }

    /// The offset just behind the table.
    pub(crate) fn end(&self) -> u64 {
        self.at.saturating_add(self.len)
    }

    /// Asks for the first pages.
    pub(crate) fn start(&self, found: &mut Found) -> Result<()> {
        (0..Self::AHEAD).try_for_each(|index| self.ask(index, found))
    }

    /// Notes that `page` was read (which gave `bytes`), and asks for a further one.
    pub(crate) fn read(&mut self, page: &Page, bytes: &[u8], found: &mut Found) -> Result<()> {
        if (bytes.len() as u64) < u64::from(page.len) {
            return Err(Error::new(Kind::Truncated, "the file ends within the block table").at(page.at.0));
        }
        self.unread = self.unread.saturating_sub(1);
        self.ask(page.index.saturating_add(Self::AHEAD), found)
    }

    /// Whether every page was read.
    pub(crate) fn complete(&self) -> bool {
        self.unread == 0
    }

    fn ask(&self, index: u64, found: &mut Found) -> Result<()> {
        let Some(start) = index.checked_mul(u64::from(Self::PAGE)).filter(|start| *start < self.len) else {
            return Ok(());
        };
        let len = u32::try_from(self.len - start).unwrap_or(u32::MAX).min(Self::PAGE);
        found.page(Page { at: HostOffset(self.at + start), len, min: len, tag: self.tag, index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a table, taking the outstanding pages in the order `pick` says; gives back how many were outstanding.
    fn read(len: u64, mut pick: impl FnMut(usize) -> usize) -> usize {
        let mut table = Table::new(1536, len, 7).unwrap();
        let mut found = Found::default();
        table.start(&mut found).unwrap();
        let (mut seen, mut most) = (Vec::new(), 0);
        while !found.pages.is_empty() {
            most = most.max(found.pages.len());
            let page = found.pages.swap_remove(pick(found.pages.len()));
            assert!(!table.complete());
            table.read(&page, &vec![0; page.len as usize], &mut found).unwrap();
            seen.push((page.index, page.at.0, page.end()));
        }
        assert!(table.complete());
        seen.sort_unstable();
        let mut at = 1536;
        for (index, (number, start, end)) in (0..).zip(seen) {
            assert_eq!((number, start), (index, at));
            at = end;
        }
        assert_eq!(at, table.end());
        most
    }

    #[test]
    fn every_page_comes_once_in_any_order() {
        for len in [4, 65536, 65540, 64 << 16, (64 << 16) + 8, 200 << 16] {
            let most = [read(len, |_| 0), read(len, |n| n - 1), read(len, |n| n / 2)];
            assert!(most.iter().all(|most| *most <= 64), "{most:?}");
        }
    }

    #[test]
    fn an_empty_table_is_complete_and_an_endless_one_refused() {
        assert!(Table::new(512, 0, 0).unwrap().complete());
        assert_eq!(Table::new(512, u64::MAX, 0).unwrap_err().kind(), Kind::Corrupt);
        assert!(Table::new(512, u64::MAX - 512, 0).is_ok());
    }

    #[test]
    fn a_short_page_is_a_truncated_file() {
        let mut table = Table::new(0, 100, 0).unwrap();
        let mut found = Found::default();
        table.start(&mut found).unwrap();
        let page = found.pages[0];
        assert_eq!(table.read(&page, &[0; 99], &mut found).unwrap_err().kind(), Kind::Truncated);
    }
}
