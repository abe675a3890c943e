//! Numbers in a byte slice, without a panic.
//!
//! For fixed structs use zerocopy; this is for single fields at computed places, and for tables.

/// The big-endian `u64`s of a table; a last incomplete one is left out.
pub(crate) fn be64(table: &[u8]) -> impl Iterator<Item = u64> + '_ {
    table.as_chunks().0.iter().map(|entry| u64::from_be_bytes(*entry))
}

/// The big-endian `u32`s of a table; a last incomplete one is left out.
pub(crate) fn be32(table: &[u8]) -> impl Iterator<Item = u32> + '_ {
    table.as_chunks().0.iter().map(|entry| u32::from_be_bytes(*entry))
}

/// The little-endian `u64`s of a table; a last incomplete one is left out.
pub(crate) fn le64(table: &[u8]) -> impl Iterator<Item = u64> + '_ {
    table.as_chunks().0.iter().map(|entry| u64::from_le_bytes(*entry))
}

/// The little-endian `u32`s of a table; a last incomplete one is left out.
pub(crate) fn le32(table: &[u8]) -> impl Iterator<Item = u32> + '_ {
    table.as_chunks().0.iter().map(|entry| u32::from_le_bytes(*entry))
}
