//! What someone pipes in.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::ops::Range;
use std::os::fd::AsFd;

use super::pipe::Pipe;
use crate::{Error, Kind, Result, Source, Stream};

/// The standard input: read once, from where it is, to its end.
#[derive(Debug)]
pub struct StdinSource(Option<File>);

impl StdinSource {
    /// The standard input of this process. A terminal is refused: no one types a disk.
    pub fn open() -> Result<Self> {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return Err(Error::new(Kind::Usage, format!("{NAME}: is a terminal: pipe an image into it")));
        }
        let file = stdin.as_fd().try_clone_to_owned();
        let file = file.map_err(|error| Error::new(Kind::Refused, format!("{NAME}: is not open")).because(error))?;
        Ok(Self(Some(file.into())))
    }
}

// === impl Source ===

impl Source for StdinSource {
    fn open(&mut self) -> Result<Box<dyn Stream>> {
        let file = self.0.take().ok_or_else(|| Error::new(Kind::Ours, format!("{NAME}: opened twice")))?;
        let pipe = Pipe::new(file, NAME.to_owned());
        Ok(Box::new(pipe.map_err(|error| Error::new(Kind::Refused, format!("{NAME}: can't be read")).because(error))?))
    }

    fn read(&mut self, _ranges: Vec<Range<u64>>) -> Result<Box<dyn Stream>> {
        Err(Error::new(Kind::Ours, format!("{NAME}: asked for a range, which it has not")))
    }

    fn len(&self) -> Option<u64> {
        None
    }

    fn ranges(&self) -> bool {
        false
    }

    fn reopens(&self) -> bool {
        false
    }

    fn name(&self) -> String {
        NAME.to_owned()
    }
}

const NAME: &str = "standard input";
