use super::*;
use crate::testing::{Pieces, decode, decodes_to, disk_like, flips_never_change_data, tool, truncations_fail};
use crate::{Limits, Wrapper};

fn check(packed: &[u8], want: &[u8]) {
    decodes_to(Wrapper::Bzip2, Limits::default(), packed, want);
}

fn fails(packed: &[u8]) -> Error {
    decode(Wrapper::Bzip2, Limits::default(), packed, Pieces::Of(5), 1 << 16).unwrap_err()
}

#[test]
fn what_the_tool_writes() {
    let data = disk_like(150_000);
    for level in ["-c1", "-c9"] {
        check(&tool("bzip2", &[level], &data), &data);
    }
    check(&tool("bzip2", &["-c"], b""), b"");
}

#[test]
fn many_streams_and_padding() {
    let (a, b) = (disk_like(20_000), disk_like(3));
    let packed = [tool("bzip2", &["-c"], &a), tool("bzip2", &["-c"], b""), tool("bzip2", &["-c1"], &b)].concat();
    let want = [a, b].concat();
    check(&packed, &want);
    check(&[&packed[..], &[0; 100]].concat(), &want);
    for garbage in [&b"junk"[..], b"BZh0", b"Bz", b"\0\0B"] {
        // A lone letter could be the start of a stream, until more comes.
        assert!(matches!(fails(&[&packed[..], garbage].concat()).kind(), Kind::Trailing | Kind::Truncated));
    }
    assert_eq!(fails(&[&packed[..], b"This is junk\n"].concat()).kind(), Kind::Trailing);
}

#[test]
fn damage_is_noticed() {
    let data = disk_like(400);
    let first = tool("bzip2", &["-c1"], &data);
    let packed = [&first[..], &first].concat();
    truncations_fail(Wrapper::Bzip2, Limits::default(), &packed, |len| len == first.len());
    flips_never_change_data(Wrapper::Bzip2, Limits::default(), &first, &data);
}
