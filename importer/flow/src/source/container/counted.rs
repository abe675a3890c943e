//! The bytes of layers, counted as they come.

use std::sync::Arc;

use crate::source::Counter;
use crate::{Piece, Result, Stream};

/// The same stream, of which `counter` is told.
pub(super) fn counted(stream: Box<dyn Stream>, counter: Option<&Counter>) -> Box<dyn Stream> {
    match counter {
        Some(counter) => Box::new(Counted { stream, counter: Arc::clone(counter) }),
        None => stream,
    }
}

struct Counted {
    stream: Box<dyn Stream>,
    counter: Counter,
}

impl Stream for Counted {
    fn next(&mut self) -> Result<Option<Piece>> {
        let piece = self.stream.next()?;
        if let Some(piece) = &piece {
            (self.counter)(piece.len());
        }
        Ok(piece)
    }
}
