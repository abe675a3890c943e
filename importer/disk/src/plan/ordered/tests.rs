use bytes::Bytes;

use super::*;
use crate::plan::tests::{Target, shapes};
use crate::qcow2::Qcow2;
use crate::qcow2::build::{Built, Header, Order, Random, Shape, build};
use crate::{Extent, HostOffset};

/// A disk that is written once, from its start to its end.
struct Written {
    target: Target,
    next: u64,
}

impl Written {
    fn apply(&mut self, ops: &mut Vec<Op>) {
        for op in ops.iter() {
            let (guest, len) = match op {
                Op::Write { guest, bytes } => (guest.0, bytes.len() as u64),
                Op::Zero { guest, len } | Op::Unpack { guest, len, .. } => (guest.0, *len),
            };
            assert!(guest == self.next && len > 0, "{guest:#x} and {len} bytes instead of {:#x}", self.next);
            self.next += len;
        }
        self.target.apply(ops);
    }
}

/// What a reading cost.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    pages: u64,
    data: u64,
    runs: usize,
    held: u64,
}

/// Reads a file in the order of its disk.
fn read(format: Box<dyn Format>, built: &Built, limits: Limits, gap: u64, random: &mut Random) -> Result<Cost> {
    let file_len = built.file.len() as u64;
    let mut plan = Ordered::new(format, file_len, limits)?;
    let mut written = Written { target: Target::new(built.disk.len()), next: 0 };
    let (mut ops, mut cost) = (Vec::new(), Cost::default());
    while !plan.is_complete() {
        loop {
            let batch = plan.page_batch()?;
            if batch.is_empty() {
                break;
            }
            assert!(batch.is_sorted_by_key(|page| page.at));
            for page in batch {
                let bytes = built.file.get(page.at.0 as usize..page.end().min(file_len) as usize).unwrap_or_default();
                cost.pages += bytes.len() as u64;
                plan.supply(&page, bytes)?;
            }
        }
        let runs = plan.runs(gap, &mut ops)?;
        written.apply(&mut ops);
        cost.runs += runs.len();
        for run in runs {
            assert!(run.start < run.end && run.end <= file_len, "{run:?}");
            cost.data += run.end - run.start;
            plan.seek(run.start);
            let mut at = run.start;
            while at < run.end {
                let len = (1 + random.below(100_000)).min(run.end - at);
                let chunk = Bytes::copy_from_slice(&built.file[at as usize..(at + len) as usize]);
                plan.push(if chunk.iter().all(|byte| *byte == 0) { Piece::Hole(len) } else { chunk.into() }, &mut ops)?;
                written.apply(&mut ops);
                cost.held = cost.held.max(plan.held.in_memory());
                at += len;
            }
        }
        plan.end_runs()?;
    }
    plan.finish(&mut ops)?;
    written.apply(&mut ops);
    written.target.check(&built.disk);
    Ok(cost)
}

fn qcow2(built: &Built) -> Result<Box<dyn Format>> {
    let head = &built.file[..built.file.len().min(65536)];
    Ok(Box::new(Qcow2::open(head, Some(built.file.len() as u64))?))
}

const AMPLE: Limits = Limits { held: 1 << 20, tables: 32 << 20 };

#[test]
fn any_layout_comes_out_in_order() {
    for (shape, seed) in shapes() {
        let built = build(shape, seed);
        let mut random = Random::new(seed);
        for (held, tables, gap) in
            [(1 << 20, 32 << 20, 0), (0, 10_000, 0), (20_000, 40_000, 4096), (100_000, 32 << 20, 1 << 20)]
        {
            let cost = read(qcow2(&built).unwrap(), &built, Limits { held, tables }, gap, &mut random)
                .unwrap_or_else(|error| panic!("{shape:?} {seed} {held} {tables} {gap}: {error}"));
            // One unit may be larger than all that may be held.
            let unit = 2 << shape.cluster_bits;
            assert!(cost.held <= held + unit, "{shape:?} {seed}: {cost:?} of {held}");
        }
    }
}

