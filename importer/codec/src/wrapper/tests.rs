use super::*;
use crate::testing::{Pieces, corpus, corpus_file, corpus_index, decode, disk_like, sha256, tool};

#[test]
fn found_by_content() {
    let data = disk_like(1000);
    for (command, args, want) in [
        ("gzip", &["-c"][..], Wrapper::Gzip),
        ("bgzip", &["-c"], Wrapper::Gzip),
        ("xz", &["-c"], Wrapper::Xz),
        ("zstd", &["-cq"], Wrapper::Zstd),
        ("pzstd", &["-cq"], Wrapper::Zstd),
        ("bzip2", &["-c"], Wrapper::Bzip2),
        ("lz4", &["-cq"], Wrapper::Lz4),
    ] {
        for data in [&data[..], b""] {
            assert_eq!(detect(&tool(command, args, data)).unwrap(), Some(want), "{command}");
        }
    }
    for format in ["v7", "ustar", "oldgnu", "gnu", "posix"] {
        let packed = tool("tar", &["-c", "-C", "/", "--format", format, "etc/hostname"], b"");
        assert_eq!(detect(&packed).unwrap(), Some(Wrapper::Tar), "{format}");
        assert_eq!(detect(&packed[..HEAD]).unwrap(), Some(Wrapper::Tar), "{format}");
    }
}

#[test]
fn refused_by_name() {
    let lzma = tool("xz", &["-c", "--format=lzma"], b"hello");
    let zip = tool("zip", &["-q", "-", "-"], b"hello");
    let legacy = tool("lz4", &["-cql"], b"hello");
    for (head, word) in [
        (&lzma[..], "lzma"),
        (&zip, "zip"),
        (&legacy, "legacy lz4"),
        (b"PK\x05\x06", "zip"),
        (b"7z\xbc\xaf\x27\x1c\0\x04", "7z"),
        (b"Rar!\x1a\x07\x01\0", "rar"),
        (b"Rar!\x1a\x07\0", "rar"),
        (b"\x1f\x9d\x90\x68", "compress"),
    ] {
        let error = detect(head).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn a_short_magic_number_is_not_enough() {
    for head in [
        &b""[..],
        b"\x1f\x8b",
        b"\x1f\x8b\x07\0",
        b"\x1f\x8b\x08\xe0",
        b"BZh9",
        b"BZh9\x31\x41\x59\x26\x53\x58",
        b"BZh0\x31\x41\x59\x26\x53\x59",
        b"\x1f\x9d\xff",
        b"\x1f\x9d\x08",
        &[0; HEAD],
        &[0x5d; HEAD],
        b"\x5d\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"PK",
        b"\x50\x2a\x4d\x18\x04\0\0\0abcdJUNK",
    ] {
        assert_eq!(detect(head), Ok(None), "{head:?}");
    }
}

#[test]
fn skippable_frames_hide_either_format() {
    let skip = |content: &[u8]| {
        let len = u32::try_from(content.len()).unwrap();
        [&[0x51, 0x2a, 0x4d, 0x18][..], &len.to_le_bytes(), content].concat()
    };
    let zstd = tool("zstd", &["-cq"], b"hello");
    let lz4 = tool("lz4", &["-cq"], b"hello");
    assert_eq!(detect(&[skip(b"abc"), skip(b""), zstd].concat()), Ok(Some(Wrapper::Zstd)));
    assert_eq!(detect(&[skip(b"abc"), skip(b""), lz4].concat()), Ok(Some(Wrapper::Lz4)));
    // Longer than what is seen.
    assert_eq!(detect(&skip(&[7; 9000])[..HEAD]), Ok(Some(Wrapper::Zstd)));
}

#[test]
fn nothing_in_any_head_is_a_panic() {
    let mut rng = crate::testing::Rng::new(5);
    for seed in [&b"\x1f\x8b\x08\0"[..], b"BZh91AY&SY", b"\xfd7zXZ\0", b"\x50\x2a\x4d\x18", b"\x5d\0\0\x80"] {
        for len in 0..HEAD + 2 {
            let mut head: Vec<u8> = (0..len).map(|_| u8::try_from(rng.next() & 0xff).unwrap()).collect();
            for (slot, &byte) in head.iter_mut().zip(seed) {
                *slot = byte;
            }
            let _ = detect(&head);
        }
    }
}

/// Every wrapped file of the corpus: what it is, and the hash of what is in it.
///
/// Where the index and we differ, CM-R1 decides: bytes behind the last member are an error. So test_compat_bzip2_2
/// (and gzip_2, lz4_2, which the index has as invalid) are [`Kind::Trailing`].
#[test]
fn the_corpus() {
    let Some(corpus) = corpus() else { return };
    let mut seen = 0;
    for row in corpus_index(&corpus) {
        let want = match row[4].as_str() {
            "gz" => Wrapper::Gzip,
            "xz" => Wrapper::Xz,
            "bz2" => Wrapper::Bzip2,
            "lz4" => Wrapper::Lz4,
            "zstd" | "zstd/lz4-skippable" => Wrapper::Zstd,
            "tar" => Wrapper::Tar,
            "lz4-legacy" => {
                assert_eq!(detect(&corpus_file(&corpus, &row)).unwrap_err().kind(), Kind::Unsupported);
                continue;
            }
            _ => {
                // No disk image may look like a wrapper.
                let head = corpus_file(&corpus, &row);
                assert_eq!(detect(&head[..head.len().min(HEAD)]), Ok(None), "{}", row[0]);
                continue;
            }
        };
        seen += 1;
        let packed = corpus_file(&corpus, &row);
        assert_eq!(detect(&packed[..packed.len().min(HEAD)]), Ok(Some(want)), "{}", row[0]);
        if want == Wrapper::Tar {
            continue;
        }
        let got = decode(want, Limits::default(), &packed, Pieces::Random(3), 1 << 20);
        if row[0].ends_with("test_compat_bzip2_2.tbz")
            || row[0].ends_with("test_compat_gzip_2.tgz")
            || row[0].ends_with("test_compat_lz4_2.tar.lz4")
        {
            assert_eq!(got.unwrap_err().kind(), Kind::Trailing, "{}", row[0]);
            continue;
        }
        if let Some(payload) = row[6].strip_prefix("payload ") {
            let got = got.unwrap_or_else(|error| panic!("{}: {error}", row[0]));
            let hash = payload.split(' ').next().unwrap();
            assert_eq!(sha256(&got), hash, "{}", row[0]);
        } else if row[6].starts_with("invalid") {
            let error = got.map(|bytes| bytes.len()).unwrap_err();
            assert!(matches!(error.kind(), Kind::Truncated | Kind::Corrupt), "{}: {error}", row[0]);
        } else {
            // The index has no hash for it; the tool has.
            assert!(got.unwrap() == tool("zstd", &["-dcq"], &packed), "{}", row[0]);
        }
    }
    assert!(seen > 30, "only {seen} wrapped files in the corpus");
}
