//! Where an image is pushed to.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use dvcr_client::{Repository, Target, Upload};
use dvcr_oci::{Descriptor, Digest, Name, Reference, Tag, media};

use crate::described::Described;
use crate::network::Network;
use crate::registry::{Registry, failed};
use crate::sink::Claim;
use crate::{Error, Kind, Result};

/// What was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Where it is, with its tag.
    pub reference: String,
    /// Of the manifest.
    pub digest: String,
    /// For which machines it is.
    pub platform: String,
}

/// Where it is said what was pushed, once it is.
pub type Receipt = Arc<OnceLock<Pushed>>;

/// A tag in a registry that one image is pushed to. Cheap to clone; the clones are about the same push.
///
/// The tag is set last. Whatever fails before leaves none, and no upload that the registry would have to keep: that is for
/// whoever pushes ([`give_up`](Self::give_up)), or gives the push up from another thread ([`Claim::abandon`]).
#[derive(Clone)]
pub struct Destination {
    reference: Reference,
    tag: Tag,
    pub(crate) repository: Repository,
    network: Arc<Network>,
    /// Begun to see whether it can be; then it is for the layer.
    upload: Arc<Mutex<Option<Upload>>>,
    claim: Claim,
}

impl Destination {
    /// For `reference`, which has a tag; without one, `latest`. Connects to nothing.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` for a reference with a digest: that is known only at the end.
    pub fn new(registry: &Registry, reference: &Reference) -> Result<Self> {
        if reference.digest().is_some() {
            let message =
                format!("docker://{reference}: a target has a tag and no digest, which comes of what is pushed");
            return Err(Error::new(Kind::Usage, message));
        }
        let repository = registry.client.repository_of(reference);
        let network = Arc::clone(&registry.network);
        let stop = {
            let (repository, network) = (repository.clone(), Arc::clone(&network));
            move || give_up(&repository, &network)
        };
        Ok(Self {
            tag: reference.tag().cloned().unwrap_or_else(Tag::latest),
            reference: reference.clone(),
            upload: Arc::new(Mutex::new(Some(repository.upload()))),
            repository,
            network,
            claim: Claim::abroad(stop),
        })
    }

    /// Finds out whether the registry is there and lets us push, before anything is done that would be in vain.
    ///
    /// # Errors
    ///
    /// What it says, or that it can't be reached.
    pub fn check(&self) -> Result<()> {
        let Some(mut upload) = self.upload().take() else { return Ok(()) };
        let (upload, begun) = self.network.wait(async move {
            let begun = upload.begin().await;
            (upload, begun)
        })?;
        *self.upload() = Some(upload);
        begun.map_err(failed)
    }

    /// For whoever may have to give the push up.
    #[must_use]
    pub fn claim(&self) -> Claim {
        self.claim.clone()
    }

    /// How a person knows it.
    #[must_use]
    pub fn name(&self) -> String {
        format!("docker://{}", self.reference)
    }

    fn upload(&self) -> MutexGuard<'_, Option<Upload>> {
        self.upload.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something that the network does.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = dvcr_client::Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.network.wait(work)?.map_err(failed)
    }

    /// The next bytes of the layer. Waits while the registry is slower.
    pub(crate) fn write(&self, bytes: Bytes) -> Result<()> {
        let given_up = || Error::new(Kind::Ours, "an upload was given up");
        let mut upload = self.upload().take().ok_or_else(given_up)?;
        let (upload, written) = self.network.wait(async move {
            let written = upload.write(bytes).await;
            (upload, written)
        })?;
        *self.upload() = Some(upload);
        written.map_err(failed)
    }

    /// All of the layer was written. What the registry then says of it has to be true.
    pub(crate) fn end_layer(&self, layer: &Descriptor) -> Result<()> {
        let upload = self.upload().take().ok_or_else(|| Error::new(Kind::Ours, "there is no upload"))?;
        let (repository, layer) = (self.repository.clone(), layer.clone());
        self.wait(async move {
            upload.finish(&layer.digest).await?;
            repository.check_length(&layer).await
        })
    }

    /// Whether a blob is there, or could be taken over from the repository `near` of the same registry.
    pub(crate) fn has(&self, blob: &Descriptor, near: Option<&Name>) -> Result<bool> {
        let (repository, blob, near) = (self.repository.clone(), blob.clone(), near.cloned());
        self.wait(async move {
            if repository.exists(&blob).await? {
                return Ok(true);
            }
            let Some(near) = near else { return Ok(false) };
            match repository.mount(&blob.digest, &near).await {
                // Some say so and have nothing.
                Ok(true) => repository.exists(&blob).await,
                Ok(false) => Ok(false),
                Err(error) if error.is_transient() => Err(error),
                // It is not for us to take it from there; but we can bring it.
                Err(error) => {
                    tracing::info!(%error, "the blob is not mounted");
                    Ok(false)
                }
            }
        })
    }

    /// Brings something small there. Gives how many bytes were sent: none if it was there.
    pub(crate) fn place(&self, blob: &Descriptor, bytes: Bytes) -> Result<u64> {
        let (repository, blob) = (self.repository.clone(), blob.clone());
        self.wait(async move {
            Ok(match repository.push(&blob, &bytes).await? {
                dvcr_client::Pushed::Existed => 0,
                dvcr_client::Pushed::Sent => blob.size,
            })
        })
    }

    /// Everything is there: sets the tag, and looks whether it is.
    pub(crate) fn tag(&self, image: &Described) -> Result<Pushed> {
        let bytes = image.manifest().to_bytes();
        let digest = Digest::of(&bytes);
        self.claim.complete_abroad(|| {
            let (repository, tag) = (self.repository.clone(), Target::Tag(self.tag.clone()));
            self.wait(async move { repository.put_manifest(&tag, media::OCI_MANIFEST, bytes).await })
        })?;
        let reference = format!("docker://{}", self.reference.with_tag(self.tag.clone()));
        Ok(Pushed { reference, digest: digest.to_string(), platform: image.platform.to_string() })
    }

    /// Ends what is open, as far as the registry takes note of it in [`PARTING`].
    pub(crate) fn give_up(&self) {
        drop(self.upload().take());
        give_up(&self.repository, &self.network);
    }
}

fn give_up(repository: &Repository, network: &Network) {
    let ending = repository.clone();
    let ended = network.wait(async move { tokio::time::timeout(PARTING, ending.give_up()).await });
    if !matches!(ended, Ok(Ok(()))) {
        tracing::debug!(%repository, "what was begun is left to the registry");
    }
}

/// How long a registry has to take note that a push was given up.
const PARTING: Duration = Duration::from_secs(2);
