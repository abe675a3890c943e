//! A blob that is pushed while it is made.

use bytes::Bytes;
use dvcr_oci::Digest;
use dvcr_transport::{self as transport, Budget};
use tokio::task::JoinHandle;

use crate::error::{Error, Kind, Result};
use crate::push::Pushed;
use crate::repository::Repository;
use crate::server::{Failure, wait};
use crate::session::Session;

/// A blob that is pushed while it is made, when neither its length nor its digest are known.
///
/// What fits into one chunk is sent whole. More is sent a chunk at a time, one on its way while the next one is filled: so
/// two chunks are in memory. A chunk that fails is sent again from where the registry has it. Dropping an upload leaves it
/// to the registry, which forgets it after a while; nothing is stored.
#[derive(Debug)]
pub struct Upload {
    repository: Repository,
    state: State,
    /// What is not on its way yet.
    pieces: Vec<Bytes>,
    filled: usize,
    /// How much is sent at a time.
    chunk: usize,
    /// Bytes of all that was written.
    len: u64,
}

#[derive(Debug)]
enum State {
    /// Nothing was asked for.
    New,
    /// It is begun, and nothing was sent.
    Begun(Box<Sender>),
    Sends(JoinHandle<(Box<Sender>, Result<()>)>),
    Failed(Error),
}

/// Sends chunks, one after the other.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) repository: Repository,
    pub(crate) session: Session,
    /// The most that is sent at a time; less once that was too much for somebody in between.
    pub(crate) most: usize,
}

impl Repository {
    /// Begins to push a blob. Asks for nothing before there is a chunk of it.
    #[must_use]
    pub fn upload(&self) -> Upload {
        let chunk = self.chunk.max(MIN_CHUNK);
        Upload { repository: self.clone(), state: State::New, pieces: Vec::new(), filled: 0, chunk, len: 0 }
    }
}

impl Upload {
    /// How many bytes were written.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Begins it now, and not only when there is a chunk of it: which shows that the registry can be reached, and lets us
    /// push.
    ///
    /// # Errors
    ///
    /// See [`Kind`]; final.
    pub async fn begin(&mut self) -> Result<()> {
        if matches!(self.state, State::New) {
            self.state = State::Begun(self.sender().await?);
        }
        Ok(())
    }

    /// The next bytes. Waits while both chunks are full.
    ///
    /// # Errors
    ///
    /// That of a chunk before it; final.
    pub async fn write(&mut self, mut bytes: Bytes) -> Result<()> {
        if let State::Failed(error) = &self.state {
            return Err(error.clone());
        }
        self.len = self.len.saturating_add(bytes.len() as u64);
        while !bytes.is_empty() {
            let room = self.chunk.saturating_sub(self.filled).max(1);
            let piece = bytes.split_to(room.min(bytes.len()));
            self.filled += piece.len();
            self.pieces.push(piece);
            // One byte more than a chunk shows that it is not the last one.
            if self.filled >= self.chunk && !bytes.is_empty() {
                self.flush().await?;
            }
        }
        Ok(())
    }

    /// Puts what is filled on its way.
    async fn flush(&mut self) -> Result<()> {
        let mut sender = self.sender().await?;
        let pieces = std::mem::take(&mut self.pieces);
        self.filled = 0;
        self.state = State::Sends(tokio::spawn(async move {
            let sent = sender.send(&pieces).await;
            (sender, sent)
        }));
        Ok(())
    }

    /// Waits until nothing is on its way.
    async fn sender(&mut self) -> Result<Box<Sender>> {
        let failed = |error: &Error| State::Failed(error.clone());
        match std::mem::replace(&mut self.state, State::Failed(interrupted())) {
            State::New => match Session::begin(&self.repository).await {
                Ok(session) => {
                    let sender = Sender::of(&self.repository, session);
                    self.chunk = sender.most;
                    Ok(Box::new(sender))
                }
                Err(error) => {
                    self.state = failed(&error);
                    Err(error)
                }
            },
            State::Begun(sender) => Ok(sender),
            State::Sends(task) => match task.await {
                Ok((sender, Ok(()))) => Ok(sender),
                Ok((sender, Err(error))) => {
                    self.state = failed(&error);
                    if !error.is_transient() {
                        // It can't become whole, and would take room there until it is forgotten.
                        let Sender { session, .. } = *sender;
                        session.cancel().await;
                    }
                    Err(error)
                }
                Err(_) => Err(interrupted()),
            },
            State::Failed(error) => {
                self.state = failed(&error);
                Err(error)
            }
        }
    }

