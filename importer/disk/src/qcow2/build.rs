//! Builds qcow2 images in memory, with every table and cluster wherever the test wants it.

use crate::Codec;

/// A small seeded generator (xorshift*), so that a failure can be run again.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What the builder may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) cluster_bits: u32,
    pub(crate) clusters: u64,
    pub(crate) extended: bool,
    /// Percentages.
    pub(crate) packed: u64,
    pub(crate) shared: u64,
    /// Where tables go relative to data.
    pub(crate) order: Order,
    pub(crate) refcounts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// All tables in front.
    TablesFirst,
    /// Each table before its data, as qemu-img writes.
    Interleaved,
    /// L1 at the end (after a resize).
    L1Last,
    /// Anything anywhere.
    Shuffled,
}

/// An image and the disk it must give.
pub(crate) struct Built {
    pub(crate) file: Vec<u8>,
    pub(crate) disk: Vec<u8>,
}

/// A stand-in for a codec: eight bytes of seed unfold into a unit. The plan never looks inside, so this is as good as
/// deflate, and the disk crate stays free of codecs.
pub(crate) fn unfold(input: &[u8], len: usize) -> Vec<u8> {
    let seed = u64::from_le_bytes(input[..8].try_into().unwrap());
    let mut random = Random::new(seed);
    (0..len).map(|_| random.next() as u8).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    L1,
    L2(usize),
    Data(usize),
    PackedRun,
    Junk,
}

