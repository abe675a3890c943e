//! The grain directory: where the grain tables are.

use std::collections::BTreeMap;

use super::header::Header;
use super::tag;
use crate::field::le32;
use crate::table::Table;
use crate::{Error, Found, HostOffset, Kind, Page, Result, SECTOR};

/// A grain directory on its way. Its pages may come in any order; it is of use when it is whole.
#[derive(Debug)]
pub(super) struct Directory {
    header: Header,
    sector: u64,
    pages: Table,
    parts: BTreeMap<u64, Vec<Run>>,
    runs: usize,
}

/// Grain tables that follow each other both in the directory and in the file. All programs known write all tables of a
/// disk as one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// First entry in the directory.
    pub index: u64,
    /// First sector in the file.
    pub sector: u64,
    /// How many tables.
    pub count: u64,
}

impl Directory {
    /// The directory at `sector`.
    pub fn new(header: Header, sector: u64) -> Result<Self> {
        let pages = Table::new(sector.saturating_mul(SECTOR), header.tables() * 4, tag::DIRECTORY)?;
        Ok(Self { header, sector, pages, parts: BTreeMap::new(), runs: 0 })
    }

    /// Its first sector.
    pub fn sector(&self) -> u64 {
        self.sector
    }

    /// Its first byte and the one behind it, in the file.
    pub fn range(&self) -> (u64, u64) {
        (self.sector.saturating_mul(SECTOR), self.pages.end())
    }

    /// Asks for it.
    pub fn start(&self, found: &mut Found) -> Result<()> {
        self.pages.start(found)
    }

    /// Reads a page of it. With the last page, gives the tables in the order of the directory.
    pub fn expand(&mut self, page: &Page, bytes: &[u8], found: &mut Found) -> Result<Option<Vec<Run>>> {
        self.pages.read(page, bytes, found)?;
        let first = page.index * u64::from(Table::PAGE) / 4;
        let step = self.header.table_bytes() / SECTOR;
        let mut part: Vec<Run> = Vec::new();
        for (index, sector) in (first..).zip(le32(bytes)) {
            let sector = u64::from(sector);
            if sector == 0 {
                continue;
            }
            match part.last_mut() {
                Some(run) if run.index + run.count == index && run.sector + run.count * step == sector => {
                    run.count += 1;
                }
                _ => part.push(Run { index, sector, count: 1 }),
            }
        }
        self.runs += part.len();
        if self.runs > MAX_RUNS {
            return Err(Error::new(Kind::Oversized, "the grain tables are strewn over too many places").at(page.at.0));
        }
        self.parts.insert(page.index, part);
        if !self.pages.complete() {
            return Ok(None);
        }
        Ok(Some(std::mem::take(&mut self.parts).into_values().flatten().collect()))
    }
}

impl Run {
    /// First byte of its tables, and the one behind them, in the file.
    pub fn range(&self, header: &Header) -> (u64, u64) {
        let start = self.sector * SECTOR;
        (start, start + self.count * header.table_bytes())
    }

    /// The grains of its tables: the first, and the one behind the last.
    pub fn grains(&self, header: &Header) -> (u64, u64) {
        let per_table = header.per_table;
        (self.index * per_table, ((self.index + self.count) * per_table).min(header.grains()))
    }

    /// Asks for its tables. The index of a page is its first grain. Returns how many pages.
    pub fn ask(&self, header: &Header, found: &mut Found) -> Result<usize> {
        let (start, end) = self.range(header);
        let (first, behind) = self.grains(header);
        let mut pages = 0;
        for at in (start..end).step_by(Table::PAGE as usize) {
            let len = u32::try_from(end - at).map_or(Table::PAGE, |rest| rest.min(Table::PAGE));
            let grain = first + (at - start) / 4;
            // The last table of a disk need not be there beyond the entries in use.
            let used = behind.saturating_sub(grain).saturating_mul(4).min(u64::from(len));
            let min = u32::try_from(used).unwrap_or(len);
            found.page(Page { at: HostOffset(at), len, min, tag: tag::TABLE, index: grain })?;
            pages += 1;
        }
        Ok(pages)
    }
}

/// With 40 bytes for a run and for its page this bounds a hostile directory to about 20 MiB. An image with more
/// would have more than 8 TiB of tables that were each allocated alone.
const MAX_RUNS: usize = 1 << 18;
