//! An upload as the registry knows it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dvcr_oci::Digest;
use dvcr_transport::{self as transport, Address, Ask, Feeder, Method, Payload, Reply};

use crate::auth::Auth;
use crate::error::Result;
use crate::repository::Repository;
use crate::server::Failure;
use crate::token::encoded;

/// An upload as the registry knows it: an address that changes with each answer, and how far it is.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    repository: Repository,
    /// Among the uploads of the repository.
    id: u64,
    auth: Arc<Auth>,
    /// Exactly as the registry gave it: with its query, relative or not, on whatever host.
    address: Address,
    /// Bytes that the registry has.
    pub(crate) offset: u64,
    /// The least it wants at a time, but for the last (`OCI-Chunk-Min-Length`).
    pub(crate) least: usize,
}

impl Session {
    /// Begins one.
    pub(crate) async fn begin(repository: &Repository) -> Result<Self> {
        let auth = repository.auth(true).await?;
        let address = repository.server.address(&repository.name, "blobs/uploads/").await?;
        let begun = repository.server.ask(&auth, &address, &|| Ask::new(Method::Post), &[200, 201, 202]);
        let reply = repository.uploads.unless_given_up(begun).await;
        let reply = reply.map_err(|failure| repository.push_error(failure))?;
        let least = reply.header("oci-chunk-min-length").and_then(|least| least.parse().ok()).unwrap_or(0);
        let id = repository.uploads.begin();
        let mut session = Self { repository: repository.clone(), id, auth, address, offset: 0, least };
        let found = session.moved(&reply).map_err(|failure| repository.error(failure))?;
        if !found {
            let error =
                transport::Error::new(transport::Kind::Protocol, "the registry does not say where to upload to");
            return Err(repository.error(error.at(&session.address)));
        }
        Ok(session)
    }

    /// Takes note of where to go on.
    fn moved(&mut self, reply: &Reply) -> Result<bool, Failure> {
        let Some(next) = reply.location()? else { return Ok(false) };
        if self.address.is_secure() && !next.is_secure() && !self.repository.server.is_lenient() {
            let message = format!(
                "it wants the upload sent to {next}, which is not secure: whoever runs it should let it know that it is \
                 reached by https (X-Forwarded-Proto)"
            );
            return Err(transport::Error::new(transport::Kind::Redirect, message).at(&self.address).into());
        }
        self.address = next;
        self.repository.uploads.moved(self.id, &self.auth, &self.address);
        Ok(true)
    }

    /// Sends bytes that follow what is there, once. Afterwards `offset` is what the registry has.
    pub(crate) async fn send(&mut self, pieces: &[Bytes]) -> Result<(), Failure> {
        let len: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        let (first, end) = (self.offset, self.offset.saturating_add(len));
        if len == 0 {
            return Ok(());
        }
        let make = || Ask {
            patience: Some(SLOW),
            ..Ask::new(Method::Patch)
                .header("content-type", "application/octet-stream")
                .header("content-range", format!("{first}-{}", end - 1))
                .payload(Payload::pieces(pieces.iter().cloned()))
        };
        let sent = self.repository.server.once(&self.auth, &self.address, &make, &[200, 201, 202, 204]);
        let reply = self.repository.uploads.unless_given_up(sent).await?;
        self.moved(&reply)?;
        // Some say nothing, and then have all of it; some say that they have less.
        self.offset = match reply.header("range").and_then(taken) {
            // One byte is not told from none.
            Some(0) if end == 1 => 1,
            Some(taken) if taken >= first && taken <= end => taken,
            _ => end,
        };
        Ok(())
    }

    /// Asks how far it is, once.
    pub(crate) async fn ask(&mut self) -> Result<(), Failure> {
        let asked =
            self.repository.server.once(&self.auth, &self.address, &|| Ask::new(Method::Get), &[200, 202, 204]).await;
        let reply = asked?;
        self.moved(&reply)?;
        match reply.header("range").and_then(taken) {
            Some(taken) => {
                self.offset = taken;
                Ok(())
            }
            None => {
                let error = transport::Error::new(
                    transport::Kind::Protocol,
                    "the registry does not say what it has of the upload",
                );
                Err(error.at(&self.address).into())
            }
        }
    }

