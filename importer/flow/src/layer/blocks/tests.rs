use proptest::prelude::*;

use super::*;

/// A disk as pieces: the bytes, and where they are cut. Zeros may come as holes.
fn pieces() -> impl Strategy<Value = Vec<(u8, usize, bool)>> {
    let len = prop_oneof![1..5000usize, Just(FRAME), Just(FRAME - 1), 1..3 * FRAME];
    prop::collection::vec((prop_oneof![Just(0u8), any::<u8>()], len, any::<bool>()), 0..12)
}

fn cut(pieces: impl IntoIterator<Item = Piece>, copied: bool) -> Vec<Block> {
    let mut blocks = Blocks::new(Bin::of(FRAME));
    let mut given = Vec::new();
    let mut give = |block| {
        given.push(block);
        Ok(())
    };
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) if copied => blocks.write(&bytes, &mut give).unwrap(),
            piece => blocks.push(piece, &mut give).unwrap(),
        }
    }
    blocks.finish(&mut give).unwrap();
    given
}

/// What a disk is cut into, by definition.
fn model(disk: &[u8]) -> Vec<Block> {
    let mut blocks = Vec::new();
    for part in disk.chunks(FRAME) {
        let zeros = part.len() == FRAME && part.iter().all(|&byte| byte == 0);
        match blocks.last_mut() {
            Some(Block::Zeros(run)) if zeros && *run < Zeros::MAX => *run += FRAME as u64,
            _ if zeros => blocks.push(Block::Zeros(FRAME as u64)),
            _ => blocks.push(Block::Data(Bytes::copy_from_slice(part))),
        }
    }
    blocks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn how_a_disk_comes_decides_nothing(pieces in pieces(), copied in any::<bool>()) {
        let disk: Vec<u8> = pieces.iter().flat_map(|&(byte, len, _)| std::iter::repeat_n(byte, len)).collect();
        let given = cut(
            pieces.iter().map(|&(byte, len, hole)| match byte {
                0 if hole => Piece::Hole(len as u64),
                byte => Piece::Bytes(vec![byte; len].into()),
            }),
            copied,
        );
        prop_assert!(given == model(&disk));
    }
}

#[test]
fn long_runs_are_cut_where_frames_of_zeros_end() {
    let step = FRAME as u64;
    let byte = || Piece::Bytes(Bytes::from_static(&[7]));
    let zeros = |given: Vec<Block>| -> Vec<u64> {
        given.iter().map(|block| if let Block::Zeros(run) = block { *run } else { 0 }).collect()
    };
    // Known at once, and bit by bit.
    let whole = [Piece::Hole(200 * step), byte()];
    let parts = (0..400).map(|_| Piece::Hole(step / 2)).chain([byte()]);
    let want = [Zeros::MAX, Zeros::MAX, Zeros::MAX, 8 * step, 0];
    assert_eq!(zeros(cut(whole, false)), want);
    assert_eq!(zeros(cut(parts, false)), want);
    // A hole that begins in the middle of a part.
    assert_eq!(zeros(cut([byte(), Piece::Hole(3 * step), byte()], false)), [0, 2 * step, 0]);
    // An end that is less than a part is data.
    assert_eq!(cut([Piece::Hole(step + 5)], false), [Block::Zeros(step), Block::Data(Bytes::from_static(&[0; 5]))]);
    assert_eq!(cut([], false), []);
    let huge = zeros(cut([Piece::Hole(1 << 44)], false));
    assert!(huge.len() as u64 == (1 << 44) / Zeros::MAX && huge.iter().all(|&run| run == Zeros::MAX));
}

#[test]
fn whole_parts_are_not_copied() {
    let bytes = Bytes::from(vec![1; 3 * FRAME]);
    let given = cut([Piece::Bytes(bytes.clone())], false);
    for (number, block) in given.iter().enumerate() {
        let Block::Data(part) = block else { panic!("{block:?}") };
        assert_eq!(part.as_ptr(), bytes[number * FRAME..].as_ptr());
    }
}
