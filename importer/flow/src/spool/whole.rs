//! A whole stream, kept until it is known how long it is.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::unnamed;
use crate::peek::Peeked;
use crate::source::FileSource;
use crate::{Error, Kind, Piece, Result, Source};

/// A stream in an unnamed file, with its holes.
pub(crate) struct Whole {
    file: File,
    end: u64,
    stored: u64,
    limit: u64,
}

impl Whole {
    /// In `directory`, with room for `limit` bytes besides holes.
    pub(crate) fn new(directory: &Path, limit: u64) -> Result<Self> {
        Ok(Self { file: unnamed(directory)?, end: 0, stored: 0, limit })
    }

    /// Takes the next piece.
    pub(crate) fn take(&mut self, piece: &Piece) -> Result<()> {
        if let Piece::Bytes(bytes) = piece {
            self.stored = self.stored.saturating_add(bytes.len() as u64);
            if self.stored > self.limit {
                let message = format!(
                    "how long the image is shows only at its end, and more than {} MiB would have to wait for that: raise \
                     --spool-limit, or send it uncompressed and with its length",
                    self.limit >> 20
                );
                return Err(Error::new(Kind::Target, message));
            }
            self.file.write_all_at(bytes, self.end).map_err(|error| failed("write to", error))?;
        }
        let end = self.end.checked_add(piece.len());
        self.end = end.ok_or_else(|| Error::new(Kind::NotUsable, "the image is longer than any file"))?;
        Ok(())
    }

    /// All of it, from its first byte.
    pub(crate) fn stream(self) -> Result<Peeked> {
        self.file.set_len(self.end).map_err(|error| failed("finish", error))?;
        Ok(Peeked::new(FileSource::unnamed(self.file, "the spool file")?.open()?))
    }
}

fn failed(what: &str, error: std::io::Error) -> Error {
    Error::new(Kind::Target, format!("can't {what} the spool file")).because(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;

    #[test]
    fn what_went_in_comes_out_with_its_holes() {
        let dir = tempfile::tempdir().unwrap();
        let mut whole = Whole::new(dir.path(), 200_000).unwrap();
        let pieces =
            [Piece::Bytes(vec![7; 100_000].into()), Piece::Hole(1 << 30), Piece::Bytes(vec![8; 100_000].into())];
        pieces.iter().for_each(|piece| whole.take(piece).unwrap());
        whole.take(&Piece::Hole(5)).unwrap();
        let mut stream = whole.stream().unwrap();
        let (mut len, mut data) = (0, Vec::new());
        while let Some(piece) = stream.next().unwrap() {
            len += piece.len();
            if let Piece::Bytes(bytes) = piece {
                data.extend(bytes.into_iter().filter(|byte| *byte != 0));
            }
        }
        assert_eq!(len, 200_005 + (1 << 30));
        assert!(data == [vec![7; 100_000], vec![8; 100_000]].concat());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_limit_counts_what_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        let mut whole = Whole::new(dir.path(), 1000).unwrap();
        whole.take(&Piece::Hole(1 << 40)).unwrap();
        whole.take(&Piece::Bytes(vec![1; 1000].into())).unwrap();
        let error = whole.take(&Piece::Bytes(vec![1; 1].into())).unwrap_err();
        assert_eq!(error.kind(), Kind::Target);
        assert!(error.to_string().contains("--spool-limit"), "{error}");
        let error = whole.take(&Piece::Hole(u64::MAX)).unwrap_err();
        assert_eq!(error.kind(), Kind::NotUsable);
        assert_eq!(Whole::new(Path::new("/does/not/exist"), 1).err().unwrap().kind(), Kind::Target);
    }
}
