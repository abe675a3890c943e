//! Pushing blobs.

use std::sync::Arc;

use dvcr_oci::{Digest, Name};
use hyper::StatusCode;
use hyper::header::{CONTENT_LENGTH, CONTENT_RANGE, HeaderMap, HeaderName, HeaderValue, RANGE};

use super::answer::{Answer, empty, locate, refusal, set};
use super::route::parse_digest;
use super::{Api, Call, blocking};
use crate::auth::Action;
use crate::error::{Error, Kind, Result};
use crate::push::Push;

impl Api {
    pub(super) async fn begin_upload(self: &Arc<Self>, name: Name, call: Call) -> Result<Answer> {
        if let Some(digest) = call.query.first("mount") {
            let digest = parse_digest(digest)?;
            if self.mount(&name, &digest, &call).await? {
                return Ok(created(&name, &digest));
            }
        }
        let digest = call.query.first("digest").map(parse_digest).transpose()?;
        let length = length(call.request.headers())?;
        let (store, repository) = (self.store.clone(), name.clone());
        let expected = if digest.is_some() { length.unwrap_or_default() } else { 0 };
        let upload = blocking(move || store.begin(&repository, expected)).await?;
        let Some(digest) = digest else {
            return Ok(progress(StatusCode::ACCEPTED, &name, upload.id(), 0));
        };
        let body = call.request.into_body();
        let mut push = Push::begin(&self.pushes, upload, digest.algorithm());
        // A task of its own goes on with what came when the connection is gone.
        let pushed = tokio::spawn(async move {
            match push.receive(body).await {
                Ok(()) => push.commit(&digest).await,
                Err(error) => {
                    // Nobody knows the name of this upload, so nobody can go on with it.
                    push.cancel().await?;
                    Err(error)
                }
            }
        });
        joined(pushed.await)?;
        Ok(created(&name, &digest))
    }

    pub(super) async fn patch_upload(self: &Arc<Self>, name: Name, id: String, call: Call) -> Result<Answer> {
        let mut push = match self.resumed(&name, &id, call.request.headers()).await? {
            Resumed::Push(push) => push,
            Resumed::Misplaced(answer) => return Ok(answer),
        };
        let body = call.request.into_body();
        let received = tokio::spawn(async move {
            push.receive(body).await?;
            Ok(push.len())
        });
        let len = joined(received.await)?;
        Ok(progress(StatusCode::ACCEPTED, &name, &id, len))
    }

    pub(super) async fn put_upload(self: &Arc<Self>, name: Name, id: String, call: Call) -> Result<Answer> {
        let digest = call
            .query
            .first("digest")
            .ok_or_else(|| Error::new(Kind::DigestInvalid, "the last request of an upload says ?digest= what it is"))?;
        let digest = parse_digest(digest)?;
        let mut push = match self.resumed(&name, &id, call.request.headers()).await? {
            Resumed::Push(push) => push,
            Resumed::Misplaced(answer) => return Ok(answer),
        };
        let body = call.request.into_body();
        let pushed = tokio::spawn(async move {
            push.expect(digest.algorithm());
            push.receive(body).await?;
            push.commit(&digest).await
        });
        joined(pushed.await)?;
        Ok(created(&name, &digest))
    }

    pub(super) async fn upload_status(&self, name: Name, id: String) -> Result<Answer> {
        let (store, repository, upload) = (self.store.clone(), name.clone(), id.clone());
        let len = blocking(move || store.upload_len(&repository, &upload)).await;
        let len = len.map_err(|error| self.pushes.recall(&id, error))?;
        Ok(progress(StatusCode::NO_CONTENT, &name, &id, len))
    }

    pub(super) async fn cancel_upload(self: &Arc<Self>, name: Name, id: String) -> Result<Answer> {
        self.pushes.resume(&self.store, &name, &id).await?.cancel().await?;
        Ok(empty(StatusCode::NO_CONTENT))
    }

    /// Whether a blob of another repository became one of `name`. One that can't be mounted is uploaded instead.
    async fn mount(&self, name: &Name, digest: &Digest, call: &Call) -> Result<bool> {
        let sources: Vec<Name> = match call.query.first("from") {
            Some(from) => {
                let from = Name::parse(from).map_err(|error| Error::new(Kind::NameInvalid, error.to_string()))?;
                if !self.auth.allows(&call.identity, &Action::Pull(from.clone())) {
                    return Ok(false);
                }
                vec![from]
            }
            // Whoever may pull everything need not say from where.
            None if self.auth.allows_all(&call.identity) => Vec::new(),
            None => self.auth.repositories(&call.identity),
        };
        let is_anywhere = call.query.first("from").is_none() && self.auth.allows_all(&call.identity);
        let (store, name, digest) = (self.store.clone(), name.clone(), *digest);
        blocking(move || {
            let mut may = is_anywhere;
            for source in &sources {
                may |= store.has_blob(source, &digest)?;
            }
            Ok(may && store.mount(&name, &digest)?)
        })
        .await
    }

