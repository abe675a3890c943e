//! What the tests of this crate share: hostile pushing, the real tools, the corpus.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::{Bin, Kind, Limits, Result, Status, Wrapper};

/// A small generator of numbers, the same in every run.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }
}

/// Bytes like those of a disk: zeros, text, tables, noise.
pub(crate) fn disk_like(len: usize) -> Vec<u8> {
    let mut rng = Rng::new(len as u64 + 42);
    let mut data = Vec::with_capacity(len + 65536);
    while data.len() < len {
        let run = 1 + rng.below(20000);
        match rng.below(4) {
            0 => data.extend(std::iter::repeat_n(0, run)),
            1 => data.extend((0..run).map(|_| u8::try_from(rng.next() & 0xff).unwrap())),
            2 => data.extend((0..run / 8).flat_map(|n| (n as u64 * 3).to_le_bytes())),
            _ => {
                let words = ["kernel ", "disk ", "the quick brown fox ", "0x1f8b\n", "inode\t"];
                while data.len() % 20000 != 0 && data.len() < len {
                    let word = words[rng.below(words.len())];
                    data.extend_from_slice(word.as_bytes());
                }
                data.push(b'\n');
            }
        }
    }
    data.truncate(len);
    data
}

/// How input is cut into pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pieces {
    Whole,
    Of(usize),
    Random(u64),
}

impl Pieces {
    pub(crate) const ALL: [Self; 6] =
        [Self::Whole, Self::Of(1), Self::Of(7), Self::Of(4096), Self::Random(1), Self::Random(99)];

    /// The pieces of `input`, in order.
    pub(crate) fn cut(self, input: &[u8]) -> impl Iterator<Item = Bytes> + use<> {
        let mut rest = Bytes::copy_from_slice(input);
        let mut rng = Rng::new(if let Self::Random(seed) = self { seed } else { 1 });
        std::iter::from_fn(move || {
            let len = match self {
                Self::Whole => rest.len(),
                Self::Of(len) => len,
                Self::Random(_) => {
                    let max = [1, 3, 600, 70_000, 1 << 20][rng.below(5)];
                    1 + rng.below(max)
                }
            };
            (!rest.is_empty()).then(|| rest.split_to(len.min(rest.len())))
        })
    }
}

/// Decodes all of `input`, in pieces, into buffers of `room` bytes, and holds the decoder to its contract.
pub(crate) fn decode(wrapper: Wrapper, limits: Limits, input: &[u8], pieces: Pieces, room: usize) -> Result<Vec<u8>> {
    let mut decoder = wrapper.decoder(limits, &Bin::of(room))?.unwrap();
    let mut all = Vec::new();
    let mut pieces = pieces.cut(input).peekable();
    let mut piece = Bytes::new();
    loop {
        let end = pieces.peek().is_none();
        let status = match decoder.decode(&mut piece, end) {
            Ok(status) => status,
            Err(error) => {
                assert!(error.offset().is_some(), "{error}");
                assert_eq!(decoder.decode(&mut Bytes::new(), true).unwrap_err(), error, "errors are final");
                return Err(error);
            }
        };
        match status {
            Status::NeedInput => {
                assert!(piece.is_empty() && !end);
                piece = pieces.next().unwrap();
            }
            Status::Made(made) => {
                assert!(!made.is_empty());
                all.extend_from_slice(&made);
            }
            Status::Zeros(len) => {
                assert_ne!(len, 0);
                all.resize(all.len() + usize::try_from(len).unwrap(), 0);
            }
            Status::Done => {
                assert!(piece.is_empty() && end);
                assert_eq!(decoder.consumed(), input.len() as u64);
                return Ok(all);
            }
        }
    }
}

/// Decodes in every way of cutting, and compares.
pub(crate) fn decodes_to(wrapper: Wrapper, limits: Limits, packed: &[u8], want: &[u8]) {
    for pieces in Pieces::ALL {
        for room in [1 << 20, 4096, 13, 1] {
            // Byte by byte is slow where each call wakes a thread.
            if (matches!(pieces, Pieces::Of(1 | 7)) && packed.len() > 50_000) || (want.len() / room > 20_000) {
                continue;
            }
            let got =
                decode(wrapper, limits, packed, pieces, room).unwrap_or_else(|e| panic!("{pieces:?} {room}: {e}"));
            assert!(got == want, "{wrapper} {pieces:?} {room}: {} bytes, want {}", got.len(), want.len());
        }
    }
}

