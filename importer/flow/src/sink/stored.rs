//! A checkpoint as bytes: beside a file, or on a device.

use serde::{Deserialize, Serialize};

use super::sample::Marks;

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stored {
    /// One more than that of the checkpoint before.
    pub(super) sequence: u64,
    /// What was written.
    pub(super) marks: Marks,
    /// What the import wants to know again.
    pub(super) record: String,
}

impl Stored {
    /// The most bytes that it takes.
    pub(super) const MAX: usize = 64 << 10;

    /// A magic number, the length and the CRC-32 of what follows (each 4 bytes, little endian), JSON. `None`: it is
    /// too long.
    pub(super) fn to_bytes(&self) -> Option<Vec<u8>> {
        let json = serde_json::to_vec(self).ok()?;
        let len = u32::try_from(json.len()).ok()?;
        let head = [len.to_le_bytes(), crc32fast::hash(&json).to_le_bytes()].concat();
        let bytes = [MAGIC.as_slice(), &head, &json].concat();
        (bytes.len() <= Self::MAX).then_some(bytes)
    }

    /// Whether `bytes` begin as a checkpoint does, whole or not.
    pub(super) fn is_begun(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// What `bytes` begin with, if that is a whole checkpoint.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (len, rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<4>()?;
        let (crc, rest) = rest.split_first_chunk::<4>()?;
        let json = rest.get(..usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
        if crc32fast::hash(json) != u32::from_le_bytes(*crc) {
            return None;
        }
        serde_json::from_slice(json).ok()
    }
}

const MAGIC: &[u8; 16] = b"millrace resume\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_damage_is_found() {
        let stored = Stored { sequence: 3, marks: Marks::default(), record: "{\"a\": 1}".into() };
        let bytes = stored.to_bytes().unwrap();
        let padded = [&bytes[..], &[0; 100]].concat();
        assert_eq!(Stored::read(&padded), Some(stored.clone()));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert_eq!(Stored::read(&damaged), None, "{at}");
            assert_eq!(Stored::read(&bytes[..at]), None, "{at}");
        }
        assert_eq!(Stored { record: "x".repeat(Stored::MAX), ..stored }.to_bytes(), None);
    }
}
