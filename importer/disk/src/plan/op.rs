//! What is to be done with the target.

use bytes::Bytes;

use crate::{Codec, GuestOffset, HostOffset};

/// One step towards the guest disk. Ops never overlap, and may be carried out in any order and at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// These bytes belong there.
    Write {
        /// First guest byte.
        guest: GuestOffset,
        /// The bytes, a slice of what was pushed.
        bytes: Bytes,
    },
    /// So many bytes there read as zeros.
    Zero {
        /// First guest byte.
        guest: GuestOffset,
        /// How many.
        len: u64,
    },
    /// A compressed unit belongs there.
    Unpack {
        /// First guest byte.
        guest: GuestOffset,
        /// How many of the decoded bytes belong to the disk (the last unit may reach past its end).
        len: u64,
        /// The length of the decoded unit.
        unpacked: u32,
        /// How it is compressed.
        codec: Codec,
        /// The compressed bytes, perhaps with others behind them.
        input: Bytes,
        /// Where they lie in the file, for messages.
        at: HostOffset,
    },
}

/// A part of the file, pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes.
    Bytes(Bytes),
    /// So many zeros that need not be read.
    Hole(u64),
}

/// The bytes of a piece, for the tests and for callers that have them in one.
impl From<Bytes> for Piece {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}
