use std::path::Path;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use fixtures::{oci, run, tool};
use importer_codec::seekable::{self, FRAME, SeekTable};
use importer_codec::{Bin, Limits, Status, Wrapper};

use super::*;
use crate::source::{ContainerSource, Source, container};

/// Bytes like those of a disk, the same everywhere.
fn disk(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut disk = Vec::with_capacity(len + (4 << 20));
    while disk.len() < len {
        let run = usize::try_from(next() % (3 << 19)).unwrap();
        match next() % 4 {
            0 => disk.resize(disk.len() + 2 * run, 0),
            1 => disk.extend((0..run / 8).flat_map(|_| next().to_le_bytes())),
            _ => disk.extend((0..run as u64).map(|at| u8::try_from(at / 7 * seed % 251).unwrap())),
        }
    }
    disk.truncate(len);
    disk
}

/// The stored bytes of a layer, and what is said of them.
fn store(
    size: u64,
    kind: LayerKind,
    threads: usize,
    bring: impl FnOnce(&mut LayerWriter) -> Result<()>,
) -> Result<(Vec<u8>, Layer)> {
    let stored = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&stored);
    let mut layer = LayerWriter::start(size, kind, threads, move |bytes| {
        assert!(!bytes.is_empty());
        into.lock().unwrap().extend_from_slice(&bytes);
        Ok(())
    })?;
    bring(&mut layer)?;
    let made = layer.finish()?;
    let stored = std::mem::take(&mut *stored.lock().unwrap());
    assert_eq!((made.size, made.digest), (stored.len() as u64, Digest::of(&stored)));
    Ok((stored, made))
}

fn whole(disk: &[u8], kind: LayerKind, threads: usize) -> (Vec<u8>, Layer) {
    store(disk.len() as u64, kind, threads, |layer| layer.push(Piece::Bytes(Bytes::copy_from_slice(disk)))).unwrap()
}

fn archive(disk: &[u8]) -> Vec<u8> {
    let around = Around::disk(disk.len() as u64);
    let mut archive = [&around.head, disk].concat();
    archive.resize(archive.len() + usize::try_from(around.tail).unwrap(), 0);
    archive
}

fn unpack(stored: &[u8]) -> Vec<u8> {
    let mut decoder = Wrapper::Zstd.decoder(Limits::default(), &Bin::default()).unwrap().unwrap();
    let (mut input, mut all) = (Bytes::copy_from_slice(stored), Vec::new());
    loop {
        match decoder.decode(&mut input, true).unwrap() {
            Status::Made(bytes) => all.extend_from_slice(&bytes),
            Status::Zeros(len) => all.resize(all.len() + usize::try_from(len).unwrap(), 0),
            Status::Done => return all,
            Status::NeedInput => panic!("there is no more"),
        }
    }
}

#[test]
fn a_layer_is_what_the_archive_of_the_disk_compresses_to() {
    for len in [0, 1, 511, 512, FRAME - 1, FRAME, FRAME + 1, 9_000_001] {
        let disk = disk(len, 3);
        let archive = archive(&disk);
        let (plain, layer) = whole(&disk, LayerKind::Plain, 1);
        assert!(plain == archive, "{len}");
        assert_eq!(layer.diff_id, layer.digest);
        assert_eq!((layer.size, layer.unpacked), (archive.len() as u64, archive.len() as u64));
        assert_eq!(LayerKind::Plain.stored_len(len as u64), Some(layer.size));
        let (stored, layer) = whole(&disk, LayerKind::Zstd, 2);
        assert!(unpack(&stored) == archive, "{len}");
        assert_eq!((layer.diff_id, layer.unpacked), (Digest::of(&archive), archive.len() as u64));
    }
    assert_eq!(LayerKind::Zstd.stored_len(1), None);
}

/// Equal disks share a blob for ever: a change here is a change of what registries hold, to be told in the changelog.
#[test]
fn the_digests_are_settled() {
    let disk = disk(70 << 20, 11);
    let sparse = |layer: &mut LayerWriter| {
        layer.push(Piece::Hole(50 << 20))?;
        layer.write(&[5; 5000])?;
        layer.push(Piece::Hole((100 << 20) - (50 << 20) - 5000))
    };
    let digests = [
        whole(&disk, LayerKind::Zstd, 2).1.digest,
        whole(&disk, LayerKind::Plain, 2).1.digest,
        store(100 << 20, LayerKind::Zstd, 1, sparse).unwrap().1.digest,
        whole(&[], LayerKind::Zstd, 1).1.digest,
    ];
    assert_eq!(
        digests.map(|digest| digest.hex()),
        [
            "4c46f42315a52d9bd752acb0162bdd7a4cb95da0cbe3ef0ab90e946a0886f235",
            "703d2abc22de912e0987e4a14fb9550abce008b95ae05a4118c7735a9a4e6e68",
            "9454a0171b552399dabd41e77e8cc93eef4560c7e411cd1448f79f9f18eef77d",
            "427a24e445b4af93c4c092e9e63e9ca2877430bf96c1eb9df703c3dc93b8f8ab",
        ]
    );
}

