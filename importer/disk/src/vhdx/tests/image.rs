//! Makes VHDX files by hand, with whatever their structures shall say.

use crate::crc32c;
use crate::guid::Guid;

pub(super) const MIB: usize = 1 << 20;
pub(super) const LOG_GUID: Guid = Guid::new(0x1234_5678, 0x9abc, 0xdef0, 0x1122_3344_5566_7788);
pub(super) const LOG_AT: usize = MIB;

pub(super) const BAT: Guid = Guid::new(0x2dc2_7766, 0xf623, 0x4200, 0x9d64_115e_9bfd_4a08);
pub(super) const METADATA: Guid = Guid::new(0x8b7c_a206, 0x4790, 0x4b9a, 0xb8fe_575f_050f_886e);
pub(super) const PARAMETERS: Guid = Guid::new(0xcaa1_6737, 0xfa36, 0x4d43, 0xb3b6_33f0_aa44_e76b);
pub(super) const SIZE: Guid = Guid::new(0x2fa5_4224, 0xcd1b, 0x4876, 0xb211_5dbe_d83b_f4b8);
pub(super) const DISK_ID: Guid = Guid::new(0xbeca_12ab, 0xb2e6, 0x4523, 0x93ef_c309_e000_c746);
pub(super) const SECTOR: Guid = Guid::new(0x8141_bf1d, 0xa96f, 0x4709, 0xba47_f233_a8fa_ab5f);
pub(super) const PHYSICAL: Guid = Guid::new(0xcda3_48c7, 0x445d, 0x4471, 0x9cc9_e988_5251_c556);
pub(super) const LOCATOR: Guid = Guid::new(0xa8d3_5f2d, 0xb30b, 0x454d, 0xabf7_d3d8_4834_ab0c);
pub(super) const UNKNOWN: Guid = Guid::new(1, 2, 3, 4);

/// A header, before its checksum.
#[derive(Clone, Copy)]
pub(super) struct Head {
    pub(super) sequence: u64,
    pub(super) log_guid: Guid,
    pub(super) log_version: u16,
    pub(super) version: u16,
    pub(super) log_len: u32,
    pub(super) log_at: u64,
}

/// A region: identifier, offset, length, required.
pub(super) type Region = (Guid, u64, u32, u32);

/// A metadata item: identifier, flags, offset in the region, content.
pub(super) type Item = (Guid, u32, u32, Vec<u8>);

#[derive(Clone)]
pub(super) struct Image {
    pub(super) heads: [Option<Head>; 2],
    pub(super) regions: Vec<Region>,
    pub(super) items: Vec<Item>,
    /// Where the metadata region is put, whatever the region table says; and the BAT.
    pub(super) metadata_at: usize,
    pub(super) bat_at: usize,
    pub(super) bat: Vec<u64>,
    pub(super) log: Vec<u8>,
    /// What lies at these offsets.
    pub(super) data: Vec<(usize, Vec<u8>)>,
    pub(super) len: usize,
}

/// `len` bytes that differ from place to place.
pub(super) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fixtures::content::Random::new(seed).fill(&mut bytes);
    bytes
}

pub(super) fn parameters(block_size: u32, flags: u32) -> Item {
    (PARAMETERS, 4, 65536, [block_size.to_le_bytes(), flags.to_le_bytes()].concat())
}

pub(super) fn size(bytes: u64) -> Item {
    (SIZE, 6, 65544, bytes.to_le_bytes().to_vec())
}

pub(super) fn sector(bytes: u32) -> Item {
    (SECTOR, 6, 65552, bytes.to_le_bytes().to_vec())
}

/// An entry of the BAT for a block at this MiB.
pub(super) fn at_mib(mib: u64) -> u64 {
    mib << 20 | 6
}

