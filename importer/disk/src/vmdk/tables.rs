//! What the tables of a stream say, held for a comparison with its markers.

use std::collections::BTreeMap;

use super::census::{Census, TableCensus};
use super::directory::{Directory, Run};
use super::header::{Header, Place};
use super::roles::Roles;
use super::tag;
use crate::field::le32;
use crate::{Error, Found, HostOffset, Kind, Page, Result, SECTOR};

/// The tables of a stream. No grain is found by them.
#[derive(Debug)]
pub(super) struct Tables {
    header: Header,
    place: Where,
    census: Census,
}

#[derive(Debug)]
enum Where {
    /// Before the chain.
    Front(Directory),
    /// In the chain. They come before the directory that says what part of the disk each is about.
    Chain {
        /// By the sector of the table.
        tables: BTreeMap<u64, TableCensus>,
        /// How many table markers there were.
        count: u64,
        directory: Option<Directory>,
        runs: Option<Vec<Run>>,
    },
}

impl Tables {
    /// The tables of the stream with this header.
    pub fn new(header: Header) -> Result<Self> {
        let place = match header.directory {
            Place::Sector(sector) if sector < header.overhead => {
                let directory = Directory::new(header, sector)?;
                if directory.range().1 > header.overhead * SECTOR {
                    return Err(corrupt("the grain directory reaches into the grains"));
                }
                Where::Front(directory)
            }
            // Some writers go back to put the true place of a directory at the end into the header.
            _ => Where::Chain { tables: BTreeMap::new(), count: 0, directory: None, runs: None },
        };
        Ok(Self { header, place, census: Census::default() })
    }

    /// Asks for the directory when it is in front.
    pub fn start(&mut self, found: &mut Found) -> Result<()> {
        match &mut self.place {
            Where::Front(directory) => {
                self.header.skip_front(directory.range().0, found);
                directory.start(found)
            }
            Where::Chain { .. } => {
                found.skip(0, self.header.overhead * SECTOR);
                Ok(())
            }
        }
    }

    /// Asks for the table in the chain that begins at `at`; those in front are enough.
    pub fn table_in_chain(&mut self, at: u64, found: &mut Found) -> Result<()> {
        let Where::Chain { count, .. } = &mut self.place else {
            return Ok(());
        };
        *count += 1;
        if *count > self.header.tables() {
            return Err(corrupt("more grain tables than the disk has").at(at));
        }
        let len = self.header.table_bytes();
        let len = u32::try_from(len).map_err(|_| Error::new(Kind::Ours, "table too large"))?;
        found.page(Page { at: HostOffset(at), len, min: len, tag: tag::CHAIN_TABLE, index: at / SECTOR })
    }

    /// Asks for the directory in the chain that begins at `at`; one in front is enough.
    pub fn directory_in_chain(&mut self, at: u64, found: &mut Found) -> Result<()> {
        match &mut self.place {
            Where::Front(_) => Ok(()),
            Where::Chain { directory: Some(_), .. } => Err(corrupt("a second grain directory").at(at)),
            Where::Chain { directory, .. } => directory.insert(Directory::new(self.header, at / SECTOR)?).start(found),
        }
    }

    /// Reads a page of a directory.
    pub fn directory(&mut self, page: &Page, bytes: &[u8], found: &mut Found) -> Result<()> {
        match &mut self.place {
            Where::Front(directory) => {
                let Some(runs) = directory.expand(page, bytes, found)? else {
                    return Ok(());
                };
                let first = self.header.overhead * SECTOR;
                let mut ranges = vec![(0, (1 + self.header.descriptor_len) * SECTOR), directory.range()];
                for run in &runs {
                    let (start, end) = run.range(&self.header);
                    if end > first {
                        return Err(corrupt("a grain table reaches into the grains").at(start));
                    }
                    ranges.push((start, end));
                    run.ask(&self.header, found)?;
                }
                Roles::new(ranges)?;
            }
            Where::Chain { directory: Some(directory), runs, .. } => *runs = directory.expand(page, bytes, found)?,
            Where::Chain { .. } => {}
        }
        Ok(())
    }

    /// Reads a page of tables in front, or a table of the chain.
    pub fn table(&mut self, page: &Page, bytes: &[u8]) {
        // What stands for zeros instead of a grain: 0, and with flag 4 also 1.
        let zeros = u32::from(self.header.zeroed);
        let entries = le32(bytes).map(|sector| (sector > zeros).then_some(u64::from(sector)));
        match &mut self.place {
            Where::Front(_) => {
                // Entries behind the end of the disk mean nothing.
                for (grain, sector) in (page.index..self.header.grains()).zip(entries) {
                    if let Some(sector) = sector {
                        self.census.add(grain, sector);
                    }
                }
            }
            Where::Chain { tables, .. } => {
                let table = tables.entry(page.index).or_default();
                for (place, sector) in (0..).zip(entries) {
                    if let Some(sector) = sector {
                        table.add(place, sector);
                    }
                }
            }
        }
    }

    /// What the tables say, when all was read. `closed` is whether the stream ended with an end marker, `footer` the
    /// sector of the directory by the footer if there was one.
    pub fn finish(mut self, closed: bool, footer: Option<u64>) -> Result<Census> {
        self.check_directory(closed, footer)?;
        let Where::Chain { mut tables, runs: Some(runs), .. } = self.place else {
            return Ok(self.census);
        };
        let step = self.header.table_bytes() / SECTOR;
        for run in runs {
            for nth in 0..run.count {
                let sector = run.sector + nth * step;
                let table = tables.remove(&sector).ok_or_else(|| {
                    corrupt("the grain directory refers to a table that isn't there, or twice to one")
                        .at(sector * SECTOR)
                })?;
                self.census.add_table((run.index + nth) * self.header.per_table, table);
            }
        }
        if tables.is_empty() {
            return Ok(self.census);
        }
        Err(corrupt("a grain table is missing in the grain directory"))
    }

    /// Whether the directory is where the header and the footer say, and the stream ended as its writer ends one.
    fn check_directory(&self, closed: bool, footer: Option<u64>) -> Result<()> {
        let cut = || Error::new(Kind::Truncated, "the stream ends before its tables; transfer or export it again");
        let directory = match &self.place {
            Where::Front(directory) => directory,
            Where::Chain { directory: Some(directory), .. } if closed => directory,
            Where::Chain { .. } => return Err(cut()),
        };
        let sector = directory.sector();
        let by_header = match self.header.directory {
            Place::Sector(sector) => sector,
            Place::AtEnd => footer.ok_or_else(cut)?,
        };
        for named in [by_header, footer.unwrap_or(sector)] {
            if named != sector {
                return Err(corrupt(format!("the grain directory is at sector {sector}, not at {named}")));
            }
        }
        Ok(())
    }
}

fn corrupt(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(Kind::Corrupt, message)
}
