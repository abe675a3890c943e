//! One import, from source to sink.

mod ahead;
mod kept;
mod ordered;
mod ranged;
mod raw;
mod resume;
mod streamed;

use std::path::PathBuf;
use std::sync::Arc;

use importer_codec::Bin;
use importer_disk::probe::TAIL_LEN;

use crate::checksum::Checksum;
use crate::image::{Access, Image, Reader, reader};
use crate::pool::Pool;
use crate::progress::Progress;
use crate::received::{Account, Received};
use crate::source::Counter;
use crate::unwrap::{Unwrapped, Unwrapping, unwrap};
use crate::{Error, Kind, Result, Sink, Source, Stream};

/// What an import may use.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Memory for all of it, in bytes: held bytes, tables, queues. xz and long-window zstd need their dictionaries on
    /// top, up to as much again.
    pub memory: u64,
    /// The most to spool to disk when tables come late in a stream that can't be read again.
    pub spool_limit: u64,
    /// Where a spool would be made: the target's side.
    pub spool_directory: PathBuf,
    /// Whether a stream that can't be read again may be spooled whole where its length has to be known first, and shows only
    /// at its end.
    pub spool_whole: bool,
    /// Threads that unpack and write: one more, because one waits for the disk.
    pub threads: usize,
    /// Which member of an archive is wanted.
    pub disk: Option<String>,
    /// What the bytes as received must hash to. With any, the whole source is read, once, in order.
    pub checksums: Vec<Checksum>,
    /// After how many bytes of the source a checkpoint is made, where the sink keeps them.
    pub checkpoint_every: u64,
    /// Told of what a person should know and that is no error, in one line: that a copy starts over, and why.
    pub notice: fn(&str),
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            spool_limit: 1 << 30,
            spool_directory: PathBuf::from("/var/tmp"),
            spool_whole: false,
            threads: std::thread::available_parallelism().map_or(2, usize::from),
            disk: None,
            checksums: Vec::new(),
            checkpoint_every: CHECKPOINT_EVERY,
            notice: |line| tracing::info!("{line}"),
        }
    }
}

/// How the source was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Tables first, then only what is allocated.
    Ranged,
    /// Once, in order; perhaps with tables read ahead by ranges, which then come once more.
    Streaming,
    /// More than once, in order, because tables came late.
    TwoPass,
    /// Once, in order, with a spool because tables came late.
    Spooled,
}

impl Mode {
    /// As the report spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ranged => "ranged",
            Self::Streaming => "streaming",
            Self::TwoPass => "two-pass",
            Self::Spooled => "spooled",
        }
    }
}

/// What an import has done.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the image is.
    pub image: Image,
    /// How the source was read.
    pub mode: Mode,
    /// Bytes received from the source.
    pub source_bytes: u64,
    /// `sha256:<hex>` of the source: of an image's manifest, or of the bytes when there were checksums to compare with.
    pub source_digest: Option<String>,
    /// Bytes written to the target that are not zeros.
    pub bytes_written: u64,
    /// Size of the finished target in bytes.
    pub target_size: u64,
    /// How many bytes of the source were read by an earlier import that this one has continued.
    pub resumed_from: Option<u64>,
}

/// An import under way: what all ways of reading need.
struct Import<'a> {
    source: &'a mut dyn Source,
    settings: &'a Settings,
    progress: Arc<Progress>,
    bin: Bin,
}

/// Brings the image of `source` to `sink`.
///
/// The sink is finished, and so visible, only after everything was read and verified; on an error it is dropped, and
/// leaves nothing that looks complete. Memory is bounded by the settings, whatever the image.
pub fn import(
    source: &mut dyn Source,
    sink: Box<dyn Sink>,
    settings: &Settings,
    progress: Arc<Progress>,
) -> Result<Outcome> {
    let bin = Bin::default();
    let pool = Pool::new(sink, settings.threads.saturating_add(1), settings.memory / QUEUE_SHARE, bin.clone())?;
    let name = source.name();
    let result = Import { source: &mut *source, settings, progress, bin }.run(pool);
    // Bytes that were damaged on their way are no word about the image.
    let result = result.map_err(|error| match error.kind() {
        Kind::NotUsable | Kind::Unsafe => source.doubt().err().unwrap_or(error),
        _ => error,
    });
    let result = result.map(|outcome| Outcome { source_digest: source.digest().or(outcome.source_digest), ..outcome });
    result.map_err(|error| named(error, &name, source.served()))
}