impl Image {
    /// Blocks of 1 MiB: the first at 5 MiB, the second zero, the third at 4 MiB, cut after 8 KiB.
    pub(super) fn new() -> Self {
        let head = Head {
            sequence: 7,
            log_guid: Guid([0; 16]),
            log_version: 0,
            version: 1,
            log_len: 1 << 20,
            log_at: 1 << 20,
        };
        Self {
            heads: [Some(head), Some(Head { sequence: 6, ..head })],
            regions: vec![(BAT, 2 << 20, 1 << 20, 1), (METADATA, 3 << 20, 1 << 20, 1)],
            items: vec![
                parameters(1 << 20, 0),
                size(2 * (1 << 20) + 8192),
                sector(512),
                (PHYSICAL, 6, 65556, 4096u32.to_le_bytes().to_vec()),
                (DISK_ID, 6, 65560, vec![9; 16]),
            ],
            metadata_at: 3 * MIB,
            bat_at: 2 * MIB,
            bat: vec![at_mib(5), 2, at_mib(4)],
            log: Vec::new(),
            data: vec![(4 * MIB, noise(4, MIB)), (5 * MIB, noise(5, MIB))],
            len: 6 * MIB,
        }
    }

    /// The same with a log that must be replayed.
    pub(super) fn dirty(log: Vec<u8>) -> Self {
        let mut image = Self { log, ..Self::new() };
        for head in image.heads.iter_mut().flatten() {
            head.log_guid = LOG_GUID;
        }
        image
    }

    pub(super) fn with_item(mut self, item: Item) -> Self {
        self.items.retain(|(guid, ..)| *guid != item.0);
        self.items.push(item);
        self
    }

    pub(super) fn with_head(mut self, change: impl Fn(&mut Head)) -> Self {
        self.heads.iter_mut().flatten().for_each(change);
        self
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut file = vec![0; self.len];
        put(&mut file, 0, b"vhdxfile");
        let creator: Vec<u8> = "made for \u{7}a test".encode_utf16().flat_map(u16::to_le_bytes).collect();
        put(&mut file, 8, &creator);
        for (head, at) in self.heads.iter().zip([0x10000, 0x20000]) {
            put(&mut file, at, &head.map_or_else(|| noise(1, 4096), |head| head.bytes()));
        }
        let table = region_table(&self.regions);
        put(&mut file, 0x30000, &table);
        put(&mut file, 0x40000, &table);
        put(&mut file, LOG_AT, &self.log);
        put(&mut file, self.metadata_at, &self.metadata());
        let bat: Vec<u8> = self.bat.iter().flat_map(|entry| entry.to_le_bytes()).collect();
        put(&mut file, self.bat_at, &bat);
        for (at, bytes) in &self.data {
            put(&mut file, *at, bytes);
        }
        file
    }

    fn metadata(&self) -> Vec<u8> {
        let end = self.items.iter().map(|(_, _, at, bytes)| *at as usize + bytes.len()).max().unwrap_or(0);
        let mut region = vec![0; end.max(65536)];
        put(&mut region, 0, b"metadata");
        put(&mut region, 10, &(self.items.len() as u16).to_le_bytes());
        for (number, (guid, flags, at, bytes)) in self.items.iter().enumerate() {
            let entry = [&guid.0[..], &at.to_le_bytes(), &(bytes.len() as u32).to_le_bytes(), &flags.to_le_bytes()];
            put(&mut region, 32 + 32 * number, &entry.concat());
            put(&mut region, *at as usize, bytes);
        }
        region
    }
}

impl Head {
    fn bytes(self) -> Vec<u8> {
        let mut head = vec![0; 4096];
        put(&mut head, 0, b"head");
        put(&mut head, 8, &self.sequence.to_le_bytes());
        put(&mut head, 16, &[3; 32]);
        put(&mut head, 48, &self.log_guid.0);
        put(&mut head, 64, &self.log_version.to_le_bytes());
        put(&mut head, 66, &self.version.to_le_bytes());
        put(&mut head, 68, &self.log_len.to_le_bytes());
        put(&mut head, 72, &self.log_at.to_le_bytes());
        seal(&mut head);
        head
    }
}

