//! Bytes that come once.

use std::fs::File;
use std::io;

use bytes::Bytes;
use rustix::buffer::spare_capacity;
use rustix::fs::OFlags;

use crate::{Error, Kind, Piece, Result, Stream};

/// A pipe, a terminal line, a socket: what can be read once, from where it is.
#[derive(Debug)]
pub(super) struct Pipe {
    file: File,
    name: String,
    buffer: Vec<u8>,
    ended: bool,
}

impl Pipe {
    pub(super) fn new(file: File, name: String) -> io::Result<Self> {
        // Whoever opened it may have wanted it not to block (ssh and node do), and we share that with him.
        let flags = rustix::fs::fcntl_getfl(&file)?;
        if flags.contains(OFlags::NONBLOCK) {
            rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
        }
        Ok(Self { file, name, buffer: Vec::new(), ended: false })
    }
}

impl Stream for Pipe {
    fn next(&mut self) -> Result<Option<Piece>> {
        if self.ended {
            return Ok(None);
        }
        self.buffer.clear();
        self.buffer.reserve_exact(BLOCK);
        let len = rustix::io::retry_on_intr(|| rustix::io::read(&self.file, spare_capacity(&mut self.buffer)))
            .map_err(|error| Error::new(Kind::Transient, format!("{}: can't be read", self.name)).because(error))?;
        if len == 0 {
            self.ended = true;
            return Ok(None);
        }
        // A piece that is held must not hold a buffer much larger than itself: a writer of small parts would make us
        // hold many times what we count.
        let bytes = if len >= BLOCK / 2 {
            Bytes::from(std::mem::take(&mut self.buffer))
        } else {
            Bytes::copy_from_slice(&self.buffer)
        };
        Ok(Some(Piece::Bytes(bytes)))
    }
}

/// What a pipe holds by default: one read never gives more.
const BLOCK: usize = 64 << 10;