    /// Says that it is complete, once; `pieces` are what is left of it.
    pub(crate) async fn end(&self, digest: &Digest, pieces: &[Bytes]) -> Result<(), Failure> {
        let make = || {
            let ask = Ask { patience: Some(COMMIT), ..Ask::new(Method::Put) };
            if pieces.is_empty() {
                return ask;
            }
            let len: usize = pieces.iter().map(Bytes::len).sum();
            let end = self.offset.saturating_add(len as u64).saturating_sub(1);
            let ask = ask.header("content-type", "application/octet-stream");
            let ask = if self.offset > 0 { ask.header("content-range", format!("{}-{end}", self.offset)) } else { ask };
            ask.payload(Payload::pieces(pieces.iter().cloned()))
        };
        let address = self.final_address(digest);
        let ended = self.repository.server.once(&self.auth, &address, &make, &[200, 201, 204]);
        let reply = self.repository.uploads.unless_given_up(ended).await?;
        self.repository.uploads.ended(self.id);
        tracing::debug!(status = reply.status, "uploaded");
        Ok(())
    }

    /// Sends the whole in one request, fed by `feed`. The credentials must be good already: it can't be sent twice.
    pub(crate) async fn put(&self, digest: &Digest, len: u64, feed: impl AsyncFnOnce(Feeder)) -> Result<(), Failure> {
        let (feeder, payload) = Payload::fed(Some(len));
        let payload = std::sync::Mutex::new(Some(payload));
        let make = || {
            let payload = payload.lock().ok().and_then(|mut payload| payload.take());
            let ask = Ask { patience: Some(COMMIT), ..Ask::new(Method::Put) };
            let ask = ask.header("content-type", "application/octet-stream");
            match payload {
                Some(payload) => ask.payload(payload),
                // Never: it is made once.
                None => ask,
            }
        };
        let address = self.final_address(digest);
        let server = &self.repository.server;
        // It can't be repeated, whatever becomes of the credentials.
        let sent = Box::pin(server.attempt(&self.auth, &address, &make, &[200, 201, 204], 0));
        let sent = self.repository.uploads.unless_given_up(sent);
        let (sent, ()) = tokio::join!(sent, feed(feeder));
        sent?;
        self.repository.uploads.ended(self.id);
        Ok(())
    }

    /// Gives it up; nobody minds if that fails.
    pub(crate) async fn cancel(self) {
        self.repository.uploads.ended(self.id);
        self.repository.forget(&self.auth, self.address.clone()).await;
    }

    fn final_address(&self, digest: &Digest) -> Address {
        self.address.clone().with_query(&format!("digest={}", encoded(&digest.to_string())))
    }
}

/// How many bytes `Range: 0-9`, or `bytes=0-9`, means; `0-0` is what they say of nothing and of one byte.
pub(crate) fn taken(range: &str) -> Option<u64> {
    let range = range.trim();
    let range = range.strip_prefix("bytes").map_or(range, |rest| rest.trim_start_matches(['=', ' ']));
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    if first != 0 {
        return None;
    }
    if last == 0 { Some(0) } else { last.checked_add(1) }
}

/// What a disk may take that stores a chunk.
const SLOW: Duration = Duration::from_secs(120);
/// What a registry may take that hashes the whole again, or copies it to where it belongs.
const COMMIT: Duration = Duration::from_secs(900);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_said_in_several_ways() {
        for (range, bytes) in
            [("0-9", Some(10)), ("bytes=0-9", Some(10)), ("bytes 0-9", Some(10)), ("0-0", Some(0)), (" 0-1 ", Some(2))]
        {
            assert_eq!(taken(range), bytes, "{range}");
        }
        for range in ["", "9", "1-9", "0-", "-9", "0-x", "bytes", "0-18446744073709551615", "0--1"] {
            assert_eq!(taken(range), None, "{range}");
        }
    }
}