/// Says what the image of `source` is, from its metadata alone.
pub fn inspect(source: &mut dyn Source, settings: &Settings) -> Result<Image> {
    let name = source.name();
    let result = Import { source: &mut *source, settings, progress: Arc::default(), bin: Bin::default() }.inspect();
    result.map_err(|error| named(error, &name, source.served()))
}

/// Parsers and codecs know offsets; which image they are of is known here. They alone judge an image, and never name it;
/// sources and sinks never judge one, and name themselves.
fn named(error: Error, name: &str, served: Option<String>) -> Error {
    match (error.kind(), served) {
        // What it came as says the most where it is no image at all.
        (Kind::NotUsable, Some(served)) => error.within(format_args!("{name} ({served})")),
        (Kind::NotUsable | Kind::Unsafe, _) => error.within(name),
        _ => error,
    }
}

impl Import<'_> {
    fn run(mut self, pool: Pool) -> Result<Outcome> {
        let account = Account::new(&self.settings.checksums)?;
        let opened = self.open(&account)?;
        self.check_trailer(&opened)?;
        if pool.sink().sized()
            && let Reader::Format(format) = reader(&opened.head, self.inner_len(&opened), Access::Streamed)?
            && !format.plain()
            && pool.sink().keeps(format.name())
        {
            return self.kept(opened, account, format, pool);
        }
        let ranged = opened.wrappers.is_empty() && self.source.ranges() && self.settings.checksums.is_empty();
        match self.source.len().filter(|_| ranged) {
            Some(len) => match reader(&opened.head, Some(len), Access::Ranged)? {
                Reader::Format(format) if !format.sequential() => {
                    drop(opened);
                    if pool.sink().ordered() { self.ordered(format, len, pool) } else { self.ranged(format, len, pool) }
                }
                _ => self.streamed(opened, account, pool),
            },
            None => self.streamed(opened, account, pool),
        }
    }

    /// Opens the source for a pass over all of it, and takes the wrappers off.
    fn open(&mut self, account: &Account) -> Result<Unwrapped> {
        self.source.observe_encoded(account.encoded(&self.settings.checksums));
        let progress = Arc::clone(&self.progress);
        let counted = self.source.count(&(Arc::new(move |bytes| progress.receive(bytes)) as Counter));
        let stream = self.source.open()?;
        self.progress.begin_pass();
        self.progress.measure(self.source.len());
        let received = Received::new(stream, account.clone(), Arc::clone(&self.progress));
        let received = received.counting(!counted).comparing(self.source.reopens());
        unwrap(Box::new(received), &self.unwrapping())
    }

    /// Opens the source for another pass, which must begin as the one before.
    fn again(&mut self, head: &[u8], wrappers: &[&'static str]) -> Result<(Unwrapped, Account)> {
        let account = Account::new(&self.settings.checksums)?;
        self.progress.expect(self.source.weight().unwrap_or(0));
        let again = self.open(&account)?;
        if again.head != head || again.wrappers != wrappers {
            return Err(self.changed());
        }
        Ok((again, account))
    }

    /// Refuses a pass that has brought other bytes than the first one.
    fn check_same(&self, first: &Account, pass: &Account) -> Result<()> {
        if first.identity() == pass.identity() { Ok(()) } else { Err(self.changed()) }
    }

    fn changed(&self) -> Error {
        Error::new(Kind::Changed, format!("{} changed while it was read; try again", self.source.name()))
    }

    /// Refuses a DMG, which is known by its trailer and may begin with a block that looks like a compressed file. Where
    /// the trailer can't be read, the decoder will find that what follows its block makes no sense.
    fn check_trailer(&mut self, opened: &Unwrapped) -> Result<()> {
        let block = matches!(opened.wrappers.first(), Some(&("bzip2" | "xz")));
        let once = !self.source.ranges() || !self.settings.checksums.is_empty();
        let Some(len) = self.source.len().filter(|&len| block && !once && len >= TAIL_LEN as u64) else {
            return Ok(());
        };
        let mut bytes = Vec::new();
        let read = self.source.range(len - TAIL_LEN as u64..len).and_then(|mut tail| read_all(&mut *tail, &mut bytes));
        if read.is_ok()
            && let Some(tail) = bytes.last_chunk()
        {
            importer_disk::probe::tail(tail, len)?;
        }
        Ok(())
    }

    fn unwrapping(&self) -> Unwrapping {
        let memory = self.settings.memory;
        // A window of 128 MiB is what every zstd accepts; more only with more memory.
        let limits = importer_codec::Limits {
            memory: memory.max(128 << 20),
            parallel: memory.max(128 << 20),
            threads: u32::try_from(self.settings.threads).unwrap_or(2),
        };
        Unwrapping { limits, disk: self.settings.disk.clone(), bin: self.bin.clone() }
    }

    /// What a plan may keep: a quarter held, a quarter of tables. The rest is for what is on its way: frames of the
    /// network, buffers of codecs and writers, and what the allocator keeps.
    fn limits(&self) -> importer_disk::plan::Limits {
        importer_disk::plan::Limits { held: self.settings.memory / 4, tables: self.settings.memory / 4 }
    }

    fn inspect(&mut self) -> Result<Image> {
        let opened = self.open(&Account::default())?;
        self.check_trailer(&opened)?;
        let whole = opened.wrappers.is_empty();
        match self.source.len().filter(|_| whole && self.source.ranges()) {
            Some(len) => match reader(&opened.head, Some(len), Access::Ranged)? {
                Reader::Format(format) if !format.sequential() => {
                    drop(opened);
                    self.inspect_ranged(format, len)
                }
                _ => self.inspect_streamed(opened),
            },
            None => self.inspect_streamed(opened),
        }
    }
}

