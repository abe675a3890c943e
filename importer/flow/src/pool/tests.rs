use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};

use bytes::Bytes;
use importer_codec::Bin;
use importer_disk::GuestOffset;
use importer_disk::plan::Op;
use proptest::prelude::*;

use super::Pool;
use crate::sink::ordered::WINDOW;
use crate::sink::{Claim, Written};
use crate::slab::PAGE;
use crate::unpack::BUFFER;
use crate::{Result, Sink};

/// A disk in memory that keeps the ranges in which it was written.
struct Memory {
    joins: bool,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    disk: Vec<u8>,
    writes: Vec<Range<usize>>,
    /// Writes whose bytes lay in memory as they do on a page of the disk.
    aligned: usize,
}

impl Sink for Memory {
    fn prepare(&self, _size: Option<u64>) -> Result<()> {
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let at = usize::try_from(at).unwrap();
        let mut seen = self.seen.lock().unwrap();
        let range = at..at + bytes.len();
        assert!(
            seen.writes.iter().all(|other| other.end <= range.start || range.end <= other.start),
            "{range:?} twice"
        );
        let len = seen.disk.len().max(range.end);
        seen.disk.resize(len, 0);
        seen.disk[range.clone()].copy_from_slice(bytes);
        seen.aligned += usize::from(bytes.as_ptr().addr() % PAGE == at % PAGE);
        seen.writes.push(range);
        Ok(())
    }

    fn joins(&self) -> bool {
        self.joins
    }

    fn zero(&self, _at: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>, size: u64) -> Result<Written> {
        Ok(Written { data: 0, size })
    }

    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn claim(&self) -> Claim {
        Claim::default()
    }
}

/// Writes runs of data, each cut into pieces of these lengths, and gives what the sink has seen and what it must hold.
fn written(joins: bool, runs: &[(u64, Vec<usize>)]) -> (Seen, Vec<u8>) {
    let seen = Arc::<Mutex<Seen>>::default();
    let sink = Box::new(Memory { joins, seen: Arc::clone(&seen) });
    let mut pool = Pool::new(sink, 2, 4 << 20, Bin::default()).unwrap();
    let mut expect = Vec::new();
    let mut byte = 0_u32;
    for (gap, pieces) in runs {
        expect.resize(expect.len() + usize::try_from(*gap).unwrap(), 0);
        for len in pieces {
            let bytes: Vec<u8> = (0..*len)
                .map(|_| {
                    byte += 1;
                    (byte % 251).to_le_bytes()[0]
                })
                .collect();
            let guest = GuestOffset(expect.len() as u64);
            expect.extend_from_slice(&bytes);
            pool.submit(&mut vec![Op::Write { guest, bytes: Bytes::from(bytes) }]).unwrap();
        }
    }
    drop(pool.finish().unwrap());
    (std::mem::take(&mut seen.lock().unwrap()), expect)
}

#[test]
fn small_pieces_become_few_large_writes_of_whole_pages() {
    let (seen, expect) = written(true, &[(4096, vec![100_000; 100])]);
    assert!(seen.disk == expect);
    assert_eq!(seen.writes.len(), 10, "{:?}", seen.writes);
    let last = expect.len();
    for write in &seen.writes {
        assert!(write.start % PAGE == 0 && (write.end % PAGE == 0 || write.end == last), "{write:?}");
    }
    assert_eq!(seen.aligned, 10);
}

#[test]
fn a_sink_that_does_not_want_it_gets_pieces_as_they_come() {
    let (seen, expect) = written(false, &[(0, vec![4096; 300])]);
    assert!(seen.disk == expect);
    assert_eq!(seen.writes.len(), 300);
}

#[test]
fn a_piece_that_is_large_is_not_copied() {
    let (seen, expect) = written(true, &[(7, vec![10, BUFFER + 5000, 10])]);
    assert!(seen.disk == expect);
    let mut lens: Vec<usize> = seen.writes.iter().map(ExactSizeIterator::len).collect();
    lens.sort_unstable();
    // The end of the large piece is the beginning of the next job, in a page of its own.
    assert_eq!(lens.len(), 3, "{lens:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_is_written_once_where_it_belongs(
        joins: bool,
        runs in prop::collection::vec(
            (0_u64..20_000, prop::collection::vec(prop_oneof![1_usize..9000, 200_000_usize..1_400_000], 1..12)), 1..5),
    ) {
        let (seen, expect) = written(joins, &runs);
        let total: usize = seen.writes.iter().map(ExactSizeIterator::len).sum();
        prop_assert!(seen.disk == expect);
        prop_assert_eq!(total, runs.iter().flat_map(|(_, pieces)| pieces).sum::<usize>());
    }
}

/// The first job waits until others are as far ahead as they may be, and a little longer.
struct Slow {
    written: Mutex<(u64, u64)>,
    progress: Condvar,
}

impl Sink for Arc<Slow> {
    fn prepare(&self, _size: Option<u64>) -> Result<()> {
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let mut written = self.written.lock().unwrap();
        if at == 0 {
            written = self.progress.wait_while(written, |written| written.0 < 7 << 20).unwrap();
            drop(written);
            (0..1000).for_each(|_| std::thread::yield_now());
            written = self.written.lock().unwrap();
            assert!(written.1 <= WINDOW as u64, "{} bytes ahead of the first", written.1);
        }
        written.0 += bytes.len() as u64;
        written.1 = written.1.max(at + bytes.len() as u64);
        drop(written);
        self.progress.notify_all();
        Ok(())
    }

    fn ordered(&self) -> bool {
        true
    }

    fn zero(&self, _at: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>, size: u64) -> Result<Written> {
        Ok(Written { data: self.written.lock().unwrap().0, size })
    }

    fn name(&self) -> String {
        "slow".to_owned()
    }

    fn claim(&self) -> Claim {
        Claim::default()
    }
}

#[test]
fn nobody_is_further_ahead_of_the_slowest_than_an_ordered_sink_bears() {
    let size = 64 << 20;
    for threads in [2, 3, 8] {
        let slow = Arc::new(Slow { written: Mutex::default(), progress: Condvar::new() });
        let mut pool = Pool::new(Box::new(slow), threads, 4 << 20, Bin::default()).unwrap();
        let part = Bytes::from(vec![1; 1 << 20]);
        let ops = |at: u64| Op::Write { guest: GuestOffset(at << 20), bytes: part.clone() };
        pool.submit(&mut (0..size >> 20).map(ops).collect()).unwrap();
        assert_eq!(pool.finish().unwrap().finish(size).unwrap().data, size);
    }
}