#[test]
fn neither_threads_nor_pieces_decide() {
    let disk = disk(23 << 20, 5);
    for kind in [LayerKind::Zstd, LayerKind::Plain] {
        let (want, layer) = whole(&disk, kind, 1);
        for (threads, step) in [(1, 4096), (2, 65_537), (4, FRAME), (3, 5 << 20), (2, 408 << 10)] {
            let (stored, same) = store(disk.len() as u64, kind, threads, |layer| {
                for (number, part) in disk.chunks(step).enumerate() {
                    match number % 3 {
                        _ if crate::sink::zeros::is_zero(part) => layer.push(Piece::Hole(part.len() as u64))?,
                        0 => layer.write(part)?,
                        _ => layer.push(Piece::Bytes(Bytes::copy_from_slice(part)))?,
                    }
                }
                Ok(())
            })
            .unwrap();
            assert!(stored == want && layer == same, "{kind:?} {threads} {step}");
        }
    }
}

#[test]
fn any_part_of_it_is_read_by_its_table() {
    let disk = disk(40 << 20, 7);
    let (stored, _) = whole(&disk, LayerKind::Zstd, 2);
    let len = usize::try_from(seekable::table_len(stored.last_chunk().unwrap()).unwrap().unwrap()).unwrap();
    let table = Bytes::copy_from_slice(&stored[stored.len() - len..]);
    let table = SeekTable::parse(table, stored.len() as u64).unwrap();
    let archive = archive(&disk);
    assert_eq!(table.size(), archive.len() as u64);
    let mut unpacker = importer_codec::cluster::Zstd::new().unwrap();
    let mut zeros = 0;
    for place in table.places(0) {
        // The headers are a frame, so that those of the disk begin at multiples of their length.
        assert!(place.at == 0 || (place.at - 1024) % FRAME as u64 == 0 || place.len < 2048, "{place:?}");
        let from = usize::try_from(place.stored_at).unwrap();
        let frame = &stored[from..from + place.stored as usize];
        let mut data = vec![1; place.len as usize];
        unpacker.unpack(frame, &mut data).unwrap();
        assert!(archive[usize::try_from(place.at).unwrap()..].starts_with(&data));
        if seekable::is_zeros(frame, place.len.into()) {
            zeros += u64::from(place.len);
        }
    }
    let want = disk.chunks_exact(FRAME).filter(|part| crate::sink::zeros::is_zero(part)).count();
    assert_eq!(zeros, (want * FRAME) as u64);
    assert!(want > 0);
}

#[test]
fn a_large_disk_of_holes_is_small() {
    let size = 9 << 30;
    let (stored, layer) = store(size, LayerKind::Zstd, 2, |layer| layer.push(Piece::Hole(size))).unwrap();
    assert!(stored.len() < 400 << 10, "{} bytes", stored.len());
    assert_eq!(layer.unpacked, size + 2048 + 1024);
}

#[test]
fn the_tools_of_others_read_it() {
    let disk = disk(9_000_001, 13);
    let archive = archive(&disk);
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (stored, layer) = whole(&disk, LayerKind::Zstd, 2);
    std::fs::write(path("layer.tar.zst"), &stored).unwrap();
    assert!(run(tool("zstd").args(["-dcq", &path("layer.tar.zst")])).stdout == archive);
    let listed = run(tool("tar").args(["--zstd", "--utc", "--full-time", "-tvf", &path("layer.tar.zst")])).stdout;
    let listed = String::from_utf8(listed).unwrap();
    assert!(listed.contains("-rw-r--r-- 107/107     9000001 1970-01-01 00:00:00 disk/disk.img\n"), "{listed}");
    // containers/image, and in it the zstd that Go's programs use.
    image(&path("zstd"), "+zstd", stored, &layer);
    let copy = ["--insecure-policy", "copy", "--dest-decompress"];
    run(tool("skopeo").args(copy).args([format!("oci:{}:it", path("zstd")), format!("dir:{}", path("copied"))]));
    assert!(std::fs::read(path(&format!("copied/{}", layer.diff_id.hex()))).unwrap() == archive);
    // Go's archive/tar. umoci 0.4.7 of Debian knows no zstd.
    let (stored, layer) = whole(&disk, LayerKind::Plain, 2);
    image(&path("plain"), "", stored, &layer);
    run(tool("umoci")
        .args(["raw", "unpack", "--rootless", "--image"])
        .args([format!("{}:it", path("plain")), path("root")]));
    assert!(std::fs::read(path("root/disk/disk.img")).unwrap() == disk);
}

/// An image with this layer, as a layout.
fn image(path: &str, suffix: &str, stored: Vec<u8>, layer: &Layer) {
    let blob = oci::Blob::new(&format!("{}{suffix}", oci::media::LAYER), stored);
    let layer = oci::Layer { blob, diff_id: layer.diff_id.to_string() };
    let image = oci::Image::new("linux/amd64").layer(layer).build();
    oci::write_layout(Path::new(path), &[("it", &image)]);
}

