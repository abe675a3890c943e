//! Any bytes give an image or an error, in bounded time and memory.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::build;
use super::*;

/// Reads it, whatever it is: the driver panics when the parser breaks its contract.
fn survive(file: &[u8]) {
    for (order, len) in [(Order::Forward, Some(file.len() as u64)), (Order::Newest, None)] {
        let Ok(mut vmdk) = open(file, len) else {
            continue;
        };
        if let Ok(disk) = read(&mut vmdk, file, order, len.is_some()) {
            let data: usize = disk.parts.values().map(Vec::len).sum();
            assert!(data <= 1100 * file.len(), "{data} bytes of {}: more than deflate can fold", file.len());
        }
        let _ = vmdk.features();
    }
}

fn image(which: usize) -> Vec<u8> {
    static IMAGES: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
        let disk = build::disk(600, &[1, 2, 3, 512, 600]);
        [build::sparse(&disk), build::stream_front(&disk), build::stream_behind(&disk).0]
    });
    IMAGES[which].clone()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn flipped_bytes(which in 0usize..3, flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut image = image(which);
        for (place, value) in flips {
            let at = place.index(image.len());
            image[at] ^= value;
        }
        survive(&image);
    }

    #[test]
    fn metadata_replaced(which in 0usize..3, at in 0usize..6144, value in prop_oneof![
        Just(0u64), Just(1), Just(3), Just(u64::MAX), Just(u64::MAX / 512), Just(1 << 63), Just(u64::from(u32::MAX)), any::<u64>(),
    ], wide in any::<bool>()) {
        let mut image = image(which);
        if wide {
            build::put64(&mut image, at, value);
        } else {
            build::put32(&mut image, at, value as u32);
        }
        survive(&image);
    }

    #[test]
    fn cut_and_shuffled(which in 0usize..3, cut in any::<prop::sample::Index>(), from in 0usize..40, to in 0usize..40) {
        let mut image = image(which);
        let sectors = image.len() / 512;
        let (from, to) = (from % sectors, to % sectors);
        image.copy_within(from * 512..(from + 1) * 512, to * 512);
        let len = cut.index(image.len());
        image.truncate(len);
        survive(&image);
    }

    #[test]
    fn noise(mut bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        survive(&bytes);
        let magic = b"KDMV".len().min(bytes.len());
        bytes[..magic].copy_from_slice(&b"KDMV"[..magic]);
        survive(&bytes);
    }
}