/// What a parser knows of an image.
fn describe(format: &dyn importer_disk::Format, wrappers: Vec<&'static str>, allocated: Option<u64>) -> Image {
    let geometry = format.geometry();
    Image {
        wrappers,
        format: format.name(),
        virtual_size: geometry.and_then(|geometry| geometry.virtual_size),
        allocated,
        cdrom: geometry.is_some_and(|geometry| geometry.cdrom),
        features: format.features(),
    }
}

/// A piece of a stream, for a plan.
fn piece(piece: crate::Piece) -> importer_disk::plan::Piece {
    match piece {
        crate::Piece::Bytes(bytes) => importer_disk::plan::Piece::Bytes(bytes),
        crate::Piece::Hole(len) => importer_disk::plan::Piece::Hole(len),
    }
}

/// Reads a stream to its end into memory. For pages, which are small.
pub(crate) fn read_all(stream: &mut dyn Stream, into: &mut Vec<u8>) -> Result<()> {
    while let Some(piece) = stream.next()? {
        append(piece, into);
    }
    Ok(())
}

/// Puts a piece, which is small, behind what is there.
pub(crate) fn append(piece: crate::Piece, into: &mut Vec<u8>) {
    match piece {
        crate::Piece::Bytes(bytes) => into.extend_from_slice(&bytes),
        crate::Piece::Hole(len) => into.resize(into.len() + usize::try_from(len).unwrap_or(0), 0),
    }
}

/// A kill costs so much that has to be read again: at a gigabit, half a second. A checkpoint waits for the disk to be done
/// with what was written, which is at most three windows of writeback behind, and for two small files.
const CHECKPOINT_EVERY: u64 = 64 << 20;

/// The share of the memory that is queued for the writers: with 64 MiB, 4 MiB, which is eight jobs for each of two
/// threads. More only waits longer, and what waits has left the caches.
const QUEUE_SHARE: u64 = 16;