pub(super) fn region_table(regions: &[Region]) -> Vec<u8> {
    let mut table = vec![0; 65536];
    put(&mut table, 0, b"regi");
    put(&mut table, 8, &(regions.len() as u32).to_le_bytes());
    for (number, (guid, at, len, required)) in regions.iter().take(2047).enumerate() {
        let entry = [&guid.0[..], &at.to_le_bytes(), &len.to_le_bytes(), &required.to_le_bytes()].concat();
        put(&mut table, 16 + 32 * number, &entry);
    }
    seal(&mut table);
    table
}

pub(super) fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Puts the checksum at offset 4 right.
pub(super) fn seal(bytes: &mut [u8]) {
    let sum = crc32c::without_field(bytes, 4).unwrap();
    put(bytes, 4, &sum.to_le_bytes());
}

/// One update in a log entry.
#[derive(Clone)]
pub(super) enum Update {
    Data(u64, Vec<u8>),
    Zero(u64, u64),
}

/// An entry of the log.
#[derive(Clone)]
pub(super) struct LogEntry {
    pub(super) sequence: u64,
    /// In sectors.
    pub(super) tail: u32,
    pub(super) guid: Guid,
    pub(super) flushed: u64,
    pub(super) last: u64,
    pub(super) updates: Vec<Update>,
    /// Sectors of nothing behind it.
    pub(super) padding: usize,
}

impl LogEntry {
    pub(super) fn new(sequence: u64, tail: u32, updates: Vec<Update>) -> Self {
        Self { sequence, tail, guid: LOG_GUID, flushed: 6 << 20, last: 6 << 20, updates, padding: 0 }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut entry = vec![0; (64 + 32 * self.updates.len()).next_multiple_of(4096)];
        put(&mut entry, 0, b"loge");
        put(&mut entry, 12, &(self.tail * 4096).to_le_bytes());
        put(&mut entry, 16, &self.sequence.to_le_bytes());
        put(&mut entry, 24, &(self.updates.len() as u32).to_le_bytes());
        put(&mut entry, 32, &self.guid.0);
        put(&mut entry, 48, &self.flushed.to_le_bytes());
        put(&mut entry, 56, &self.last.to_le_bytes());
        for (number, update) in self.updates.iter().enumerate() {
            let descriptor = 64 + 32 * number;
            match update {
                Update::Data(at, bytes) => {
                    assert_eq!(bytes.len(), 4096);
                    let trailing = &bytes[4092..];
                    put(&mut entry, descriptor, &[b"desc", trailing, &bytes[..8], &at.to_le_bytes()].concat());
                    entry.extend(b"data");
                    entry.extend(((self.sequence >> 32) as u32).to_le_bytes());
                    entry.extend(&bytes[8..4092]);
                    entry.extend((self.sequence as u32).to_le_bytes());
                }
                Update::Zero(at, len) => {
                    put(
                        &mut entry,
                        descriptor,
                        &[b"zero", &[0; 4][..], &len.to_le_bytes(), &at.to_le_bytes()].concat(),
                    );
                }
            }
            put(&mut entry, descriptor + 24, &self.sequence.to_le_bytes());
        }
        entry.resize(entry.len() + self.padding * 4096, 0);
        let len = entry.len() as u32;
        put(&mut entry, 8, &len.to_le_bytes());
        seal(&mut entry);
        entry
    }
}

/// A log of 1 MiB with the entries in sectors from `start` on, around its end if need be, and noise elsewhere.
pub(super) fn log(start: usize, entries: &[LogEntry]) -> Vec<u8> {
    let mut log = noise(77, MIB);
    let bytes: Vec<u8> = entries.iter().flat_map(LogEntry::bytes).collect();
    for (number, sector) in bytes.chunks(4096).enumerate() {
        put(&mut log, (start + number) % 256 * 4096, sector);
    }
    log
}
