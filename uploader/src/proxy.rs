//! The door before upload servers: whoever has a token of the API server may send to the one volume that it is for.
//!
//! ```text
//! client ──TLS──► token? ──► target ready? ──► pass ──mutual TLS──► upload server
//! ```
//!
//! Nothing is stored: a frame of a body is read from the client when the server has taken the one before. A token is looked
//! at when a request begins, and never again: what takes longer than it lives comes to its end.

mod bearer;
mod metrics;
mod names;
mod pass;
mod passage;
mod targets;
mod template;
mod upstream;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, ORIGIN};
use hyper::{Request, Response, StatusCode};

use crate::answer::{self, Wants};
use crate::cors::Cors;
use crate::receive::end_early;
use crate::refusal::Refusal;
use crate::server::Service;
pub use bearer::Tokens;
pub use metrics::{Counters, Metrics};
pub use names::service;
pub use targets::{NotReady, Object, Target, Targets};
pub use template::Template;
pub use upstream::{Identity, Upstream};

/// What answers bring: what is said here, or what a server says.
pub type Body = Either<Full<Bytes>, Incoming>;

/// The door before upload servers.
pub struct Proxy<T> {
    tokens: Tokens,
    targets: T,
    upstream: Arc<Upstream>,
    cors: Cors,
    settings: Settings,
    counters: Arc<Counters>,
}

/// How long what may take, and what time it is.
#[derive(Clone)]
pub struct Settings {
    /// How long a target may take to become ready.
    pub wait: Duration,
    /// How often it is looked whether it is.
    pub interval: Duration,
    /// How long a client may send nothing within a request.
    pub patience: Duration,
    /// The time by which tokens are judged.
    pub clock: Arc<dyn Fn() -> SystemTime + Send + Sync>,
}

impl Default for Settings {
    fn default() -> Self {
        let (wait, interval, patience) = (Duration::from_secs(10), Duration::from_secs(1), Duration::from_secs(60));
        Self { wait, interval, patience, clock: Arc::new(SystemTime::now) }
    }
}

impl<T: Targets> Proxy<T> {
    /// A door to these targets for whoever has a token.
    pub fn new(tokens: Tokens, targets: T, upstream: Arc<Upstream>, cors: Cors, settings: Settings) -> Self {
        Self { tokens, targets, upstream, cors, settings, counters: Arc::default() }
    }

    /// What is counted.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    async fn upload(&self, request: Request<Incoming>) -> Response<Body> {
        let (version, wants) = (request.version(), Wants::of(request.headers()));
        let refused = match self.admit(request.headers()) {
            Ok(object) => match self.ready(&object).await {
                Ok(target) => return self.pass(&object, &target, request).await,
                Err(refusal) => refusal,
            },
            Err(refusal) => refusal,
        };
        end_early(answer::refused(&refused, wants), version, request.into_body()).map(Either::Left)
    }

    /// What a request may send to.
    fn admit(&self, headers: &HeaderMap) -> Result<Object, Refusal> {
        let token = bearer::token(headers)?;
        self.tokens.verify(token, (self.settings.clock)())
    }

    /// Waits until the server is ready.
    async fn ready(&self, object: &Object) -> Result<Target, Refusal> {
        let begun = Instant::now();
        loop {
            let not = match self.targets.find(object).await {
                Ok(target) => return Ok(target),
                Err(not) => not,
            };
            let late = begun.elapsed() + self.settings.interval > self.settings.wait;
            if late || !not.may_change {
                // The name and the reason come from elsewhere, and browsers may look at this.
                let message = escaped(&importer_flow::report::line(&not.reason));
                let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "NotReady", message);
                return Err(Refusal { retry_after: not.may_change.then_some(RETRY), ..refusal });
            }
            tokio::time::sleep(self.settings.interval).await;
        }
    }

    async fn pass(&self, object: &Object, target: &Target, request: Request<Incoming>) -> Response<Body> {
        let _under_way = self.counters.under_way();
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        // Addresses of uploads are secrets.
        let place = path.split('/').take(3).collect::<Vec<_>>().join("/");
        let answer = pass::pass(&self.upstream, target, request, self.settings.patience, &self.counters).await;
        let code = answer.status().as_u16();
        tracing::info!(namespace = object.namespace, name = object.name, %method, place, code, "passed on");
        answer
    }
}

impl<T: Targets> Service for Proxy<T> {
    type Body = Body;

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let origin = request.headers().get(ORIGIN).cloned();
        let answer = match self.cors.preflight(request.method(), request.headers()) {
            Some(answer) => answer.map(Either::Left),
            None => {
                let mut answer = match Route::of(request.uri().path()) {
                    Route::Health => answer::text(StatusCode::OK, "OK").map(Either::Left),
                    Route::Upload => self.upload(request).await,
                    Route::Nowhere => {
                        let (version, wants) = (request.version(), Wants::of(request.headers()));
                        let message = "nothing is here: uploads are sent to /v1beta1/upload";
                        let refusal = Refusal::new(StatusCode::NOT_FOUND, "NotFound", message);
                        let answer = answer::refused(&refusal, wants);
                        end_early(answer, version, request.into_body()).map(Either::Left)
                    }
                };
                self.cors.expose(origin.as_ref(), answer.headers_mut());
                answer
            }
        };
        self.counters.answered(answer.status());
        answer
    }

    fn sweep(&self, _: Instant) -> Duration {
        Duration::from_secs(3600)
    }
}

impl<T> fmt::Debug for Proxy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proxy")
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Route {
    Health,
    Upload,
    Nowhere,
}

impl Route {
    fn of(path: &str) -> Self {
        let mut parts = path.split('/').skip(1);
        match (parts.next(), parts.next(), parts.next()) {
            (Some("healthz" | "livez" | "readyz"), None, None) => Self::Health,
            (
                Some("v1beta1" | "v1alpha1"),
                Some("upload" | "upload-async" | "upload-form" | "upload-form-async"),
                None | Some(""),
            ) => Self::Upload,
            // What a proxy and its server could read differently is nobody's address.
            (Some("upload" | "files"), ..) if !path.contains("..") && !path.contains("//") => Self::Upload,
            _ => Self::Nowhere,
        }
    }
}

/// Text in which nothing is a tag.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&#34;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(letter),
        }
    }
    escaped
}

/// How many seconds a target that is not ready needs, mostly.
const RETRY: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes() {
        for path in
            ["/v1beta1/upload", "/v1alpha1/upload-form-async", "/v1beta1/upload-async/", "/upload", "/upload/secret"]
        {
            assert_eq!(Route::of(path), Route::Upload, "{path}");
        }
        for path in
            ["/", "", "/v1/upload", "/v1beta1/upload-archive", "/v1beta1/upload/x", "/upload/../metrics", "/upload//x"]
        {
            assert_eq!(Route::of(path), Route::Nowhere, "{path}");
        }
        assert_eq!(Route::of("/healthz"), Route::Health);
    }

    #[test]
    fn nothing_is_a_tag() {
        assert_eq!(escaped("<a href='x'>\"&"), "&lt;a href=&#39;x&#39;&gt;&#34;&amp;");
    }
}
