//! Which door a request is for.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, EXPECT, HeaderMap, ORIGIN};
use hyper::{Method, Request, StatusCode};
use importer_flow::sink::Options;

use crate::answer::{self, Answer, Wants};
use crate::cors::Cors;
use crate::doors::tus::{At, Dialect};
use crate::doors::{self, tus};
use crate::page;
use crate::receive::end_early;
use crate::refusal::Refusal;
use crate::session::{Session, Wish};
use crate::sessions::Sessions;
use crate::target::{Target, file_name};
use crate::tls::Caller;
use crate::token::Token;

/// What a server has, and how it is asked.
#[derive(Debug)]
pub struct Api {
    /// All uploads.
    pub sessions: Sessions,
    /// What uploads are for.
    pub place: Place,
    /// How long a client may send nothing.
    pub patience: Duration,
    /// Whether `/metrics` is among the paths: not where it has an address of its own.
    pub metrics_here: bool,
    /// Which pages of other origins may send.
    pub cors: Cors,
}

/// What uploads are for.
#[derive(Debug)]
pub enum Place {
    /// One target, whose upload is at `/upload/SECRET`, or at `/upload` where it has no secret: then whoever reaches the
    /// server may send (the network keeps others away, or a proxy asks who they are).
    One {
        /// What is kept of its secret.
        token: Token,
        /// Whether it has one.
        secret: bool,
    },
    /// A folder, which gets a file for each upload.
    Folder {
        /// Where.
        root: PathBuf,
        /// What is kept of the secret that new uploads need, if they need one.
        token: Option<Token>,
    },
}

impl Api {
    /// A server for one target, and the upload for that.
    ///
    /// # Errors
    ///
    /// None in practice: there is no other upload yet.
    pub fn one(
        sessions: Sessions,
        secret: Option<&str>,
        wish: Wish,
        patience: Duration,
        now: Instant,
    ) -> Result<(Self, Arc<Session>), Refusal> {
        let token = Token::of(secret.unwrap_or_default());
        let session = sessions.add(token, wish, now)?;
        session.restore()?;
        let place = Place::One { token, secret: secret.is_some() };
        Ok((Self { sessions, place, patience, metrics_here: true, cors: Cors::default() }, session))
    }

    /// A server for a folder.
    #[must_use]
    pub fn folder(sessions: Sessions, root: PathBuf, secret: Option<&str>, patience: Duration) -> Self {
        let place = Place::Folder { root, token: secret.map(Token::of) };
        Self { sessions, place, patience, metrics_here: true, cors: Cors::default() }
    }

