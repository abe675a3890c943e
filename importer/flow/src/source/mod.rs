//! Where an image comes from.

pub mod container;
mod file;
mod http;
pub mod object_store;
mod part;
mod pipe;
mod stdin;
pub mod upload;

use std::ops::Range;
use std::sync::Arc;

pub use container::ContainerSource;
pub use dvcr_transport::{Config as HttpConfig, Proxies, Retry, Side, WAITING};
pub use file::FileSource;
pub use http::HttpSource;
pub use stdin::StdinSource;

use crate::{Piece, Result, Stream};

/// Who sees bytes pass. What it refuses ends the stream.
pub type Observer = Box<dyn FnMut(&Piece) -> Result<()> + Send>;

/// Who counts the bytes that come.
pub type Counter = Arc<dyn Fn(u64) + Send + Sync>;

/// Whether both are web addresses with the same scheme, host and port, so that what identifies us to the one may be sent
/// to the other.
#[must_use]
pub fn same_origin(one: &str, other: &str) -> bool {
    let parse = |url| dvcr_transport::Address::parse(url).ok();
    parse(one).zip(parse(other)).is_some_and(|(one, other)| one.same_origin(&other))
}

/// Where an image comes from.
///
/// A source can always be read once from the start. What else it can do is proved, not believed: `ranges` is true only
/// when a range was asked for and answered, and the object can be recognised again (a strong validator, an open file).
#[expect(clippy::len_without_is_empty, reason = "the length may be unknown, and nothing asks for 0")]
pub trait Source: Send {
    /// A stream from the first byte. May be called again only if [`reopens`](Self::reopens).
    ///
    /// Calling it again must give the same object, or fail.
    fn open(&mut self) -> Result<Box<dyn Stream>>;

    /// A stream of `ranges`, one behind the other, which lie inside the object. No piece crosses the border of one. Only
    /// if [`ranges`](Self::ranges).
    ///
    /// To ask for many at once is quicker than one by one: they may be fetched side by side.
    fn read(&mut self, ranges: Vec<Range<u64>>) -> Result<Box<dyn Stream>>;

    /// A stream of one range.
    fn range(&mut self, range: Range<u64>) -> Result<Box<dyn Stream>> {
        self.read(vec![range])
    }

    /// As [`read`](Self::read), but nothing proves that these are bytes of what [`open`](Self::open) gives, whose stream may
    /// still be read. Whoever uses them compares. Only if [`glimpses`](Self::glimpses).
    fn glimpse(&mut self, ranges: Vec<Range<u64>>) -> Result<Box<dyn Stream>> {
        self.read(ranges)
    }

    /// Whether there are [glimpses](Self::glimpse): wherever there are ranges, and perhaps elsewhere.
    fn glimpses(&self) -> bool {
        self.ranges()
    }

    /// How many bytes of `range` are stored and not in holes, where that is known without reading them.
    fn stored(&mut self, _range: Range<u64>) -> Result<Option<u64>> {
        Ok(None)
    }

    /// The length in bytes, where it is known. For HTTP this is known after `open`.
    fn len(&self) -> Option<u64>;

    /// How many bytes come before the stream has ended, where these are not what it gives: what is compressed where it
    /// comes from. Known after `open`.
    fn weight(&self) -> Option<u64> {
        self.len()
    }

    /// From the next `open` on, `counter` is told of the bytes that come, if these are not what the stream gives. Says
    /// whether it is.
    fn count(&mut self, _counter: &Counter) -> bool {
        false
    }

    /// Whether parts can be read at any offset. For HTTP this is known after `open`.
    fn ranges(&self) -> bool;

    /// Whether `open` may be called again.
    fn reopens(&self) -> bool;

    /// What proves, in a later process too, that the source is still the same: equal texts of the same name are of the
    /// same bytes. `None` where nothing does. For HTTP this is known after `open`.
    fn identity(&self) -> Option<String> {
        None
    }

    /// What its content is known by where it comes from: the digest of an image's manifest.
    fn digest(&self) -> Option<String> {
        None
    }

    /// For which machines its content is, where it comes from says that: `linux/arm64`.
    fn platform(&self) -> Option<String> {
        None
    }

    /// Whether an import that was interrupted can go on: then [`range`](Self::range) gives at least what that lost at the
    /// start, and everything from where it was to the end. Whoever has ranges can.
    fn continues(&self) -> bool {
        self.ranges()
    }

    /// How a person knows it: a path, or an address without credentials.
    fn name(&self) -> String;

    /// The name of the file, as a list of checksums may have it: the last part of the path, decoded, whatever redirects
    /// led to. `None` where there is none.
    fn file_name(&self) -> Option<Vec<u8>> {
        None
    }

    /// What speaks against its being a disk, once something was read: `served as text/html by https://portal.lan/login`.
    /// For the words of a refusal only; nothing is decided by it.
    fn served(&self) -> Option<String> {
        None
    }

    /// Looks whether what was read is what it has to be, after it made no sense and nobody reads on. Fails if it is
    /// something else: then that is what is wrong.
    fn doubt(&mut self) -> Result<()> {
        Ok(())
    }

    /// From the next `open` on, `observer` sees the bytes as they were sent where that is not what `open` gives, because
    /// the server encoded them for the way.
    fn observe_encoded(&mut self, _observer: Option<Observer>) {}
}
