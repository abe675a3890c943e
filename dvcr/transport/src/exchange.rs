//! Any request, and whatever is answered.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, LOCATION};
use hyper::{Response, StatusCode};
use tokio::time::{Instant, sleep_until};

use crate::address::{Address, Scheme};
use crate::body::{Body, Open};
use crate::client::{Client, Inner};
use crate::connection::Connection;
use crate::error::{Error, Kind, Result};
use crate::payload::{Outgoing, Payload, Watch};

/// What is done with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "RFC 9110, 9.3, and RFC 5789")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

/// A request.
#[derive(Debug)]
pub struct Ask {
    /// What is done.
    pub method: Method,
    /// Headers for whoever is asked, also after a redirect. `Content-Length` is set from the payload.
    pub headers: Vec<(&'static str, String)>,
    /// The `Authorization` header, for the scheme, host and port of the address only.
    pub authorization: Option<String>,
    /// What is sent.
    pub payload: Payload,
    /// How long the answer is waited for once all is sent, where that may be longer than the idle timeout.
    pub patience: Option<Duration>,
}

/// An answer, of any status but a redirect.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    headers: HeaderMap,
    /// Where redirects led.
    pub final_url: Address,
    /// What came.
    pub body: Body,
}

impl Method {
    fn of_hyper(self) -> hyper::Method {
        match self {
            Self::Get => hyper::Method::GET,
            Self::Head => hyper::Method::HEAD,
            Self::Post => hyper::Method::POST,
            Self::Put => hyper::Method::PUT,
            Self::Patch => hyper::Method::PATCH,
            Self::Delete => hyper::Method::DELETE,
        }
    }

    fn reads(self) -> bool {
        matches!(self, Self::Get | Self::Head)
    }
}

impl Ask {
    /// A request without anything.
    #[must_use]
    pub fn new(method: Method) -> Self {
        Self { method, headers: Vec::new(), authorization: None, payload: Payload::default(), patience: None }
    }

    /// The same with this header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The same with this payload.
    #[must_use]
    pub fn payload(self, payload: Payload) -> Self {
        Self { payload, ..self }
    }

    fn about(&self) -> Result<Vec<(HeaderName, HeaderValue)>> {
        let unfit = |name: &str| Error::new(Kind::Usage, format!("the header {name} can't be sent as it is"));
        let mut about = Vec::with_capacity(self.headers.len() + 1);
        for (name, value) in &self.headers {
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unfit(name))?;
            about.push((header, HeaderValue::from_str(value).map_err(|_| unfit(name))?));
        }
        if let Some(len) = self.payload.len().filter(|len| *len > 0 || !self.method.reads()) {
            about.push((CONTENT_LENGTH, HeaderValue::from(len)));
        }
        Ok(about)
    }
}

impl Reply {
    /// The value of this header, if it is there and text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// All values of this header that are text.
    #[must_use]
    pub fn headers(&self, name: &str) -> Vec<String> {
        self.headers.get_all(name).iter().filter_map(|value| value.to_str().ok().map(Into::into)).collect()
    }

    /// How long the server asks to wait (`Retry-After`).
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        crate::answer::retry_after(&self.headers)
    }

    /// Where a `Location` header leads, byte for byte, without following it.
    ///
    /// # Errors
    ///
    /// `Kind::Redirect` for one that leads nowhere.
    pub fn location(&self) -> Result<Option<Address>> {
        let location = self.headers.get(LOCATION);
        location.map(|location| self.final_url.join(location.as_bytes())).transpose()
    }

    /// All that came, which may be at most `most` bytes.
    ///
    /// # Errors
    ///
    /// `Kind::Protocol` beyond that, and as [`Body::next`].
    pub async fn bytes(mut self, most: usize) -> Result<Bytes> {
        let mut all = Vec::new();
        while let Some(piece) = self.body.next().await? {
            if piece.len() > most.saturating_sub(all.len()) {
                let message = format!("the answer has more than {most} bytes");
                return Err(Error::new(Kind::Protocol, message).at(&self.final_url));
            }
            all.extend_from_slice(&piece);
        }
        Ok(all.into())
    }

    /// The beginning of what came, whatever happens behind it: for messages.
    pub async fn start(&mut self, most: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while let Ok(Some(piece)) = self.body.next().await {
            all.extend_from_slice(&piece);
            if all.len() >= most {
                break;
            }
        }
        all.truncate(most);
        all
    }
}

