use std::path::Path;
use std::process::Command;

use sha2::{Digest, Sha256};

use super::*;
use crate::testing::{Folder, Pieces, Rng, block, corpus, disk_like, member, sha256, tool};

/// An entry with what it holds: a hash, and how much of it was holes.
#[derive(Debug, PartialEq)]
struct Found {
    entry: Entry,
    hash: String,
    holes: u64,
}

/// Reads an archive in pieces, and holds the reader to its contract.
fn walk(archive: &[u8], pieces: Pieces) -> Result<Vec<Found>> {
    let mut tar = Tar::new();
    let mut pieces = pieces.cut(archive).peekable();
    let mut piece = Bytes::new();
    let mut found: Vec<Found> = Vec::new();
    let mut open: Option<(Entry, Sha256, u64, u64)> = None;
    let close = |open: Option<(Entry, Sha256, u64, u64)>, found: &mut Vec<Found>| {
        if let Some((entry, hash, len, holes)) = open {
            assert_eq!(len, entry.size, "{entry:?}");
            let hash = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
            found.push(Found { entry, hash, holes });
        }
    };
    loop {
        let end = pieces.peek().is_none();
        let event = match tar.next(&mut piece, end) {
            Ok(event) => event,
            Err(error) => {
                assert_eq!(tar.next(&mut Bytes::new(), true).unwrap_err(), error, "errors are final");
                return Err(error);
            }
        };
        match event {
            None => {
                assert!(piece.is_empty() && !end);
                piece = pieces.next().unwrap();
            }
            Some(Event::Entry(entry)) => {
                close(open.take(), &mut found);
                open = Some((entry, Sha256::new(), 0, 0));
            }
            Some(Event::Data(bytes)) => {
                assert!(!bytes.is_empty());
                let (_, hash, len, _) = open.as_mut().unwrap();
                hash.update(&bytes);
                *len += bytes.len() as u64;
            }
            Some(Event::Hole(hole)) => {
                assert_ne!(hole, 0);
                let (_, hash, len, holes) = open.as_mut().unwrap();
                assert!(hole < 1 << 30, "too large for this test");
                hash.update(vec![0; usize::try_from(hole).unwrap()]);
                *len += hole;
                *holes += hole;
            }
            Some(Event::End) => {
                close(open.take(), &mut found);
                assert!(end && piece.is_empty());
                assert_eq!(tar.consumed(), archive.len() as u64);
                assert_eq!(tar.next(&mut Bytes::new(), true), Ok(Some(Event::End)));
                return Ok(found);
            }
        }
    }
}

fn fails(archive: &[u8]) -> Error {
    walk(archive, Pieces::Of(100)).unwrap_err()
}

/// A pax header with these records in front of what follows.
fn pax(flag: u8, records: &[(&str, &str)]) -> Vec<u8> {
    let mut body = String::new();
    for (key, value) in records {
        let bare = key.len() + value.len() + 3;
        let mut len = bare + 1;
        while len != bare + len.to_string().len() {
            len = bare + len.to_string().len();
        }
        body += &format!("{len} {key}={value}\n");
    }
    member(b"pax", body.as_bytes(), flag)
}

const END: [u8; 1024] = [0; 1024];

