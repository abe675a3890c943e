//! Looking at the start of a stream without taking it.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::{Piece, Result, Stream};

/// A stream whose first bytes were looked at.
pub(crate) struct Peeked {
    seen: VecDeque<Piece>,
    rest: Box<dyn Stream>,
}

/// Looks at the first `want` bytes, or all there are. They are copied, once.
pub(crate) fn peek(mut stream: Box<dyn Stream>, want: usize) -> Result<(Bytes, Peeked)> {
    let mut head = BytesMut::with_capacity(want);
    let mut seen = VecDeque::new();
    while head.len() < want
        && let Some(piece) = stream.next()?
    {
        let room = want - head.len();
        match &piece {
            Piece::Bytes(bytes) => head.extend_from_slice(bytes.get(..bytes.len().min(room)).unwrap_or_default()),
            Piece::Hole(len) => head.resize(head.len() + usize::try_from(*len).unwrap_or(room).min(room), 0),
        }
        seen.push_back(piece);
    }
    Ok((head.freeze(), Peeked { seen, rest: stream }))
}

impl Peeked {
    /// A stream of which nothing was taken yet.
    pub(crate) fn new(rest: Box<dyn Stream>) -> Self {
        Self { seen: VecDeque::new(), rest }
    }
}

impl Stream for Peeked {
    fn next(&mut self) -> Result<Option<Piece>> {
        match self.seen.pop_front() {
            Some(piece) => Ok(Some(piece)),
            None => self.rest.next(),
        }
    }
}