/// Builds an image of this shape from a seed.
pub(crate) fn build(shape: Shape, seed: u64) -> Built {
    let mut random = Random::new(seed);
    let cluster = 1usize << shape.cluster_bits;
    let entry_len = if shape.extended { 16 } else { 8 };
    let entries = cluster / entry_len;
    let tail = if random.chance(50) { 512 * (1 + random.below(cluster as u64 / 512) as usize) } else { cluster };
    let size = (shape.clusters as usize - 1) * cluster + tail;
    let l1_len = size.div_ceil(cluster * entries);
    let mut disk = vec![0u8; shape.clusters as usize * cluster];
    let mut tables = vec![vec![0u8; cluster]; l1_len];
    let mut present = vec![false; l1_len];

    #[derive(Clone, Copy)]
    enum Kind {
        Data(usize),
        Packed { run: usize, skip: usize },
        Zero,
        Preallocated(usize),
    }
    let mut kinds: Vec<Option<Kind>> = Vec::new();
    let mut data: Vec<Vec<u8>> = Vec::new();
    let mut bitmaps: Vec<(u32, u32)> = Vec::new();
    let mut runs: Vec<Vec<u8>> = vec![Vec::new()];
    for index in 0..shape.clusters as usize {
        let table = index / entries;
        if random.chance(30) {
            kinds.push(None);
            bitmaps.push((0, 0));
            continue;
        }
        present[table] = true;
        let content: Vec<u8> = (0..cluster).map(|_| random.next() as u8).collect();
        let at = index * cluster;
        let mut bitmap = (u32::MAX, 0);
        let kind = if random.chance(shape.packed) {
            let seed: [u8; 8] = content[..8].try_into().unwrap();
            disk[at..at + cluster].copy_from_slice(&unfold(&seed, cluster));
            let padding = random.below(cluster as u64 / 2) as usize;
            let mut last = runs.len() - 1;
            if runs[last].len() + 8 + padding > cluster * 3 {
                runs.push(Vec::new());
                last += 1;
            }
            let run = &mut runs[last];
            if random.chance(20) {
                run.resize(run.len() + random.below(40) as usize, 0xee);
            }
            let skip = run.len();
            run.extend(seed);
            run.resize(run.len() + padding, 0xdd);
            bitmap = (0, 0);
            Kind::Packed { run: last, skip }
        } else if random.chance(10) {
            Kind::Zero
        } else if random.chance(10) {
            data.push(content);
            Kind::Preallocated(data.len() - 1)
        } else {
            let slot = if !data.is_empty() && random.chance(shape.shared) {
                random.below(data.len() as u64) as usize
            } else {
                data.push(content);
                data.len() - 1
            };
            if shape.extended {
                let allocated = random.next() as u32 | 1;
                bitmap = (allocated, !allocated & random.next() as u32);
            }
            for part in 0..32 {
                if bitmap.0 >> part & 1 != 0 {
                    let (from, to) = (part * cluster / 32, (part + 1) * cluster / 32);
                    disk[at + from..at + to].copy_from_slice(&data[slot][from..to]);
                }
            }
            Kind::Data(slot)
        };
        kinds.push(Some(kind));
        bitmaps.push(bitmap);
    }
    disk.truncate(size);

    // Lay the units out.
    let mut units: Vec<Unit> = Vec::new();
    let l2s = (0..l1_len).filter(|index| present[*index]).map(Unit::L2);
    let all_data = (0..data.len()).map(Unit::Data);
    match shape.order {
        Order::TablesFirst => units.extend(std::iter::once(Unit::L1).chain(l2s).chain(all_data)),
        Order::Interleaved => {
            units.push(Unit::L1);
            let per = data.len().div_ceil(l1_len).max(1);
            for (table, present) in present.iter().enumerate() {
                if *present {
                    units.push(Unit::L2(table));
                }
                units.extend((table * per..((table + 1) * per).min(data.len())).map(Unit::Data));
            }
        }
        Order::L1Last => units.extend(l2s.chain(all_data).chain([Unit::L1])),
        Order::Shuffled => {
            units.extend(std::iter::once(Unit::L1).chain(l2s).chain(all_data).chain([Unit::Junk, Unit::Junk]));
            for index in (1..units.len()).rev() {
                units.swap(index, random.below(index as u64 + 1) as usize);
            }
        }
    }
    for _ in 0..runs.len() {
        let place =
            if shape.order == Order::Shuffled { random.below(units.len() as u64 + 1) as usize } else { units.len() };
        units.insert(place, Unit::PackedRun);
    }

    let mut file = vec![0u8; cluster * if shape.refcounts { 3 } else { 1 }];
    let mut l1_at = 0;
    let mut table_at = vec![0; l1_len];
    let mut data_at = vec![0; data.len()];
    let mut run_at = Vec::new();
    let mut next_run = 0;
    for unit in units {
        let at = file.len();
        match unit {
            Unit::L1 => {
                l1_at = at;
                file.resize(at + (l1_len * 8).next_multiple_of(cluster), 0);
            }
            Unit::L2(table) => {
                table_at[table] = at;
                file.resize(at + cluster, 0);
            }
            Unit::Data(slot) => {
                data_at[slot] = at;
                file.extend(&data[slot]);
            }
            Unit::PackedRun => {
                run_at.push(at);
                file.extend(&runs[next_run]);
                let padded = file.len().next_multiple_of(cluster);
                file.resize(padded, 0xcc);
                next_run += 1;
            }
            Unit::Junk => file.resize(at + cluster, 0xbb),
        }
    }

    let mut counts = vec![0u16; file.len() / cluster];
    counts[0] = 1;
    for at in (l1_at..l1_at + l1_len * 8).step_by(cluster) {
        counts[at / cluster] += 1;
    }
    let x = 62 - (shape.cluster_bits - 8);
    for (index, kind) in kinds.iter().enumerate() {
        let (table, slot) = (index / entries, index % entries);
        let word = match kind {
            None => 0,
            Some(Kind::Data(slot)) => {
                counts[data_at[*slot] / cluster] += 1;
                data_at[*slot] as u64 | 1 << 63
            }
            Some(Kind::Preallocated(slot)) if !shape.extended => {
                counts[data_at[*slot] / cluster] += 1;
                data_at[*slot] as u64 | 1
            }
            Some(Kind::Zero) if !shape.extended => 1,
            Some(Kind::Zero | Kind::Preallocated(_)) => {
                bitmaps[index] = (0, u32::MAX);
                0
            }
            Some(Kind::Packed { run, skip }) => {
                let at = run_at[*run] + skip;
                let end = at + 8;
                let sectors = (end - 1) / 512 - at / 512;
                counts[at / cluster] += 1;
                if (at / 512 + sectors) * 512 / cluster != at / cluster {
                    counts[(at / 512 + sectors) * 512 / cluster] += 1;
                }
                1 << 62 | (sectors as u64) << x | at as u64
            }
        };
        let entry = &mut tables[table][slot * entry_len..];
        entry[..8].copy_from_slice(&word.to_be_bytes());
        if shape.extended {
            let (allocated, zero) = bitmaps[index];
            entry[8..16].copy_from_slice(&(u64::from(zero) << 32 | u64::from(allocated)).to_be_bytes());
        }
    }
    for table in (0..l1_len).filter(|table| present[*table]) {
        counts[table_at[table] / cluster] += 1;
        file[table_at[table]..][..cluster].copy_from_slice(&tables[table]);
        file[l1_at + table * 8..][..8].copy_from_slice(&(table_at[table] as u64 | 1 << 63).to_be_bytes());
    }
    if shape.refcounts {
        counts[1] = 1;
        counts[2] = 1;
        file[cluster..cluster + 8].copy_from_slice(&(2 * cluster as u64).to_be_bytes());
        for (slot, count) in counts.iter().take(cluster / 2).enumerate() {
            file[2 * cluster + slot * 2..][..2].copy_from_slice(&count.to_be_bytes());
        }
    }
    let mut header = Header { cluster_bits: shape.cluster_bits, size: size as u64, ..Header::default() };
    header.l1_size = l1_len as u32;
    header.l1_offset = l1_at as u64;
    header.extended = shape.extended;
    header.refcount_table = if shape.refcounts { (cluster as u64, 1) } else { (0, 0) };
    header.write(&mut file);
    Built { file, disk }
}

