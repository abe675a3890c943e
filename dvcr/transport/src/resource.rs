//! One object of the web.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::StatusCode;
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue, IF_RANGE, RANGE, WWW_AUTHENTICATE};

use crate::address::{Address, Scheme};
use crate::answer::{Answer, Coding, Meta};
use crate::body::{Body, Open};
use crate::client::Client;
use crate::connection::Connection;
use crate::credentials::Credentials;
use crate::error::{Error, Kind, Result};
use crate::exchange::secret;
use crate::locator::Locator;
use crate::pace::Pace;
use crate::proxy::Proxy;
use crate::range::{ByteRange, ContentRange};
use crate::retry::Retry;
use crate::validator::Validator;

/// The object at a URL. Cheap to clone; clones share where redirects have led.
#[derive(Clone, Debug)]
pub struct Resource {
    client: Client,
    address: Arc<Address>,
    /// Where the last redirect led.
    found: Arc<Mutex<Option<Address>>>,
    /// Makes an address to begin with, where the address is only a name.
    locator: Option<Arc<dyn Locator>>,
    /// Makes the `Authorization` header.
    credentials: Option<Arc<dyn Credentials>>,
    /// What it is, where that is known beforehand.
    content: Option<Validator>,
    pace: Arc<Pace>,
}

/// What to ask for.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// These bytes, or all of them. `0..` asks for all and learns whether there are ranges.
    pub range: Option<ByteRange>,
    /// The range only if the object is still the same; a part of another object is refused as `Kind::Changed`.
    pub same: Option<Validator>,
}

/// An object, or a part of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Response {
    /// The status: 200, 203 or 206; 416 for an object without bytes.
    pub status: u16,
    /// Length of the whole object, before a [`Coding`] is undone; `None` where the server does not say.
    pub len: Option<u64>,
    /// The bytes that come, if a range was asked for and the server gives one: the asked range or its first part. `None`
    /// means that all bytes come.
    pub range: Option<ContentRange>,
    /// Proof of which object it is. After a range with [`Request::same`] was answered by the whole, compare it.
    pub validator: Option<Validator>,
    /// The `Content-Type` header: a hint.
    pub content_type: Option<String>,
    /// Encodings that the server applied unasked, in order. Ranges of such an object are ranges of the encoded bytes.
    pub codings: Vec<Coding>,
    /// Where redirects led.
    pub final_url: Address,
    /// Who answered: the server, or the proxy that leads to it; `None` for an object without bytes.
    pub peer: Option<SocketAddr>,
    /// The bytes.
    pub body: Body,
}

impl<R: Into<ByteRange>> From<R> for Request {
    fn from(range: R) -> Self {
        Self { range: Some(range.into()), same: None }
    }
}

impl Request {
    /// The same, but only of the object that `validator` proves.
    #[must_use]
    pub fn same(self, validator: Validator) -> Self {
        Self { same: Some(validator), ..self }
    }

    fn headers(&self) -> Result<Vec<(HeaderName, HeaderValue)>> {
        let value = |text: &str| {
            HeaderValue::from_str(text).map_err(|_| Error::new(Kind::Protocol, "the validator is no header value"))
        };
        let mut headers = Vec::new();
        if let Some(range) = &self.range {
            headers.push((RANGE, value(&range.header()?)?));
            if let Some(same) = self.same.as_ref().and_then(Validator::if_range) {
                headers.push((IF_RANGE, value(same)?));
            }
        }
        Ok(headers)
    }
}

impl Resource {
    pub(crate) fn new(client: Client, address: Address) -> Self {
        let pace = Arc::new(Pace::new(client.inner.connections));
        Self {
            client,
            address: Arc::new(address),
            found: Arc::default(),
            locator: None,
            credentials: None,
            content: None,
            pace,
        }
    }

    pub(crate) fn found_by(self, locator: Arc<dyn Locator>) -> Self {
        Self { locator: Some(locator), ..self }
    }

    pub(crate) fn of_content(self, content: Validator, credentials: Option<Arc<dyn Credentials>>) -> Self {
        Self { content: Some(content), credentials, ..self }
    }

    /// Where to begin: the URL, or the address that is made of the name.
    fn start(&self) -> Result<Address> {
        let Some(locator) = &self.locator else { return Ok(Address::clone(&self.address)) };
        Address::parse(&locator.locate().map_err(|message| Error::new(Kind::Usage, message))?)
    }

