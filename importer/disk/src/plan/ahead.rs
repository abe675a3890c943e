//! Tables that are brought before the stream comes to them.

use super::Plan;
use super::op::Op;
use crate::{Page, Result};

impl Plan {
    /// Whether so much is held for the sake of tables that are still to come that bytes will soon be let go. Whoever can
    /// read the file in another place brings the tables now, see [`pages_ahead`](Self::pages_ahead); whoever can't loses
    /// nothing but the time of another pass.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        !self.ranged && !self.pages.is_empty() && !self.held.has_spill() && self.held.in_memory() > self.limits.held / 2
    }

    /// The next pages that the stream has not come to, in the order of the file: at most 1 MiB of them, and only as many
    /// as half of the room for tables holds, whatever they name; the other half is the stream's. Each is to be [supplied](Self::supply_ahead), which may name more; none
    /// when all tables are known, or the stream has to bring what is known first.
    #[must_use]
    pub fn pages_ahead(&self) -> Vec<Page> {
        let room = (self.limits.tables / 2).saturating_sub(self.tables());
        let mut bytes = 0;
        let fits = |page: &&Page| {
            bytes += u64::from(page.len);
            bytes <= u64::from(Page::MAX) && bytes * NAMED <= room
        };
        self.pages.range((self.head, 0, 0)..).map(|(_, page)| page).take_while(fits).copied().collect()
    }

    /// The bytes of a page from [`pages_ahead`](Self::pages_ahead): as [`supply`](Self::supply). The stream brings them
    /// once more; that they are the same is for whoever supplies them to see.
    pub fn supply_ahead(&mut self, page: &Page, bytes: &[u8], ops: &mut Vec<Op>) -> Result<()> {
        self.supply(page, bytes, ops)?;
        // It may name tables that have passed and are held.
        self.expand_ready(None, ops)
    }
}

/// How much the plan keeps for each byte of a table at most: 80 bytes for an entry of 8. Where entries have 4 bytes, they take
/// of the other half, and no more than that.
const NAMED: u64 = 10;
