//! Whether the tables of a stream and its markers speak of the same grains.

/// Counts grains and sums up where they are, so that two accounts of the same stream can be compared without keeping
/// either. The order of counting doesn't matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Census {
    /// How many grains.
    pub count: u64,
    sum: u64,
}

/// The account of a grain table that was read before it is known which part of the disk it is about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TableCensus {
    count: u64,
    /// Sum of the mixed sectors.
    sectors: u64,
    /// The same, each times its place in the table, which is counted from 1.
    places: u64,
}

impl Census {
    /// Counts the grain whose marker is at `sector` of the file.
    pub fn add(&mut self, grain: u64, sector: u64) {
        self.count += 1;
        // Linear in the grain number, so that a table can be moved to its place when that is known.
        self.sum = self.sum.wrapping_add(mix(sector).wrapping_mul(grain.wrapping_add(1)));
    }

    /// Counts the grains of a table whose first grain is this.
    pub fn add_table(&mut self, first: u64, table: TableCensus) {
        self.count += table.count;
        self.sum = self.sum.wrapping_add(table.sectors.wrapping_mul(first)).wrapping_add(table.places);
    }
}

impl TableCensus {
    /// Counts an entry, by its place in the table.
    pub fn add(&mut self, place: u64, sector: u64) {
        self.count += 1;
        self.sectors = self.sectors.wrapping_add(mix(sector));
        self.places = self.places.wrapping_add(mix(sector).wrapping_mul(place.wrapping_add(1)));
    }
}

/// The finalizer of splitmix64: unlike sectors give unlike numbers.
fn mix(sector: u64) -> u64 {
    let mut z = sector.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_counts_the_same_as_its_grains() {
        let entries = [(3, 4000), (4, 128), (511, 77)];
        let mut one_by_one = Census::default();
        let mut table = TableCensus::default();
        for (place, sector) in entries {
            one_by_one.add(512 * 9 + place, sector);
            table.add(place, sector);
        }
        let mut as_table = Census::default();
        as_table.add_table(512 * 9, table);
        assert_eq!(one_by_one, as_table);

        let mut elsewhere = Census::default();
        elsewhere.add_table(512 * 8, table);
        assert_ne!(one_by_one, elsewhere);
    }
}
