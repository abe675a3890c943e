//! Memory on page borders.

/// Bytes whose address is a multiple of [`PAGE`], as direct writes want them. Empty at first.
#[derive(Debug, Default)]
pub(crate) struct Slab {
    memory: Vec<u8>,
    /// Where in `memory` the slab begins.
    from: usize,
}

impl Slab {
    /// Makes it at least `len` bytes long. What is in it stays.
    pub(crate) fn grow(&mut self, len: usize) {
        let old = self.bytes().len();
        if len <= old {
            return;
        }
        let mut memory = vec![0; len + PAGE];
        let from = memory.as_ptr().align_offset(PAGE).min(PAGE);
        if let Some(place) = memory.get_mut(from..from + old) {
            place.copy_from_slice(self.bytes());
        }
        memory.truncate(from + len);
        *self = Self { memory, from };
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.memory.get(self.from..).unwrap_or_default()
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.get_mut(self.from..).unwrap_or_default()
    }
}

/// What offsets, lengths and addresses of direct writes are multiples of: the largest that a file system asks for.
pub(crate) const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_on_page_borders_and_keeps_what_it_holds() {
        let mut slab = Slab::default();
        assert!(slab.bytes().is_empty());
        for len in [1, 5000, 5000, 3, 1 << 20, 3 << 20] {
            let before = slab.bytes().to_vec();
            slab.grow(len);
            assert!(slab.bytes().len() >= len);
            assert_eq!(slab.bytes().as_ptr().align_offset(PAGE), 0);
            assert!(slab.bytes().starts_with(&before));
            slab.bytes_mut().fill(u8::try_from(len % 251).unwrap());
        }
    }
}
