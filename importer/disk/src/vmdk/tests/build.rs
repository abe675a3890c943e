//! Builds images of all layouts there are, byte by byte.

use std::io::Write as _;

pub const SECTOR: usize = 512;
pub const GRAIN: usize = 16 * SECTOR;
const PER_TABLE: usize = 512;

/// A disk of `grains` grains and a cut one, with data in the grains named and zeros elsewhere.
pub fn disk(grains: usize, with_data: &[usize]) -> Vec<u8> {
    let mut disk = vec![0; grains * GRAIN + 3 * SECTOR];
    for &grain in with_data {
        let end = disk.len().min((grain + 1) * GRAIN);
        for (nth, byte) in disk[grain * GRAIN..end].iter_mut().enumerate() {
            *byte = (nth as u32).wrapping_mul(2_654_435_761).rotate_left(grain as u32).to_be_bytes()[0] | 1;
        }
    }
    disk
}

pub fn put32(image: &mut [u8], at: usize, value: u32) {
    image[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub fn put64(image: &mut [u8], at: usize, value: u64) {
    image[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

pub fn get32(image: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(image[at..at + 4].try_into().unwrap())
}

pub fn get64(image: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(image[at..at + 8].try_into().unwrap())
}

/// Places of the header's fields.
pub mod at {
    pub const VERSION: usize = 4;
    pub const FLAGS: usize = 8;
    pub const CAPACITY: usize = 12;
    pub const GRAIN: usize = 20;
    pub const DESCRIPTOR: usize = 28;
    pub const DESCRIPTOR_LEN: usize = 36;
    pub const PER_TABLE: usize = 44;
    pub const DIRECTORY: usize = 56;
    pub const OVERHEAD: usize = 64;
    pub const NEWLINES: usize = 73;
    pub const COMPRESSION: usize = 77;
}

fn header(disk: &[u8], stream: bool, directory: u64, overhead: usize) -> Vec<u8> {
    let mut header = vec![0; SECTOR];
    header[..4].copy_from_slice(b"KDMV");
    put32(&mut header, at::VERSION, if stream { 3 } else { 1 });
    put32(&mut header, at::FLAGS, if stream { 0x30001 } else { 1 });
    put64(&mut header, at::CAPACITY, (disk.len() / SECTOR) as u64);
    put64(&mut header, at::GRAIN, (GRAIN / SECTOR) as u64);
    put64(&mut header, at::DESCRIPTOR, 1);
    put64(&mut header, at::DESCRIPTOR_LEN, 2);
    put32(&mut header, at::PER_TABLE, PER_TABLE as u32);
    put64(&mut header, at::DIRECTORY, directory);
    put64(&mut header, at::OVERHEAD, overhead as u64);
    header[at::NEWLINES..at::NEWLINES + 4].copy_from_slice(b"\n \r\n");
    header[at::COMPRESSION] = u8::from(stream);
    header
}

/// Writes another descriptor into an image.
pub fn describe(image: &mut [u8], text: &str) {
    image[SECTOR..3 * SECTOR].fill(0);
    image[SECTOR..SECTOR + text.len()].copy_from_slice(text.as_bytes());
}

pub fn descriptor(disk: &[u8], create_type: &str) -> String {
    let sectors = disk.len() / SECTOR;
    format!(
        "# Disk DescriptorFile\nCID=1\nparentCID=ffffffff\ncreateType=\"{create_type}\"\nRW {sectors} SPARSE \"x.vmdk\"\n"
    )
}

fn grains(disk: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    disk.chunks(GRAIN).enumerate().filter(|(_, grain)| grain.iter().any(|&byte| byte != 0))
}

/// Directory at sector 3, then a table for each entry, then grains.
fn tables_in_front(disk: &[u8]) -> (usize, usize, Vec<u8>) {
    let tables = disk.len().div_ceil(GRAIN * PER_TABLE);
    let first_table = 3 + (tables * 4).div_ceil(SECTOR);
    let overhead = first_table + tables * 4;
    let mut front = vec![0; overhead * SECTOR];
    for table in 0..tables {
        put32(&mut front, 3 * SECTOR + table * 4, (first_table + table * 4) as u32);
    }
    (first_table, overhead, front)
}

/// A monolithicSparse image, its grains in the order of the disk.
pub fn sparse(disk: &[u8]) -> Vec<u8> {
    let (first_table, overhead, mut image) = tables_in_front(disk);
    image[..SECTOR].copy_from_slice(&header(disk, false, 3, overhead));
    describe(&mut image, &descriptor(disk, "monolithicSparse"));
    for (nth, grain) in grains(disk) {
        let sector = (image.len() / SECTOR) as u32;
        put32(&mut image, first_table * SECTOR + nth * 4, sector);
        image.extend_from_slice(grain);
        image.resize((sector as usize) * SECTOR + GRAIN, 0);
    }
    image
}

pub fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

/// Appends a grain with its marker; gives the marker's sector.
pub fn push_grain(image: &mut Vec<u8>, nth: usize, bytes: &[u8]) -> u32 {
    let sector = image.len() / SECTOR;
    let packed = pack(bytes);
    image.extend_from_slice(&((nth * GRAIN / SECTOR) as u64).to_le_bytes());
    image.extend_from_slice(&(packed.len() as u32).to_le_bytes());
    image.extend_from_slice(&packed);
    image.resize(image.len().next_multiple_of(SECTOR), 0);
    sector as u32
}

/// Appends a marker; gives the sector behind it.
pub fn push_marker(image: &mut Vec<u8>, sectors: u64, kind: u32) -> usize {
    let start = image.len();
    image.resize(start + SECTOR, 0);
    put64(image, start, sectors);
    put32(image, start + 12, kind);
    image.len() / SECTOR
}

/// A streamOptimized image as open-vmdk writes it: tables in front, and an end marker.
pub fn stream_front(disk: &[u8]) -> Vec<u8> {
    let (first_table, overhead, mut image) = tables_in_front(disk);
    image[..SECTOR].copy_from_slice(&header(disk, true, 3, overhead));
    describe(&mut image, &descriptor(disk, "streamOptimized"));
    for (nth, grain) in grains(disk) {
        let sector = push_grain(&mut image, nth, grain);
        put32(&mut image, first_table * SECTOR + nth * 4, sector);
    }
    push_marker(&mut image, 0, 0);
    image
}

/// The parts of a stream of [`stream_behind`], by their sector.
#[derive(Debug, Default)]
pub struct Places {
    pub grains: Vec<usize>,
    pub tables: Vec<usize>,
    pub directory: usize,
    pub footer: usize,
}

/// A streamOptimized image as ESXi exports it: each table behind its grains, the directory behind all, and a footer.
pub fn stream_behind(disk: &[u8]) -> (Vec<u8>, Places) {
    let mut image = header(disk, true, u64::MAX, 4);
    image.resize(4 * SECTOR, 0);
    describe(&mut image, &descriptor(disk, "streamOptimized"));
    let mut places = Places::default();
    let mut directory = Vec::new();
    for (nth, part) in disk.chunks(GRAIN * PER_TABLE).enumerate() {
        let mut table = vec![0; PER_TABLE * 4];
        for (place, grain) in grains(part) {
            let sector = push_grain(&mut image, nth * PER_TABLE + place, grain);
            put32(&mut table, place * 4, sector);
            places.grains.push(sector as usize);
        }
        if table.iter().all(|&byte| byte == 0) {
            directory.extend_from_slice(&0u32.to_le_bytes());
            continue;
        }
        let sector = push_marker(&mut image, 4, 1);
        places.tables.push(sector);
        image.extend_from_slice(&table);
        directory.extend_from_slice(&(sector as u32).to_le_bytes());
    }
    directory.resize(directory.len().next_multiple_of(SECTOR), 0);
    places.directory = push_marker(&mut image, (directory.len() / SECTOR) as u64, 2);
    image.extend_from_slice(&directory);
    places.footer = push_marker(&mut image, 1, 3);
    let footer = header(disk, true, places.directory as u64, 4);
    image.extend_from_slice(&footer);
    push_marker(&mut image, 0, 0);
    (image, places)
}
