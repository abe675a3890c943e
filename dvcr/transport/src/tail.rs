//! The rest of an object, over as many connections as it takes, one after the other.

use std::hash::Hasher;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use twox_hash::XxHash3_64;

use crate::body::Body;
use crate::error::{Error, Kind, Result};
use crate::object::Object;
use crate::resource::{Request, Resource, Response};
use crate::retry::Budget;

/// The bytes of an object from an offset on, up to an end or to its own. When a connection fails it goes on at its offset,
/// if it is provably the same object:
///
/// - with a validator by a range with `If-Range`, or, where the server gives none, by the whole, of which the front is
///   skipped;
/// - without one by the whole, whose front must have the same hash as what came before.
pub(crate) struct Tail {
    resource: Resource,
    object: Arc<Object>,
    /// The offset of the byte that comes next.
    offset: u64,
    /// The offset behind the last one, where it is known.
    end: Option<u64>,
    body: Option<Body>,
    /// The offset at which the body was opened.
    began: u64,
    /// What the body still brings of what is known already.
    known: u64,
    /// What came from the first byte on; only without a validator.
    witness: Option<Witness>,
    budget: Budget,
    /// Whether a server that gives no range is read from the start, for this part alone.
    patient: bool,
    /// Whether the whole is asked for, because ranges can't be relied on.
    whole: bool,
    failed: Option<Error>,
}

/// The hash of the front of an object, and the one that a second answer has so far.
#[derive(Clone, Default)]
struct Witness {
    before: XxHash3_64,
    again: XxHash3_64,
}

impl Tail {
    /// The bytes from `offset` on, up to `end`. Asks for nothing yet.
    pub(crate) fn new(resource: Resource, object: Arc<Object>, offset: u64, end: Option<u64>) -> Self {
        let budget = Budget::new(resource.retry());
        let witness = object.validator.is_none().then(Witness::default);
        Self {
            resource,
            object,
            offset,
            end,
            body: None,
            began: offset,
            known: 0,
            witness,
            budget,
            patient: true,
            whole: false,
            failed: None,
        }
    }

    /// The same, with the answer that is there already: its body begins at `offset`.
    pub(crate) fn with(self, body: Body) -> Self {
        Self { body: Some(body), ..self }
    }

    /// The same, without asking for ranges: the front is skipped.
    pub(crate) fn whole(self) -> Self {
        Self { whole: true, ..self }
    }

    /// The same, but the whole instead of a range is an error of [`Kind::NoRanges`]: whoever reads many parts would read
    /// the whole for each.
    pub(crate) fn impatient(self) -> Self {
        Self { patient: false, ..self }
    }

    /// The offset of the byte that comes next.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// How many bytes are still to come, where it is known.
    pub(crate) fn left(&self) -> Option<u64> {
        self.end.map(|end| end.saturating_sub(self.offset))
    }