/// What is in the order of the disk is read once, in runs that go on until a table lies between.
#[test]
fn what_is_in_order_is_read_as_it_lies() {
    for packed in [0, 100] {
        for order in [Order::TablesFirst, Order::Interleaved] {
            let shape =
                Shape { cluster_bits: 12, clusters: 900, extended: false, packed, shared: 0, order, refcounts: true };
            let built = build(shape, 1);
            let limits = Limits { held: 64 << 10, tables: 32 << 20 };
            let cost = read(qcow2(&built).unwrap(), &built, limits, 64 << 10, &mut Random::new(7)).unwrap();
            assert!(cost.pages + cost.data <= built.file.len() as u64 + 8192, "{cost:?} of {}", built.file.len());
            // A bundle may begin in the sector in which the one before ends.
            assert!(cost.runs as u64 <= 1 + cost.data / limits.held, "{cost:?}");
            assert!(cost.held <= 8192, "{cost:?}");
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_truncated_never_zeros() {
    for (shape, seed) in shapes().filter(|(shape, _)| shape.clusters < 60) {
        let whole = build(shape, seed);
        let mut random = Random::new(seed);
        for _ in 0..12 {
            let len = random.below(whole.file.len() as u64) as usize;
            let cut = Built { file: whole.file[..len].to_vec(), disk: whole.disk.clone() };
            // What is cut may be junk behind the last byte in use: then the disk must still be right.
            if let Err(error) = qcow2(&cut).and_then(|format| read(format, &cut, AMPLE, 0, &mut random)) {
                assert!(matches!(error.kind(), Kind::Truncated | Kind::Corrupt), "{error}");
            }
        }
    }
}

/// Reads what may be damaged as far as it goes: its disk is nobody's.
fn survive(file: &[u8], limits: Limits) -> Result<()> {
    let file_len = file.len() as u64;
    let format = Qcow2::open(&file[..file.len().min(65536)], Some(file_len))?;
    let mut plan = Ordered::new(Box::new(format), file_len, limits)?;
    let mut ops = Vec::new();
    while !plan.is_complete() {
        for page in plan.page_batch()? {
            plan.supply(&page, file.get(page.at.0 as usize..page.end().min(file_len) as usize).unwrap_or_default())?;
        }
        for run in plan.runs(0, &mut ops)? {
            plan.seek(run.start);
            plan.push(Bytes::copy_from_slice(&file[run.start as usize..run.end as usize]).into(), &mut ops)?;
            ops.clear();
        }
        plan.end_runs()?;
    }
    plan.finish(&mut ops)
}

#[test]
fn flipped_bits_are_never_our_fault() {
    for (shape, seed) in shapes().filter(|(shape, _)| shape.clusters < 60) {
        let whole = build(shape, seed);
        let mut random = Random::new(seed + 100);
        for _ in 0..20 {
            let mut file = whole.file.clone();
            for _ in 0..1 + random.below(4) {
                let at = random.below(file.len() as u64) as usize;
                file[at] ^= 1 << random.below(8);
            }
            if let Err(error) = survive(&file, Limits { held: random.below(1 << 17), tables: 4 << 20 }) {
                assert_ne!(error.kind(), Kind::Ours, "{shape:?} {seed}: {error}");
            }
        }
    }
}

/// Tables whose entries are these, in clusters of 64 KiB, and so many clusters behind them.
fn image(tables: usize, data: usize, entry: impl Fn(usize) -> u64) -> Vec<u8> {
    let cluster = 1 << 16;
    let mut file = vec![0; (tables + 2 + data) * cluster];
    let header =
        Header { size: (tables as u64) << 29, l1_size: tables as u32, refcount_table: (0, 0), ..Header::default() };
    header.write(&mut file);
    for table in 0..tables {
        let at = (table + 2) * cluster;
        file[cluster + table * 8..][..8].copy_from_slice(&(at as u64).to_be_bytes());
        for (nth, slot) in file[at..at + cluster].chunks_exact_mut(8).enumerate() {
            slot.copy_from_slice(&entry(table * cluster / 8 + nth).to_be_bytes());
        }
    }
    file
}

#[test]
fn data_used_over_and_over_is_a_bomb() {
    let place = 10 << 16;
    // As it is, and packed: a sector of it unfolds into a cluster each time.
    for entry in [place, 1 << 62 | place] {
        let error = survive(&image(8, 1, |_| entry), AMPLE).unwrap_err();
        assert_eq!(error.kind(), Kind::Bomb, "{error}");
    }
}

/// A window is full long before the tables of such a disk end; what waits are the tables as they are.
#[test]
fn a_window_does_not_grow_with_the_tables() {
    // Every second cluster, so that nothing can be joined.
    let file = image(8, 8 * 4096, |nth| if nth % 2 == 0 { (10 + nth as u64 / 2) << 16 } else { 0 });
    let limits = Limits { held: 1 << 20, tables: 1 << 20 };
    let format = Qcow2::open(&file[..65536], Some(file.len() as u64)).unwrap();
    let mut plan = Ordered::new(Box::new(format), file.len() as u64, limits).unwrap();
    loop {
        let batch = plan.page_batch().unwrap();
        if batch.is_empty() {
            break;
        }
        for page in batch {
            plan.supply(&page, &file[page.at.0 as usize..page.end() as usize]).unwrap();
        }
    }
    let page = 8192 * size_of::<Extent>() as u64;
    assert!(plan.frontier.weight() > limits.tables / 2 && plan.frontier.weight() <= limits.tables / 2 + page);
    assert!(!plan.supplied.is_empty() && plan.pages.is_empty());
}

/// Extents from a list, so that a test can have any.
struct Listed(Vec<Extent>);

impl Format for Listed {
    fn start(&mut self, found: &mut Found) -> Result<()> {
        self.0.iter().cloned().for_each(|extent| found.extent(extent));
        Ok(())
    }

    fn expand(&mut self, _: &Page, _: &[u8], _: &mut Found) -> Result<()> {
        Ok(())
    }

    fn geometry(&self) -> Option<Geometry> {
        Some(Geometry { virtual_size: Some(self.0.iter().map(Extent::end).max().unwrap_or(0)), cdrom: false })
    }

    fn finish(&mut self, _: Option<u64>, _: &mut Found) -> Result<()> {
        Ok(())
    }

    fn features(&self) -> Vec<crate::Feature> {
        Vec::new()
    }

    fn name(&self) -> &'static str {
        "listed"
    }
}

proptest::proptest! {
    /// Extents of any kind at any place of the file, found in any order, against a plain array.
    #[test]
    fn agrees_with_an_array(
        parts in proptest::collection::vec((1u64..3000, 0u64..20_000, 0u8..4), 1..60),
        (held, gap, seed) in (0u64..20_000, 0u64..2000, 0u64..1000),
    ) {
        let file: Vec<u8> = (0..25_000u32).map(|n| if n % 7000 < 1000 { 0 } else { ((n * 31) >> 3) as u8 }).collect();
        let (mut extents, mut disk) = (Vec::new(), Vec::new());
        for (len, at, kind) in parts {
            let guest = GuestOffset(disk.len() as u64);
            let bytes = &file[at as usize..(at + len) as usize];
            let body = match kind {
                0 => Body::Zero,
                1 => Body::Inline(Bytes::copy_from_slice(bytes)),
                _ => Body::Data { at: HostOffset(at) },
            };
            disk.extend(bytes.iter().map(|byte| if kind == 0 { 0 } else { *byte }));
            extents.push(Extent { guest, len, body });
        }
        let mut random = Random::new(seed);
        for last in (1..extents.len()).rev() {
            extents.swap(last, random.below(last as u64 + 1) as usize);
        }
        let built = Built { file, disk };
        let limits = Limits { held, tables: 1 << 20 };
        let cost = read(Box::new(Listed(extents)), &built, limits, gap, &mut random).unwrap();
        proptest::prop_assert!(cost.held <= held.max(3000), "{:?} {}", cost, held);
    }
}
