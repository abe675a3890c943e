use super::*;
use crate::testing::{Pieces, decode, decodes_to, disk_like, flips_never_change_data, tool, truncations_fail};
use crate::{Limits, Wrapper};

fn check(packed: &[u8], want: &[u8]) {
    decodes_to(Wrapper::Lz4, Limits::default(), packed, want);
}

fn fails(packed: &[u8]) -> Error {
    decode(Wrapper::Lz4, Limits::default(), packed, Pieces::Of(5), 1 << 16).unwrap_err()
}

fn skippable(content: &[u8]) -> Vec<u8> {
    let len = u32::try_from(content.len()).unwrap();
    [&[0x5e, 0x2a, 0x4d, 0x18][..], &len.to_le_bytes(), content].concat()
}

#[test]
fn what_the_tool_writes() {
    let data = disk_like(600_000);
    let noise = tool("zstd", &["-cq"], &data);
    for size in ["-B4", "-B5", "-B6", "-B7"] {
        for linked in [None, Some("-BD")] {
            for checks in [None, Some("-BX"), Some("--no-frame-crc"), Some("--content-size")] {
                let args: Vec<&str> = ["-cq", size].into_iter().chain(linked).chain(checks).collect();
                let packed = tool("lz4", &args, &data);
                let got = decode(Wrapper::Lz4, Limits::default(), &packed, Pieces::Random(7), 100_000).unwrap();
                assert!(got == data, "{args:?}");
            }
        }
    }
    for args in [&["-cq", "-B4", "-BD", "-BX"][..], &["-cq9", "-BD"], &["-cq", "--content-size", "-B5"]] {
        check(&tool("lz4", args, &data), &data);
        // Blocks that are stored.
        check(&tool("lz4", args, &noise), &noise);
    }
    check(&tool("lz4", &["-cq"], b""), b"");
}

#[test]
fn a_known_content_size() {
    // The tool writes it only for a file.
    let folder = crate::testing::Folder::new("lz4-size");
    let data = disk_like(100_000);
    let path = folder.0.join("disk.img");
    std::fs::write(&path, &data).unwrap();
    let mut packed = tool("lz4", &["-cq", "--content-size", path.to_str().unwrap()], b"");
    assert_ne!(packed[4] & CONTENT_SIZE, 0);
    check(&packed, &data);
    for size in [99_999u64, 100_001] {
        packed[6..14].copy_from_slice(&size.to_le_bytes());
        packed[14] = XxHash32::oneshot(0, &packed[4..14]).to_le_bytes()[1];
        assert_eq!(fails(&packed).kind(), Kind::Corrupt);
    }
}

#[test]
fn many_frames_skippable_frames_and_padding() {
    let (a, b) = (disk_like(70_000), disk_like(300));
    let first = tool("lz4", &["-cq", "-B4", "-BD"], &a);
    let second = tool("lz4", &["-cq", "-BX"], &b);
    let skip = skippable(&[9; 5000]);
    let packed = [&skippable(b"")[..], &first, &skip, &second, &first, &skip].concat();
    let want = [&a[..], &b, &a].concat();
    check(&packed, &want);
    check(&[&packed[..], &[0; 777]].concat(), &want);
    for garbage in [&b"junk"[..], b"\0\0\x28", b"\x28\xb5\x2f\xfd"] {
        assert_eq!(fails(&[&packed[..], garbage].concat()).kind(), Kind::Trailing);
    }
}

#[test]
fn damage_is_noticed() {
    let data = disk_like(1000);
    let first = tool("lz4", &["-cq", "-BX"], &data);
    let packed = [&first[..], &first].concat();
    truncations_fail(Wrapper::Lz4, Limits::default(), &packed, |len| len == first.len());
    flips_never_change_data(Wrapper::Lz4, Limits::default(), &first, &data);
}

#[test]
fn what_is_refused() {
    assert!(fails(&tool("lz4", &["-cql"], b"hello")).to_string().contains("legacy"));
    let mut packed = tool("lz4", &["-cq"], b"hello");
    // A dictionary id.
    let descriptor = [packed[4] | DICTIONARY, packed[5], 1, 2, 3, 4];
    let check = XxHash32::oneshot(0, &descriptor).to_le_bytes()[1];
    let dictionary = [&MAGIC[..], &descriptor, &[check]].concat();
    assert!(fails(&dictionary).to_string().contains("dictionary"));
    // Version 2.
    packed[4] = 0x80 | packed[4] & 0x3f;
    assert_eq!(fails(&packed).kind(), Kind::Unsupported);
    // A block of 256 MiB in a frame of 64 KiB blocks.
    let descriptor = [VERSION | INDEPENDENT, BLOCK_MAX_MIN];
    let check = XxHash32::oneshot(0, &descriptor).to_le_bytes()[1];
    let huge = [&MAGIC[..], &descriptor, &[check], &(1u32 << 28).to_le_bytes()].concat();
    assert_eq!(fails(&huge).kind(), Kind::Corrupt);
}

#[test]
fn history_is_the_last_64_kib() {
    let data = disk_like(3_000_000);
    let mut unpacked = Unpacked::default();
    let mut seen = 0usize;
    for len in [10, 65_535, 1, 65_536, 3, 65_530, 20].into_iter().cycle().take(100).chain([0; 3]) {
        let (history, room) = unpacked.next(1 << 16, true);
        assert_eq!(history, &data[seen.saturating_sub(HISTORY)..seen]);
        assert_eq!(room.len(), 1 << 16);
        room[..len].copy_from_slice(&data[seen..seen + len]);
        unpacked.end += len;
        assert_eq!(unpacked.rest(), &data[seen..seen + len]);
        seen += len;
    }
    assert!(unpacked.bytes.len() < 500_000);
    assert_eq!(unpacked.next(1 << 16, false).0, b"");
}

#[test]
fn a_million_tiny_blocks_cost_no_more_than_their_bytes() {
    // One byte a block, in a frame of 4 MiB blocks: neither the block's room nor the history is touched each time.
    for flags in [VERSION, VERSION | INDEPENDENT] {
        let descriptor = [flags, 0x70];
        let check = XxHash32::oneshot(0, &descriptor).to_le_bytes()[1];
        let mut packed = [&MAGIC[..], &descriptor, &[check]].concat();
        for n in 0..1_000_000u32 {
            packed.extend((1 | STORED).to_le_bytes());
            packed.push(u8::try_from(n & 0xff).unwrap());
        }
        packed.extend([0; 4]);
        let got = decode(Wrapper::Lz4, Limits::default(), &packed, Pieces::Of(100_000), 1 << 20).unwrap();
        assert_eq!(got.len(), 1_000_000);
    }
}
