use bytes::Bytes;
use fixtures::content::Random;

use super::*;
use crate::testing::{self, Order};

fn guest(raw: &mut Raw, file: &[u8]) -> Result<Vec<u8>> {
    testing::read(raw, file, Order::Forward, true).map(|disk| disk.bytes())
}

/// Pushes `file` in pieces of the lengths that `len` gives; gives what came out and what was said at the end.
fn stream(file: &[u8], mut len: impl FnMut() -> usize) -> Result<(Vec<u8>, RawEnd)> {
    let mut rest = Bytes::copy_from_slice(file);
    let (mut stream, mut out) = (RawStream::new(), Vec::new());
    while !rest.is_empty() {
        let piece = rest.split_to(len().min(rest.len()));
        out.extend(stream.push(piece).into_iter().flatten());
        assert!(out.is_empty() || out.len() + TAIL_LEN <= file.len() - rest.len());
    }
    let end = stream.finish()?;
    out.extend(end.rest.iter().flatten());
    Ok((out, end))
}

fn noise(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Random::new(len as u64).fill(&mut bytes);
    bytes
}

fn dmg() -> Vec<u8> {
    let mut file = vec![0x5a; 3000];
    file[2488..2500].copy_from_slice(b"koly\0\0\0\x04\0\0\x02\0");
    file
}

#[test]
fn a_raw_disk_is_its_bytes_and_padding() {
    for len in [512, 513, 1023, 1024, (1 << 20) + 1] {
        let file = noise(len);
        let mut raw = Raw::disk(len as u64, RawSign::Ext);
        let disk = guest(&mut raw, &file).unwrap();
        let padding = len.next_multiple_of(512) - len;
        assert!(disk == [&*file, &vec![0; padding]].concat(), "{len}");
        let mut features = vec![Feature::text("content", "ext")];
        if padding > 0 {
            features.push(Feature::number("padding", padding as u64));
        }
        assert_eq!((raw.features(), raw.name()), (features, "raw"));
        assert_eq!(raw.geometry(), Some(Geometry { virtual_size: Some(disk.len() as u64), cdrom: false }));
    }
}

#[test]
fn an_iso_is_a_cdrom_and_never_cut() {
    let file = noise(70000);
    let mut iso = Raw::iso(70000);
    assert!(guest(&mut iso, &file).unwrap()[..70000] == file);
    assert_eq!(iso.geometry(), Some(Geometry { virtual_size: Some(70144), cdrom: true }));
    assert_eq!((iso.name(), iso.features()), ("iso", vec![Feature::number("padding", 144)]));
}

#[test]
fn impossible_lengths_are_refused_by_number() {
    for len in [0, 1, 511] {
        let error = guest(&mut Raw::disk(len, RawSign::None), &vec![0; 511]).unwrap_err();
        assert_eq!(error.kind(), Kind::NotADisk);
        assert!(error.to_string().starts_with(&format!("raw: not a disk image: the file has {len} bytes")), "{error}");
    }
    for len in [MAX_VIRTUAL_SIZE + 1, 1 << 63, u64::MAX] {
        let mut raw = Raw::disk(len, RawSign::None);
        let mut found = Found::default();
        raw.start(&mut found).unwrap();
        let error = raw.expand(&found.pages.remove(0), &[0; 512], &mut found).unwrap_err();
        assert_eq!(error.kind(), Kind::Oversized);
    }
    let mut raw = Raw::disk(MAX_VIRTUAL_SIZE, RawSign::None);
    let mut found = Found::default();
    raw.start(&mut found).unwrap();
    raw.expand(&found.pages.remove(0), &[0; 512], &mut found).unwrap();
}

#[test]
fn a_dmg_is_refused_either_way() {
    let file = dmg();
    for error in [guest(&mut Raw::disk(3000, RawSign::None), &file).unwrap_err(), stream(&file, || 700).unwrap_err()] {
        assert_eq!((error.kind(), error.offset()), (Kind::Unsupported, Some(2488)));
    }
}

#[test]
fn a_stream_gives_the_same_whatever_its_pieces() {
    for len in [512, 513, 1023, 1024, 1025, 5000, 70001] {
        let file = noise(len);
        for piece in [1, 2, 255, 511, 512, 513, 4096, 1 << 20] {
            let (out, end) = stream(&file, || piece).unwrap();
            assert!(out == file, "{len} {piece}");
            let virtual_size = (len as u64).next_multiple_of(512);
            assert_eq!((end.data_len, end.virtual_size, end.vhd), (len as u64, virtual_size, None));
        }
        let mut random = Random::new(9);
        assert!(stream(&file, || 1 + random.below(1500) as usize).unwrap().0 == file);
    }
    for len in [0, 1, 511] {
        assert_eq!(stream(&vec![1; len], || 7).unwrap_err().kind(), Kind::NotADisk);
    }
}

/// Large pieces pass through as they are.
#[test]
fn a_stream_does_not_copy() {
    let pieces: Vec<Bytes> = (0..4).map(|byte| Bytes::from(vec![byte; 4096])).collect();
    let mut stream = RawStream::new();
    let mut out: Vec<Bytes> = pieces.iter().filter_map(|piece| stream.push(piece.clone())).collect();
    out.extend(stream.finish().unwrap().rest);
    let places = |pieces: &[Bytes]| pieces.iter().map(|piece| piece.as_ptr()).collect::<Vec<_>>();
    assert_eq!(places(&out), places(&pieces));
}

/// Azure and Hyper-V disks: qemu-img takes the footer for the guest's.
#[test]
fn fixed_vhds_lose_their_footer() {
    for row in testing::rows(&["dfvfs/fat-parent.vhd", "dfvfs/ntfs-fixed.vhd", "dfvfs/ntfs-parent.vhd"]) {
        let (name, file) = (row.name(), row.bytes());
        let mut raw = Raw::disk(file.len() as u64, RawSign::Mbr);
        let disk = guest(&mut raw, &file).unwrap();
        assert!(disk == file[..4 << 20], "{name}");
        assert_eq!(raw.name(), "vhd");
        assert!(raw.features().contains(&Feature::text("subformat", "fixed")));
        for piece in [300, 512, 4096, 5 << 20] {
            let (out, end) = stream(&file, || piece).unwrap();
            assert!(out == disk && end.virtual_size == 4 << 20 && end.vhd.is_some(), "{name} {piece}");
        }
        // Cut, the footer is none, and nothing tells.
        let cut = &file[..file.len() - 2];
        assert_eq!(guest(&mut Raw::disk(cut.len() as u64, RawSign::Mbr), cut).unwrap().len(), file.len());
    }
}

#[test]
fn holes_pass_through_a_stream_without_their_bytes() {
    let mut random = Random::new(9);
    for _ in 0..200 {
        let (mut file, mut out) = (Vec::new(), Vec::new());
        let mut stream = RawStream::new();
        for _ in 0..1 + random.below(6) {
            let len = 1 + random.below(2000);
            if random.below(2) == 0 {
                file.resize(file.len() + len as usize, 0);
                let (bytes, zeros) = stream.skip(len);
                out.extend(bytes);
                out.resize(out.len() + zeros as usize, 0);
            } else {
                let bytes = noise(len as usize);
                file.extend(&bytes);
                out.extend(stream.push(Bytes::from(bytes)).into_iter().flatten());
            }
        }
        if file.len() < 512 {
            continue;
        }
        let end = stream.finish().unwrap();
        out.extend(end.rest.into_iter().flatten());
        assert!(out == file && end.data_len == file.len() as u64);
    }
}
