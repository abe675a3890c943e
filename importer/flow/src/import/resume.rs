//! Where an interrupted import goes on.

use serde::{Deserialize, Serialize};

use super::Import;
use crate::pool::Pool;
use crate::sink::Earlier;
use crate::{Result, Sink};

/// What a checkpoint says: of which source, read in which way, everything up to which place is in the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// The version of this program: another may read the same image in another order.
    version: String,
    /// The name of the source.
    source: String,
    /// The proof of which object that was.
    identity: String,
    format: String,
    /// What decides how much of the image is in a window.
    tables: u64,
    place: Place,
    /// Bytes of the source that need not be read again.
    done: u64,
}

/// A place on the way through an image. All data that comes before it is in the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Place {
    /// Which window of the tables, from 0.
    pub(super) window: u64,
    /// Up to which offset of the source the data of this window was read.
    pub(super) offset: u64,
}

/// The checkpoints of an import. Does nothing where the target keeps none, or nothing proves that the source is the same
/// next time.
#[derive(Default)]
pub(super) struct Trail {
    /// The record of the next checkpoint, but for its place.
    next: Option<Record>,
    /// Where an earlier import ended.
    from: Option<(Place, u64)>,
    every: u64,
    since: u64,
}

impl Import<'_> {
    /// The checkpoints of an import of a `format`. Makes the sink start over where an earlier import can't be continued.
    pub(super) fn trail(&self, format: &str, sink: &dyn Sink) -> Result<Trail> {
        let every = self.settings.checkpoint_every;
        let mut trail = Trail { next: None, from: None, every, since: 0 };
        if !sink.resumable() {
            return Ok(trail);
        }
        let Some(identity) = self.source.identity() else {
            self.start_over("nothing proves that the source is still the same when it is read again", sink)?;
            return Ok(trail);
        };
        let record = Record {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            source: self.source.name(),
            identity,
            format: format.to_owned(),
            tables: self.limits().tables,
            place: Place::default(),
            done: 0,
        };
        match sink.resumed() {
            Earlier::Nothing => {
                self.say(&format!("{}: there is nothing to go on from; starting at the beginning", sink.name()));
            }
            Earlier::Spoiled(why) => {
                let what = "what an interrupted copy left there can't be continued";
                self.say(&format!("{}: {what}: {why}; starting over", sink.name()));
            }
            Earlier::Record(text) => match Record::read(&text, &record) {
                Ok(earlier) => {
                    self.say(&format!("{}: going on behind the first {} bytes", sink.name(), earlier.done));
                    trail.from = Some((earlier.place, earlier.done));
                }
                Err(why) => {
                    self.say(&format!("{}: {why}; starting over", sink.name()));
                    sink.start_over()?;
                }
            },
        }
        let done = trail.from.map_or(0, |(_, done)| done);
        trail.next = Some(Record { done, ..record });
        Ok(trail)
    }

    /// For imports that can't be continued, and the reason.
    pub(super) fn start_over(&self, why: &str, sink: &dyn Sink) -> Result<()> {
        if !sink.resumable() {
            return Ok(());
        }
        let name = sink.name();
        match sink.resumed() {
            Earlier::Nothing => self.say(&format!("{name}: this copy can't be continued if it is interrupted: {why}")),
            Earlier::Spoiled(_) | Earlier::Record(_) => self.say(&format!("{name}: starting over: {why}")),
        }
        sink.start_over()
    }

    fn say(&self, line: &str) {
        (self.settings.notice)(line);
    }
}

impl Record {
    /// The record in `text`, if it is of the import that `now` begins; or else what is different.
    fn read(text: &str, now: &Self) -> Result<Self, &'static str> {
        let Ok(earlier) = serde_json::from_str::<Self>(text) else {
            return Err("its checkpoint is of another version");
        };
        let same = Self { place: now.place, done: now.done, ..earlier.clone() };
        match () {
            () if same == *now => Ok(earlier),
            () if same.version != now.version => Err("its checkpoint is of another version"),
            () if same.source != now.source => Err("its checkpoint is of another source"),
            () if same.tables != now.tables => Err("its checkpoint was made with another --memory"),
            () => Err("the source has changed since its checkpoint"),
        }
    }
}

impl Trail {
    /// Where an earlier import ended.
    pub(super) fn from(&self) -> Option<Place> {
        self.from.map(|(place, _)| place)
    }

    /// How many bytes an earlier import had done.
    pub(super) fn resumed_from(&self) -> Option<u64> {
        self.from.map(|(_, done)| done)
    }

    /// So many bytes of the source were read.
    pub(super) fn advance(&mut self, len: u64) {
        self.since += len;
    }

    /// Makes a checkpoint if it is time: everything before `place` was submitted.
    pub(super) fn checkpoint(&mut self, place: Place, pool: &mut Pool) -> Result<()> {
        let Some(next) = &mut self.next else { return Ok(()) };
        // What is read before the place of an earlier checkpoint is what that could not keep.
        if self.from.is_some_and(|(from, _)| place <= from) {
            self.since = 0;
            return Ok(());
        }
        if self.since < self.every {
            return Ok(());
        }
        pool.drain()?;
        next.place = place;
        next.done += std::mem::take(&mut self.since);
        // Strings and numbers: this does not fail.
        pool.sink().checkpoint(&serde_json::to_string(next).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_import_goes_on() {
        let now = Record {
            version: "1".into(),
            source: "http://a/b".into(),
            identity: "ETag \"a\"".into(),
            format: "qcow2".into(),
            tables: 16 << 20,
            place: Place::default(),
            done: 0,
        };
        let earlier = Record { place: Place { window: 3, offset: 1 << 40 }, done: 1 << 39, ..now.clone() };
        let read = |earlier: &Record| Record::read(&serde_json::to_string(earlier).unwrap(), &now);
        assert_eq!(read(&earlier), Ok(earlier.clone()));
        let others = [
            (Record { version: "2".into(), ..earlier.clone() }, "version"),
            (Record { source: "http://a/c".into(), ..earlier.clone() }, "another source"),
            (Record { identity: "ETag \"b\"".into(), ..earlier.clone() }, "has changed"),
            (Record { format: "raw".into(), ..earlier.clone() }, "has changed"),
            (Record { tables: 1, ..earlier }, "--memory"),
        ];
        for (other, word) in others {
            assert!(read(&other).unwrap_err().contains(word), "{other:?}");
        }
        assert!(Record::read("{}", &now).is_err());
    }

    #[test]
    fn places_are_in_the_order_in_which_they_are_passed() {
        assert!(Place { window: 0, offset: 9 } < Place { window: 1, offset: 3 });
        assert!(Place { window: 1, offset: 3 } < Place { window: 1, offset: 4 });
    }
}