#[test]
fn what_gnu_tar_writes() {
    let folder = Folder::new("tar");
    let at = |name: &str| folder.0.join("in").join(name);
    let long = "a folder/".repeat(16) + "disk.img";
    let longer = "x".repeat(200) + "/" + &"y".repeat(150);
    for name in ["disk.img", "empty", "sub/ímynd.img", &long, &longer] {
        std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
        std::fs::write(at(name), disk_like(if name == "empty" { 0 } else { 10_000 + name.len() })).unwrap();
    }
    std::fs::write(at("block"), disk_like(1024)).unwrap();
    sparse_file(&at("holes.raw"), 3 << 20, &[(0, 512), (1 << 20, 70_000), ((3 << 20) - 100, 100)]);
    sparse_file(&at("all holes"), 1 << 20, &[]);
    sparse_file(&at("open end"), 5 << 20, &[(4096, 4096)]);
    let many: Vec<_> = (0..100).map(|n| (n * 40_000, 600)).collect();
    sparse_file(&at("many holes"), 4 << 20, &many);
    std::os::unix::fs::symlink("disk.img", at("link")).unwrap();
    std::fs::hard_link(at("disk.img"), at("zz hard")).unwrap();

    for (format, args) in [
        ("v7", &[][..]),
        ("ustar", &[]),
        ("oldgnu", &[]),
        ("gnu", &[]),
        ("posix", &[]),
        ("oldgnu", &["--sparse"]),
        ("gnu", &["--sparse"]),
        ("posix", &["--sparse"]),
        ("posix", &["--sparse", "--sparse-version=0.0"]),
        ("posix", &["--sparse", "--sparse-version=0.1"]),
        ("posix", &["--sparse", "--sparse-version=1.0"]),
    ] {
        // These two have no room for the longest names.
        let exclude = match format {
            "v7" => &["--exclude=a folder", "--exclude=xxx*"][..],
            "ustar" => &["--exclude=xxx*"],
            _ => &[],
        };
        let input = folder.0.join("in");
        let mut all = vec!["-c", "--sort=name", "--format", format, "-C", input.to_str().unwrap()];
        all.extend(args);
        all.extend(exclude);
        all.push(".");
        let archive = tool("tar", &all, b"");
        let found = walk(&archive, Pieces::Whole).unwrap();
        for pieces in [Pieces::Of(1000), Pieces::Random(4)] {
            assert_eq!(walk(&archive, pieces).unwrap(), found);
        }
        let mut files = 0;
        for Found { entry, hash, holes } in &found {
            let context = format!("{format} {args:?} {}", entry.name());
            let path = input.join(std::str::from_utf8(&entry.path).unwrap());
            let meta = std::fs::symlink_metadata(&path).expect(&context);
            match entry.kind {
                EntryKind::Regular => {
                    files += 1;
                    let want = std::fs::read(&path).unwrap();
                    assert_eq!(*hash, sha256(&want), "{context}");
                    assert_eq!(entry.size, want.len() as u64, "{context}");
                    let has_holes = path.to_str().unwrap().contains("hole") || path.ends_with("open end");
                    assert_eq!(entry.sparse, !args.is_empty() && has_holes, "{context}");
                    assert_eq!(*holes > 0, entry.sparse, "{context}");
                }
                EntryKind::Directory => assert!(meta.is_dir(), "{context}"),
                EntryKind::Symlink => assert_eq!(entry.link, b"disk.img", "{context}"),
                EntryKind::Hardlink => assert_eq!(entry.link, b"./disk.img", "{context}"),
                _ => panic!("{context}"),
            }
            assert_ne!(entry.mode & 0o400, 0, "{context}");
        }
        assert_eq!(files, 10 - exclude.len(), "{format}");
    }
}

/// A file with data only in these places.
fn sparse_file(path: &Path, size: u64, data: &[(u64, usize)]) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::create(path).unwrap();
    file.set_len(size).unwrap();
    for &(at, len) in data {
        file.write_all_at(&disk_like(len + 1)[1..], at).unwrap();
        file.write_all_at(b"!", at).unwrap();
    }
}

#[test]
fn sparse_files_of_the_corpus() {
    let Some(corpus) = corpus() else { return };
    for name in ["1_13", "1_17", "1_17_posix00", "1_17_posix01", "1_17_posix10", "1_17_posix10_modified"] {
        let path = corpus.join(format!("libarchive/test_read_format_gtar_sparse_{name}.tar"));
        let archive = std::fs::read(&path).unwrap();
        let found = walk(&archive, Pieces::Whole).unwrap();
        assert_eq!(walk(&archive, Pieces::Of(7)).unwrap(), found);
        let names: Vec<_> = found.iter().map(|found| found.entry.name()).collect();
        assert_eq!(names, ["sparse", "sparse2", "non-sparse"], "{name}");
        // GNU tar can't read the remarks that libarchive allows in a map; but for them it is the same archive.
        let path = path.to_str().unwrap().replace("_modified", "");
        for found in found {
            let out = Command::new("tar").args(["-xOf", &path, &found.entry.name()]).output().unwrap();
            assert!(out.status.success());
            assert_eq!(found.hash, sha256(&out.stdout), "{name} {}", found.entry.name());
        }
    }
}

