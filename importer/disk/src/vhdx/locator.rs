//! The parent locator: key-value pairs that say where the parent of a differencing image is. (MS-VHDX 2.6.2.6)
//!
//! It is read only to name the parent in the refusal; nothing is ever looked for there.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::text::printable_utf16;

/// How much of a locator is read in bytes. Real ones have a few hundred.
pub(super) const LOCATOR_MAX: u32 = 64 << 10;

/// The path of the parent, safe to show: the first there is of the relative, the absolute and the volume path.
pub(super) fn parent_path(locator: &[u8]) -> Option<String> {
    let (top, rest) = Top::ref_from_prefix(locator).ok()?;
    // As many as there are; a count beyond the end is not worth an error of its own.
    let count = usize::from(top.count.get()).min(rest.len() / size_of::<Entry>());
    let (entries, _) = <[Entry]>::ref_from_prefix_with_elems(rest, count).ok()?;
    let value = |wanted: &str| {
        let entry =
            entries.iter().find(|entry| text(locator, entry.key_at, entry.key_len).as_deref() == Some(wanted))?;
        text(locator, entry.value_at, entry.value_len).filter(|path| !path.is_empty())
    };
    ["relative_path", "absolute_win32_path", "volume_path"].into_iter().find_map(value)
}

fn text(locator: &[u8], at: U32, len: U16) -> Option<String> {
    let bytes = locator.get(at.get() as usize..)?.get(..usize::from(len.get()))?;
    Some(printable_utf16(bytes.as_chunks().0.iter().map(|unit| u16::from_le_bytes(*unit))))
}

/// The start of the locator as it is in the file.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Top {
    kind: [u8; 16],
    reserved: U16,
    count: U16,
}

/// An entry as it is in the file.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Entry {
    key_at: U32,
    value_at: U32,
    key_len: U16,
    value_len: U16,
}