    /// Sends the rest, and tells the registry the digest of all that was written, which the registry compares. If it has
    /// turned out to be a blob that is there already, the upload is given up instead: so a registry need not hash or move
    /// it once more.
    ///
    /// # Errors
    ///
    /// `Kind::Mismatch` if the registry has got something else; and whatever went wrong before. Nothing is stored then.
    pub async fn finish(mut self, digest: &Digest) -> Result<Pushed> {
        let whole = matches!(self.state, State::New | State::Begun(_));
        let known = !matches!(self.state, State::Failed(_)) && self.repository.is_known(digest, self.len).await;
        if known {
            self.cancel().await;
            return Ok(Pushed::Existed);
        }
        let mut sender = self.sender().await?;
        let pieces = std::mem::take(&mut self.pieces);
        if whole && sender.whole(digest, &pieces).await? {
            return Ok(Pushed::Sent);
        }
        sender.send(&pieces).await?;
        sender.end(digest).await?;
        Ok(Pushed::Sent)
    }

    /// Gives it up, and tells the registry so.
    pub async fn cancel(mut self) {
        if !matches!(self.state, State::New)
            && let Ok(sender) = self.sender().await
        {
            sender.session.cancel().await;
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let State::Sends(task) = &self.state {
            task.abort();
        }
    }
}

fn interrupted() -> Error {
    Error::new(Kind::Transient, "the upload was interrupted: start it again")
}

impl Sender {
    fn budget(&self) -> Budget {
        self.repository.server.budget()
    }

    /// Sends all of a small blob with the request that ends it; false if it has to be sent in another way.
    async fn whole(&mut self, digest: &Digest, pieces: &[Bytes]) -> Result<bool> {
        let mut budget = self.budget();
        loop {
            let failure = match self.session.end(digest, pieces).await {
                Ok(()) => return Ok(true),
                Err(failure) => failure,
            };
            if is_unwanted(&failure) {
                // An upload that was refused is not always there any more.
                self.session = Session::begin(&self.repository).await?;
                return Ok(false);
            }
            let lost = is_lost(&failure);
            if !lost {
                wait(&mut budget, failure).await.map_err(|failure| self.repository.error(failure))?;
            } else if let Err(error) = budget.failed(failure.error.transient()) {
                return Err(self.repository.error(error));
            }
            self.session = Session::begin(&self.repository).await?;
        }
    }

    /// Sends these bytes, which follow what the registry has, as often as it takes.
    pub(crate) async fn send(&mut self, pieces: &[Bytes]) -> Result<()> {
        let start = self.session.offset;
        let len: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        let mut budget = self.budget();
        while self.session.offset < start.saturating_add(len) {
            let before = self.session.offset;
            let rest = part(pieces, before - start, self.most);
            let failure = match self.session.send(&rest).await {
                Ok(()) => {
                    budget.progress(self.session.offset - before);
                    if self.session.offset > before {
                        continue;
                    }
                    let message = format!("the registry takes nothing more of the upload, which is at {before}");
                    transport::Error::new(transport::Kind::Stalled, message).into()
                }
                Err(failure) => failure,
            };
            if failure.status() == Some(413) && self.most > MIN_CHUNK {
                // Somebody in between has a limit.
                self.most = (self.most / 2).max(MIN_CHUNK);
                tracing::info!(most = self.most, "smaller chunks are sent");
            } else if is_lost(&failure) || failure.status() == Some(416) {
                if let Err(error) = budget.failed(failure.error.transient()) {
                    return Err(self.repository.error(error));
                }
            } else {
                wait(&mut budget, failure).await.map_err(|failure| self.failed(failure, before))?;
            }
            self.find(start, start.saturating_add(len), &mut budget).await?;
        }
        Ok(())
    }