impl Client {
    /// Asks once. Redirects are followed when something is read, and where a request can be repeated as it is (307, 308).
    ///
    /// There is no limit on total time: what is waited for is progress, in sending and in what comes.
    ///
    /// # Errors
    ///
    /// See [`Kind`]; no status is an error. Each names the address.
    pub async fn ask(&self, address: &Address, mut ask: Ask) -> Result<Reply> {
        let about = ask.about().map_err(|error| error.at(address))?;
        let mut hops = vec![address.clone()];
        loop {
            let here = hops.last().unwrap_or(address).clone();
            let fail = |error: Error| {
                if here == *address {
                    error.at(address)
                } else {
                    error.at(format_args!("{address} (redirected to {here})"))
                }
            };
            let again = ask.payload.again();
            let payload = std::mem::take(&mut ask.payload);
            let headers = self.inner.headers_of(address, &here, &about, ask.authorization.as_deref()).map_err(fail)?;
            let (response, connection, watch) =
                self.inner.converse(ask.method, &here, headers, payload, ask.patience).await.map_err(fail)?;
            let Some(next) = self.inner.redirect(&ask, &here, &response, again.is_some()).map_err(fail)? else {
                return Ok(self.inner.reply(here, response, connection, &watch));
            };
            if hops.contains(&next) || hops.len() > MAX_REDIRECTS {
                return Err(fail(Error::new(
                    Kind::Redirect,
                    format!("redirected to {next}: the redirects do not end"),
                )));
            }
            ask.payload = again.unwrap_or_default();
            if watch.is_done() {
                self.inner.recycle(&here, response, connection).await;
            }
            hops.push(next);
        }
    }
}

impl Inner {
    fn headers_of(
        &self,
        owner: &Address,
        here: &Address,
        about: &[(HeaderName, HeaderValue)],
        authorization: Option<&str>,
    ) -> Result<HeaderMap> {
        let mut headers = self.headers(owner, here, about);
        if let Some(authorization) = authorization.filter(|_| here.same_origin(owner)) {
            headers.insert(AUTHORIZATION, secret(authorization)?);
        }
        Ok(headers)
    }

    /// Sends a request and waits for the head of the answer.
    async fn converse(
        &self,
        method: Method,
        here: &Address,
        headers: HeaderMap,
        payload: Payload,
        patience: Option<Duration>,
    ) -> Result<(Response<Incoming>, Connection, Arc<Watch>)> {
        let route = self.route(here);
        // A waiting connection may have been closed in the meantime, which says nothing about the request.
        while let Some((again, mut connection)) =
            payload.again().and_then(|again| Some((again, self.pool.take(&route)?)))
        {
            let watch = Arc::<Watch>::default();
            let outgoing = Outgoing::new(again, Arc::clone(&watch));
            let sent = connection.send(method.of_hyper(), here, headers.clone(), outgoing);
            if let Ok(response) =
                self.watched(sent, &watch, patience).await.map_err(|why| self.gave_up(&connection, here, why))??
            {
                return Ok((response, connection, watch));
            }
        }
        let mut connection = self.connect(&route).await?;
        let watch = Arc::<Watch>::default();
        let outgoing = Outgoing::new(payload, Arc::clone(&watch));
        let sent = connection.send(method.of_hyper(), here, headers, outgoing);
        let response =
            self.watched(sent, &watch, patience).await.map_err(|why| self.gave_up(&connection, here, why))??;
        let response = response.map_err(|error| {
            self.pool.failed(here.origin(), &connection);
            let when = match watch.taken() {
                0 => format!("before {} answered", connection.peer()),
                taken if watch.is_done() => {
                    format!("before {} answered to the {taken} bytes that were sent", connection.peer())
                }
                taken => format!("while sending to {}, after {taken} bytes", connection.peer()),
            };
            Error::broken(&error, &when)
        })?;
        Ok((response, connection, watch))
    }