    /// The next bytes; `None` at the end. An error is final.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        loop {
            if self.end.is_some_and(|end| self.offset >= end) {
                return self.finish().await;
            }
            match self.step().await {
                Ok(Step::Bytes(bytes)) => return Ok(Some(bytes)),
                Ok(Step::Again) => {}
                Ok(Step::End) => return Ok(None),
                Err(error) => {
                    self.body = None;
                    tracing::debug!(%error, offset = self.offset, "a transfer failed");
                    self.resource.pace().failed(&error);
                    let of_the_range = matches!(error.kind(), Kind::NoRanges | Kind::Protocol | Kind::Mismatch);
                    if self.patient && !self.whole && of_the_range {
                        // Without a range there is nothing to get wrong.
                        self.whole = true;
                        continue;
                    }
                    match self.budget.failed(error) {
                        Ok(wait) => tokio::time::sleep(wait).await,
                        Err(error) => {
                            self.failed = Some(error.clone());
                            return Err(error);
                        }
                    }
                }
            }
        }
    }

    async fn step(&mut self) -> Result<Step> {
        let Some(body) = &mut self.body else {
            self.reopen().await?;
            return Ok(Step::Again);
        };
        let Some(mut bytes) = body.next().await? else {
            self.body = None;
            return match self.end {
                _ if self.known > 0 => Err(self.changed("it is shorter than it was")),
                // A server may send less than was asked for (RFC 9110, 15.3.7): the rest is asked for next.
                Some(_) if self.offset > self.began => Ok(Step::Again),
                Some(end) => {
                    let message = format!("the answer ended at offset {} of {end}", self.offset);
                    Err(Error::new(Kind::Cut, message).at(self.resource.address()))
                }
                None => {
                    self.end = Some(self.offset);
                    Ok(Step::End)
                }
            };
        };
        if self.known > 0 {
            let len = usize::try_from(self.known).unwrap_or(usize::MAX).min(bytes.len());
            let front = bytes.split_to(len);
            self.known -= len as u64;
            if let Some(witness) = &mut self.witness {
                witness.again.write(&front);
                if self.known == 0 && witness.again.finish() != witness.before.finish() {
                    return Err(self.changed("it begins with other bytes than before"));
                }
            }
            if bytes.is_empty() {
                return Ok(Step::Again);
            }
        }
        if let Some(end) = self.end {
            bytes.truncate(usize::try_from(end - self.offset).unwrap_or(usize::MAX));
        }
        if let Some(witness) = &mut self.witness {
            witness.before.write(&bytes);
        }
        let len = bytes.remaining() as u64;
        self.offset = self.offset.saturating_add(len);
        self.budget.progress(len);
        Ok(Step::Bytes(bytes))
    }

    /// At the end: lets the connection be used again if nothing more comes on it.
    async fn finish(&mut self) -> Result<Option<Bytes>> {
        let Some(mut body) = self.body.take().filter(|body| body.remaining() == Some(0)) else { return Ok(None) };
        match body.next().await {
            // More than was announced is not to be believed; a connection that breaks now has brought everything.
            Err(error) if error.kind() == Kind::Protocol => {
                self.failed = Some(error.clone());
                Err(error)
            }
            _ => Ok(None),
        }
    }

    /// Asks again, for what is left.
    async fn reopen(&mut self) -> Result<()> {
        let request = match &self.object.validator {
            Some(validator) if !self.whole => {
                let range = crate::ByteRange { start: self.offset, end: self.end };
                Request { range: Some(range), same: Some(validator.clone()) }
            }
            _ => Request::default(),
        };
        let response = self.resource.get(&request).await?;
        self.check(&response)?;
        if response.range.is_some() {
            self.known = 0;
        } else {
            if !self.patient && self.offset > 0 {
                let message = "the server gives no ranges any more";
                return Err(Error::new(Kind::NoRanges, message).at(self.resource.address()));
            }
            self.known = self.offset;
            if let Some(witness) = &mut self.witness {
                witness.again = XxHash3_64::default();
            }
        }
        self.began = self.offset;
        self.body = Some(response.body);
        Ok(())
    }

    /// Whether it is the same object, as far as the head of an answer tells.
    fn check(&self, response: &Response) -> Result<()> {
        let same = match (&self.object.validator, &response.validator) {
            (Some(before), Some(now)) => before.proves(now),
            (Some(_), None) => false,
            // Its bytes will be compared.
            (None, _) => true,
        };
        let as_long = self.object.len.zip(response.len).is_none_or(|(before, now)| before == now);
        if same && as_long && self.object.codings == response.codings {
            return Ok(());
        }
        Err(self.changed("start again"))
    }

    fn changed(&self, how: &str) -> Error {
        let message = format!("the object changed while it was read (at offset {}): {how}", self.offset);
        Error::new(Kind::Changed, message).at(self.resource.address())
    }
}

enum Step {
    Bytes(Bytes),
    Again,
    End,
}