#[test]
fn plain_archives_of_the_corpus() {
    let Some(corpus) = corpus() else { return };
    for (name, count) in [("archive", 3), ("content", 1), ("bootc-registry-image", 7)] {
        let path = corpus.join(format!("kubevirt-cdi/{name}.tar"));
        let found = walk(&std::fs::read(&path).unwrap(), Pieces::Random(2)).unwrap();
        assert_eq!(found.len(), count, "{name}");
        for found in found.iter().filter(|found| found.entry.kind == EntryKind::Regular) {
            let out = Command::new("tar").args(["-xOf", path.to_str().unwrap(), &found.entry.name()]).output().unwrap();
            assert_eq!(found.hash, sha256(&out.stdout));
        }
    }
}

#[test]
fn data_are_not_copied() {
    let archive = Bytes::from([member(b"disk.img", &disk_like(5000), b'0'), END.to_vec()].concat());
    let mut input = archive.clone();
    let mut tar = Tar::new();
    assert!(matches!(tar.next(&mut input, true), Ok(Some(Event::Entry(_)))));
    let Ok(Some(Event::Data(data))) = tar.next(&mut input, true) else { panic!() };
    assert_eq!(data.as_ptr(), archive[512..].as_ptr());
    assert_eq!(data.len(), 5000);
}

