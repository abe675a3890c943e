//! A stream on a thread of its own.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::{Error, Kind, Piece, Result, Stream};

/// Pulls another stream ahead, on a thread of its own, so that two steps work at the same time.
///
/// Memory: `bound` pieces wait, one is being made and one is in use.
pub(crate) struct Threaded {
    pieces: Option<Receiver<Result<Piece>>>,
    thread: Option<JoinHandle<()>>,
}

impl Threaded {
    /// Starts the thread. `name` is what it is called in a debugger.
    pub(crate) fn new(name: &str, bound: usize, stream: Box<dyn Stream>) -> Result<Self> {
        let (sender, pieces) = sync_channel(bound);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || pump(stream, &sender))
            .map_err(|error| Error::new(Kind::Ours, "can't start a thread").because(error))?;
        Ok(Self { pieces: Some(pieces), thread: Some(thread) })
    }
}

fn pump(mut stream: Box<dyn Stream>, sender: &SyncSender<Result<Piece>>) {
    while let Some(piece) = stream.next().transpose() {
        let last = piece.is_err();
        // Nobody listens any more: the import has ended.
        if sender.send(piece).is_err() || last {
            return;
        }
    }
}

impl Stream for Threaded {
    fn next(&mut self) -> Result<Option<Piece>> {
        let Some(pieces) = &self.pieces else { return Ok(None) };
        if let Ok(piece) = pieces.recv() {
            return piece.map(Some);
        }
        self.pieces = None;
        // The sender is gone: at the end, or by a panic, which must not look like the end.
        match self.thread.take().map(JoinHandle::join) {
            Some(Err(_)) => Err(Error::new(Kind::Ours, "a decoder has stopped unexpectedly")),
            _ => Ok(None),
        }
    }
}

impl Drop for Threaded {
    fn drop(&mut self) {
        self.pieces = None;
        if let Some(thread) = self.thread.take() {
            // It ends at its next piece. One that waits for a slow network is not waited for.
            drop(thread);
        }
    }
}
