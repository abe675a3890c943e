//! Bytes that go from a file to a socket inside the kernel (`sendfile`).
//!
//! hyper wants the body of an answer as [`Bytes`], which it hands to the connection as they are. For bytes of a file the
//! body gives it a *stand-in*: a slice, as long as they are, of memory that nobody reads or writes, and notes with the
//! connection what it stands for. The connection knows stand-ins by their address, and has the kernel send the file
//! instead.
//!
//! **Why that is safe.** A stand-in is a slice of ordinary memory like any other, so there is nothing here that the compiler
//! could not check. What goes wrong, if hyper ever copied, split or reordered what it is given, would be zeros in place of
//! the file: so a stand-in has to come whole, in the order of the notes, and at the address that is noted, and a
//! connection on which one does not is cut. None may be noted when everything is said to be written.
//!
//! **What it costs.** Nothing of the file is in our memory, and a note has 40 bytes. Stand-ins share one stretch of zeros
//! that no page is ever given for, because it is never touched. The kernel sends what the socket has room for; the rest
//! waits for the client. A file is open as long as one of its notes, so it can lose its name meanwhile.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use rustix::fs::{Advice, fadvise, sendfile};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use tokio::io::{AsyncWrite, Interest};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// What the stand-ins on their way to one connection stand for.
#[derive(Default)]
pub(crate) struct Direct {
    notes: Mutex<Notes>,
}

#[derive(Default)]
struct Notes {
    waiting: VecDeque<Note>,
    /// How many there were.
    count: usize,
}

/// A stand-in, and the bytes of a file that it stands for.
struct Note {
    address: usize,
    len: usize,
    file: Arc<File>,
    at: u64,
}

impl Direct {
    /// A stand-in for `len` bytes of a file from `at`, at most [`MOST`].
    fn stand_in(&self, file: &Arc<File>, at: u64, len: usize) -> io::Result<Bytes> {
        let mut notes = self.notes()?;
        notes.count = notes.count.wrapping_add(1);
        // Those that follow each other begin elsewhere, so that none is taken for another.
        let from = notes.count % TURNS;
        let bytes = NOTHING.slice(from..from + len.min(MOST));
        notes.waiting.push_back(Note { address: bytes.as_ptr().addr(), len: bytes.len(), file: Arc::clone(file), at });
        Ok(bytes)
    }

    /// Writes what comes first: ordinary bytes up to a stand-in, or what a stand-in stands for.
    pub(crate) fn poll_write(
        &self,
        stream: &mut TcpStream,
        context: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let ordinary = from.iter().take_while(|slice| !is_stand_in(slice)).count();
        let Some(slice) = from.first().filter(|_| ordinary == 0) else {
            return Pin::new(stream).poll_write_vectored(context, from.get(..ordinary).unwrap_or_default());
        };
        loop {
            ready!(stream.poll_write_ready(context))?;
            match stream.try_io(Interest::WRITABLE, || self.send(slice, stream)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    /// Everything is written, as far as the caller knows.
    pub(crate) fn settle(&self) -> io::Result<()> {
        if self.notes()?.waiting.is_empty() { Ok(()) } else { Err(out_of_step()) }
    }

    fn send(&self, slice: &[u8], stream: &TcpStream) -> io::Result<usize> {
        let mut notes = self.notes()?;
        let note = notes.waiting.front_mut();
        let Some(note) = note.filter(|note| note.address == slice.as_ptr().addr() && note.len == slice.len()) else {
            return Err(out_of_step());
        };
        let mut at = note.at;
        let sent = loop {
            match sendfile(stream, &note.file, Some(&mut at), note.len) {
                Err(Errno::INTR) => {}
                // A file system that can't.
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => break copy(note, stream)?,
                sent => break sent?,
            }
        };
        if sent == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a blob is shorter than it was"));
        }
        note.address += sent;
        note.len = note.len.saturating_sub(sent);
        note.at += sent as u64;
        if note.len == 0 {
            notes.waiting.pop_front();
        }
        Ok(sent)
    }

    fn notes(&self) -> io::Result<MutexGuard<'_, Notes>> {
        self.notes.lock().map_err(|_| out_of_step())
    }
}

/// Sends a piece through our memory.
fn copy(note: &Note, stream: &TcpStream) -> io::Result<usize> {
    let mut buffer = vec![0; note.len.min(COPIED)];
    let read = note.file.read_at(&mut buffer, note.at)?;
    Ok(rustix::io::write(stream, buffer.get(..read).unwrap_or_default())?)
}

fn is_stand_in(slice: &[u8]) -> bool {
    NOTHING.as_ptr_range().contains(&slice.as_ptr()) && !slice.is_empty()
}

fn out_of_step() -> io::Error {
    io::Error::other("what is sent is not what was to be sent")
}

/// A part of a file on its way to a connection.
pub(crate) struct Sending {
    direct: Arc<Direct>,
    file: Arc<File>,
    at: u64,
    left: u64,
    /// What is in the page cache is sent here and now; where the file system can't say what is, never.
    ahead: bool,
    waiting: Option<JoinHandle<io::Result<()>>>,
}

impl Sending {
    /// `len` bytes of a file from `at`.
    pub(crate) fn new(direct: &Arc<Direct>, file: Arc<File>, at: u64, len: u64) -> Self {
        Self { direct: Arc::clone(direct), file, at, left: len, ahead: true, waiting: None }
    }

