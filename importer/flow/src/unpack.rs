//! Carrying out ops: unpack, join and write.

use importer_codec::Bin;
use importer_codec::cluster::{Inflate, Zstd};
use importer_disk::Codec;
use importer_disk::plan::Op;

use crate::sink::Sink;
use crate::slab::{PAGE, Slab};
use crate::{Error, Kind, Result};

/// The codecs and the buffer of one thread.
#[derive(Default)]
pub(crate) struct Unpacker {
    /// Where buffers go when they are done with.
    bin: Bin,
    deflate: Option<Inflate>,
    zlib: Option<Inflate>,
    zstd: Option<Zstd>,
    joined: Joined,
}

/// Bytes that follow each other on the disk, to be written at once: at most [`BUFFER`] and one unit. A byte lies in
/// memory as far behind a page border as it lies on the disk, so that whole pages can be written as they are.
#[derive(Default)]
struct Joined {
    slab: Slab,
    /// Guest offset of the first byte.
    start: u64,
    /// Where in the slab it lies.
    lead: usize,
    filled: usize,
}

/// A unit to unpack.
struct Unit<'a> {
    guest: u64,
    len: usize,
    unpacked: usize,
    codec: Codec,
    input: &'a [u8],
    at: u64,
}

impl Unpacker {
    /// Without any codec yet; each is made when it is needed.
    pub(crate) fn new(bin: Bin) -> Self {
        Self { bin, ..Self::default() }
    }

    /// Carries out a job. What follows each other on the disk is written together; what comes unpacked only where the
    /// sink wants that.
    pub(crate) fn carry_out(&mut self, job: Vec<Op>, sink: &dyn Sink) -> Result<()> {
        let joins = sink.joins();
        for op in job {
            match op {
                Op::Write { guest, bytes } => {
                    if joins && bytes.len() < BUFFER {
                        self.joined.room(guest.0, bytes.len(), sink)?.copy_from_slice(&bytes);
                        self.joined.filled += bytes.len();
                    } else {
                        self.joined.write(sink)?;
                        sink.write(guest.0, &bytes)?;
                    }
                    self.bin.give(bytes);
                }
                Op::Zero { guest, len } => {
                    // Nothing can be joined across it, and a sink that is written in order would have to wait.
                    self.joined.write(sink)?;
                    sink.zero(guest.0, len)?;
                }
                Op::Unpack { guest, len, unpacked, codec, input, at } => {
                    let len = usize::try_from(len).map_err(|_| Error::new(Kind::Ours, "a unit of this length"))?;
                    let unit =
                        Unit { guest: guest.0, len, unpacked: unpacked as usize, codec, input: &input, at: at.0 };
                    self.unpack(&unit, sink)?;
                    self.bin.give(input);
                }
            }
        }
        self.joined.write(sink)
    }

    /// Unpacks a unit behind what was joined. It must give exactly a unit, or exactly what the disk has of it.
    fn unpack(&mut self, unit: &Unit<'_>, sink: &dyn Sink) -> Result<()> {
        let output = self.joined.room(unit.guest, unit.unpacked.max(unit.len), sink)?;
        let made = match unit.codec {
            Codec::Deflate => self.deflate.get_or_insert_with(Inflate::raw).unpack(unit.input, output),
            Codec::Zlib => self.zlib.get_or_insert_with(Inflate::zlib).unpack(unit.input, output),
            Codec::Zstd => match &mut self.zstd {
                Some(zstd) => zstd.unpack(unit.input, output),
                none => none
                    .insert(Zstd::new().map_err(|error| Error::new(Kind::Ours, error.to_string()))?)
                    .unpack(unit.input, output),
            },
        };
        let describe = |what: &str| {
            format!("the compressed cluster at offset {:#x} (guest offset {:#x}) {what}", unit.at, unit.guest)
        };
        match made {
            Ok(made) if made == unit.unpacked || made == unit.len => {
                self.joined.filled += unit.len;
                Ok(())
            }
            Ok(made) => Err(Error::new(
                Kind::NotUsable,
                describe(&format!("unpacks to {made} bytes instead of {}: the image is corrupt", unit.unpacked)),
            )),
            Err(error) => {
                Err(Error::new(Kind::NotUsable, describe("can't be unpacked: the image is corrupt")).because(error))
            }
        }
    }
}

impl Joined {
    /// Memory for `len` bytes at guest offset `guest`, which are only there once `filled` counts them. What was joined is
    /// written before if they don't follow it, or if it is enough.
    fn room(&mut self, guest: u64, len: usize, sink: &dyn Sink) -> Result<&mut [u8]> {
        if self.filled >= BUFFER || self.start.checked_add(self.filled as u64) != Some(guest) {
            self.write(sink)?;
        }
        if self.filled == 0 {
            self.start = guest;
            // Below a page, so it fits.
            self.lead = usize::try_from(guest % PAGE as u64).unwrap_or_default();
        }
        let from = self.lead + self.filled;
        self.slab.grow(from + len);
        let room = self.slab.bytes_mut().get_mut(from..from + len);
        room.ok_or_else(|| Error::new(Kind::Ours, "a slab did not grow"))
    }

    /// Writes what was joined.
    fn write(&mut self, sink: &dyn Sink) -> Result<()> {
        let filled = std::mem::take(&mut self.filled);
        match self.slab.bytes().get(self.lead..self.lead + filled) {
            Some(bytes) if filled > 0 => sink.write(self.start, bytes),
            _ => Ok(()),
        }
    }
}

/// One large write: larger ones gain nothing.
pub(crate) const BUFFER: usize = 1 << 20;
