//! As much of DER (X.690) as names in certificates and public keys need.

/// What is left of some bytes in DER.
#[derive(Clone, Copy)]
pub(crate) struct Der<'a>(&'a [u8]);

pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

impl<'a> Der<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next element: its tag and its content. `None` at the end, and where it makes no sense.
    pub(crate) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (len, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // Up to 16 MiB.
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// The content of the next element, which must have this tag.
    pub(crate) fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|next| next.0 == tag).map(|next| next.1)
    }

    /// What is in the next element, which must have this tag.
    pub(crate) fn enter(&mut self, tag: u8) -> Option<Self> {
        self.take(tag).map(Self)
    }

    /// The tag of the next element.
    pub(crate) fn tag(&self) -> Option<u8> {
        self.0.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements() {
        let mut der = Der::new(&[0x02, 0x01, 0x05, 0x30, 0x81, 0x02, 0x01, 0x00]);
        assert_eq!(der.tag(), Some(INTEGER));
        assert_eq!(der.take(INTEGER), Some(&[5][..]));
        assert_eq!(der.enter(SEQUENCE).unwrap().next(), Some((0x01, &[][..])));
        assert_eq!(der.next(), None);
    }

    #[test]
    fn nonsense_is_none() {
        for bytes in [
            &[][..],
            &[0x30],
            &[0x30, 0x80],
            &[0x30, 0x05, 0x00],
            &[0x30, 0x84, 0, 0, 0, 0],
            &[0x30, 0x83, 0xff, 0xff, 0xff],
            &[0x30, 0x82, 0x01],
        ] {
            assert_eq!(Der::new(bytes).next(), None, "{bytes:x?}");
        }
    }
}
