use proptest::prelude::*;

use super::*;

#[test]
fn one_bit_anywhere_is_not_zero() {
    for len in [1, 15, 16, 255, 256, 257, 4096, 4097] {
        let mut bytes = vec![0; len];
        assert!(is_zero(&bytes), "{len}");
        for at in 0..len {
            bytes[at] = 0x80;
            assert!(!is_zero(&bytes), "{at} of {len}");
            bytes[at] = 0;
        }
    }
    assert!(is_zero(&[]));
}

fn shape(at: u64, bytes: &[u8], gap: usize) -> Vec<(u64, usize, bool)> {
    runs(at, bytes, gap).map(|run| (run.at, run.bytes.len(), run.zero)).collect()
}

#[test]
fn blocks_are_those_of_the_guest_disk() {
    let mut bytes = vec![0; 3 * BLOCK];
    bytes[BLOCK] = 1;
    let block = BLOCK as u64;
    assert_eq!(shape(0, &bytes, 1), [(0, BLOCK, true), (block, BLOCK, false), (2 * block, BLOCK, true)]);
    // The same bytes 512 further on: the block of the one that is set begins 512 before it.
    assert_eq!(
        shape(512, &bytes, 1),
        [(512, BLOCK - 512, true), (block, BLOCK, false), (2 * block, BLOCK + 512, true)]
    );
}

#[test]
fn short_zeros_stay_in_the_data() {
    let mut bytes = vec![0; 8 * BLOCK];
    bytes[BLOCK] = 1;
    bytes[3 * BLOCK] = 1;
    let block = BLOCK as u64;
    assert_eq!(shape(0, &bytes, 2 * BLOCK), [(0, 4 * BLOCK, false), (4 * block, 4 * BLOCK, true)]);
    assert_eq!(shape(0, &bytes, 5 * BLOCK), [(0, 8 * BLOCK, false)]);
}

#[test]
fn all_zeros_are_one_zero_run_however_short() {
    assert_eq!(shape(7, &[0; 9], 1 << 20), [(7, 9, true)]);
    assert_eq!(shape(0, &[], 1), []);
}

fn buffer() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec((any::<bool>(), 1..3 * BLOCK), 0..12).prop_map(|parts| {
        let mut bytes = Vec::new();
        for (data, len) in parts {
            bytes.resize(bytes.len() + len, u8::from(data));
        }
        bytes
    })
}

proptest! {
    #[test]
    fn runs_are_a_partition_that_alternates(at in 0..(1u64 << 40), bytes in buffer(), gap in 1..5 * BLOCK) {
        let mut next = at;
        let mut joined = Vec::new();
        let mut last = None;
        for run in runs(at, &bytes, gap) {
            prop_assert_eq!(run.at, next);
            prop_assert!(!run.bytes.is_empty());
            prop_assert_ne!(last, Some(run.zero));
            let inner = run.at > at && run.at % BLOCK as u64 != 0;
            prop_assert!(!inner, "a run begins inside a block");
            if run.zero {
                prop_assert!(run.bytes.iter().all(|byte| *byte == 0));
                prop_assert!(run.bytes.len() >= gap || run.bytes.len() == bytes.len());
            } else {
                prop_assert!(run.bytes.iter().any(|byte| *byte != 0));
            }
            next += run.bytes.len() as u64;
            last = Some(run.zero);
            joined.extend_from_slice(run.bytes);
        }
        prop_assert_eq!(joined, bytes);
    }
}
