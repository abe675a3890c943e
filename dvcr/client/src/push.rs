//! A blob that is there already, and is pushed.

use std::io;

use bytes::Bytes;
use dvcr_oci::Descriptor;
use dvcr_transport::{self as transport, Feeder};

use crate::error::{Error, Kind, Result};
use crate::repository::Repository;
use crate::session::Session;
use crate::upload::{Sender, is_lost, is_unwanted};

/// What is pushed: bytes that can be read from anywhere, again if need be.
pub trait Content: Sync {
    /// Some of the bytes from `offset` on; none only at the end. A few hundred KiB at a time are good.
    ///
    /// # Errors
    ///
    /// That of whatever they are read from.
    fn at(&self, offset: u64) -> impl Future<Output = io::Result<Bytes>> + Send;
}

impl Content for Bytes {
    async fn at(&self, offset: u64) -> io::Result<Bytes> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        Ok(self.slice(start..))
    }
}

/// Whether something had to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It was there already.
    Existed,
    /// It was sent.
    Sent,
}

impl Repository {
    /// Pushes a blob, unless it is there: in one request, or by chunks where that is refused or breaks.
    ///
    /// # Errors
    ///
    /// `Kind::Content` for what the content says, `Kind::Mismatch` if it is not what the descriptor says, and see [`Kind`].
    pub async fn push(&self, blob: &Descriptor, content: &impl Content) -> Result<Pushed> {
        if self.exists(blob).await? {
            return Ok(Pushed::Existed);
        }
        let mut budget = self.server.budget();
        loop {
            let session = Session::begin(self).await?;
            match self.push_by(session, blob, content).await? {
                Step::Done => return Ok(Pushed::Sent),
                Step::Again(error) => {
                    let waits = budget.failed(error).map_err(|error| self.error(error))?;
                    tokio::time::sleep(waits).await;
                }
            }
        }
    }

    async fn push_by(&self, mut session: Session, blob: &Descriptor, content: &impl Content) -> Result<Step> {
        let mut unread = None;
        let sent = session
            .put(&blob.digest, blob.size, async |feeder| unread = feed(&feeder, content, blob.size).await.err())
            .await;
        if let Some(error) = unread {
            session.cancel().await;
            return Err(error);
        }
        let Err(failure) = sent else { return Ok(Step::Done) };
        if is_unwanted(&failure) {
            tracing::info!(error = %failure.error, "sent by chunks");
            session = Session::begin(self).await?;
        } else if failure.error.is_transient() && failure.refusal.is_none() {
            // It broke. What arrived may still be there, and if not, smaller pieces have a better chance.
            tracing::info!(error = %failure.error, "sent on by chunks");
            if self.exists(blob).await? {
                return Ok(Step::Done);
            }
            if session.ask().await.is_err() || session.offset > blob.size {
                session = Session::begin(self).await?;
            }
        } else if is_lost(&failure) {
            return Ok(Step::Again(failure.error.transient()));
        } else if failure.error.is_transient() && failure.status() != Some(507) {
            return Ok(Step::Again(failure.error));
        } else {
            return Err(self.error(failure));
        }
        let mut sender = Sender::of(self, session);
        while sender.session.offset < blob.size {
            let mut pieces = Vec::new();
            let mut len = 0;
            let start = sender.session.offset;
            while len < sender.most && start + (len as u64) < blob.size {
                let piece = read(content, start + len as u64, blob.size).await?;
                len += piece.len();
                pieces.push(piece);
            }
            match sender.send(&pieces).await {
                Ok(()) => {}
                // It can be read again from the start.
                Err(error) if error.is_transient() && start > 0 => {
                    return Ok(Step::Again(transport::Error::new(transport::Kind::Cut, error.to_string())));
                }
                Err(error) => return Err(error),
            }
        }
        sender.end(&blob.digest).await?;
        Ok(Step::Done)
    }
}

enum Step {
    Done,
    /// From the beginning, with what happened.
    Again(transport::Error),
}

/// Bytes from `offset` on, of content that has to have `len`.
async fn read(content: &impl Content, offset: u64, len: u64) -> Result<Bytes> {
    let unread =
        |why: &str| Error::new(Kind::Content, format!("what is pushed can't be read at offset {offset}: {why}"));
    let mut piece = content.at(offset).await.map_err(|error| unread(&error.to_string()))?;
    if piece.is_empty() {
        return Err(Error::new(Kind::Mismatch, format!("what is pushed ends at offset {offset} of {len}")));
    }
    piece.truncate(usize::try_from(len - offset).unwrap_or(usize::MAX));
    Ok(piece)
}

/// Feeds all of it, as long as somebody wants it.
async fn feed(feeder: &Feeder, content: &impl Content, len: u64) -> Result<()> {
    let mut offset = 0;
    while offset < len {
        match read(content, offset, len).await {
            Ok(piece) => {
                offset += piece.len() as u64;
                if !feeder.put(Ok(piece)).await {
                    return Ok(());
                }
            }
            Err(error) => {
                feeder.put(Err(io::Error::other(error.to_string()))).await;
                return Err(error);
            }
        }
    }
    Ok(())
}
