use super::*;
use crate::testing::{Pieces, decode, decodes_to, disk_like, flips_never_change_data, tool, truncations_fail};
use crate::{Limits, Wrapper};

fn check(packed: &[u8], want: &[u8]) {
    decodes_to(Wrapper::Gzip, Limits::default(), packed, want);
}

fn fails(packed: &[u8]) -> Error {
    decode(Wrapper::Gzip, Limits::default(), packed, Pieces::Of(5), 1 << 16).unwrap_err()
}

/// A member with a header as rich as they come.
fn rich_member(data: &[u8], flags: u8) -> Vec<u8> {
    let plain = tool("gzip", &["-nc"], data);
    let mut header = vec![MAGIC0, MAGIC1, DEFLATE, flags, 1, 2, 3, 4, 0, 3];
    if flags & FEXTRA != 0 {
        header.extend(300u16.to_le_bytes());
        header.extend([7; 300]);
    }
    if flags & FNAME != 0 {
        header.extend(b"disk.img\0");
    }
    if flags & FCOMMENT != 0 {
        header.extend(b"a remark\0");
    }
    if flags & FHCRC != 0 {
        header.extend(&crc32fast::hash(&header).to_le_bytes()[..2]);
    }
    header.extend(&plain[10..]);
    header
}

#[test]
fn what_the_tools_write() {
    let data = disk_like(600_000);
    for (command, args) in [
        ("gzip", &["-1c"][..]),
        ("gzip", &["-9c"]),
        ("pigz", &["-c", "-p", "2", "-b", "128", "-i"]),
        ("pigz", &["-c", "-z", "-0"]),
        ("bgzip", &["-c"]),
    ] {
        // pigz -z writes zlib, which is no gzip.
        if args.contains(&"-z") {
            assert_eq!(fails(&tool(command, args, &data)).kind(), Kind::Trailing);
            continue;
        }
        check(&tool(command, args, &data), &data);
    }
    check(&tool("gzip", &["-c"], b""), b"");
    check(&tool("bgzip", &["-c"], b""), b"");
}

#[test]
fn many_members_and_padding() {
    let (a, b) = (disk_like(70_000), disk_like(3));
    let mut packed = tool("gzip", &["-c"], &a);
    packed.extend(tool("gzip", &["-c"], b""));
    packed.extend(tool("bgzip", &["-c"], &b));
    check(&packed, &[a.clone(), b.clone()].concat());
    for zeros in [1, 7, 512, 10_000] {
        let mut padded = packed.clone();
        padded.resize(packed.len() + zeros, 0);
        check(&padded, &[a.clone(), b.clone()].concat());
        padded.push(1);
        assert_eq!(fails(&padded).kind(), Kind::Trailing);
        // A member behind padding can't be told from garbage behind it.
        padded.pop();
        padded.extend(tool("gzip", &["-c"], &b));
        assert_eq!(fails(&padded).kind(), Kind::Trailing);
    }
    for garbage in [&b"junk"[..], b"\x1f\x8c\x08", b"\x1e", b"BZh9"] {
        let error = fails(&[&packed, garbage].concat());
        assert_eq!(error.kind(), Kind::Trailing);
        assert!(error.offset().unwrap() >= packed.len() as u64, "{error}");
    }
}

#[test]
fn every_header() {
    let data = disk_like(5000);
    for flags in 0..0x20 {
        let member = rich_member(&data, flags);
        check(&member, &data);
        truncations_fail(Wrapper::Gzip, Limits::default(), &member[..member.len().min(400)], |_| false);
    }
    let mut bad = rich_member(&data, FHCRC);
    bad[4] ^= 1;
    assert_eq!(fails(&bad).kind(), Kind::Corrupt);
    bad = rich_member(&data, 0);
    bad[3] = 0x20;
    assert_eq!(fails(&bad).kind(), Kind::Unsupported);
    bad[3] = 0;
    bad[2] = 7;
    assert_eq!(fails(&bad).kind(), Kind::Unsupported);
}

#[test]
fn damage_is_noticed() {
    let data = disk_like(1500);
    let mut packed = tool("gzip", &["-c"], &data);
    let first = packed.len();
    packed.extend(tool("gzip", &["-c"], &data));
    truncations_fail(Wrapper::Gzip, Limits::default(), &packed, |len| len == first);
    flips_never_change_data(Wrapper::Gzip, Limits::default(), &packed, &[data.clone(), data].concat());
    // Checksum, then length.
    for from_end in [5, 1] {
        let mut bad = packed.clone();
        let at = packed.len() - from_end;
        bad[at] ^= 0x40;
        let error = fails(&bad);
        assert_eq!(error.kind(), Kind::Corrupt);
        assert_eq!(error.offset(), Some(packed.len() as u64), "{error}");
    }
}

#[test]
fn the_message_says_what_and_where() {
    let packed = tool("gzip", &["-c"], &disk_like(5000));
    assert_eq!(
        fails(&packed[..100]).to_string(),
        "gzip: the data end in the middle of a gzip member; the file is cut, get it again (at offset 0x64)"
    );
}
