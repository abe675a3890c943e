//! monolithicSparse: a directory of tables of grains, all found by where the one before says.

use super::directory::{Directory, Run};
use super::header::{Header, Place};
use super::roles::Roles;
use super::tag;
use crate::claims::Claims;
use crate::field::le32;
use crate::{Body, Error, Extent, Found, GuestOffset, HostOffset, Kind, Page, Result, SECTOR};

/// The walk from the directory to the grains. No table is asked for before the whole directory has been read, so that
/// every grain can be held against all metadata there is, in whatever order the tables come.
#[derive(Debug)]
pub(super) struct Sparse {
    header: Header,
    file_len: Option<u64>,
    directory: Directory,
    roles: Roles,
    /// Where grains are in the file, in sectors.
    claims: Claims,
    /// Table pages not read yet, once the directory was read.
    outstanding: Option<usize>,
    /// The end of what was referred to.
    end: u64,
}

impl Sparse {
    /// The walk of this image.
    pub fn new(header: Header, file_len: Option<u64>) -> Result<Self> {
        let Place::Sector(sector) = header.directory else {
            return Err(Error::new(Kind::Corrupt, "no grain directory"));
        };
        let directory = Directory::new(header, sector)?;
        let mut this = Self {
            header,
            file_len,
            directory,
            roles: Roles::default(),
            claims: Claims::new(header.grain),
            outstanding: None,
            end: 0,
        };
        this.reach(this.directory.range().1)?;
        Ok(this)
    }

    /// Asks for the directory.
    pub fn start(&mut self, found: &mut Found) -> Result<()> {
        self.header.skip_front(self.directory.range().0, found);
        self.directory.start(found)
    }

    /// Reads a page of directory or tables.
    pub fn expand(&mut self, page: &Page, bytes: &[u8], found: &mut Found) -> Result<()> {
        if page.tag == tag::DIRECTORY {
            if let Some(runs) = self.directory.expand(page, bytes, found)? {
                self.outstanding = Some(self.tables(&runs, found)?);
            }
        } else {
            self.table(page, bytes, found)?;
            self.outstanding = self.outstanding.and_then(|pages| pages.checked_sub(1));
        }
        found.skip(page.at.0, page.end());
        if self.outstanding == Some(0) {
            found.skip(0, self.header.overhead * SECTOR);
        }
        Ok(())
    }

    /// Checks what could only be checked at the end.
    pub fn finish(&mut self, file_len: Option<u64>) -> Result<()> {
        self.file_len = self.file_len.or(file_len);
        self.reach(self.end)
    }

    /// Asks for the tables, and gives what has none. Returns how many pages it asked for.
    fn tables(&mut self, runs: &[Run], found: &mut Found) -> Result<usize> {
        let mut ranges = vec![(0, (1 + self.header.descriptor_len) * SECTOR), self.directory.range()];
        ranges.extend(runs.iter().map(|run| run.range(&self.header)));
        self.roles = Roles::new(ranges)?;
        let mut at = 0;
        let mut pages = 0;
        for run in runs {
            let (first, behind) = run.grains(&self.header);
            self.zeros(at, first, found);
            at = behind;
            pages += run.ask(&self.header, found)?;
        }
        self.zeros(at, self.header.grains(), found);
        Ok(pages)
    }

    fn table(&mut self, page: &Page, bytes: &[u8], found: &mut Found) -> Result<()> {
        // Entries behind the end of the disk mean nothing.
        for (grain, sector) in (page.index..self.header.grains()).zip(le32(bytes)) {
            let (start, end) = self.header.guest(grain, grain + 1);
            let body = match u64::from(sector) {
                0 => Body::Zero,
                1 if self.header.zeroed => Body::Zero,
                sector => Body::Data { at: HostOffset(self.claim(sector, end - start)?) },
            };
            found.extent(Extent { guest: GuestOffset(start), len: end - start, body });
        }
        Ok(())
    }

    /// Takes a grain of the file for the disk; gives its first byte.
    fn claim(&mut self, sector: u64, len: u64) -> Result<u64> {
        let at = sector * SECTOR;
        // VMware: overHead is what the metadata occupies, so a grain in there isn't data.
        if sector < self.header.overhead || self.roles.touches(at, at + len) {
            return Err(Error::new(Kind::Corrupt, "a grain of data lies in the metadata").at(at));
        }
        self.claims.claim(sector).map_err(|error| error.at(at))?;
        self.reach(at + len)?;
        Ok(at)
    }

    /// Notes that the file must reach up to there.
    fn reach(&mut self, end: u64) -> Result<()> {
        self.end = self.end.max(end);
        match self.file_len {
            Some(len) if end > len => {
                Err(Error::new(Kind::Truncated, format!("the file ends before data or tables at {end:#x}")).at(len))
            }
            _ => Ok(()),
        }
    }

    fn zeros(&self, first: u64, behind: u64, found: &mut Found) {
        let (start, end) = self.header.guest(first, behind);
        found.extent(Extent { guest: GuestOffset(start), len: end.saturating_sub(start), body: Body::Zero });
    }
}