    /// Waits for `sent` as long as there is progress. The error says for how long there was none, and whether all was sent.
    async fn watched<T>(
        &self,
        sent: impl Future<Output = T>,
        watch: &Watch,
        patience: Option<Duration>,
    ) -> Result<T, (Duration, Option<u64>)> {
        let mut sent = std::pin::pin!(sent);
        let (mut taken, mut since) = (watch.taken(), Instant::now());
        let mut was_done = watch.is_done();
        loop {
            let done = watch.is_done();
            let limit = if done { patience.unwrap_or_default().max(self.idle_timeout) } else { self.idle_timeout };
            // What is looked at in between costs nothing, and tells in time when sending stands still.
            let look = (Instant::now() + self.idle_timeout / 8).min(since + limit);
            tokio::select! {
                biased;
                result = &mut sent => return Ok(result),
                () = sleep_until(look) => {}
            }
            let now = Instant::now();
            if watch.taken() != taken || watch.is_hungry() || watch.is_done() != was_done {
                (taken, since, was_done) = (watch.taken(), now, watch.is_done());
            } else if now >= since + limit {
                return Err((limit, Some(taken).filter(|_| !done)));
            }
        }
    }

    fn gave_up(&self, connection: &Connection, here: &Address, (limit, sending): (Duration, Option<u64>)) -> Error {
        self.pool.failed(here.origin(), connection);
        let peer = connection.peer();
        let message = match sending {
            Some(taken) => {
                format!("{peer} took nothing for {limit:?}, after {taken} bytes: server or network stand still")
            }
            None => format!("{peer} did not answer within {limit:?}"),
        };
        Error::new(Kind::Stalled, message)
    }

    fn redirect(
        &self,
        ask: &Ask,
        here: &Address,
        response: &Response<Incoming>,
        again: bool,
    ) -> Result<Option<Address>> {
        let follows = match response.status() {
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER => ask.method.reads(),
            _ => false,
        };
        let Some(location) = response.headers().get(LOCATION).filter(|_| follows) else { return Ok(None) };
        let next = here.join(location.as_bytes())?;
        if here.origin().scheme == Scheme::Https && next.origin().scheme == Scheme::Http && !self.insecure {
            let message = format!("redirected from https to {next}, which is not secure: refused");
            return Err(Error::new(Kind::Redirect, message));
        }
        if !again {
            // It may have been sent already, and there is no second time.
            return Err(Error::new(
                Kind::Redirect,
                format!("redirected to {next} while data was sent: start again there"),
            ));
        }
        Ok(Some(next))
    }

    fn reply(&self, here: Address, response: Response<Incoming>, connection: Connection, watch: &Watch) -> Reply {
        let (head, incoming) = response.into_parts();
        let expected = incoming.size_hint().exact();
        let route = self.route(&here);
        // An answer that came before all was sent leaves a connection on which nobody knows what comes next.
        let pool = if watch.is_done() { Arc::clone(&self.pool) } else { Arc::default() };
        let place = here.to_string();
        let body = Body::new(Open { incoming, connection, route, pool }, place, self.idle_timeout, 0, expected);
        Reply { status: head.status.as_u16(), headers: head.headers, final_url: here, body }
    }
}

/// A header that `Debug` does not show.
pub(crate) fn secret(authorization: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(authorization)
        .map_err(|_| Error::new(Kind::Usage, "the credentials have a character that no header can have"))?;
    value.set_sensitive(true);
    Ok(value)
}

const MAX_REDIRECTS: usize = 10;
