//! The checksum of footer and header.

/// The ones' complement of the sum of all bytes, without the four of the checksum itself.
pub(super) fn checksum(bytes: &[u8], field: usize) -> u32 {
    let others = bytes.iter().enumerate().filter(|(at, _)| !(field..field + 4).contains(at));
    !others.fold(0u32, |sum, (_, byte)| sum.wrapping_add(u32::from(*byte)))
}
