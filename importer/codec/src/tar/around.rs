//! The archive that a layer is: one disk in it, and nothing that differs from one day to the next.

use bytes::Bytes;

use super::BLOCK;

/// What is around a disk in a layer's archive, which holds the directory `disk/` and the file `disk/disk.img`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Around {
    /// The headers in front of it: 1024 bytes, or 2048.
    pub head: Bytes,
    /// How many zeros are behind it: the padding and the end of the archive.
    pub tail: u64,
}

impl Around {
    /// For a disk of `size` bytes, which decides everything: owner, mode and time are fixed.
    ///
    /// POSIX ustar, with a PAX header where the size has more than eleven octal digits (8 GiB): all readers know both.
    #[must_use]
    pub fn disk(size: u64) -> Self {
        let mut head = header(b"disk/", 0o755, 0, b'5').to_vec();
        if size > OCTAL_MAX {
            let record = record("size", size);
            head.extend(header(b"disk/PaxHeaders.0/disk.img", 0o644, record.len() as u64, b'x'));
            head.extend(&record);
            head.resize(head.len().next_multiple_of(BLOCK), 0);
        }
        head.extend(header(b"disk/disk.img", 0o644, size, b'0'));
        let padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
        Self { head: head.into(), tail: padding + 2 * BLOCK as u64 }
    }

    /// The length of the whole archive around a disk of `size` bytes.
    #[must_use]
    pub fn total(&self, size: u64) -> u64 {
        self.head.len() as u64 + size + self.tail
    }
}

/// A header block. A size that does not fit is 0 here, and stands in the PAX header before.
fn header(name: &[u8], mode: u32, size: u64, flag: u8) -> [u8; BLOCK] {
    let size = if size > OCTAL_MAX { 0 } else { size };
    let mut block = [0; BLOCK];
    put(&mut block, 0, name);
    put(&mut block, 100, format!("{mode:07o}").as_bytes());
    put(&mut block, 108, format!("{OWNER:07o}").as_bytes());
    put(&mut block, 116, format!("{OWNER:07o}").as_bytes());
    put(&mut block, 124, format!("{size:011o}").as_bytes());
    put(&mut block, 136, b"00000000000");
    put(&mut block, 148, b"        ");
    put(&mut block, 156, &[flag]);
    put(&mut block, 257, b"ustar\x0000");
    // No device: seven zeros twice, each with a NUL behind it.
    put(&mut block, 329, b"0000000\x000000000");
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    put(&mut block, 148, format!("{sum:06o}\0 ").as_bytes());
    block
}

fn put(block: &mut [u8; BLOCK], at: usize, bytes: &[u8]) {
    block.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
}

/// `length key=value`, where the length counts its own digits.
fn record(key: &str, value: u64) -> Vec<u8> {
    let rest = format!(" {key}={value}\n");
    let mut len = rest.len();
    while len != len.to_string().len() + rest.len() {
        len = len.to_string().len() + rest.len();
    }
    format!("{len}{rest}").into_bytes()
}

/// The user `qemu` of KubeVirt, owner and group: a guest's disk must be readable for it.
const OWNER: u32 = 107;

/// Eleven octal digits.
const OCTAL_MAX: u64 = 0o777_7777_7777;

#[cfg(test)]
mod tests;
