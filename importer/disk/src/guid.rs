//! Identifiers as Microsoft writes them: the first three fields little-endian.

use std::fmt;

/// A GUID in binary form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Guid(pub(crate) [u8; 16]);

impl Guid {
    /// The GUID that is written `aaaaaaaa-bbbb-cccc-dddd-dddddddddddd`.
    pub(crate) const fn new(a: u32, b: u16, c: u16, d: u64) -> Self {
        let [a0, a1, a2, a3] = a.to_le_bytes();
        let [b0, b1] = b.to_le_bytes();
        let [c0, c1] = c.to_le_bytes();
        let [d0, d1, d2, d3, d4, d5, d6, d7] = d.to_be_bytes();
        Self([a0, a1, a2, a3, b0, b1, c0, c1, d0, d1, d2, d3, d4, d5, d6, d7])
    }

    /// Whether all bits are zero, which stands for none.
    pub(crate) fn is_nil(self) -> bool {
        self.0 == [0; 16]
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a0, a1, a2, a3, b0, b1, c0, c1, d0, d1, rest @ ..] = self.0;
        let (a, b, c) =
            (u32::from_le_bytes([a0, a1, a2, a3]), u16::from_le_bytes([b0, b1]), u16::from_le_bytes([c0, c1]));
        write!(f, "{a:08x}-{b:04x}-{c:04x}-{d0:02x}{d1:02x}-")?;
        rest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_as_it_is_written() {
        let guid = Guid::new(0x2dc2_7766, 0xf623, 0x4200, 0x9d64_115e_9bfd_4a08);
        assert_eq!(guid.to_string(), "2dc27766-f623-4200-9d64-115e9bfd4a08");
        assert_eq!(guid.0[..4], [0x66, 0x77, 0xc2, 0x2d]);
        assert!(!guid.is_nil() && Guid([0; 16]).is_nil());
    }
}