    /// Whether the object store sent us to another region, and addresses can be made for it.
    fn moved(&self, error: &Error) -> bool {
        let (Some(locator), Some(region)) = (&self.locator, error.region()) else { return false };
        locator.moved(region)
    }

    /// The URL, as it was given.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Asks once, and follows redirects. Later requests go directly to where the redirects led; if that address fails, it
    /// is forgotten and the URL is asked for a fresh one, once. So is the URL itself if a redirect leads to a failure: one
    /// mirror of many may be stale.
    ///
    /// Costs one connection, or none if one is idle.
    ///
    /// # Errors
    ///
    /// See [`Kind`]. [`Error::is_transient`] says whether asking again may help. Any status but those of [`Response`] is an
    /// error.
    pub async fn get(&self, request: &Request) -> Result<Response> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let failure = match self.follow(found.as_ref(), request).await {
            Ok(response) => return Ok(self.remember(response)),
            Err(failure) => failure,
        };
        let moved = self.moved(&failure.error);
        if !moved && (!failure.elsewhere || !may_differ(failure.error.kind())) {
            return Err(failure.error);
        }
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let response = self.follow(None, request).await.map_err(|failure| failure.error)?;
        Ok(self.remember(response))
    }

    /// Asks once more, from the start, and not for a fresh address after that.
    pub(crate) async fn once(&self, request: &Request) -> Result<Response> {
        self.follow(None, request).await.map(|response| self.remember(response)).map_err(|failure| failure.error)
    }

    /// How patiently it is read.
    pub(crate) fn retry(&self) -> Retry {
        self.client.inner.retry
    }

    /// With how many connections it is read.
    pub(crate) fn pace(&self) -> &Pace {
        &self.pace
    }

    fn remember(&self, response: Response) -> Response {
        let found = (response.final_url != *self.address).then(|| response.final_url.clone());
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = found;
        response
    }

    async fn follow(&self, from: Option<&Address>, request: &Request) -> Result<Response, Failure> {
        let mut request = request.clone();
        let first = match from {
            Some(found) => found.clone(),
            None => self.start().map_err(|error| Failure { error: error.at(&self.address), elsewhere: false })?,
        };
        let mut hops = vec![first];
        loop {
            let here = hops.last().unwrap_or(&self.address);
            let start = request.range.map_or(0, |range| range.start);
            let proxy = self.client.inner.route(here).proxy;
            let place = Place { url: &self.address, here, start, made: self.locator.is_some(), proxy };
            let fail = |error: Error| Failure { error: error.at(&place), elsewhere: from.is_some() || hops.len() > 1 };
            match self.step(here, &place, &request).await.map_err(fail)? {
                Step::Found(response) => return Ok(*response),
                Step::WithoutRange => request = Request::default(),
                Step::Elsewhere(next) => {
                    if hops.contains(&next) {
                        let message = format!("redirected to {next} again: the redirects go in a circle");
                        return Err(fail(Error::new(Kind::Redirect, message)));
                    }
                    if hops.len() > MAX_REDIRECTS {
                        let message = format!("redirected more than {MAX_REDIRECTS} times: use the final address");
                        return Err(fail(Error::new(Kind::Redirect, message)));
                    }
                    hops.push(next);
                }
            }
        }
    }

    /// One request, and once more where credentials had to be renewed for it.
    async fn exchange(&self, here: &Address, request: &Request) -> Result<Answered> {
        let inner = &self.client.inner;
        let about = request.headers()?;
        let Some(credentials) = self.credentials.as_ref().filter(|_| here.same_origin(&self.address)) else {
            let (response, connection) = inner.exchange(&self.address, here, &about).await?;
            return Ok((response, connection, None));
        };
        let mut renewals = 0;
        loop {
            let authorization = credentials.authorization();
            let mut about = about.clone();
            if let Some(authorization) = &authorization {
                about.push((AUTHORIZATION, secret(authorization)?));
            }
            let (response, connection) = inner.exchange(&self.address, here, &about).await?;
            if response.status() != StatusCode::UNAUTHORIZED || renewals == MAX_RENEWALS {
                return Ok((response, connection, authorization));
            }
            let challenges = response.headers().get_all(WWW_AUTHENTICATE).iter();
            let challenges: Vec<_> = challenges.filter_map(|value| value.to_str().ok().map(str::to_owned)).collect();
            if !credentials.renew(authorization.as_deref(), &challenges).await? {
                return Ok((response, connection, authorization));
            }
            renewals += 1;
            inner.recycle(here, response, connection).await;
        }
    }

    /// What is said about an object, and what is known about it already.
    fn judged(&self, meta: Meta) -> Result<Meta> {
        let Some(content) = &self.content else { return Ok(meta) };
        if let Some((len, known)) = meta.len.zip(content.len()).filter(|(len, known)| len != known) {
            let message = format!("the server has {len} bytes of what has to have {known}");
            return Err(Error::new(Kind::Mismatch, message));
        }
        // Whoever labels what it gives as encoded, gives it as it is: the digest is that of the encoded bytes.
        Ok(Meta { len: content.len(), validator: Some(content.clone()), codings: Vec::new(), ..meta })
    }

    /// One request, and what its answer means.
    async fn step(&self, here: &Address, place: &Place<'_>, request: &Request) -> Result<Step> {
        let inner = &self.client.inner;
        let (response, connection, authorization) = self.exchange(here, request).await?;
        let (status, body) = (response.status(), response.body().size_hint().exact());
        let range = request.range.as_ref();
        let (meta, part) = match Answer::judge(status, response.headers(), body, range, request.same.as_ref())? {
            Answer::Whole(meta) => (self.judged(meta)?, None),
            Answer::Part(meta, part) => (self.judged(meta)?, Some(part)),
            Answer::Empty => {
                inner.recycle(here, response, connection).await;
                let meta = Meta { len: Some(0), validator: None, content_type: None, codings: Vec::new() };
                let meta = self.judged(meta)?;
                return Ok(Step::found(status.as_u16(), meta, None, here, None, Body::empty()));
            }
            Answer::NoRanges => {
                inner.recycle(here, response, connection).await;
                return Ok(Step::WithoutRange);
            }
            Answer::Elsewhere(location) => {
                let next = here.join(&location)?;
                if here.origin().scheme == Scheme::Https && next.origin().scheme == Scheme::Http && !inner.insecure {
                    let message = format!("redirected from https to {next}, which is not secure: refused");
                    return Err(Error::new(Kind::Redirect, message));
                }
                inner.recycle(here, response, connection).await;
                return Ok(Step::Elsewhere(next));
            }
            Answer::Refused => {
                return Err(inner.refusal(&self.address, here, authorization.as_deref(), response).await);
            }
        };
        let peer = connection.peer().address;
        let (start, expected) = part.map_or((0, body), |part| (part.start, Some(part.len())));
        let (route, pool) = (inner.route(here), Arc::clone(&inner.pool));
        let open = Open { incoming: response.into_body(), connection, route, pool };
        let body = Body::new(open, place.to_string(), inner.idle_timeout, start, expected);
        Ok(Step::found(status.as_u16(), meta, part, here, Some(peer), body))
    }
}

