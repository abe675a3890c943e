//! A blob whose bytes must be those of its digest.

use dvcr_oci::Descriptor;

use crate::checksum::{Algorithm, Checksum, Hashing, check};
use crate::{Error, Kind, Piece, Result, Stream};

/// A stream that is refused at its end, or before, when it is not what its descriptor says.
pub(super) struct Verified {
    stream: Box<dyn Stream>,
    name: String,
    checksum: Checksum,
    size: u64,
    left: u64,
    /// `None` when all has passed.
    hashing: Option<Hashing>,
}

impl Verified {
    pub(super) fn new(stream: Box<dyn Stream>, descriptor: &Descriptor, image: &str) -> Result<Self> {
        let digest = &descriptor.digest;
        let algorithm = Algorithm::named(digest.algorithm().name());
        let checksum = algorithm.and_then(|algorithm| Checksum::new(algorithm, &digest.hex()));
        let checksum = checksum.ok_or_else(|| Error::new(Kind::Ours, format!("{digest} is no checksum")))?;
        let hashing = Some(Hashing::start(std::slice::from_ref(&checksum))?);
        let name = format!("{image}, layer {digest}");
        Ok(Self { stream, name, checksum, size: descriptor.size, left: descriptor.size, hashing })
    }

    fn wrong_length(&self, what: &str) -> Error {
        let message = format!("{}: it is {what} than the {} bytes it should have", self.name, self.size);
        Error::new(Kind::Mismatch, message)
    }
}

impl Stream for Verified {
    fn next(&mut self) -> Result<Option<Piece>> {
        let Some(hashing) = &self.hashing else { return Ok(None) };
        if let Some(piece) = self.stream.next()? {
            self.left = self.left.checked_sub(piece.len()).ok_or_else(|| self.wrong_length("longer"))?;
            hashing.push(&piece)?;
            return Ok(Some(piece));
        }
        if self.left > 0 {
            return Err(self.wrong_length("shorter"));
        }
        if let Some(hashing) = self.hashing.take() {
            check(std::slice::from_ref(&self.checksum), &[hashing.finish()?], &self.name)?;
        }
        Ok(None)
    }
}
