//! The bytes behind a digest.

use std::sync::Arc;

use bytes::Bytes;
use dvcr_oci::{Descriptor, Digest, Hasher};
use dvcr_transport::{Object, Resource, Transfer};

use crate::error::{Error, Kind, Result};
use crate::repository::Repository;

/// A blob in a registry, and in others that may have it too. Connects to nothing before it is opened.
#[derive(Clone, Debug)]
pub struct Blob {
    places: Vec<Repository>,
    descriptor: Descriptor,
}

/// A blob that is read.
#[derive(Debug)]
#[non_exhaustive]
pub struct Opened {
    /// To read ranges of it, now or later.
    pub resource: Resource,
    /// What is known about it: its length, and whether ranges can be read.
    pub object: Arc<Object>,
    /// All of it, from its first byte on: as it comes, resumed and read ahead, not verified.
    pub transfer: Transfer,
    descriptor: Descriptor,
    /// Where it is, for errors.
    place: String,
}

impl Blob {
    pub(crate) fn new(places: Vec<Repository>, descriptor: Descriptor) -> Self {
        Self { places, descriptor }
    }

    /// Type, digest and length.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Opens it at the first place that has it.
    ///
    /// # Errors
    ///
    /// See [`Kind`]; that of the last place.
    pub async fn open(&self) -> Result<Opened> {
        let mut last = None;
        for place in &self.places {
            match self.open_at(place).await {
                Ok(opened) => return Ok(opened),
                Err(error) => {
                    tracing::info!(%error, "the blob is not to be had there");
                    last = Some(match last {
                        None => error,
                        Some(before) => error.and(format_args!("and before it {before}")),
                    });
                }
            }
        }
        Err(last.unwrap_or_else(|| Error::new(Kind::Usage, "there is no registry to ask")))
    }

    async fn open_at(&self, place: &Repository) -> Result<Opened> {
        let Descriptor { digest, size, .. } = &self.descriptor;
        let address = place.server.address(&place.name, &format!("blobs/{digest}")).await?;
        let auth = place.auth(false).await?;
        let resource = place.server.transport.content(&address.to_string(), &digest.to_string(), *size, Some(auth));
        let resource = resource.map_err(|error| place.error(error))?;
        let (object, transfer) = resource.open().await.map_err(|error| place.error(error))?;
        let place = format!("{}: {address}", place.server.role);
        Ok(Opened { resource, object, transfer, descriptor: self.descriptor.clone(), place })
    }

    /// All its bytes, verified, of which there may be at most `most`.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); `Kind::Malformed` for a longer one, which is not asked for.
    pub async fn bytes(&self, most: usize) -> Result<Bytes> {
        if self.descriptor.size > most as u64 {
            let message =
                format!("{} has {} bytes, at most {most} are read", self.descriptor.digest, self.descriptor.size);
            return Err(Error::new(Kind::Malformed, message));
        }
        let mut reading = self.open().await?.verified();
        let mut all = Vec::new();
        while let Some(piece) = reading.next().await? {
            all.extend_from_slice(&piece);
        }
        Ok(all.into())
    }
}

impl Opened {
    /// What the registry is called in errors, for those of the parts that are public here.
    #[must_use]
    pub fn role(&self) -> &str {
        role(&self.place)
    }

    /// The same, verified while it is read. Costs the hash of it, on the thread that asks.
    #[must_use]
    pub fn verified(self) -> Verified {
        let Descriptor { digest, size, .. } = self.descriptor;
        let hasher = Some(Hasher::new(digest.algorithm()));
        Verified { transfer: self.transfer, hasher, digest, left: size, place: self.place }
    }
}

/// The bytes of a blob, which end well only if they are what they have to be.
#[derive(Debug)]
pub struct Verified {
    transfer: Transfer,
    /// `None` once it was compared.
    hasher: Option<Hasher>,
    digest: Digest,
    left: u64,
    place: String,
}

impl Verified {
    /// The next bytes, never empty; `None` after the last one, and only if length and digest are right.
    ///
    /// # Errors
    ///
    /// `Kind::Mismatch`, and as the transfer has them.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        let piece = self.transfer.next().await.map_err(|error| Error::from(error).at(role(&self.place)))?;
        let mismatch = |why: String| Error::new(Kind::Mismatch, format!("{}: {why}", self.place));
        let Some(piece) = piece else {
            if self.left > 0 {
                return Err(mismatch(format!("{} bytes are missing at its end", self.left)));
            }
            let Some(hasher) = self.hasher.take() else { return Ok(None) };
            let found = hasher.finish();
            return if found == self.digest {
                Ok(None)
            } else {
                Err(mismatch(format!("what came has the digest {found}")))
            };
        };
        self.left = match self.left.checked_sub(piece.len() as u64) {
            Some(left) => left,
            None => return Err(mismatch("it is longer than it has to be".into())),
        };
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&piece);
        }
        Ok(Some(piece))
    }
}

/// What stands before the address.
fn role(place: &str) -> &str {
    place.split(": ").next().unwrap_or_default()
}