/// The header's fields, for tests that break one.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) backing: (u64, u32),
    pub(crate) cluster_bits: u32,
    pub(crate) size: u64,
    pub(crate) crypt: u32,
    pub(crate) l1_size: u32,
    pub(crate) l1_offset: u64,
    pub(crate) refcount_table: (u64, u32),
    pub(crate) snapshots: (u32, u64),
    pub(crate) incompatible: u64,
    pub(crate) extended: bool,
    pub(crate) codec: Codec,
    pub(crate) refcount_order: u32,
    pub(crate) length: u32,
}

impl Default for Header {
    fn default() -> Self {
        Self {
            version: 3,
            backing: (0, 0),
            cluster_bits: 16,
            size: 1 << 20,
            crypt: 0,
            l1_size: 1,
            l1_offset: 1 << 16,
            refcount_table: (2 << 16, 1),
            snapshots: (0, 0),
            incompatible: 0,
            extended: false,
            codec: Codec::Deflate,
            refcount_order: 4,
            length: 112,
        }
    }
}

impl Header {
    pub(crate) fn write(&self, file: &mut [u8]) {
        let zstd = self.codec == Codec::Zstd;
        let incompatible = self.incompatible | u64::from(self.extended) << 4 | u64::from(zstd) << 3;
        let mut bytes = b"QFI\xfb".to_vec();
        bytes.extend(self.version.to_be_bytes());
        bytes.extend(self.backing.0.to_be_bytes());
        bytes.extend(self.backing.1.to_be_bytes());
        bytes.extend(self.cluster_bits.to_be_bytes());
        bytes.extend(self.size.to_be_bytes());
        bytes.extend(self.crypt.to_be_bytes());
        bytes.extend(self.l1_size.to_be_bytes());
        bytes.extend(self.l1_offset.to_be_bytes());
        bytes.extend(self.refcount_table.0.to_be_bytes());
        bytes.extend(self.refcount_table.1.to_be_bytes());
        bytes.extend(self.snapshots.0.to_be_bytes());
        bytes.extend(self.snapshots.1.to_be_bytes());
        if self.version >= 3 {
            bytes.extend(incompatible.to_be_bytes());
            bytes.extend([0; 16]);
            bytes.extend(self.refcount_order.to_be_bytes());
            bytes.extend(self.length.to_be_bytes());
            bytes.extend([u8::from(zstd), 0, 0, 0, 0, 0, 0, 0]);
        }
        file[..bytes.len()].copy_from_slice(&bytes);
    }

    pub(crate) fn file(&self) -> Vec<u8> {
        let mut file = vec![0; 4 << 16];
        self.write(&mut file);
        file
    }
}
