//! A disk in memory, and ways to it: the oracle of the sinks.

use std::thread;

use crate::{Result, Sink};

/// Something done to a sink.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Write { at: u64, bytes: Vec<u8> },
    Zero { at: u64, len: u64 },
}

/// A disk, and operations that make it: each byte in exactly one, in an order that is anything but that of the disk.
pub(super) struct Model {
    pub(super) disk: Vec<u8>,
    pub(super) ops: Vec<Op>,
}

/// Small and the same everywhere (xorshift64*).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33).unwrap() % end
    }
}

impl Model {
    /// A disk of `size` bytes in parts that begin at multiples of `granule` and are `most` granules long at most.
    pub(super) fn new(seed: u64, size: usize, granule: usize, most: usize) -> Self {
        let mut random = Random::new(seed);
        let (mut disk, mut ops) = (Vec::with_capacity(size), Vec::new());
        while disk.len() < size {
            let at = disk.len() as u64;
            let len = (granule * (1 + random.below(most))).min(size - disk.len());
            let bytes = match random.below(4) {
                0 => {
                    disk.resize(disk.len() + len, 0);
                    ops.push(Op::Zero { at, len: len as u64 });
                    continue;
                }
                1 => vec![0; len],
                2 => (0..len).map(|_| u8::try_from(1 + random.below(255)).unwrap()).collect(),
                _ => {
                    let mut bytes = vec![0; len];
                    for _ in 0..1 + random.below(4) {
                        let from = random.below(len);
                        let until = from + 1 + random.below(len - from);
                        bytes[from..until].fill(u8::try_from(1 + random.below(255)).unwrap());
                    }
                    bytes
                }
            };
            disk.extend_from_slice(&bytes);
            ops.push(Op::Write { at, bytes });
        }
        for last in (1..ops.len()).rev() {
            ops.swap(last, random.below(last + 1));
        }
        Self { disk, ops }
    }

    /// Does all operations, from `threads` threads at once.
    pub(super) fn apply(&self, sink: &dyn Sink, threads: usize) -> Result<()> {
        thread::scope(|scope| {
            let parts: Vec<_> = (0..threads)
                .map(|part| {
                    scope.spawn(move || self.ops.iter().skip(part).step_by(threads).try_for_each(|op| op.apply(sink)))
                })
                .collect();
            parts.into_iter().try_for_each(|part| part.join().unwrap())
        })
    }
}

impl Op {
    fn apply(&self, sink: &dyn Sink) -> Result<()> {
        match self {
            Self::Write { at, bytes } => sink.write(*at, bytes),
            Self::Zero { at, len } => sink.zero(*at, *len),
        }
    }
}
