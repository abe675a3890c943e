use std::io::Write;

use super::*;
use crate::testing::{Rng, disk_like, tool};

fn deflated(data: &[u8], zlib: bool) -> Vec<u8> {
    let level = flate2::Compression::new(6);
    if zlib {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    } else {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), level);
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }
}

#[test]
fn whole_clusters_with_anything_behind_them() {
    for len in [512, 65536, 2 << 20] {
        let data = disk_like(len);
        let mut output = vec![0xaa; len];
        for behind in [&b""[..], &[0; 511], b"another cluster's data"] {
            for zlib in [false, true] {
                let mut inflate = if zlib { Inflate::zlib() } else { Inflate::raw() };
                let packed = [&deflated(&data, zlib)[..], behind].concat();
                assert_eq!(inflate.unpack(&packed, &mut output), Ok(len));
                assert!(output == data);
            }
            let mut zstd = Zstd::new().unwrap();
            let (a, b) = data.split_at(len / 3);
            let one = tool("zstd", &["-cq"], &data);
            let two = [tool("zstd", &["-cq"], a), tool("zstd", &["-cq", "--no-check"], b)].concat();
            let skip = [&b"\x50\x2a\x4d\x18\x03\0\0\0abc"[..], &one].concat();
            for packed in [one, two, skip] {
                let packed = [&packed[..], behind].concat();
                assert_eq!(zstd.unpack(&packed, &mut output), Ok(len));
                assert!(output == data);
            }
        }
    }
}

#[test]
fn a_short_stream_is_short() {
    let mut output = [0xaa; 4096];
    // An empty deflate stream: the cluster that one converter takes for a whole one.
    assert_eq!(Inflate::raw().unpack(&[3, 0], &mut output), Ok(0));
    assert_eq!(Inflate::raw().unpack(&deflated(&[7; 100], false), &mut output), Ok(100));
    let mut zstd = Zstd::new().unwrap();
    assert_eq!(zstd.unpack(&tool("zstd", &["-cq"], b""), &mut output), Ok(0));
    assert_eq!(zstd.unpack(&tool("zstd", &["-cq"], &[7; 100]), &mut output), Ok(100));
}

#[test]
fn a_long_stream_is_an_error() {
    let data = disk_like(4097);
    let mut output = [0; 4096];
    for (zlib, mut inflate) in [(false, Inflate::raw()), (true, Inflate::zlib())] {
        let error = inflate.unpack(&deflated(&data, zlib), &mut output).unwrap_err();
        assert!(error.to_string().contains("more than 4096 bytes"), "{error}");
        // And the decoder can be used again.
        assert_eq!(inflate.unpack(&deflated(&data[..4096], zlib), &mut output), Ok(4096));
    }
    let mut zstd = Zstd::new().unwrap();
    for packed in [
        tool("zstd", &["-cq"], &data),
        tool("zstd", &["-cq", "--stream-size=4097"], &data),
        [tool("zstd", &["-cq"], &data[..4000]), tool("zstd", &["-cq"], &data[..97])].concat(),
    ] {
        let error = zstd.unpack(&packed, &mut output).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
        assert!(error.to_string().contains("more than 4096 bytes"), "{error}");
        assert_eq!(zstd.unpack(&tool("zstd", &["-cq"], &data[..4096]), &mut output), Ok(4096));
    }
    // A frame that claims 2^63 bytes costs nothing.
    let claim = [&zstd::MAGIC[..], &[0xe0, 0, 0, 0, 0, 0, 0, 0, 0x80, 1, 0, 0]].concat();
    assert!(zstd.unpack(&claim, &mut output).is_err());
    // A window of gigabytes costs nothing either: there is none.
    let long = tool("zstd", &["-cq", "--long=31"], &data[..4096]);
    assert_eq!(zstd.unpack(&long, &mut output), Ok(4096));
}

#[test]
fn cut_and_damaged_units() {
    let data = disk_like(2000);
    let mut output = [0; 2000];
    let (raw, zlib, zstd) = (deflated(&data, false), deflated(&data, true), tool("zstd", &["-cq"], &data));
    let mut unpack_raw = Inflate::raw();
    let mut unpack_zlib = Inflate::zlib();
    let mut unpack_zstd = Zstd::new().unwrap();
    for len in 0..raw.len() {
        assert!(unpack_raw.unpack(&raw[..len], &mut output).is_err());
    }
    for len in 0..zlib.len() {
        assert!(unpack_zlib.unpack(&zlib[..len], &mut output).is_err());
    }
    for len in 0..zstd.len() {
        assert!(unpack_zstd.unpack(&zstd[..len], &mut output).is_err());
    }
    let mut rng = Rng::new(3);
    for _ in 0..5000 {
        let flip = u8::try_from(1 + rng.below(255)).unwrap();
        let mut bad = zlib.clone();
        bad[rng.below(zlib.len())] ^= flip;
        if unpack_zlib.unpack(&bad, &mut output) == Ok(2000) {
            assert!(output[..] == data[..]);
        }
        let mut bad = zstd.clone();
        bad[rng.below(zstd.len())] ^= flip;
        if unpack_zstd.unpack(&bad, &mut output) == Ok(2000) {
            assert!(output[..] == data[..]);
        }
        // Raw deflate has no checksum: it only must not fall over.
        let mut bad = raw.clone();
        bad[rng.below(raw.len())] ^= flip;
        let _ = unpack_raw.unpack(&bad, &mut output);
    }
}
