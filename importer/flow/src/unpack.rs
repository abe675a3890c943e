//! Carrying out ops: unpack and write.

use importer_codec::Bin;
use importer_codec::cluster::{Inflate, Zstd};
use importer_disk::Codec;
use importer_disk::plan::Op;

use crate::sink::Sink;
use crate::slab::Slab;
use crate::{Error, Kind, Result};

/// The codecs and the buffer of one thread.
#[derive(Default)]
pub(crate) struct Unpacker {
    /// Where buffers go when they are done with.
    bin: Bin,
    deflate: Option<Inflate>,
    zlib: Option<Inflate>,
    zstd: Option<Zstd>,
    /// Unpacked units that follow each other on the disk, to be written at once. At most [`BUFFER`] and one unit.
    buffer: Slab,
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

    /// Carries out a job. Units that follow each other are unpacked into one buffer and written together.
    pub(crate) fn carry_out(&mut self, job: Vec<Op>, sink: &dyn Sink) -> Result<()> {
        let mut start = 0;
        let mut filled = 0;
        for op in job {
            let contiguous = matches!(&op, Op::Unpack { guest, .. } if guest.0 == start + filled as u64);
            if filled > 0 && (!contiguous || filled >= BUFFER) {
                sink.write(start, self.buffer.bytes().get(..filled).unwrap_or_default())?;
                filled = 0;
            }
            match op {
                Op::Write { guest, bytes } => {
                    sink.write(guest.0, &bytes)?;
                    self.bin.give(bytes);
                }
                Op::Zero { guest, len } => sink.zero(guest.0, len)?,
                Op::Unpack { guest, len, unpacked, codec, input, at } => {
                    if filled == 0 {
                        start = guest.0;
                    }
                    let len = usize::try_from(len).map_err(|_| Error::new(Kind::Ours, "a unit of this length"))?;
                    let unit =
                        Unit { guest: guest.0, len, unpacked: unpacked as usize, codec, input: &input, at: at.0 };
                    self.unpack(&unit, filled)?;
                    filled += unit.len;
                    self.bin.give(input);
                }
            }
        }
        if filled > 0 {
            sink.write(start, self.buffer.bytes().get(..filled).unwrap_or_default())?;
        }
        Ok(())
    }

    /// Unpacks a unit into the buffer at `filled`. It must give exactly a unit, or exactly what the disk has of it.
    fn unpack(&mut self, unit: &Unit<'_>, filled: usize) -> Result<()> {
        let room = unit.unpacked.max(unit.len);
        self.buffer.grow(filled + room);
        let output = self.buffer.bytes_mut().get_mut(filled..filled + room).unwrap_or_default();
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
            Ok(made) if made == unit.unpacked || made == unit.len => Ok(()),
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

/// One large write: larger ones gain nothing.
const BUFFER: usize = 1 << 20;
