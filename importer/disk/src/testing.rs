//! What tests of the formats share: a driver over a byte slice, and comparison with qemu-img and the corpus.
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;
use fixtures::content::Random;
use fixtures::corpus::{Outcome, Row, corpus};
use fixtures::{differ, images, oracle, sha256_file};

use crate::plan::{Limits, Op, Pass, Piece, Plan};
use crate::{Body, Codec, Error, Format, Found, Kind, Page, Result};

/// In which order the driver brings pages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// As in the file: what a stream does.
    Forward,
    /// The last of the file first.
    Backward,
    /// The newest first.
    Newest,
    /// At random, from this seed.
    Shuffled(u64),
}

/// All of them, for tests that must not depend on it.
pub(crate) const ORDERS: [Order; 5] =
    [Order::Forward, Order::Backward, Order::Newest, Order::Shuffled(1), Order::Shuffled(0xfeed)];

/// A guest disk put together: the parts that are not known to be zero, by guest offset.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    pub(crate) size: u64,
    pub(crate) parts: BTreeMap<u64, Vec<u8>>,
}

/// Reads `file` with `format`, which is told the length of the file at the end when `tell` is set. Panics when the format
/// breaks the contract of [`Format`], which is never the fault of a file.
pub(crate) fn read(format: &mut dyn Format, file: &[u8], order: Order, tell: bool) -> Result<Disk> {
    let found = walk(format, file, order, tell)?;
    assemble(format, found, file)
}

/// The same, up to what the format has found in the end.
pub(crate) fn walk(format: &mut dyn Format, file: &[u8], order: Order, tell: bool) -> Result<Found> {
    let mut found = Found::default();
    format.start(&mut found)?;
    let mut pages: Vec<Page> = std::mem::take(&mut found.pages);
    let mut geometry = format.geometry();
    let mut random = Random::new(if let Order::Shuffled(seed) = order { seed } else { 0 });
    while !pages.is_empty() {
        let page = pages.remove(order.pick(&pages, &mut random));
        let start = usize::try_from(page.at.0).unwrap_or(usize::MAX).min(file.len());
        let end = usize::try_from(page.end()).unwrap_or(usize::MAX).min(file.len());
        if end - start < page.min as usize {
            return Err(Error::new(Kind::Truncated, "the file ends inside or before a table").at(page.at.0));
        }
        format.expand(&page, &file[start..end], &mut found)?;
        pages.append(&mut found.pages);
        assert!(geometry.is_none() || geometry == format.geometry(), "the geometry changed");
        geometry = format.geometry();
    }
    format.finish(tell.then_some(file.len() as u64), &mut found)?;
    assert!(found.pages.is_empty(), "a page was asked for at the end");
    assert!(found.skips.iter().all(|(start, end)| start < end));
    Ok(found)
}

/// Puts the disk together from its extents, which must cover it once.
fn assemble(format: &dyn Format, found: Found, file: &[u8]) -> Result<Disk> {
    let geometry = format.geometry().expect("the geometry is known at the end");
    let size = geometry.virtual_size.expect("the size is known at the end");
    let mut extents = found.extents;
    extents.sort_by_key(|extent| extent.guest.0);
    let (mut guest, mut parts) = (0, BTreeMap::new());
    for extent in extents {
        assert_eq!(extent.guest.0, guest, "the extents leave a gap or overlap");
        assert!(extent.len > 0, "an empty extent at {guest:#x}");
        guest = extent.end();
        match extent.body {
            Body::Zero => {}
            Body::Data { at } => {
                let part = usize::try_from(at.0).ok().and_then(|at| file.get(at..at.checked_add(extent.len as usize)?));
                let part = part.ok_or_else(|| Error::new(Kind::Truncated, "the file ends before its data").at(at.0))?;
                let skipped = found.skips.iter().find(|(start, end)| *start < at.0 + extent.len && at.0 < *end);
                assert_eq!(skipped, None, "data at {at} was said to be none");
                parts.insert(extent.guest.0, part.to_vec());
            }
            Body::Inline(bytes) => {
                assert_eq!(bytes.len() as u64, extent.len);
                parts.insert(extent.guest.0, bytes.to_vec());
            }
            Body::Packed { at, len, unpacked, codec } => {
                assert_eq!(codec, Codec::Zlib, "the other decoders are in importer-codec");
                let packed = usize::try_from(at.0).ok().and_then(|at| file.get(at..at.checked_add(len as usize)?));
                let packed = packed.ok_or_else(|| Error::new(Kind::Truncated, "the file ends in data").at(at.0))?;
                parts.insert(extent.guest.0, unfold(packed, unpacked, extent.len, at.0)?);
            }
        }
    }
    assert_eq!(guest, size, "the extents don't cover the disk");
    Ok(Disk { size, parts })
}

