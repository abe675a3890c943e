//! Bytes on their way from a socket into the store.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use dvcr_oci::{Algorithm, Digest, Hasher, Name};
use http_body_util::BodyExt;
use hyper::body::Frame;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::api::blocking;
use crate::error::{Error, Kind, Result};
use crate::intake::Intake;
use crate::metrics::Metrics;
use crate::store::{Store, Upload};

/// What is known of the uploads of this process: their hashes so far, and who writes to them.
pub(crate) struct Pushes {
    known: Mutex<HashMap<String, Known>>,
    /// Uploads for which there was no room, when they ended, and the words for it: whoever did not get the answer, and asks
    /// how far his upload has come, gets it again.
    refused: Mutex<HashMap<String, (Instant, Error)>>,
    metrics: Arc<Metrics>,
    /// A client that sends nothing for so long is gone.
    patience: Duration,
}

#[derive(Default)]
struct Known {
    /// The hash of so many bytes.
    hash: Option<(u64, Hasher)>,
    /// Tells who writes that somebody else wants to.
    stop: Option<Arc<Notify>>,
}

/// An upload that is being written.
pub(crate) struct Push {
    pushes: Arc<Pushes>,
    id: String,
    len: u64,
    /// Absent while it is being written or hashed, and after an error in that.
    parts: Option<(Upload, Option<Hasher>)>,
    algorithm: Algorithm,
    stop: Arc<Notify>,
}

impl Pushes {
    pub(crate) fn new(metrics: Arc<Metrics>, patience: Duration) -> Arc<Self> {
        Arc::new(Self { known: Mutex::default(), refused: Mutex::default(), metrics, patience })
    }

    /// The next bytes of a body; `None` at its end.
    pub(crate) async fn next<E: std::error::Error>(
        &self,
        frame: impl Future<Output = Option<Result<Frame<Bytes>, E>>>,
    ) -> Result<Option<Bytes>> {
        match tokio::time::timeout(self.patience, frame).await {
            Ok(None) => Ok(None),
            // Trailers are nothing to us.
            Ok(Some(Ok(frame))) => Ok(Some(frame.into_data().unwrap_or_default())),
            Ok(Some(Err(error))) => {
                Err(Error::new(Kind::UploadInvalid, format!("the connection broke within the body: {error}")))
            }
            Err(_) => {
                let seconds = self.patience.as_secs();
                Err(Error::new(Kind::Stalled, format!("nothing came for {seconds} s: go on with what is there")))
            }
        }
    }

    /// Goes on with an upload. Whoever still writes to it in this process is stopped: his client has given up, or it
    /// would not ask again.
    pub(crate) async fn resume(self: &Arc<Self>, store: &Store, name: &Name, id: &str) -> Result<Push> {
        let mut tries = 0;
        let upload = loop {
            let (store, name, id) = (store.clone(), name.clone(), id.to_owned());
            let upload = {
                let id = id.clone();
                blocking(move || store.upload(&name, &id)).await
            };
            match upload {
                Err(error) if error.kind() == Kind::TooManyRequests && tries < TRIES => {
                    tries += 1;
                    if let Ok(known) = self.known.lock()
                        && let Some(stop) = known.get(&id).and_then(|known| known.stop.as_ref())
                    {
                        stop.notify_one();
                    }
                    tokio::time::sleep(RETRY).await;
                }
                Err(error) => return Err(self.recall(&id, error)),
                Ok(upload) => break upload,
            }
        };
        let hash = self.known.lock().ok().and_then(|mut known| known.get_mut(id)?.hash.take());
        let hasher = hash.filter(|(len, _)| *len == upload.len()).map(|(_, hasher)| hasher);
        // An earlier request may have said that another digest is to come.
        let algorithm = hasher.as_ref().map_or(Algorithm::default(), Hasher::algorithm);
        Ok(Push::new(self, upload, hasher, algorithm))
    }

    /// What to say of an upload that is not there: why it ended, if that was not long ago.
    pub(crate) fn recall(&self, id: &str, error: Error) -> Error {
        if error.kind() != Kind::UploadUnknown {
            return error;
        }
        let refused = self.refused.lock().ok();
        let known = refused.as_ref().and_then(|refused| refused.get(id)).filter(|(at, _)| at.elapsed() < RECALLED);
        known.map_or(error, |(_, why)| why.clone())
    }