    /// How many bytes are not on their way yet.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// A stand-in for the next piece, when it is in the page cache: no thread that serves others waits for a disk.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let len = usize::try_from(self.left).unwrap_or(MOST).min(MOST);
        if let Err(error) = ready!(self.poll_cached(context, len)) {
            return Poll::Ready(Some(Err(error)));
        }
        let bytes = self.direct.stand_in(&self.file, self.at, len);
        self.at += len as u64;
        self.left = self.left.saturating_sub(len as u64);
        Poll::Ready(Some(bytes))
    }

    fn poll_cached(&mut self, context: &mut Context<'_>, len: usize) -> Poll<io::Result<()>> {
        if self.waiting.is_none() && self.ahead {
            match is_cached(&self.file, self.at, len) {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(Errno::AGAIN) => {}
                Err(_) => self.ahead = false,
            }
        }
        let waiting = self.waiting.get_or_insert_with(|| {
            let (file, at) = (Arc::clone(&self.file), self.at);
            tokio::task::spawn_blocking(move || fetch(&file, at, len))
        });
        let fetched = ready!(Pin::new(waiting).poll(context));
        self.waiting = None;
        Poll::Ready(fetched.unwrap_or_else(|error| Err(io::Error::other(error))))
    }
}

/// Looks at some bytes of a piece without waiting for the disk: `AGAIN` when one is not there. The disk is read in larger
/// runs than what lies between them.
fn is_cached(file: &File, at: u64, len: usize) -> Result<(), Errno> {
    for offset in (0..len).step_by(LOOKED_AT).chain([len.saturating_sub(1)]) {
        let mut byte = [0];
        match preadv2(file, &mut [IoSliceMut::new(&mut byte)], at + offset as u64, ReadWriteFlags::NOWAIT) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Brings a piece into the page cache, and lets the disk go on with those after it.
fn fetch(file: &File, at: u64, len: usize) -> io::Result<()> {
    // Where that is not known, the reading itself brings it.
    let _ = fadvise(file, at, NonZeroU64::new(4 * MOST as u64), Advice::WillNeed);
    for offset in (0..len).step_by(FETCHED).chain([len.saturating_sub(1)]) {
        file.read_at(&mut [0], at + offset as u64)?;
    }
    Ok(())
}

/// What stand-ins are slices of.
static NOTHING: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(vec![0; MOST + TURNS]));

/// The longest piece.
const MOST: usize = 1 << 20;
/// From so many bytes on it is worth it.
pub(crate) const LEAST: u64 = 64 << 10;
const TURNS: usize = 4096;
const COPIED: usize = 64 << 10;
const LOOKED_AT: usize = 64 << 10;
const FETCHED: usize = 16 << 10;

#[cfg(test)]
mod tests;
