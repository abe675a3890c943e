//! Passing a request on.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CONNECTION, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};

use super::metrics::Counters;
use super::passage::{Cut, Passage};
use super::targets::Target;
use super::upstream::Upstream;
use super::{Body, RETRY};
use crate::answer::{self, Wants};
use crate::receive::{close, linger};
use crate::refusal::Refusal;

/// Passes a request on to its target, and gives what that says. A body goes on while it comes, and no faster than the
/// target takes it.
pub(super) async fn pass(
    upstream: &Upstream,
    target: &Target,
    request: Request<Incoming>,
    patience: Duration,
    counters: &Arc<Counters>,
) -> Response<Body> {
    let (version, wants) = (request.version(), Wants::of(request.headers()));
    let (mut head, body) = request.into_parts();
    // Who wants to be asked for the body is so by the server, which may rather refuse it.
    let asks = head.headers.get(EXPECT).is_some_and(|what| what.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    let passage = Passage::new(body, !asks, patience, Arc::clone(counters));
    for_server(&mut head.headers, target);
    let passed = Request::new(passage.passed());
    let (mut there, passed) = passed.into_parts();
    there.method = head.method;
    there.uri = Uri::from(head.uri.into_parts().path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/")));
    there.headers = head.headers;
    let asked = matches!(there.method, Method::GET | Method::HEAD | Method::OPTIONS);
    let mut passed = Request::from_parts(there, passed);
    if asks {
        let passage = Arc::clone(&passage);
        hyper::ext::on_informational(&mut passed, move |said| {
            if said.status() == StatusCode::CONTINUE {
                passage.open();
            }
        });
    }
    let answer = match upstream.connect(target).await {
        Ok(mut connection) => {
            let answer = connection.send_request(passed);
            tokio::pin!(answer);
            let answered = async {
                if asks {
                    // Some servers never ask.
                    match tokio::time::timeout(ASKING, answer.as_mut()).await {
                        Ok(answer) => return answer,
                        Err(_) => passage.open(),
                    }
                }
                answer.await
            };
            // Nothing is waited for but a disk, which may take long; a question about it does not.
            let limit = if asked { patience } else { FOREVER };
            match tokio::time::timeout(limit, answered).await {
                Ok(Ok(answer)) => whole(answer, &passage, target).await,
                Ok(Err(error)) => Err(broken(&passage, &error)),
                Err(_) => {
                    let message = "the upload server does not answer: try again";
                    Err(Refusal::new(StatusCode::GATEWAY_TIMEOUT, "ServerFailed", message))
                }
            }
        }
        Err(why) => Err(Refusal::later(RETRY, format!("the upload server is not ready: {why}"))),
    };
    let mut answer = answer.unwrap_or_else(|refusal| answer::refused(&refusal, wants).map(Either::Left));
    if !passage.is_over() {
        close(answer.headers_mut(), version);
        if let Some(body) = passage.take() {
            linger(body);
        }
    }
    answer
}

/// What the server said. While the body is still on its way, an answer is read before that is stopped.
async fn whole(answer: Response<Incoming>, passage: &Passage, target: &Target) -> Result<Response<Body>, Refusal> {
    let (mut head, body) = answer.into_parts();
    for_client(&mut head.headers, target);
    head.version = Version::HTTP_11;
    if passage.is_over() {
        return Ok(Response::from_parts(head, Either::Right(body)));
    }
    let read = tokio::time::timeout(EARLY, Limited::new(body, MAX_EARLY).collect()).await;
    let Ok(Ok(text)) = read else { return Err(died("it answered, and broke off")) };
    Ok(Response::from_parts(head, Either::Left(Full::new(text.to_bytes()))))
}

/// Why there is no answer.
fn broken(passage: &Passage, error: &hyper::Error) -> Refusal {
    match passage.cut() {
        Some(Cut::Stalled) => {
            let message = "nothing came for too long: go on where the upload is";
            Refusal::new(StatusCode::REQUEST_TIMEOUT, "Stalled", message)
        }
        Some(Cut::Gone) => Refusal::bad("the upload was cut: go on where it is"),
        Some(Cut::Taken) | None => {
            tracing::warn!("an upload server broke off: {error}");
            died("it broke off")
        }
    }
}

fn died(how: &str) -> Refusal {
    let message =
        format!("the upload server is gone ({how}): ask how far the upload is and go on there, or begin anew");
    let refusal = Refusal::new(StatusCode::BAD_GATEWAY, "ServerFailed", message);
    Refusal { retry_after: Some(RETRY), ..refusal }
}

/// Leaves what is for the server. Who the client is was judged here.
fn for_server(headers: &mut HeaderMap, target: &Target) {
    hop_by_hop(headers);
    headers.remove(AUTHORIZATION);
    headers.remove(hyper::header::COOKIE);
    if let Ok(host) = HeaderValue::try_from(target.to_string()) {
        headers.insert(HOST, host);
    }
}

/// Leaves what is for the client. Who may read it is said here.
fn for_client(headers: &mut HeaderMap, target: &Target) {
    hop_by_hop(headers);
    let cross_origin: Vec<_> =
        headers.keys().filter(|name| name.as_str().starts_with("access-control-")).cloned().collect();
    for name in cross_origin {
        headers.remove(name);
    }
    // An address on the server is one here.
    let scheme = if target.secure { "https" } else { "http" };
    let origin = format!("{scheme}://{target}");
    let path = headers.get(LOCATION).and_then(|place| place.to_str().ok()?.strip_prefix(&origin).map(str::to_owned));
    if let Some(path) = path.filter(|path| path.starts_with('/')).and_then(|path| HeaderValue::try_from(path).ok()) {
        headers.insert(LOCATION, path);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Removes what is for one connection only (RFC 9110, 7.6.1).
fn hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION] {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    headers.remove("proxy-connection");
}

/// A server that has not asked for the body by then is one that does not ask.
const ASKING: Duration = Duration::from_secs(1);
/// How long an answer may take that was begun before the body was over, and how long it may be.
const EARLY: Duration = Duration::from_secs(10);
const MAX_EARLY: usize = 64 << 10;
/// A year: what has no limit.
const FOREVER: Duration = Duration::from_secs(31_536_000);

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target { secure: true, host: "server.images.svc".into(), port: 8443 }
    }

    #[test]
    fn what_is_for_the_server() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("host", "uploads.example.org"),
            ("authorization", "Bearer secret"),
            ("cookie", "secret"),
            ("connection", "close, X-Mine"),
            ("x-mine", "a"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upload-offset", "5"),
            ("content-length", "7"),
            ("expect", "100-continue"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        for_server(&mut headers, &target());
        let mut left: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        left.sort();
        assert_eq!(
            left,
            ["content-length: 7", "expect: 100-continue", "host: server.images.svc:8443", "upload-offset: 5"]
        );
    }

    #[test]
    fn addresses_on_the_server_are_addresses_here() {
        for (said, given) in [
            ("https://server.images.svc:8443/upload/x", "/upload/x"),
            ("/upload/x", "/upload/x"),
            ("https://elsewhere/upload/x", "https://elsewhere/upload/x"),
            ("https://server.images.svc:84431/x", "https://server.images.svc:84431/x"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(LOCATION, HeaderValue::from_static(said));
            headers.insert("access-control-allow-origin", HeaderValue::from_static("*"));
            for_client(&mut headers, &target());
            assert_eq!(headers[LOCATION], given);
            assert!(!headers.contains_key("access-control-allow-origin"));
        }
    }
}