    fn refuse(&self, id: &str, why: &Error) {
        let Ok(mut refused) = self.refused.lock() else { return };
        refused.retain(|_, (at, _)| at.elapsed() < RECALLED);
        if refused.len() < MAX_KNOWN {
            refused.insert(id.to_owned(), (Instant::now(), why.clone()));
        }
    }

    fn forget(&self, id: &str) {
        if let Ok(mut known) = self.known.lock() {
            known.remove(id);
        }
    }
}

impl Push {
    /// A new upload.
    pub(crate) fn begin(pushes: &Arc<Pushes>, upload: Upload, algorithm: Algorithm) -> Self {
        Self::new(pushes, upload, None, algorithm)
    }

    fn new(pushes: &Arc<Pushes>, upload: Upload, hasher: Option<Hasher>, algorithm: Algorithm) -> Self {
        let stop = Arc::new(Notify::new());
        if let Ok(mut known) = pushes.known.lock() {
            if known.len() >= MAX_KNOWN {
                // A hash that is forgotten is made anew by reading.
                known.retain(|_, known| known.stop.is_some());
            }
            known.entry(upload.id().to_owned()).or_default().stop = Some(Arc::clone(&stop));
        }
        pushes.metrics.pushes.fetch_add(1, Ordering::Relaxed);
        let (id, len) = (upload.id().to_owned(), upload.len());
        Self { pushes: Arc::clone(pushes), id, len, parts: Some((upload, hasher)), algorithm, stop }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// How many bytes are in the store.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// What it will be known by in the end.
    pub(crate) fn expect(&mut self, algorithm: Algorithm) {
        if algorithm != self.algorithm {
            self.algorithm = algorithm;
            if let Some((_, hasher)) = &mut self.parts {
                *hasher = None;
            }
        }
    }

    fn take(&mut self) -> Result<(Upload, Option<Hasher>)> {
        self.parts.take().ok_or_else(|| Error::new(Kind::Internal, "an upload was lost"))
    }

    /// Appends a body. Three things happen at once: one batch comes from the network, the one before is hashed, and is
    /// written. What came before an error stays, so that the client can go on.
    ///
    /// Memory: two batches.
    pub(crate) async fn receive(&mut self, mut body: Intake) -> Result<()> {
        let (upload, hasher) = self.take()?;
        let algorithm = self.algorithm;
        // A new process reads what the old one has written.
        let (upload, hasher) = blocking(move || {
            let hasher = match hasher {
                Some(hasher) => hasher,
                None => upload.hash(algorithm)?,
            };
            Ok((upload, hasher))
        })
        .await?;
        let mut flight = Flight { idle: Some((upload, hasher)), busy: None, broken: None };
        let received = self.feed(&mut body, &mut flight).await;
        let landed = flight.land().await;
        if let Some(upload) = flight.broken.take() {
            let error = received.err().or(landed.err()).unwrap_or_else(lost);
            if error.kind() == Kind::Full {
                // What there is of it takes the room that it lacks.
                self.discard(upload, &error).await;
            }
            return Err(error);
        }
        let (upload, hasher) = landed?;
        self.len = upload.len();
        match received {
            Err(error) if error.kind() == Kind::Full => {
                self.discard(upload, &error).await;
                Err(error)
            }
            other => {
                self.parts = Some((upload, Some(hasher)));
                other
            }
        }
    }

    async fn feed(&self, body: &mut Intake, flight: &mut Flight) -> Result<()> {
        let mut batch = Vec::new();
        let mut size = 0;
        let stopped = self.stop.notified();
        tokio::pin!(stopped);
        loop {
            let frame = tokio::select! {
                frame = self.pushes.next(body.frame()) => frame,
                () = &mut stopped => Err(Error::new(Kind::UploadInvalid, "another request goes on with this upload")),
            };
            match frame {
                Ok(Some(bytes)) => {
                    self.pushes.metrics.received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                    size += bytes.len();
                    batch.push(bytes);
                    if size >= MAX_BATCH || batch.len() >= MAX_PIECES {
                        flight.start(std::mem::take(&mut batch)).await?;
                        size = 0;
                    }
                }
                Ok(None) => return flight.start(batch).await,
                Err(error) => {
                    flight.start(batch).await?;
                    return Err(error);
                }
            }
        }
    }

    /// Makes it a blob, if its digest is the one that the client says; else nothing is left of it.
    pub(crate) async fn commit(mut self, digest: &Digest) -> Result<()> {
        let (upload, hasher) = self.take()?;
        let (digest, algorithm) = (*digest, self.algorithm);
        blocking(move || {
            let hasher = match hasher {
                Some(hasher) => hasher,
                None => upload.hash(algorithm)?,
            };
            let actual = hasher.finish();
            if actual != digest {
                upload.cancel()?;
                let message = format!("the content is {actual}, not {digest}: it was thrown away");
                return Err(Error::new(Kind::DigestInvalid, message));
            }
            upload.commit(&digest)
        })
        .await?;
        self.pushes.forget(&self.id);
        Ok(())
    }

    /// Removes it.
    pub(crate) async fn cancel(mut self) -> Result<()> {
        let Ok((upload, _)) = self.take() else { return Ok(()) };
        blocking(move || upload.cancel()).await?;
        self.pushes.forget(&self.id);
        Ok(())
    }

    /// Removes it, because there is no room for it. It can't become whole, and what it has brought would keep the place of
    /// what could help.
    pub(crate) async fn give_up(mut self, why: &Error) {
        if let Ok((upload, _)) = self.take() {
            self.discard(upload, why).await;
        }
    }

    async fn discard(&self, upload: Upload, why: &Error) {
        self.pushes.refuse(&self.id, why);
        if let Err(error) = blocking(move || upload.cancel()).await {
            tracing::warn!("an upload for which there was no room could not be removed: {error}");
        }
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        self.pushes.metrics.pushes.fetch_sub(1, Ordering::Relaxed);
        let Ok(mut known) = self.pushes.known.lock() else { return };
        let Some(entry) = known.get_mut(&self.id) else { return };
        let is_ours = entry.stop.as_ref().is_some_and(|stop| Arc::ptr_eq(stop, &self.stop));
        if !is_ours {
            return;
        }
        entry.stop = None;
        match self.parts.take() {
            Some((upload, Some(hasher))) => entry.hash = Some((upload.len(), hasher)),
            _ => {
                known.remove(&self.id);
            }
        }
    }
}

/// An upload, and whether it could be written.
type Written = (Upload, Result<()>);

/// One batch that is being written and hashed.
struct Flight {
    idle: Option<(Upload, Hasher)>,
    busy: Option<(JoinHandle<Written>, JoinHandle<Hasher>)>,
    /// The upload, after it could not be written.
    broken: Option<Upload>,
}

impl Flight {
    /// Waits for the batch before and sends this one.
    async fn start(&mut self, batch: Vec<Bytes>) -> Result<()> {
        let (mut upload, mut hasher) = self.land().await?;
        if batch.is_empty() {
            self.idle = Some((upload, hasher));
            return Ok(());
        }
        let same = batch.clone();
        let hashing = tokio::task::spawn_blocking(move || {
            for bytes in &same {
                hasher.update(bytes);
            }
            hasher
        });
        let writing = tokio::task::spawn_blocking(move || {
            let written = upload.append(&batch);
            (upload, written)
        });
        self.busy = Some((writing, hashing));
        Ok(())
    }

