use super::super::model::Random;
use super::*;

/// A writer for a new file in `dir`.
fn writer(dir: &std::path::Path) -> (File, Writer) {
    let path = dir.join("disk");
    let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
    let writer = Writer::new(&file);
    (file, writer)
}

fn read(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// Writes of every size and place, from memory of every alignment, in a random order.
fn matches_the_model(file: &File, writer: &Writer, seed: u64) {
    let mut random = Random::new(seed);
    let disk: Vec<u8> = (0..6 << 20).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
    let mut cuts = vec![0, disk.len()];
    for _ in 0..24 {
        let granule = [1, 512, PAGE, 64 << 10][random.below(4)];
        cuts.push(random.below(disk.len() / granule) * granule);
    }
    cuts.sort_unstable();
    let mut ranges: Vec<_> = cuts.windows(2).map(|pair| pair[0]..pair[1]).collect();
    for last in (1..ranges.len()).rev() {
        ranges.swap(last, random.below(last + 1));
    }
    let mut memory = vec![0; disk.len() + 2 * PAGE];
    for range in ranges {
        let aligned = memory.as_ptr().align_offset(PAGE);
        let from = if random.below(2) == 0 { aligned + range.start % PAGE } else { random.below(PAGE) };
        memory[from..from + range.len()].copy_from_slice(&disk[range.clone()]);
        writer.write_all_at(file, &memory[from..from + range.len()], range.start as u64).unwrap();
    }
    assert!(read(file) == disk, "seed {seed}");
}

#[test]
fn writes_are_where_they_belong() {
    for seed in 1..=8 {
        let dir = tempfile::tempdir().unwrap();
        let (file, writer) = writer(dir.path());
        matches_the_model(&file, &writer, seed);
    }
}

#[test]
fn without_direct_writes() {
    let dir = tempfile::tempdir().unwrap();
    let (file, mut writer) = writer(dir.path());
    writer.direct = None;
    matches_the_model(&file, &writer, 9);
}

#[test]
fn a_refusal_in_the_middle_is_made_good() {
    let dir = tempfile::tempdir().unwrap();
    let (file, writer) = writer(dir.path());
    let bytes = vec![7; 3 * SLAB];
    writer.write_all_at(&file, &bytes, 0).unwrap();
    let refusal = writer.judge(Err(io::Error::from(io::ErrorKind::InvalidInput)));
    assert!(matches!(refusal, Ok(false)));
    assert!(!writer.write_direct(&bytes, 0).unwrap(), "refused once, refused for good");
    writer.write_all_at(&file, &bytes, bytes.len() as u64).unwrap();
    assert!(read(&file) == vec![7; 6 * SLAB]);
    assert!(writer.judge(Err(io::Error::from(io::ErrorKind::StorageFull))).is_err(), "all else is an error");
}

#[test]
fn only_large_whole_pages_are_direct() {
    let bytes = vec![1; DIRECT_MIN + 2 * PAGE];
    let parts =
        |len: usize, at: u64| split(&bytes[..len], at).map(|(head, body, tail)| [head, body, tail].map(<[u8]>::len));
    assert_eq!(parts(DIRECT_MIN, 0), Some([0, DIRECT_MIN, 0]));
    assert_eq!(parts(DIRECT_MIN - 1, 0), None);
    assert_eq!(parts(DIRECT_MIN, 1), None);
    assert_eq!(parts(DIRECT_MIN + PAGE, 1), Some([PAGE - 1, DIRECT_MIN, 1]));
    assert_eq!(parts(10, u64::MAX), None);
    assert_eq!(parts(0, 5), None);
}
