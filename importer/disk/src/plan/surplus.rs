//! Bytes that can go.

use super::Plan;
use crate::Result;

impl Plan {
    /// Lets go of bytes that can't be needed, and of more when there are too many.
    pub(super) fn let_go(&mut self, pushed_at: u64) -> Result<()> {
        let keep = self.begun();
        for (from, to) in std::mem::take(&mut self.used) {
            self.held.remove_except(from, to, &keep);
        }
        if self.ranged || self.pages.is_empty() {
            // Every table is known, or those to come lie behind: what has no place by now has none.
            self.held.retain(&keep);
            return Ok(());
        }
        let first = self.skips.partition_point(|(_, end)| *end <= pushed_at);
        for (start, end) in self.skips.get(first..).unwrap_or_default() {
            if *start >= self.head {
                break;
            }
            self.held.remove_except(*start, *end, &keep);
        }
        self.let_go_unreferenced(&keep);
        if self.held.in_memory() > self.limits.held {
            if self.held.has_spill() {
                self.held.spill_down_to(self.limits.held / 2, &keep)?;
            } else {
                self.held.retain(&keep);
            }
        }
        Ok(())
    }

    /// The host ranges of pages and packed units that have begun to arrive, sorted.
    fn begun(&self) -> Vec<(u64, u64)> {
        let pages = self.pages.range(..(self.head, 0, 0)).map(|(_, page)| (page.at.0, page.end()));
        let packed = self.pending.begun(self.head);
        let mut begun: Vec<_> = pages.chain(packed).collect();
        begun.sort_unstable();
        begun
    }

    /// Lets go of held bytes in blocks that, by the image's own bookkeeping, nothing more will refer to.
    fn let_go_unreferenced(&mut self, keep: &[(u64, u64)]) {
        if self.format.references(0).is_none() || self.held.in_memory() < LET_GO_ABOVE.min(self.limits.held / 4) {
            return;
        }
        let mut gone = Vec::new();
        for (at, len) in self.held.runs(0, self.head) {
            let mut from = at;
            while from < at + len {
                let Some((left, block)) = self.format.references(from) else { break };
                let end = ((from / block + 1) * block).min(at + len);
                if left == 0 && !keep.iter().any(|(start, stop)| *start < end && from < *stop) {
                    gone.push((from, end));
                }
                from = end;
            }
        }
        for (start, end) in gone {
            self.held.remove(start, end);
        }
    }
}

/// Below this many held bytes nobody looks for unreferenced blocks: the look costs more than the memory.
const LET_GO_ABOVE: u64 = 2 << 20;