    /// Finds out what the registry has, which must be between `start` and `end`.
    async fn find(&mut self, start: u64, end: u64, budget: &mut Budget) -> Result<()> {
        let before = self.session.offset;
        loop {
            let failure = match self.session.ask().await {
                Ok(()) if (start..=end).contains(&self.session.offset) => return Ok(()),
                Ok(()) => {
                    let has = self.session.offset;
                    let message =
                        format!("the registry has {has} bytes of an upload that is at {before}: start it again");
                    let error = transport::Error::new(transport::Kind::Stalled, message);
                    Failure { error, refusal: None }
                }
                Err(failure) if failure.error.is_transient() && !is_lost(&failure) => {
                    wait(budget, failure).await.map_err(|failure| self.failed(failure, before))?;
                    continue;
                }
                Err(failure) => failure,
            };
            if start > 0 {
                return Err(self.failed(Failure { error: failure.error.transient(), ..failure }, before));
            }
            // All of it is here still.
            self.session = Session::begin(&self.repository).await?;
            return Ok(());
        }
    }

    /// Tells the registry that it has all of it, as often as it takes.
    pub(crate) async fn end(&mut self, digest: &Digest) -> Result<()> {
        let mut budget = self.budget();
        let at = self.session.offset;
        let mut tried = false;
        loop {
            let failure = match self.session.end(digest, &[]).await {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            // It may have been done although nobody said so.
            let again = tried && is_lost(&failure);
            if (again || failure.error.is_transient()) && self.repository.is_known(digest, at).await {
                return Ok(());
            }
            tried = true;
            wait(&mut budget, failure).await.map_err(|failure| self.failed(failure, at))?;
        }
    }

    fn failed(&self, failure: Failure, offset: u64) -> Error {
        self.repository.error(Error::from(failure).and(format_args!("the upload is at offset {offset}")))
    }

    /// Where it is sent to.
    pub(crate) fn of(repository: &Repository, session: Session) -> Self {
        let most = repository.chunk.max(MIN_CHUNK).max(session.least.min(MAX_LEAST));
        Self { repository: repository.clone(), session, most }
    }
}

/// Whether the registry does not know the upload any more.
pub(crate) fn is_lost(failure: &Failure) -> bool {
    matches!(failure.status(), Some(404 | 410))
        || matches!(failure.code(), "BLOB_UPLOAD_UNKNOWN" | "BLOB_UPLOAD_INVALID")
}

/// Whether it is this way of sending that is refused: too large for somebody, or not known.
pub(crate) fn is_unwanted(failure: &Failure) -> bool {
    matches!(failure.status(), Some(405 | 411 | 413 | 415 | 501)) || failure.code() == "UNSUPPORTED"
}

/// `most` bytes from `skip` on.
fn part(pieces: &[Bytes], skip: u64, most: usize) -> Vec<Bytes> {
    let mut skip = usize::try_from(skip).unwrap_or(usize::MAX);
    let mut left = most;
    let mut part = Vec::new();
    for piece in pieces {
        let start = skip.min(piece.len());
        skip -= start;
        let end = start.saturating_add(left).min(piece.len());
        left -= end - start;
        if end > start {
            part.push(piece.slice(start..end));
        }
    }
    part
}

/// Less is not worth a request.
const MIN_CHUNK: usize = 256 << 10;
/// What a registry may want at least.
const MAX_LEAST: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_cut_out_without_a_copy() {
        let pieces = ["abc", "", "defg", "h"].map(|text| Bytes::from_static(text.as_bytes()));
        let text = |skip, most| {
            let part = part(&pieces, skip, most);
            String::from_utf8(part.concat()).unwrap()
        };
        assert_eq!(text(0, 100), "abcdefgh");
        assert_eq!(text(2, 3), "cde");
        assert_eq!(text(3, 4), "defg");
        assert_eq!(text(8, 1), "");
        assert_eq!(text(9, 1), "");
        assert_eq!(text(0, 0), "");
    }
}