#[test]
fn numbers() {
    assert_eq!(header::number(b"0000644\0"), Some(0o644));
    assert_eq!(header::number(b"   644 \0"), Some(0o644));
    assert_eq!(header::number(b"77777777777"), Some(0o77777777777));
    assert_eq!(header::number(b"\0\0\0\0"), Some(0));
    assert_eq!(header::number(b"0000648\0"), None);
    assert_eq!(header::number(b"64x\0"), None);
    assert_eq!(header::number(b"\x80\0\0\0\0\0\0\x02\0\0\0\x01"), Some((2 << 32) + 1));
    assert_eq!(header::number(b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"), Some(u64::MAX));
    assert_eq!(header::number(b"\x80\0\0\x01\0\0\0\0\0\0\0\0"), None);
    assert_eq!(header::number(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), None);
}

#[test]
fn a_file_of_more_than_8_gib() {
    // GNU: in base 256. PAX: as a record.
    for size in [9u64 << 30, (1 << 62) + 5] {
        let mut gnu = block(b"disk.img", 0, b'0');
        gnu[124..136].fill(0);
        gnu[124] = 0x80;
        gnu[128..136].copy_from_slice(&size.to_be_bytes());
        let posix = [pax(b'x', &[("size", &size.to_string())]), block(b"disk.img", 0, b'0').to_vec()].concat();
        for archive in [seal(gnu).to_vec(), posix] {
            let mut tar = Tar::new();
            let mut input = Bytes::from(archive);
            let Ok(Some(Event::Entry(entry))) = tar.next(&mut input, false) else { panic!() };
            assert_eq!(entry.size, size);
            assert_eq!(tar.next(&mut input, true).unwrap_err().kind(), Kind::Truncated);
        }
    }
    let archive = [pax(b'x', &[("size", &u64::MAX.to_string())]), member(b"disk.img", b"", b'0')].concat();
    assert_eq!(fails(&archive).kind(), Kind::Corrupt);
}

/// Makes the checksum of a changed header right.
fn seal(mut block: [u8; 512]) -> [u8; 512] {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

#[test]
fn how_an_archive_may_end() {
    let one = member(b"disk.img", b"hello", b'0');
    let two = [&one[..], &member(b"other.img", &[1; 512], b'0')].concat();
    for archive in [&one, &two] {
        let want = walk(archive, Pieces::Whole).unwrap();
        assert!(!want.is_empty());
        // Nothing, one block of zeros, two, a whole record, and a record that is not one.
        for zeros in [0, 512, 1024, 10240, 1025, 700_001] {
            let archive = [&archive[..], &vec![0; zeros]].concat();
            assert_eq!(walk(&archive, Pieces::Random(8)).unwrap(), want);
            if zeros >= 512 {
                for garbage in [&b"x"[..], &one] {
                    assert_eq!(fails(&[&archive[..], garbage].concat()).kind(), Kind::Trailing);
                }
            }
        }
    }
    assert_eq!(walk(&END, Pieces::Whole).unwrap(), []);
    // An extension header must have its entry.
    assert_eq!(fails(&pax(b'x', &[("path", "x")])).kind(), Kind::Truncated);
    assert_eq!(fails(&member(b"long", b"name", b'L')).kind(), Kind::Truncated);
}

#[test]
fn cut_anywhere_else_is_truncated() {
    let archive = [
        pax(b'x', &[("path", "disk one"), ("size", "700")]),
        block(b"disk", 0, b'0').to_vec(),
        vec![7; 1024],
        member(b"two", b"hello", b'0'),
    ]
    .concat();
    for len in 0..archive.len() {
        let result = walk(&archive[..len], Pieces::Whole);
        if len == 0 || len == archive.len() - 1024 {
            assert!(result.is_ok(), "{len}");
        } else {
            assert_eq!(result.unwrap_err().kind(), Kind::Truncated, "{len}");
        }
    }
}

#[test]
fn kinds_and_names() {
    let archive = [
        member(b"./disk/", b"", b'5'),
        member(b"old folder/", b"", 0),
        member(b"/abs/../disk.img", b"1", b'7'),
        member(b"tty", b"", b'3'),
        member(b"sda", b"", b'4'),
        member(b"pipe", b"", b'6'),
        member(b"thing", b"data", b'Z'),
        pax(b'g', &[("comment", "from git")]),
        member(&[b'a'; 100], b"2", b'0'),
        member(b"ignored", &[b'n'; 3000], b'L'),
        member(b"ignored", &[b'k'; 400], b'K'),
        member(b"short", b"", b'2'),
        pax(b'x', &[("path", "pax path"), ("linkpath", "pax link"), ("mtime", "1.5")]),
        member(b"short", b"", b'1'),
        END.to_vec(),
    ]
    .concat();
    let found = walk(&archive, Pieces::Random(3)).unwrap();
    let list: Vec<_> = found.iter().map(|found| (&found.entry.path[..], found.entry.kind, found.entry.size)).collect();
    assert_eq!(
        list,
        [
            (&b"./disk/"[..], EntryKind::Directory, 0),
            (b"old folder/", EntryKind::Directory, 0),
            (b"/abs/../disk.img", EntryKind::Regular, 1),
            (b"tty", EntryKind::CharDevice, 0),
            (b"sda", EntryKind::BlockDevice, 0),
            (b"pipe", EntryKind::Fifo, 0),
            (b"thing", EntryKind::Other(b'Z'), 4),
            (&[b'a'; 100], EntryKind::Regular, 1),
            (&[b'n'; 3000], EntryKind::Symlink, 0),
            (b"pax path", EntryKind::Hardlink, 0),
        ]
    );
    assert_eq!(found[8].entry.link, [b'k'; 400]);
    assert_eq!(found[9].entry.link, b"pax link");
}

#[test]
fn links_and_folders_have_no_data_whatever_their_size() {
    // The size of the file a hard link stands for, of a folder, of a link's target: all seen, none with data.
    for flag in *b"123456" {
        let mut header = block(b"thing", 7777, flag);
        header[157..160].copy_from_slice(b"abc");
        let archive = [&seal(header)[..], &member(b"disk.img", b"hello", b'0'), &END].concat();
        let found = walk(&archive, Pieces::Whole).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].entry.path, b"disk.img");
    }
}

#[test]
fn a_signed_checksum_is_right_too() {
    let mut header = block("ímynd".as_bytes(), 0, b'0');
    header[148..156].fill(b' ');
    let sum: i32 = header.iter().map(|&byte| i32::from(byte.cast_signed())).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    assert_eq!(walk(&header, Pieces::Whole).unwrap().len(), 1);
    header[0] ^= 1;
    let error = fails(&[&member(b"first", b"1", b'0')[..], &header].concat());
    assert_eq!((error.kind(), error.offset()), (Kind::Corrupt, Some(1024)));
}

#[test]
fn what_is_refused() {
    let entry = member(b"disk.img", b"hello", b'0');
    let mut volume = block(b"disk.img", 5, b'M');
    volume[0] = b'D';
    let star = {
        let mut header = block(b"disk.img", 5, b'S');
        header[508..512].copy_from_slice(b"tar\0");
        seal(header)
    };
    for (archive, kind, word) in [
        (seal(volume).to_vec(), Kind::Unsupported, "multi-volume"),
        (star.to_vec(), Kind::Unsupported, "star"),
        (pax(b'x', &[("SCHILY.filetype", "sparse")]), Kind::Unsupported, "star"),
        (pax(b'g', &[("path", "x")]), Kind::Unsupported, "global"),
        (pax(b'g', &[("GNU.sparse.size", "1")]), Kind::Unsupported, "global"),
        (member(b"l", &[b'x'; 65537], b'L'), Kind::Oversized, "extension header"),
        (block(b"p", (1 << 20) + 1, b'x').to_vec(), Kind::Oversized, "extension header"),
        (block(b"p", 0o77777777777, b'g').to_vec(), Kind::Oversized, "extension header"),
        (member(b"p", b"5 a=b", b'x'), Kind::Corrupt, "malformed"),
        (member(b"p", b"99 a=b\n", b'x'), Kind::Corrupt, "malformed"),
        (member(b"p", b"0 a=b\n", b'x'), Kind::Corrupt, "malformed"),
        (member(b"p", b"18446744073709551616 a=b\n", b'x'), Kind::Corrupt, "malformed"),
        (pax(b'x', &[("size", "-1")]), Kind::Corrupt, "no number"),
        (pax(b'x', &[("size", "1e3")]), Kind::Corrupt, "no number"),
    ] {
        let error = fails(&[&archive[..], &entry, &END].concat());
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn wrong_sparse_maps() {
    let entry = member(b"disk.img", &[1; 1024], b'0');
    let major = [("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.realsize", "10000")];
    let in_data = |map: &str, data: usize| {
        let mut body = map.as_bytes().to_vec();
        body.resize(body.len().next_multiple_of(512) + data, 1);
        [pax(b'x', &major), member(b"disk.img", &body, b'0')].concat()
    };
    let in_header =
        |map: &str| [pax(b'x', &[("GNU.sparse.size", "10000"), ("GNU.sparse.map", map)]), entry.clone()].concat();
    // The right ones first.
    for archive in
        [in_data("2\n0\n512\n9000\n512\n", 1024), in_header("0,512,9000,512"), in_header("0,512,512,512,10000,0")]
    {
        let found = walk(&[&archive[..], &END].concat(), Pieces::Of(3)).unwrap();
        assert_eq!((found.len(), found[0].entry.size, found[0].entry.sparse), (1, 10000, true));
        assert_eq!(found[0].holes, 10000 - 1024);
    }
    for archive in [
        in_header("0,512,500,512"),
        in_header("9000,512,0,512"),
        in_header("0,512,9900,512"),
        in_header("0,512"),
        in_header("0,512,9000,513"),
        in_header("0,512,9000"),
        in_header("0,512,,512"),
        in_header("18446744073709551615,512,0,512"),
        in_data("2\n0\n512\n9000\n513\n", 1024),
        in_data("3\n0\n512\n9000\n512\n", 1024),
        in_data("x\n", 1024),
        in_data("", 1024),
        in_data(&"7".repeat(600), 1024),
        in_data("99999999999999999999\n", 1024),
        [pax(b'x', &[("GNU.sparse.offset", "0"), ("GNU.sparse.offset", "0")]), entry.clone()].concat(),
        [pax(b'x', &[("GNU.sparse.map", "0,1024")]), entry.clone()].concat(),
        [pax(b'x', &[("GNU.sparse.realsize", "9223372036854775808"), ("GNU.sparse.map", "0,1024")]), entry.clone()]
            .concat(),
    ] {
        let error = fails(&[&archive[..], &END].concat());
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    }
    let unknown = [pax(b'x', &[("GNU.sparse.major", "2"), ("GNU.sparse.realsize", "10000")]), entry].concat();
    assert_eq!(fails(&unknown).kind(), Kind::Unsupported);
}

#[test]
fn a_map_without_end_is_refused() {
    // Old GNU: each block has 21 runs and says that another follows. The tar is endless, the memory is not.
    let mut header = block(b"disk.img", 0, b'S');
    header[257..265].copy_from_slice(b"ustar  \0");
    header[482] = 1;
    header[483..495].copy_from_slice(b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff");
    let mut tar = Tar::new();
    let mut input = Bytes::copy_from_slice(&seal(header));
    let mut at = 0u64;
    let error = loop {
        match tar.next(&mut input, false) {
            Ok(None) => {}
            Ok(Some(event)) => panic!("{event:?}"),
            Err(error) => break error,
        }
        let mut more = [0; 512];
        for entry in more[..504].as_chunks_mut::<24>().0 {
            entry[0] = 0x80;
            entry[4..12].copy_from_slice(&at.to_be_bytes());
            entry[12..24].copy_from_slice(b"00000000001\0");
            at += 1000;
        }
        more[504] = 1;
        input = Bytes::copy_from_slice(&more);
    };
    assert_eq!(error.kind(), Kind::Oversized);
}

#[test]
fn damage_is_no_panic() {
    let archive = [
        pax(
            b'x',
            &[("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.realsize", "9000"), ("path", "abc")],
        ),
        member(b"disk.img", &[&b"2\n0\n10\n20\n8000\n"[..], &[b'\n'; 497], &[1; 8010]].concat(), b'0'),
        member(b"long", &[b'n'; 700], b'L'),
        member(b"two", b"hello", b'0'),
        END.to_vec(),
    ]
    .concat();
    assert_eq!(walk(&archive, Pieces::Whole).unwrap().len(), 2);
    let mut rng = Rng::new(17);
    let mut refused = 0;
    for round in 0..20_000 {
        let mut bad = archive.clone();
        for _ in 0..1 + rng.below(3) {
            let at = rng.below(bad.len());
            bad[at] = u8::try_from(rng.next() & 0xff).unwrap();
        }
        // Get past the checksum half of the time.
        if round % 2 == 0 {
            for at in [0, 1024] {
                let header = seal(*bad[at..].first_chunk().unwrap());
                bad[at..at + 512].copy_from_slice(&header);
            }
        }
        match walk(&bad, Pieces::Random(round)) {
            Ok(_) => {}
            Err(error) => {
                assert_ne!(error.kind(), Kind::Ours);
                refused += 1;
            }
        }
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn zeros_that_nobody_made_are_taken_as_far_as_the_entry_goes() {
    let archive = [&member(b"a", &[0; 1500], b'0')[..], &member(b"b", &[7; 10], b'0'), &[0; 1024]].concat();
    let mut tar = Tar::new();
    assert_eq!(tar.take_zeros(5), 0);
    let mut input = Bytes::copy_from_slice(&archive[..512]);
    assert!(matches!(tar.next(&mut input, false).unwrap(), Some(Event::Entry(entry)) if entry.size == 1500));
    assert_eq!((tar.take_zeros(1000), tar.take_zeros(5000), tar.take_zeros(5000)), (1000, 500, 0));
    assert_eq!(tar.consumed(), 2012);
    let mut input = Bytes::copy_from_slice(&archive[2012..]);
    assert!(matches!(tar.next(&mut input, true).unwrap(), Some(Event::Entry(entry)) if entry.path == b"b"));
    assert_eq!(tar.next(&mut input, true).unwrap(), Some(Event::Data(Bytes::from_static(&[7; 10]))));
    assert_eq!(tar.next(&mut input, true).unwrap(), Some(Event::End));
    assert_eq!(tar.consumed(), archive.len() as u64);
}