    /// Waits until nothing is under way.
    async fn land(&mut self) -> Result<(Upload, Hasher)> {
        match (self.idle.take(), self.busy.take()) {
            (Some(parts), _) => Ok(parts),
            (None, Some((writing, hashing))) => {
                let (writing, hashing) = (writing.await, hashing.await);
                let (upload, written) = writing.map_err(|_| lost())?;
                match written {
                    Ok(()) => Ok((upload, hashing.map_err(|_| lost())?)),
                    Err(error) => {
                        self.broken = Some(upload);
                        Err(error)
                    }
                }
            }
            (None, None) => Err(lost()),
        }
    }
}

fn lost() -> Error {
    Error::new(Kind::Internal, "a thread that writes an upload ended early")
}

/// Bytes that are written by one call and hashed by one thread at a time.
const MAX_BATCH: usize = 512 << 10;
/// A client that sends one byte at a time has a batch of so many.
const MAX_PIECES: usize = 256;
/// Hashes of uploads that nobody writes to; and uploads that are no more.
const MAX_KNOWN: usize = 4096;
/// Clients that did not get an answer ask again within seconds.
const RECALLED: Duration = Duration::from_secs(60);
/// How long one request waits for another to let go of an upload.
const TRIES: u32 = 200;
const RETRY: Duration = Duration::from_millis(25);