/// What came to a request, on which connection, and the `Authorization` that was sent.
type Answered = (hyper::Response<Incoming>, Connection, Option<String>);

/// Where a request led.
enum Step {
    Found(Box<Response>),
    Elsewhere(Address),
    /// To be asked again, for all bytes.
    WithoutRange,
}

impl Step {
    fn found(
        status: u16,
        meta: Meta,
        range: Option<ContentRange>,
        here: &Address,
        peer: Option<SocketAddr>,
        body: Body,
    ) -> Self {
        let Meta { len, validator, content_type, codings } = meta;
        let final_url = here.clone();
        Self::Found(Box::new(Response { status, len, range, validator, content_type, codings, final_url, peer, body }))
    }
}

/// An error, and whether it came from another address than the one that was given.
struct Failure {
    error: Error,
    elsewhere: bool,
}

/// Whether a fresh address from the original URL may do better.
fn may_differ(kind: Kind) -> bool {
    !matches!(kind, Kind::Usage | Kind::Redirect | Kind::Forbidden)
}

/// The URL, where redirects have led, by which proxy, and the first byte that was asked for.
struct Place<'a> {
    url: &'a Address,
    here: &'a Address,
    start: u64,
    /// The first address was made of a name.
    made: bool,
    proxy: Option<Arc<Proxy>>,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.url)?;
        if self.here != self.url {
            let how = if self.made { "at" } else { "redirected to" };
            write!(f, " ({how} {})", self.here)?;
        }
        if let Some(proxy) = &self.proxy {
            write!(f, " (through the proxy {proxy})")?;
        }
        if self.start > 0 {
            write!(f, " from offset {}", self.start)?;
        }
        Ok(())
    }
}

const MAX_REDIRECTS: usize = 10;
/// A token may be found to be too old, and the one for it to lack something.
const MAX_RENEWALS: usize = 2;