    /// The upload that a chunk with these headers belongs to, if it begins where that ends and there is room for it. Without
    /// room the upload is given up.
    async fn resumed(&self, name: &Name, id: &str, headers: &HeaderMap) -> Result<Resumed> {
        let push = self.pushes.resume(&self.store, name, id).await?;
        if let Some(answer) = misplaced(headers, name, &push)? {
            return Ok(Resumed::Misplaced(answer));
        }
        match self.announce(headers).await {
            Ok(()) => Ok(Resumed::Push(push)),
            Err(error) => {
                if error.kind() == Kind::Full {
                    push.give_up(&error).await;
                }
                Err(error)
            }
        }
    }

    /// Refuses what is said to be larger than there is room, before it is sent.
    async fn announce(&self, headers: &HeaderMap) -> Result<()> {
        let length = length(headers)?.unwrap_or_default();
        let store = self.store.clone();
        blocking(move || store.has_room(length)).await
    }
}

/// An upload that goes on, or the answer to a chunk that does not begin where it ends.
enum Resumed {
    Push(Push),
    Misplaced(Answer),
}

/// What a task has brought.
fn joined<T>(done: Result<Result<T>, tokio::task::JoinError>) -> Result<T> {
    done.unwrap_or_else(|error| Err(Error::new(Kind::Internal, format!("a task ended early: {error}"))))
}

/// The refusal of a chunk that does not begin where the upload ends.
fn misplaced(headers: &HeaderMap, name: &Name, push: &Push) -> Result<Option<Answer>> {
    let Some(range) = headers.get(CONTENT_RANGE) else { return Ok(None) };
    let invalid = |why: &str| Error::new(Kind::UploadInvalid, format!("the Content-Range of the chunk {why}"));
    let text = range.to_str().map_err(|_| invalid("is no text"))?;
    let (first, last) = parse_range(text).ok_or_else(|| invalid("is not like 0-9 or bytes 0-9/*"))?;
    if length(headers)? == Some(0) {
        // Some close an upload with the range of all of it, and nothing in it.
        return Ok(None);
    }
    let len = last.checked_sub(first).and_then(|len| len.checked_add(1));
    let len = len.ok_or_else(|| invalid("ends before it begins"))?;
    if length(headers)?.is_some_and(|length| length != len) {
        return Err(Error::new(
            Kind::SizeInvalid,
            "the Content-Range of the chunk is not as long as its Content-Length",
        ));
    }
    if first == push.len() {
        return Ok(None);
    }
    let message = format!("the chunk begins at {first}, but the upload has {} bytes: go on there", push.len());
    let mut answer = refusal(&Error::new(Kind::RangeInvalid, message), false);
    describe(&mut answer, name, push.id(), push.len());
    Ok(Some(answer))
}

/// Both ways in which clients write it: as the specification has it (`0-9`), and as HTTP has it (`bytes 0-9/*`).
fn parse_range(text: &str) -> Option<(u64, u64)> {
    let text = text.trim();
    let text = text.strip_prefix("bytes").map_or(text, |rest| rest.trim_start_matches([' ', '=']));
    let text = text.split('/').next()?;
    let (first, last) = text.split_once('-')?;
    let number = |text: &str| -> Option<u64> {
        let text = text.trim();
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
    };
    Some((number(first)?, number(last)?))
}

/// The length that a request announces, if it does.
fn length(headers: &HeaderMap) -> Result<Option<u64>> {
    let Some(value) = headers.get(CONTENT_LENGTH) else { return Ok(None) };
    let length = value.to_str().ok().and_then(|text| text.parse().ok());
    length.map(Some).ok_or_else(|| Error::new(Kind::SizeInvalid, "the Content-Length is no number"))
}

fn created(name: &Name, digest: &Digest) -> Answer {
    let mut answer = empty(StatusCode::CREATED);
    locate(&mut answer, &format!("/v2/{name}/blobs/{digest}"), Some(digest));
    answer
}

fn progress(status: StatusCode, name: &Name, id: &str, len: u64) -> Answer {
    let mut answer = empty(status);
    describe(&mut answer, name, id, len);
    answer
}

/// Says how far an upload has come. That of nothing is written like that of one byte: so all registries do.
fn describe(answer: &mut Answer, name: &Name, id: &str, len: u64) {
    locate(answer, &format!("/v2/{name}/blobs/uploads/{id}"), None);
    set(answer, RANGE, &format!("0-{}", len.saturating_sub(1)));
    if let Ok(id) = HeaderValue::from_str(id) {
        answer.headers_mut().insert(UUID, id);
    }
}

const UUID: HeaderName = HeaderName::from_static("docker-upload-uuid");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_a_range() {
        for text in ["0-9", "bytes 0-9", "bytes 0-9/10", "bytes 0-9/*", "bytes=0-9", " 0-9 "] {
            assert_eq!(parse_range(text), Some((0, 9)), "{text}");
        }
        for text in ["", "0", "-9", "0-", "a-b", "bytes", "bytes */10", "0-99999999999999999999999", "-1-5", "+0-9"] {
            assert_eq!(parse_range(text), None, "{text}");
        }
    }
}