/// Cuts `packed` at every byte but those for which `whole` says that it is whole there: all must be truncated.
pub(crate) fn truncations_fail(wrapper: Wrapper, limits: Limits, packed: &[u8], whole: impl Fn(usize) -> bool) {
    for len in 0..packed.len() {
        let result = decode(wrapper, limits, &packed[..len], Pieces::Whole, 1 << 16);
        if whole(len) {
            result.unwrap_or_else(|error| panic!("{wrapper} cut at {len}: {error}"));
        } else {
            let kind = result.map(|bytes| bytes.len()).unwrap_err().kind();
            assert_eq!(kind, Kind::Truncated, "{wrapper} cut at {len} of {}", packed.len());
        }
    }
}

/// Changes every byte in several ways: either an error comes, or the same bytes.
pub(crate) fn flips_never_change_data(wrapper: Wrapper, limits: Limits, packed: &[u8], want: &[u8]) {
    let mut packed = packed.to_vec();
    let mut refused = 0;
    for at in 0..packed.len() {
        for flip in [0x01, 0x04, 0x20, 0x80, 0xff] {
            packed[at] ^= flip;
            match decode(wrapper, limits, &packed, Pieces::Whole, 1 << 16) {
                Ok(got) => assert!(got == want, "{wrapper}: byte {at} ^ {flip:#x} gives other data"),
                Err(error) => {
                    assert_ne!(error.kind(), Kind::Ours, "byte {at} ^ {flip:#x}: {error}");
                    refused += 1;
                }
            }
            packed[at] ^= flip;
        }
    }
    assert!(refused > packed.len(), "{wrapper}: only {refused} changes were noticed");
}

/// Runs a tool over `input`. The project's test script installs the tools.
pub(crate) fn tool(command: &str, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = Command::new(command)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command} must be installed for the tests: {error}"));
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let mut output = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
    writer.join().unwrap().unwrap();
    assert!(child.wait().unwrap().success(), "{command} {args:?}");
    output
}

/// A folder that is removed when dropped.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("codec-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The corpus of images that others made, when the environment says where it is.
pub(crate) fn corpus() -> Option<PathBuf> {
    let Some(path) = std::env::var_os("MILLRACE_CORPUS") else {
        eprintln!("MILLRACE_CORPUS IS NOT SET: THE CORPUS IS NOT TESTED");
        return None;
    };
    Some(path.into())
}

/// The rows of the corpus' index, without its head: the cells of each.
pub(crate) fn corpus_index(corpus: &std::path::Path) -> Vec<Vec<String>> {
    let index = std::fs::read_to_string(corpus.join("INDEX.tsv")).unwrap();
    index.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// A file of the corpus. Its index has the original, which may be stored in zstd: then its hash tells.
pub(crate) fn corpus_file(corpus: &std::path::Path, row: &[String]) -> Vec<u8> {
    let stored = std::fs::read(corpus.join(&row[0])).unwrap();
    if sha256(&stored) == row[2] {
        return stored;
    }
    let original = tool("zstd", &["-dcq"], &stored);
    assert_eq!(sha256(&original), row[2], "{}", row[0]);
    original
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A ustar header with a right checksum.
pub(crate) fn block(name: &[u8], size: u64, flag: u8) -> [u8; 512] {
    let mut block = [0; 512];
    block[..name.len()].copy_from_slice(name);
    block[100..108].copy_from_slice(b"0000644\0");
    block[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    block[136..148].copy_from_slice(b"00000000000\0");
    block[156] = flag;
    block[257..265].copy_from_slice(b"ustar\x0000");
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// An entry of a tar: its header, its data, its padding.
pub(crate) fn member(name: &[u8], data: &[u8], flag: u8) -> Vec<u8> {
    let mut member = block(name, data.len() as u64, flag).to_vec();
    member.extend_from_slice(data);
    member.resize(member.len().next_multiple_of(512), 0);
    member
}
