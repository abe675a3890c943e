//! A blob whose bytes must be those of its digest.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

/// The layer at hand, which can be read to its end when whoever reads it has stopped. Shared by its clones.
#[derive(Clone, Default)]
pub(super) struct AtHand(Arc<Mutex<Option<Shared>>>);

/// A layer that is read in two places, one after the other.
#[derive(Clone)]
struct Shared(Arc<Mutex<Verified>>);

impl AtHand {
    /// The same stream, which is the layer at hand from now on.
    pub(super) fn put(&self, layer: Verified) -> Box<dyn Stream> {
        let shared = Shared(Arc::new(Mutex::new(layer)));
        *lock(&self.0) = Some(shared.clone());
        Box::new(shared)
    }

    /// Reads what is left of it: fails if it is not what its digest says.
    pub(super) fn verify(&self) -> Result<()> {
        let Some(mut layer) = lock(&self.0).take() else { return Ok(()) };
        while layer.next()?.is_some() {}
        Ok(())
    }
}

impl Stream for Shared {
    fn next(&mut self) -> Result<Option<Piece>> {
        lock(&self.0).next()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
