use std::sync::Arc;

use proptest::prelude::*;

use super::super::model::Model;
use super::*;
use crate::layer::{LayerKind, LayerWriter};

/// A disk in memory, and where zeros were told of.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    disk: Vec<u8>,
    zeros: u64,
    finished: Option<u64>,
}

impl InOrder for Memory {
    fn prepare(&mut self, _size: Option<u64>) -> Result<()> {
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        assert!(!bytes.is_empty());
        self.0.lock().unwrap().disk.extend_from_slice(bytes);
        Ok(())
    }

    fn zero(&mut self, len: u64) -> Result<()> {
        let mut seen = self.0.lock().unwrap();
        seen.zeros += len;
        let len = seen.disk.len() + usize::try_from(len).unwrap();
        seen.disk.resize(len, 0);
        Ok(())
    }

    fn finish(self, size: u64) -> Result<()> {
        self.0.lock().unwrap().finished = Some(size);
        Ok(())
    }

    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn claim(&self) -> Claim {
        Claim::default()
    }
}

fn sink() -> (Box<OrderedSink<Memory>>, Memory) {
    let memory = Memory::default();
    (Box::new(OrderedSink::new(memory.clone())), memory)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// A disk no larger than the window may come in any order, from any number of threads.
    #[test]
    fn what_fits_the_window_is_put_in_order(seed in any::<u64>(), threads in 1..4usize, granule in 1..6000usize) {
        let model = Model::new(seed, 2 << 20, granule, 40);
        let (sink, memory) = sink();
        model.apply(&*sink, threads).unwrap();
        let written = sink.finish(model.disk.len() as u64).unwrap();
        let seen = memory.0.lock().unwrap();
        prop_assert!(seen.disk == model.disk);
        prop_assert_eq!(seen.finished, Some(2 << 20));
        prop_assert_eq!(written, Written { data: (2 << 20) - seen.zeros, size: 2 << 20 });
    }
}

#[test]
fn zeros_in_data_are_told_as_zeros() {
    let (sink, memory) = sink();
    let mut bytes = vec![0; 40_960];
    bytes[20_000] = 1;
    sink.write(0, &bytes).unwrap();
    sink.write(60_000, &[0; 10_000]).unwrap();
    sink.zero(40_960, 60_000 - 40_960).unwrap();
    assert_eq!(sink.finish(70_000).unwrap().data, 4096);
    assert_eq!(memory.0.lock().unwrap().zeros, 70_000 - 4096);
}

#[test]
fn zeros_may_be_told_of_long_before() {
    let (sink, memory) = sink();
    let block = 64 << 10;
    // Runs that touch are one, however they come.
    for at in (1..2 * RUNS as u64).map(|number| number * 3) {
        sink.zero((1 << 40) + at, 3).unwrap();
    }
    assert_eq!(sink.state().early.len(), 1);
    drop(sink);
    let sink = Box::new(OrderedSink::new(memory.clone()));
    for number in 0..1000 {
        sink.zero((2 * number + 1) * block, block).unwrap();
    }
    for number in 0..1000 {
        sink.write(2 * number * block, &vec![7; usize::try_from(block).unwrap()]).unwrap();
    }
    sink.finish(2000 * block).unwrap();
    let seen = memory.0.lock().unwrap();
    assert!(
        seen.disk.chunks(65536).enumerate().all(|(number, part)| part.iter().all(|&byte| byte == [7, 0][number % 2]))
    );
}

#[test]
fn a_disk_out_of_order_is_refused_with_advice() {
    let (sink, memory) = sink();
    let part = vec![1; 1 << 20];
    let mut refused = None;
    for at in (1..20).rev() {
        if let Err(error) = sink.write(at << 20, &part) {
            refused = Some((at, error));
            break;
        }
    }
    let (at, error) = refused.unwrap();
    assert_eq!((at, error.kind()), (11, Kind::OutOfOrder));
    let text = error.to_string();
    assert!(text.starts_with("memory: the disk's data do not come in the disk's order (offset 0xb00000"), "{text}");
    assert!(text.contains("copy it to a file first") && text.contains("--as keep"), "{text}");
    assert!(memory.0.lock().unwrap().disk.is_empty());
    // Small runs are as bad, however few bytes they have.
    let (sink, _) = self::sink();
    let many = (1..).find_map(|number| sink.write(number * 10_000, &[1]).err().map(|error| (number, error.kind())));
    assert_eq!(many, Some((RUNS as u64 + 1, Kind::OutOfOrder)));
}

#[test]
fn nothing_comes_twice_and_nothing_is_missing() {
    for (at, len) in [(0, 1), (9, 1), (5, 10), (19, 5), (25, 2), (15, 100), (20, 10), (u64::MAX, 5)] {
        let (sink, _) = sink();
        sink.write(0, &[1; 10]).unwrap();
        sink.write(20, &[1; 4]).unwrap();
        sink.zero(24, 6).unwrap();
        let kind = sink.zero(at, len).unwrap_err().kind();
        assert_eq!(kind, Kind::Ours, "{at} {len}");
    }
    for size in [9, 11, 20, 30] {
        let (sink, memory) = sink();
        sink.write(0, &[1; 10]).unwrap();
        if size >= 20 {
            sink.write(20, &[1; 10]).unwrap();
        }
        assert_eq!(sink.finish(size).unwrap_err().kind(), Kind::Ours, "{size}");
        assert_eq!(memory.0.lock().unwrap().finished, None);
    }
    let (sink, memory) = sink();
    assert_eq!(sink.finish(0).unwrap(), Written::default());
    assert_eq!(memory.0.lock().unwrap().finished, Some(0));
}

/// A layer made of what threads bring is the layer of the disk.
#[test]
fn a_layer_is_an_ordered_target() {
    struct Target(Option<LayerWriter>, Arc<Mutex<Option<crate::layer::Layer>>>);
    impl Target {
        fn layer(&mut self) -> Result<&mut LayerWriter> {
            self.0.as_mut().ok_or_else(|| Error::new(Kind::Ours, "no size"))
        }
    }
    impl InOrder for Target {
        fn prepare(&mut self, size: Option<u64>) -> Result<()> {
            self.0 = size.map(|size| LayerWriter::start(size, LayerKind::Zstd, 2, |_| Ok(()))).transpose()?;
            Ok(())
        }

        fn write(&mut self, bytes: &[u8]) -> Result<()> {
            self.layer()?.write(bytes)
        }

        fn zero(&mut self, len: u64) -> Result<()> {
            self.layer()?.push(crate::Piece::Hole(len))
        }

        fn finish(self, _size: u64) -> Result<()> {
            *self.1.lock().unwrap() = self.0.map(LayerWriter::finish).transpose()?;
            Ok(())
        }

        fn name(&self) -> String {
            "layer".to_owned()
        }

        fn claim(&self) -> Claim {
            Claim::default()
        }
    }
    let size = 6 << 20;
    let model = Model::new(77, size, 4096, 300);
    let made = Arc::default();
    let sink = Box::new(OrderedSink::new(Target(None, Arc::clone(&made))));
    sink.prepare(Some(size as u64)).unwrap();
    model.apply(&*sink, 3).unwrap();
    sink.finish(size as u64).unwrap();
    let mut layer = LayerWriter::start(size as u64, LayerKind::Zstd, 1, |_| Ok(())).unwrap();
    layer.write(&model.disk).unwrap();
    assert_eq!(*made.lock().unwrap(), Some(layer.finish().unwrap()));
}
