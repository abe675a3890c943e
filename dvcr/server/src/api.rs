//! The distribution specification: which address and method means what.

mod answer;
mod blobs;
mod conditions;
mod lists;
mod manifests;
mod query;
mod route;
mod uploads;

use std::sync::Arc;

use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, StatusCode};

pub(crate) use answer::{Answer, Why};
use answer::{document, refusal};
use query::Query;
use route::Route;

use crate::auth::{Action, Auth, Identity};
use crate::body::Budget;
use crate::error::{Error, Kind, Result};
use crate::intake::Intake;
use crate::metrics::Metrics;
use crate::push::Pushes;
use crate::store::Store;

/// Everything requests share.
pub(crate) struct Api {
    pub(crate) store: Store,
    pub(crate) auth: Auth,
    pub(crate) budget: Arc<Budget>,
    pub(crate) pushes: Arc<Pushes>,
    pub(crate) metrics: Arc<Metrics>,
    /// Whether metrics are told to everybody who may connect.
    pub(crate) shows_metrics: bool,
}

/// A request whose address was understood and whose sender is known.
pub(crate) struct Call {
    pub(crate) request: Request<Intake>,
    pub(crate) query: Query,
    pub(crate) identity: Identity,
}

impl Api {
    /// Answers a request. `user` is set to who sent it.
    pub(crate) async fn answer(self: &Arc<Self>, request: Request<Intake>, user: &mut String) -> Answer {
        let path = request.uri().path();
        if matches!(path, "/healthz" | "/livez") || path == "/metrics" && self.shows_metrics {
            return self.monitor(path).await;
        }
        let is_head = request.method() == Method::HEAD;
        let reads = is_head || request.method() == Method::GET;
        let mut answer = match self.answered(request, user).await {
            Ok(answer) => answer,
            Err((error, challenge)) => {
                let error = if reads { error.while_reading() } else { error };
                if error.kind() == Kind::Full {
                    self.metrics.refused_full.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                }
                let mut answer = refusal(&error, is_head);
                if let Some(challenge) = challenge.and_then(|text| HeaderValue::from_str(&text).ok()) {
                    answer.headers_mut().insert(WWW_AUTHENTICATE, challenge);
                }
                answer
            }
        };
        answer.headers_mut().insert("docker-distribution-api-version", HeaderValue::from_static("registry/2.0"));
        answer
    }

    async fn answered(
        self: &Arc<Self>,
        request: Request<Intake>,
        user: &mut String,
    ) -> Result<Answer, (Error, Option<String>)> {
        let route = Route::parse(request.uri().path()).map_err(|error| {
            // Such a name can't be given, and nothing has it.
            let gives = error.kind() == Kind::ManifestUnknown && *request.method() == Method::PUT;
            (if gives { Error::new(Kind::ManifestInvalid, error.to_string()) } else { error }, None)
        })?;
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let wanted = route.wants(request.method());
        let identity = match self.auth.identify(request.headers()).await {
            Ok(identity) => identity,
            Err(error) => return Err((error, self.auth.challenge(wanted.as_ref(), Some("invalid_token")))),
        };
        identity.name().clone_into(user);
        let Some(wanted) = wanted else {
            let message = format!("{} can't be done with {}", request.method(), request.uri().path());
            return Err((Error::new(Kind::Unsupported, message), None));
        };
        if !self.auth.allows(&identity, &wanted) {
            let (kind, error) = match identity {
                Identity::Nobody => (Kind::Unauthorized, None),
                // A token server may be asked for another token.
                _ if self.auth.has_realm() => (Kind::Unauthorized, Some("insufficient_scope")),
                _ => (Kind::Denied, None),
            };
            let message = format!("{} may not {wanted}", identity.name());
            let challenge = (kind == Kind::Unauthorized).then(|| self.auth.challenge(Some(&wanted), error)).flatten();
            return Err((Error::new(kind, message), challenge));
        }
        let call = Call { request, query, identity };
        self.dispatch(route, call).await.map_err(|error| (error, None))
    }

    async fn dispatch(self: &Arc<Self>, route: Route, call: Call) -> Result<Answer> {
        let method = call.request.method().clone();
        match (route, method.as_str()) {
            (Route::Base, _) => Ok(document(StatusCode::OK, "application/json", "{}")),
            (Route::Catalog, _) => self.catalog(&call).await,
            (Route::Tags(name), _) => self.tags(name, &call).await,
            (Route::Referrers(name, digest), _) => self.referrers(name, digest, &call).await,
            (Route::Blob(name, digest), "DELETE") => self.delete_blob(name, digest).await,
            (Route::Blob(name, digest), "HEAD") => self.head_blob(name, digest, &call).await,
            (Route::Blob(name, digest), _) => self.blob(name, digest, &call).await,
            (Route::Manifest(name, reference), "PUT") => self.put_manifest(name, reference, call).await,
            (Route::Manifest(name, reference), "DELETE") => self.delete_manifest(name, reference).await,
            (Route::Manifest(name, reference), _) => self.manifest(name, reference, &call).await,
            (Route::Uploads(name), _) => self.begin_upload(name, call).await,
            (Route::Upload(name, id), "PATCH") => self.patch_upload(name, id, call).await,
            (Route::Upload(name, id), "PUT") => self.put_upload(name, id, call).await,
            (Route::Upload(name, id), "DELETE") => self.cancel_upload(name, id).await,
            (Route::Upload(name, id), _) => self.upload_status(name, id).await,
        }
    }

    /// Answers those who look after the registry. `/livez` says that it runs, `/healthz` also that it can store something.
    pub(crate) async fn monitor(&self, path: &str) -> Answer {
        match path {
            "/livez" => return document(StatusCode::OK, "text/plain", "ok\n"),
            "/metrics" => {
                let text = self.metrics.text(&self.store, self.budget.readers());
                return document(StatusCode::OK, "text/plain; version=0.0.4", text);
            }
            "/healthz" => {}
            _ => return document(StatusCode::NOT_FOUND, "text/plain", "there are /healthz, /livez and /metrics\n"),
        }
        let store = self.store.clone();
        match blocking(move || store.probe()).await {
            Ok(()) => document(StatusCode::OK, "text/plain", "ok\n"),
            Err(error) => document(StatusCode::SERVICE_UNAVAILABLE, "text/plain", format!("{error}\n")),
        }
    }
}

/// Runs what blocks on a thread of its own.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Error::new(Kind::Internal, format!("a thread ended early: {error}"))),
    }
}

/// What a request wants to do, for whoever judges it.
impl Route {
    fn wants(&self, method: &Method) -> Option<Action> {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        match self {
            Self::Base if reads => Some(Action::Enter),
            Self::Catalog if reads => Some(Action::Catalog),
            Self::Tags(name) | Self::Referrers(name, _) if reads => Some(Action::Pull(name.clone())),
            Self::Blob(name, _) | Self::Manifest(name, _) if reads => Some(Action::Pull(name.clone())),
            Self::Blob(name, _) | Self::Manifest(name, _) if *method == Method::DELETE => {
                Some(Action::Delete(name.clone()))
            }
            Self::Manifest(name, _) if *method == Method::PUT => Some(Action::Push(name.clone())),
            Self::Uploads(name) if *method == Method::POST => Some(Action::Push(name.clone())),
            Self::Upload(name, _) if reads || matches!(*method, Method::PATCH | Method::PUT | Method::DELETE) => {
                Some(Action::Push(name.clone()))
            }
            _ => None,
        }
    }
}