/// Unpacks a unit, which must have its length, or that of the extent.
fn unfold(packed: &[u8], unpacked: u32, len: u64, at: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut unpacker = flate2::read::ZlibDecoder::new(packed).take(u64::from(unpacked) + 1);
    let unfolded = unpacker.read_to_end(&mut bytes).map(|len| len as u64);
    if !unfolded.is_ok_and(|bytes| bytes == u64::from(unpacked) || bytes == len) {
        return Err(Error::new(Kind::Corrupt, "packed data is damaged").at(at));
    }
    bytes.truncate(len as usize);
    Ok(bytes)
}

impl Order {
    fn pick(self, pages: &[Page], random: &mut Random) -> usize {
        let by_offset = pages.iter().enumerate().map(|(index, page)| (page.at.0, index));
        match self {
            Self::Forward => by_offset.min().unwrap().1,
            Self::Backward => by_offset.max().unwrap().1,
            Self::Newest => pages.len() - 1,
            Self::Shuffled(_) => random.below(pages.len() as u64) as usize,
        }
    }
}

impl Disk {
    /// The whole disk; for small ones.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        assert!(self.size <= 1 << 30, "too large to be held");
        let mut bytes = vec![0; self.size as usize];
        for (at, part) in &self.parts {
            bytes[*at as usize..*at as usize + part.len()].copy_from_slice(part);
        }
        bytes
    }

    /// Writes the disk as a sparse raw file.
    pub(crate) fn write(&self, path: &Path) {
        let file = File::create(path).unwrap();
        file.set_len(self.size).unwrap();
        for (at, part) in &self.parts {
            file.write_all_at(part, *at).unwrap();
        }
    }

    /// Asserts that qemu-img reads the image at `path` as the same disk, size included.
    pub(crate) fn assert_as_qemu(&self, path: &Path, format: &str) {
        let dir = tempfile::tempdir().unwrap();
        let ours = dir.path().join("ours");
        self.write(&ours);
        let theirs = oracle::raw(path, format);
        assert_eq!(differ(&ours, &theirs), None, "{} differs from qemu-img's", path.display());
        std::fs::remove_file(theirs).unwrap();
    }

    /// Asserts that the disk is what the index of the corpus says. Those above 1 GiB take too long to hash.
    pub(crate) fn assert_as_index(&self, row: &Row) {
        assert_eq!(row.virtual_size, Some(self.size.into()), "{}", row.path);
        if self.size <= 1 << 30 {
            let dir = tempfile::tempdir().unwrap();
            let ours = dir.path().join("ours");
            self.write(&ours);
            assert_eq!(Outcome::Raw(sha256_file(&ours)), row.outcome, "{}", row.path);
        }
    }
}

/// The same, read as a stream in pieces of `piece` bytes; for formats without packed data.
pub(crate) fn stream(format: Box<dyn Format>, file: &[u8], piece: usize) -> Result<Vec<u8>> {
    let (mut disk, mut ops) = (Vec::new(), Vec::new());
    let mut plan = Plan::streaming(format, None, Limits { held: 1 << 20, tables: 1 << 20 }, &mut ops)?;
    loop {
        for chunk in file.chunks(piece) {
            plan.push(Piece::Bytes(Bytes::copy_from_slice(chunk)), &mut ops)?;
        }
        let pass = plan.end_pass(&mut ops)?;
        for op in ops.drain(..) {
            let (guest, bytes) = match op {
                Op::Write { guest, bytes } => (guest, bytes),
                Op::Zero { guest, len } => (guest, vec![0; len as usize].into()),
                Op::Unpack { .. } => panic!("the decoders are in importer-codec"),
            };
            let range = guest.0 as usize..guest.0 as usize + bytes.len();
            disk.resize(disk.len().max(range.end), 0);
            disk[range].copy_from_slice(&bytes);
        }
        if pass == Pass::Done {
            return Ok(disk);
        }
    }
}

