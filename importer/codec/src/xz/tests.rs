use super::*;
use crate::Wrapper;
use crate::testing::{Pieces, decode, decodes_to, disk_like, flips_never_change_data, tool, truncations_fail};

const ONE: Limits = Limits { memory: 64 << 20, parallel: 0, threads: 1 };
const TWO: Limits = Limits { memory: 64 << 20, parallel: 64 << 20, threads: 2 };
const FOUR: Limits = Limits { memory: 64 << 20, parallel: 256 << 20, threads: 4 };
/// Threads are allowed, but there is no memory for blocks: all is decoded as a stream.
const TIGHT: Limits = Limits { memory: 64 << 20, parallel: 1, threads: 2 };

fn fails(limits: Limits, packed: &[u8]) -> Error {
    decode(Wrapper::Xz, limits, packed, Pieces::Of(5), 1 << 16).unwrap_err()
}

#[test]
fn what_the_tools_write() {
    let data = disk_like(700_000);
    for args in [
        &["-c", "-T1", "-1"][..],
        &["-c", "-T2", "-1", "--block-size=100KiB"],
        &["-c", "-T2", "-1", "--block-size=1MiB", "--check=none"],
        &["-c", "-T1", "-1", "--block-size=64KiB", "--check=crc32"],
        &["-c", "-T2", "-6", "--block-size=200KiB", "--check=sha256"],
        &["-c", "-T2", "--block-list=1KiB,300KiB,0", "-1"],
        &["-c", "-T1", "--x86", "--delta=dist=4", "--lzma2=preset=1,dict=64KiB"],
    ] {
        let packed = tool("xz", args, &data);
        for limits in [ONE, TWO, FOUR, TIGHT] {
            decodes_to(Wrapper::Xz, limits, &packed, &data);
        }
    }
    for limits in [ONE, TWO] {
        decodes_to(Wrapper::Xz, limits, &tool("xz", &["-c"], b""), b"");
    }
}

#[test]
fn many_streams_and_padding() {
    let (a, b) = (disk_like(200_000), disk_like(30));
    let first = tool("xz", &["-c1", "-T2", "--block-size=50KiB"], &a);
    let second = tool("xz", &["-c1"], &b);
    let want = [a, b].concat();
    for limits in [ONE, TWO] {
        for (between, behind) in [(0, 0), (4, 0), (8, 4), (400, 1000)] {
            let packed = [&first[..], &vec![0; between], &second, &vec![0; behind]].concat();
            decodes_to(Wrapper::Xz, limits, &packed, &want);
        }
        for (between, behind, kind) in [(0, 3, Kind::Truncated), (5, 0, Kind::Corrupt), (2, 4, Kind::Corrupt)] {
            let packed = [&first[..], &vec![0; between], &second, &vec![0; behind]].concat();
            assert_eq!(fails(limits, &packed).kind(), kind, "{between} {behind}");
        }
        for garbage in [&b"junk and more"[..], b"\xfd7zXY\0 and more junk", b"x"] {
            let error = fails(limits, &[&second[..], garbage].concat());
            assert_eq!(error.kind(), Kind::Trailing, "{error}");
        }
    }
}

#[test]
fn damage_is_noticed() {
    let data = disk_like(3000);
    let packed = tool("xz", &["-c1", "-T2", "--block-size=1KiB"], &data);
    let single = tool("xz", &["-c1", "-T1"], &data);
    for limits in [ONE, TWO] {
        for packed in [&packed, &single] {
            truncations_fail(Wrapper::Xz, limits, packed, |_| false);
        }
        let two = [&single[..], &single].concat();
        truncations_fail(Wrapper::Xz, limits, &two, |len| len == single.len());
    }
    flips_never_change_data(Wrapper::Xz, ONE, &single, &data);
    let small = disk_like(200);
    let packed = tool("xz", &["-c1", "-T2", "--block-size=100"], &small);
    flips_never_change_data(Wrapper::Xz, TWO, &packed, &small);
}

#[test]
fn a_dictionary_beyond_the_limit_is_refused_with_its_size() {
    let packed = tool("xz", &["-c", "--lzma2=preset=1,dict=192MiB"], b"hello");
    for limits in [ONE, TWO, Limits { threads: 8, ..ONE }] {
        let error = fails(limits, &packed);
        assert_eq!(error.kind(), Kind::Memory);
        let text = error.to_string();
        assert!(text.contains("needs 193 MiB of memory and 64 MiB are allowed"), "{text}");
        assert!(text.contains("raise --memory to at least 193Mi"), "{text}");
    }
    // What the message says is enough.
    for threads in [1, 2] {
        let limits = Limits { memory: 193 << 20, parallel: 0, threads };
        decodes_to(Wrapper::Xz, limits, &packed, b"hello");
        let limits = Limits { memory: 192 << 20, parallel: 0, threads };
        assert_eq!(fails(limits, &packed).kind(), Kind::Memory);
    }
    // The largest there is.
    let packed = tool("xz", &["-c", "--lzma2=preset=0,dict=1536MiB"], b"hello");
    assert!(fails(ONE, &packed).to_string().contains("needs 1537 MiB"));
}

#[test]
fn an_unknown_check_is_refused() {
    let mut packed = tool("xz", &["-c"], b"hello");
    packed[7] = 2;
    let crc = crc32fast::hash(&packed[6..8]);
    packed[8..12].copy_from_slice(&crc.to_le_bytes());
    for limits in [ONE, TWO] {
        assert_eq!(fails(limits, &packed).kind(), Kind::Unsupported);
    }
}
