//! The one disk in an archive, as a stream.
//!
//! A tar is read once, in order, and a disk may be large, so the choice is made when an entry begins:
//!
//! - `--disk NAME` was given: the entry of that path, or of that last component of it; for an OVA also the disk of that
//!   `ovf:diskId`. A second entry of that name is an error.
//! - The archive begins with an OVF descriptor (an OVA): the disk it names. Several disks are an error that lists them,
//!   before any data.
//! - Otherwise the first file that can be a disk. Should another one follow, that is an error: it comes late, but the
//!   target is complete only after [`Part::End`].
//!
//! What can't be a disk: links, directories, devices; empty files; names that begin with a dot (`._disk.img` of macOS
//! too); and small files that by their name are descriptors, checksums, signatures or texts.

mod ova;
mod plain;

use bytes::Bytes;

use crate::printable::printable;
use crate::tar::{Entry, EntryKind, Event, Tar};
use crate::{Error, Kind, Result, ovf};
use ova::Ova;
use plain::Plain;

/// The chosen member of an archive. It holds what [`Tar`] does, and an OVF descriptor of 1 MiB at most while it is read.
pub struct Member {
    tar: Tar,
    want: Option<String>,
    choice: Choice,
    /// What happens to the data of the entry at hand.
    entry: Fate,
    chosen: Option<Chosen>,
}

/// What comes next of the chosen member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// These bytes, without a copy; never empty.
    Data(Bytes),
    /// This many zeros; never 0.
    Hole(u64),
    /// The member is complete, and so is the archive. Comes again when asked again.
    End,
}

/// Which member was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Its name, for people.
    pub name: String,
    /// Its size in bytes, where it is known. Files of an OVA may be compressed; this is what the archive holds.
    pub size: Option<u64>,
    /// Whether an OVF descriptor named it.
    pub ova: bool,
}

/// How the disk is chosen.
enum Choice {
    /// By the names of entries.
    Plain(Plain),
    /// By a descriptor.
    Ova(Ova),
}

/// What happens to the data of an entry.
enum Fate {
    /// Nobody wants them.
    Ignored,
    /// They are the disk.
    Taken,
    /// They are the descriptor, so far.
    Descriptor { path: Vec<u8>, xml: Vec<u8>, left: u64 },
}

impl Member {
    /// A reader at the start of an archive. `disk` names the member wanted, where there is more than one.
    #[must_use]
    pub fn new(disk: Option<String>) -> Self {
        let plain = Plain::new(disk.clone());
        Self { tar: Tar::new(), want: disk, choice: Choice::Plain(plain), entry: Fate::Ignored, chosen: None }
    }

    /// The next part of the disk; `None` when more input is needed. What was used is taken off `input`; `end` says
    /// that no more will come after it. Errors are final.
    pub fn next(&mut self, input: &mut Bytes, end: bool) -> Result<Option<Part>> {
        loop {
            let at = self.tar.consumed();
            let Some(event) = self.tar.next(input, end)? else { return Ok(None) };
            let part = match event {
                Event::Entry(entry) => self.entry(&entry).map(|()| None),
                Event::Data(bytes) => self.data(bytes),
                Event::Hole(len) => self.hole(len),
                Event::End => self.end().map(|()| Some(Part::End)),
            };
            if let Some(part) = part.map_err(|error| error.of("tar").at(at))? {
                return Ok(Some(part));
            }
        }
    }

    /// Which member was chosen, as soon as it is.
    #[must_use]
    pub fn chosen(&self) -> Option<&Chosen> {
        self.chosen.as_ref()
    }

    /// How many bytes of the archive were used so far.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.tar.consumed()
    }

    fn entry(&mut self, entry: &Entry) -> Result<()> {
        let chosen = match &mut self.choice {
            Choice::Plain(plain) if plain.awaits_descriptor() && is_descriptor(entry) => {
                if entry.size > ovf::MAX {
                    return Err(Error::new(
                        Kind::Oversized,
                        format!("the descriptor {} is larger than {} bytes", entry.name(), ovf::MAX),
                    ));
                }
                self.entry = Fate::Descriptor { path: entry.path.clone(), xml: Vec::new(), left: entry.size };
                // An empty one has no data to wait for.
                return if entry.size == 0 { self.descriptor() } else { Ok(()) };
            }
            Choice::Plain(plain) => plain.entry(entry)?,
            Choice::Ova(ova) => ova.entry(entry)?,
        };
        self.entry = match chosen {
            None => Fate::Ignored,
            Some(chosen) => {
                self.chosen.get_or_insert(chosen);
                Fate::Taken
            }
        };
        Ok(())
    }

    fn data(&mut self, bytes: Bytes) -> Result<Option<Part>> {
        match &mut self.entry {
            Fate::Taken => Ok(Some(Part::Data(bytes))),
            Fate::Ignored => Ok(None),
            Fate::Descriptor { xml, left, .. } => {
                xml.extend_from_slice(&bytes);
                *left = left.saturating_sub(bytes.len() as u64);
                if *left == 0 {
                    self.descriptor()?;
                }
                Ok(None)
            }
        }
    }

    fn hole(&mut self, len: u64) -> Result<Option<Part>> {
        match &mut self.entry {
            Fate::Taken => Ok(Some(Part::Hole(len))),
            Fate::Ignored => Ok(None),
            Fate::Descriptor { path, .. } => {
                Err(Error::new(Kind::Corrupt, format!("the descriptor {} has holes", printable(path))))
            }
        }
    }

    /// Reads a descriptor that is complete, and chooses the disk by it.
    fn descriptor(&mut self) -> Result<()> {
        if let Fate::Descriptor { path, xml, .. } = std::mem::replace(&mut self.entry, Fate::Ignored) {
            self.choice = Choice::Ova(Ova::new(&path, &xml, self.want.as_deref())?);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        match &self.choice {
            Choice::Plain(plain) => plain.end()?,
            Choice::Ova(ova) => ova.end()?,
        }
        // Cut between two members, an archive looks whole, and another disk may be missing.
        if self.tar.is_marked() || self.want.is_some() {
            return Ok(());
        }
        let message = "the archive has no end mark: it is cut, and another disk may be missing; name the one you want with --disk";
        Err(Error::new(Kind::Truncated, message))
    }
}

/// Whether an entry is an OVF descriptor.
fn is_descriptor(entry: &Entry) -> bool {
    entry.kind == EntryKind::Regular && !is_hidden(&entry.path) && extension(&entry.path).eq_ignore_ascii_case(b"ovf")
}

/// A path without the `./` or `/` that writers put in front.
fn normal(path: &[u8]) -> &[u8] {
    let mut path = path;
    while let Some(rest) = path.strip_prefix(b"./").or_else(|| path.strip_prefix(b"/")) {
        path = rest;
    }
    path
}

/// The last component of a path.
fn base(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// What follows the last dot of a path's last component; empty when there is none.
fn extension(path: &[u8]) -> &[u8] {
    let base = base(path);
    base.iter().rposition(|&byte| byte == b'.').and_then(|dot| base.get(dot + 1..)).unwrap_or_default()
}

/// Whether a component of the path begins with a dot, or is the folder where macOS puts such files.
fn is_hidden(path: &[u8]) -> bool {
    normal(path).split(|&byte| byte == b'/').any(|part| part.starts_with(b".") || part == b"__MACOSX")
}

/// A number of bytes for people.
fn size(bytes: u64) -> String {
    if bytes < 1 << 20 { format!("{bytes} bytes") } else { format!("{} MiB", bytes >> 20) }
}

#[cfg(test)]
mod tests;
