//! Where a layer leaves: in order, hashed, in pieces that are worth a write.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use bytes::{Bytes, BytesMut};
use dvcr_oci::Digest;
use importer_codec::seekable::{Frame, TableWriter};

use super::hash::{Hash, ZEROS};
use super::packing;
use crate::{Error, Kind, Result};

/// A part of a layer.
#[derive(Debug)]
pub(super) enum Item {
    /// These bytes as they are.
    Bytes(Bytes),
    /// So many zeros as they are.
    Zeros(u64),
    /// A frame.
    Frame(Frame),
    /// A frame that is being made.
    Coming(Receiver<Result<Frame>>),
    /// The layer is complete.
    End,
}

/// The thread that brings a layer to its consumer.
#[derive(Debug)]
pub(super) struct Outlet {
    items: Option<SyncSender<Item>>,
    thread: Option<JoinHandle<Ended>>,
}

/// The digest and the number of the stored bytes; `None` when the layer was given up.
type Ended = Result<Option<(Digest, u64)>>;

impl Outlet {
    /// At most `bound` items wait. With `framed`, a table of the frames ends the layer.
    pub(super) fn start<F>(bound: usize, framed: bool, consumer: F) -> Result<Self>
    where
        F: FnMut(Bytes) -> Result<()> + Send + 'static,
    {
        let (items, queue) = sync_channel(bound);
        let thread = std::thread::Builder::new()
            .name("layer".to_owned())
            .spawn(move || {
                let table = framed.then(TableWriter::default);
                Leaving { consumer, hash: Hash::new(), small: BytesMut::new(), table }.run(&queue)
            })
            .map_err(|error| Error::new(Kind::Ours, "can't start a thread").because(error))?;
        Ok(Self { items: Some(items), thread: Some(thread) })
    }

    /// The next part. Waits while too many wait.
    pub(super) fn send(&mut self, item: Item) -> Result<()> {
        match self.items.as_ref().map(|items| items.send(item)) {
            Some(Ok(())) => Ok(()),
            // The thread knows why.
            _ => self.join().and_then(|_| Err(Error::new(Kind::Ours, "a layer goes on behind its end"))),
        }
    }

    /// That was all: waits until the consumer has taken it. Gives the digest and the number of the stored bytes.
    pub(super) fn finish(mut self) -> Result<(Digest, u64)> {
        self.send(Item::End)?;
        self.join()?.ok_or_else(|| Error::new(Kind::Ours, "a layer has ended before its end"))
    }

    fn join(&mut self) -> Ended {
        self.items = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(Error::new(Kind::Ours, "the thread of a layer has stopped unexpectedly")),
            None => Err(Error::new(Kind::Ours, "the layer has failed before")),
        }
    }
}

/// A layer on its way out.
struct Leaving<F> {
    consumer: F,
    hash: Hash,
    /// Small parts that leave together.
    small: BytesMut,
    table: Option<TableWriter>,
}

impl<F: FnMut(Bytes) -> Result<()>> Leaving<F> {
    fn run(mut self, items: &Receiver<Item>) -> Ended {
        for item in items {
            match item {
                Item::Bytes(bytes) => self.put(bytes)?,
                Item::Zeros(len) => self.zeros(len)?,
                Item::Frame(frame) => self.frame(frame)?,
                Item::Coming(frame) => self.frame(frame.recv().map_err(|_| packing::stopped())??)?,
                Item::End => {
                    if let Some(table) = self.table.take().and_then(TableWriter::finish) {
                        self.put(table)?;
                    }
                    self.flush()?;
                    return Ok(Some(self.hash.finish()));
                }
            }
        }
        Ok(None)
    }

    fn frame(&mut self, frame: Frame) -> Result<()> {
        if let Some(table) = &mut self.table {
            table.push(&frame);
        }
        self.put(frame.stored)
    }

    fn put(&mut self, bytes: Bytes) -> Result<()> {
        self.hash.update(&bytes);
        if bytes.len() < SMALL {
            self.small.extend_from_slice(&bytes);
            return if self.small.len() < SMALL { Ok(()) } else { self.flush() };
        }
        self.flush()?;
        (self.consumer)(bytes)
    }

    fn zeros(&mut self, mut len: u64) -> Result<()> {
        while len > 0 {
            let zeros = Bytes::from_static(&ZEROS);
            let part = usize::try_from(len).unwrap_or(zeros.len()).min(zeros.len());
            self.put(zeros.slice(..part))?;
            len -= part as u64;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        match self.small.split().freeze() {
            small if small.is_empty() => Ok(()),
            small => (self.consumer)(small),
        }
    }
}

/// Less than this waits for more: a write costs as much as the copy of it.
const SMALL: usize = 64 << 10;
