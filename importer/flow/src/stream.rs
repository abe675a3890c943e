//! Bytes in file order.

use bytes::Bytes;

use crate::Result;

/// A part of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes; never empty.
    Bytes(Bytes),
    /// This many zeros, known without reading them (a hole in a sparse file); never 0.
    Hole(u64),
}

impl Piece {
    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Hole(len) => *len,
        }
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A stream of bytes in file order, pulled. `Ok(None)` is the true end: a stream that was cut short gives an error.
pub trait Stream: Send {
    /// The next piece. Blocks until there is one.
    fn next(&mut self) -> Result<Option<Piece>>;
}

impl<S: Stream + ?Sized> Stream for Box<S> {
    fn next(&mut self) -> Result<Option<Piece>> {
        (**self).next()
    }
}