/// Rows of the corpus by name; none, said loudly, where there is no corpus.
pub(crate) fn rows(names: &[&str]) -> Vec<Row> {
    corpus().map_or_else(Vec::new, |corpus| names.iter().map(|name| corpus.row(name).clone()).collect())
}

/// Calls `test` with the path and the bytes of every image of this format in the catalogue of fixtures.
pub(crate) fn each_built(format: &str, mut test: impl FnMut(&Path, &[u8])) {
    let dir = tempfile::tempdir().unwrap();
    let mut count = 0;
    for recipe in images::catalogue().iter().filter(|recipe| recipe.format == format) {
        let image = recipe.build(dir.path());
        test(&image.path, &std::fs::read(&image.path).unwrap());
        std::fs::remove_file(&image.path).unwrap();
        count += 1;
    }
    assert!(count >= 4, "the catalogue has {count} images of {format}");
}

/// Calls `test` with the file cut at each of the places, and just before and behind it.
pub(crate) fn cut_at(file: &[u8], places: &[usize], mut test: impl FnMut(&[u8])) {
    for place in places {
        for cut in [*place, place.saturating_sub(1), place + 1, place.saturating_sub(511)] {
            if cut < file.len() {
                test(&file[..cut]);
            }
        }
    }
}

/// Calls `test` with `rounds` copies of the file, each with one to four bytes changed within one of the ranges `places` each.
pub(crate) fn flip(file: &[u8], places: &[(usize, usize)], rounds: u64, mut test: impl FnMut(&[u8])) {
    let mut random = Random::new(99);
    let mut file = file.to_vec();
    for _ in 0..rounds {
        let mut undo = Vec::new();
        for _ in 0..=random.below(4) {
            let (start, end) = places[random.below(places.len() as u64) as usize];
            let at = start + random.below((end - start) as u64) as usize;
            undo.push((at, file[at]));
            file[at] = match random.below(4) {
                0 => 0,
                1 => 0xff,
                2 => file[at] ^ 1 << random.below(8),
                _ => random.number() as u8,
            };
        }
        test(&file);
        undo.into_iter().rev().for_each(|(at, byte)| file[at] = byte);
    }
}

/// Asserts that a file changed within the ranges `places` gives a disk or an error, and that the error is never ours.
pub(crate) fn assert_no_change_is_our_fault<F: Format>(
    file: &[u8],
    places: &[(usize, usize)],
    rounds: u64,
    open: impl Fn(&[u8]) -> Result<F>,
) {
    flip(file, places, rounds, |file| {
        if let Err(error) = open(file).and_then(|mut image| read(&mut image, file, Order::Shuffled(5), true)) {
            assert_ne!(error.kind(), Kind::Ours, "{error}");
        }
    });
}

/// Asserts that a file cut to any of the lengths `cuts`, or to a multiple of 256 bytes, is told from a whole one, whether
/// the length of the file is known or not.
pub(crate) fn assert_cuts_are_noticed<F: Format>(
    file: &[u8],
    cuts: &[usize],
    open: impl Fn(&[u8], Option<u64>) -> Result<F>,
) {
    for len in (0..file.len()).step_by(256).chain(cuts.iter().copied()) {
        for file_len in [Some(len as u64), None] {
            let cut = &file[..len];
            let result =
                open(cut, file_len).and_then(|mut image| read(&mut image, cut, Order::Newest, file_len.is_some()));
            assert_eq!(result.unwrap_err().kind(), Kind::Truncated, "{len} {file_len:?}");
        }
    }
}

/// Asserts that every image of this format in the catalogue is what qemu-img reads: in any order of its pages, and as a
/// stream.
pub(crate) fn assert_agrees_with_qemu<F: Format + 'static>(format: &str, open: impl Fn(&[u8]) -> Result<F>) {
    each_built(format, |path, file| {
        for order in ORDERS {
            read(&mut open(file).unwrap(), file, order, true).unwrap().assert_as_qemu(path, format);
        }
        let disk = read(&mut open(file).unwrap(), file, Order::Forward, true).unwrap().bytes();
        for piece in [777, 64 << 10, 1 << 20] {
            let streamed = stream(Box::new(open(file).unwrap()), file, piece).unwrap();
            assert!(streamed == disk, "{} in pieces of {piece}", path.display());
        }
    });
}