    /// Answers a request. Whatever is refused before its body was read, is so without asking for it.
    pub async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let preflight = self.cors.preflight(request.method(), request.headers());
        let origin = request.headers().get(ORIGIN).cloned();
        let answer = match preflight {
            Some(answer) => answer,
            None => {
                let mut answer = self.route(request).await;
                self.cors.expose(origin.as_ref(), answer.headers_mut());
                answer
            }
        };
        self.sessions.budget().metrics().answered(answer.status().as_u16());
        answer
    }

    /// Answers a request of a probe or of Prometheus.
    pub fn probe(&self, request: &Request<Incoming>) -> Answer {
        match request.uri().path() {
            "/metrics" => self.metrics(),
            path if is_health(path) => answer::text(StatusCode::OK, "OK"),
            _ => answer::refused(&Refusal::not_found(), Wants::of(request.headers())),
        }
    }

    fn metrics(&self) -> Answer {
        let budget = self.sessions.budget();
        answer::metrics(budget.metrics().text(&self.sessions.phases(), budget.active()))
    }

    async fn route(self: &Arc<Self>, request: Request<Incoming>) -> Answer {
        let wants = Wants::of(request.headers());
        match self.admit(&request) {
            Ok(Route::Health) => answer::text(StatusCode::OK, "OK"),
            Ok(Route::Metrics) => self.metrics(),
            Ok(Route::Page) => page::answer(&self.place),
            Ok(Route::Resumable(at, dialect)) => tus::answer(self, at, dialect, request).await,
            Ok(Route::Upload(session)) => doors::raw::answer(&session, request, self.patience).await,
            Ok(Route::Cdi(session, door)) => doors::cdi::answer(&session, request, door, self.patience).await,
            Err(refusal) => {
                let version = request.version();
                end_early(answer::refused(&refusal, wants), version, request.into_body())
            }
        }
    }

    fn admit(&self, request: &Request<Incoming>) -> Result<Route, Refusal> {
        let expected = request.headers().get(EXPECT);
        if expected.is_some_and(|what| !what.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
            let message = "Expect may only ask for 100-continue";
            return Err(Refusal::new(StatusCode::EXPECTATION_FAILED, "InvalidRequest", message));
        }
        let path = request.uri().path().trim_end_matches('/');
        if is_health(path) {
            return Ok(Route::Health);
        }
        Caller::admit(request.extensions())?;
        if let Some(door) = doors::cdi::Door::at(path) {
            if door.is_probed_by(request.method()) {
                return Ok(Route::Health);
            }
            return self.cdi(request.headers()).map(|session| Route::Cdi(session, door));
        }
        if path == "/metrics" && self.metrics_here {
            return Ok(Route::Metrics);
        }
        let dialect = Dialect::of(request.method(), request.headers());
        let folder = matches!(self.place, Place::Folder { .. });
        let browser = *request.method() == Method::GET && Wants::of(request.headers()) == Wants::Page;
        if browser && folder && path.is_empty() {
            return Ok(Route::Page);
        }
        let secret = match (below(path, "/upload"), below(path, "/files")) {
            (Some(secret), _) => secret,
            (None, Some("")) if folder => return Ok(Route::Resumable(At::Folder, dialect.unwrap_or(Dialect::Tus))),
            (None, Some(secret)) if folder => secret,
            _ => return Err(Refusal::not_found()),
        };
        let session = self.upload(secret)?;
        Ok(match dialect {
            Some(dialect) => Route::Resumable(At::Upload { session, secret: secret.to_owned() }, dialect),
            // In a folder an upload has an address that no person is told.
            None if browser && !folder => Route::Page,
            None => Route::Upload(session),
        })
    }

    /// The upload with this secret.
    fn upload(&self, secret: &str) -> Result<Arc<Session>, Refusal> {
        match &self.place {
            // A proxy in front may have taken the secret off, or this may be called by its own name inside the cluster.
            Place::One { secret: false, .. } => self.sessions.find(""),
            _ => self.sessions.find(secret),
        }
    }

    /// The upload whose secret is in no address, as CDI's are: it comes as a bearer token, where there is one.
    fn cdi(&self, headers: &HeaderMap) -> Result<Arc<Session>, Refusal> {
        match &self.place {
            Place::One { secret: false, .. } => self.sessions.find(""),
            Place::One { secret: true, .. } => {
                let secret = bearer(headers).filter(|secret| !secret.is_empty());
                secret.and_then(|secret| self.sessions.find(secret).ok()).ok_or_else(Refusal::unauthorized)
            }
            Place::Folder { .. } => Err(Refusal::not_found()),
        }
    }

    /// Whether this request may make uploads to the folder.
    ///
    /// # Errors
    ///
    /// 401 without the bearer token that the server wants, if it wants one.
    pub fn authorize(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        match &self.place {
            Place::Folder { token: Some(token), .. } if bearer(headers).map(Token::of) != Some(*token) => {
                let message = "a new upload needs the server's token, as Authorization: Bearer TOKEN".to_owned();
                Err(Refusal { message, ..Refusal::unauthorized() })
            }
            _ => Ok(()),
        }
    }

    /// What a new upload to the folder becomes: a raw disk with the name of the image, without the ending that says how it
    /// was stored.
    ///
    /// # Errors
    ///
    /// 400 for a name that is none, 409 for one that is there, 404 where there is no folder.
    pub fn wish(&self, name: &str, len: Option<u64>) -> Result<Wish, Refusal> {
        let Place::Folder { root, .. } = &self.place else { return Err(Refusal::not_found()) };
        let name = file_name(name).map_err(|error| Refusal::bad(error.to_string()))?;
        let path = root.join(disk_name(name));
        if path.exists() {
            let message = format!("there is a disk of that name already: {}", disk_name(name));
            return Err(Refusal::new(StatusCode::CONFLICT, "Exists", message));
        }
        let target = Target::path(&path, Options::default());
        Ok(Wish { name: name.to_owned(), target, len, checksums: Vec::new(), state: None })
    }
}

enum Route {
    Health,
    Metrics,
    /// What a browser shows.
    Page,
    Upload(Arc<Session>),
    Cdi(Arc<Session>, doors::cdi::Door),
    /// A request of a client that goes on after a cut.
    Resumable(At, Dialect),
}

fn is_health(path: &str) -> bool {
    matches!(path, "/healthz" | "/livez" | "/readyz")
}

/// The token of `Authorization: Bearer`.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// What of a path is below this one.
fn below<'a>(path: &'a str, parent: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(parent)?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

/// `jammy.qcow2.xz` becomes `jammy.raw`.
fn disk_name(name: &str) -> String {
    let mut stem = name;
    while let Some((front, ending)) = stem.rsplit_once('.') {
        if front.is_empty() || !ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)) {
            break;
        }
        stem = front;
    }
    format!("{stem}.raw")
}

const ENDINGS: [&str; 21] = [
    "gz", "xz", "zst", "bz2", "lz4", "tar", "tgz", "txz", "ova", "qcow2", "qcow", "img", "raw", "vmdk", "vdi", "vhd",
    "vhdx", "qed", "iso", "hds", "dd",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_whole() {
        for (path, rest) in [
            ("/upload", Some("")),
            ("/upload/secret", Some("secret")),
            ("/upload/a/b", Some("a/b")),
            ("/uploads", None),
            ("/v1/upload", None),
        ] {
            assert_eq!(below(path, "/upload"), rest, "{path}");
        }
    }

    #[test]
    fn disks_have_the_names_of_their_images() {
        for (image, disk) in [
            ("jammy.qcow2.xz", "jammy.raw"),
            ("jammy", "jammy.raw"),
            ("ubuntu-24.04.IMG", "ubuntu-24.04.raw"),
            ("disk.tar.gz", "disk.raw"),
            ("img", "img.raw"),
        ] {
            assert_eq!(disk_name(image), disk);
        }
    }
}