/// A pull gives the disk back, and holes as holes: none of their bytes is made on the way.
#[test]
fn our_own_source_reads_it_with_its_holes() {
    let size = 300 << 20;
    let (stored, layer) = store(size, LayerKind::Zstd, 2, |layer| {
        layer.push(Piece::Hole(100 << 20))?;
        layer.write(&[7; 3 << 20])?;
        layer.push(Piece::Hole(197 << 20))
    })
    .unwrap();
    let dir = tempfile::tempdir().unwrap();
    image(dir.path().to_str().unwrap(), "+zstd", stored, &layer);
    let found = container::layout(dir.path(), Some("it"), None).unwrap();
    let mut source = ContainerSource::new(found, None, container::Reading::Verified).unwrap();
    let (mut at, mut made) = (0, 0);
    let mut stream = source.open().unwrap();
    while let Some(piece) = stream.next().unwrap() {
        if let Piece::Bytes(bytes) = &piece {
            made += piece.len();
            for (number, &byte) in bytes.iter().enumerate() {
                let data = (100 << 20..103 << 20).contains(&(at + number as u64));
                assert_eq!(byte == 7, data, "{at} {number}");
            }
        }
        at += piece.len();
    }
    assert_eq!(at, size);
    assert!(made <= 4 << 20, "{made} bytes were made");
}

#[test]
fn a_disk_of_another_length_is_no_layer() {
    for kind in [LayerKind::Zstd, LayerKind::Plain] {
        let error = store(10, kind, 1, |layer| layer.write(&[1; 9])).unwrap_err();
        assert_eq!(error.kind(), Kind::Mismatch);
        assert_eq!(
            error.to_string(),
            "the disk was to have 10 bytes, but 9 came and that was all; the layer is not used"
        );
        for piece in [Piece::Hole(11), Piece::Hole(u64::MAX), Piece::Bytes(vec![0; 11].into())] {
            let error = store(10, kind, 1, |layer| layer.push(piece)).unwrap_err();
            assert_eq!(error.kind(), Kind::Mismatch);
        }
        let error = store(10, kind, 1, |layer| layer.write(&[0; 10]).and_then(|()| layer.write(&[0]))).unwrap_err();
        assert_eq!(error.kind(), Kind::Mismatch);
    }
}

#[test]
fn the_consumer_says_why_it_failed() {
    for kind in [LayerKind::Zstd, LayerKind::Plain] {
        let mut left = 3;
        let mut layer = LayerWriter::start(1 << 40, kind, 2, move |_| {
            left -= 1;
            if left == 0 { Err(Error::new(Kind::Target, "the registry is full")) } else { Ok(()) }
        })
        .unwrap();
        let noise = Bytes::from(disk(FRAME, 99));
        let error = (0..1000).find_map(|_| layer.push(Piece::Bytes(noise.clone())).err()).unwrap();
        assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Target, "the registry is full"));
        assert_eq!(layer.push(Piece::Bytes(noise)).unwrap_err().kind(), Kind::Ours);
        // And when it fails with the very last bytes.
        let full = |_| Err(Error::new(Kind::Target, "full"));
        let mut layer = LayerWriter::start(1, kind, 2, full).unwrap();
        layer.push(Piece::Hole(1)).unwrap();
        assert_eq!(layer.finish().unwrap_err().kind(), Kind::Target);
    }
}

#[test]
fn a_layer_that_is_given_up_lets_the_consumer_go() {
    for kind in [LayerKind::Zstd, LayerKind::Plain] {
        let (pieces, taken) = mpsc::channel();
        let mut layer = LayerWriter::start(1 << 40, kind, 2, move |bytes| {
            pieces.send(bytes).map_err(|_| Error::new(Kind::Ours, "gone"))
        })
        .unwrap();
        layer.push(Piece::Bytes(vec![3; 5 << 20].into())).unwrap();
        drop(layer);
        // Ends when the consumer is dropped.
        assert!(taken.iter().map(|bytes| bytes.len()).sum::<usize>() <= 6 << 20);
    }
}

#[test]
fn a_slow_consumer_makes_the_disk_wait() {
    for kind in [LayerKind::Zstd, LayerKind::Plain] {
        let (pieces, taken) = mpsc::sync_channel(0);
        let mut layer = LayerWriter::start(1 << 40, kind, 2, move |bytes: Bytes| {
            pieces.send(bytes).map_err(|_| Error::new(Kind::Ours, "gone"))
        })
        .unwrap();
        let count = Arc::new(Mutex::new(0));
        let counting = Arc::clone(&count);
        let noise = Bytes::from(
            (1..=FRAME as u64 / 8)
                .flat_map(|n| n.wrapping_mul(n).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes())
                .collect::<Vec<_>>(),
        );
        let bringing = std::thread::spawn(move || {
            while layer.push(Piece::Bytes(noise.clone())).is_ok() {
                *counting.lock().unwrap() += 1;
            }
        });
        // What was taken, and what may be on its way.
        let mut most = 0;
        for number in 1..30 {
            taken.recv().unwrap();
            most = most.max(*count.lock().unwrap() - number);
        }
        assert!(most <= 16, "{most} MiB wait");
        drop(taken);
        bringing.join().unwrap();
    }
}
