//! Targets by their names alone.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::header::HOST;
use hyper::{Request, StatusCode, Uri};
use importer_flow::{Error, Kind, Result};

use super::names::{is_label, is_subdomain, service};
use super::targets::{NotReady, Object, Target, Targets};
use super::upstream::Upstream;

/// Targets whose addresses follow from the names of their objects, and which are ready when they say so at `/healthz`.
#[derive(Debug)]
pub struct Template {
    text: String,
    upstream: Arc<Upstream>,
}

impl Template {
    /// Such as `https://{service}.{namespace}.svc:8443`; there is `{name}` too.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` for what is no address of a server.
    pub fn new(text: &str, upstream: Arc<Upstream>) -> Result<Self> {
        let template = Self { text: text.trim_end_matches('/').to_owned(), upstream };
        let target = template.target("namespace", "name").ok_or_else(|| {
            let message = format!("{text}: write it as https://{{service}}.{{namespace}}.svc:8443");
            Error::new(Kind::Usage, message)
        })?;
        if target.secure && !template.upstream.is_secure() {
            let message = format!("{text}: who signs the certificates of its servers must be known (--server-ca)");
            return Err(Error::new(Kind::Usage, message));
        }
        Ok(template)
    }

    fn target(&self, namespace: &str, name: &str) -> Option<Target> {
        let text = self.text.replace("{service}", &service(name));
        let text = text.replace("{namespace}", namespace).replace("{name}", name);
        let address: Uri = text.parse().ok()?;
        let secure = match address.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let authority = address.authority()?.as_str();
        if authority.contains('@') || !matches!(address.path_and_query().map_or("/", |path| path.as_str()), "/") {
            return None;
        }
        let host = address.host()?.trim_matches(['[', ']']).to_owned();
        Some(Target { secure, host, port: address.port_u16().unwrap_or(if secure { 443 } else { 80 }) })
    }

    async fn probe(&self, target: &Target) -> Result<(), String> {
        let mut connection = self.upstream.connect::<Empty<Bytes>>(target).await?;
        let request = Request::get("/healthz").header(HOST, target.to_string()).body(Empty::new());
        let request = request.map_err(|error| error.to_string())?;
        let asked = async {
            let answer = connection.send_request(request).await.map_err(|error| error.to_string())?;
            let status = answer.status();
            let text = Limited::new(answer.into_body(), MAX_REASON).collect().await.map(|body| body.to_bytes());
            Ok((status, text.unwrap_or_default()))
        };
        let asked: Result<_, String> = tokio::time::timeout(PROBE, asked)
            .await
            .unwrap_or_else(|_| Err("it takes connections and does not answer".to_owned()));
        match asked? {
            (StatusCode::OK, _) => Ok(()),
            (status, text) => {
                let text = String::from_utf8_lossy(&text);
                Err(format!("it answers {status} {}", text.lines().next().unwrap_or_default()))
            }
        }
    }
}

impl Targets for Template {
    async fn find(&self, object: &Object) -> Result<Target, NotReady> {
        let Object { namespace, name } = object;
        // Names of other kinds could be other addresses.
        let target = (is_label(namespace) && is_subdomain(name)).then(|| self.target(namespace, name)).flatten();
        let target = target.ok_or_else(|| {
            NotReady::ever(format!("there can be no PersistentVolumeClaim {name} in the namespace {namespace}"))
        })?;
        self.probe(&target)
            .await
            .map(|()| target)
            .map_err(|why| NotReady::yet(format!("the upload server for {namespace}/{name} is not ready: {why}")))
    }
}

/// How long a server may take to say that it is ready.
const PROBE: Duration = Duration::from_secs(5);
const MAX_REASON: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn template(text: &str) -> Result<Template> {
        Template::new(text, Arc::new(Upstream::plain()))
    }

    #[test]
    fn addresses() {
        let of = |text: &str| template(text).unwrap().target("images", "jammy.vm").unwrap().to_string();
        assert_eq!(of("http://{service}.{namespace}.svc:8443"), "cdi-upload-jammy-vm.images.svc:8443");
        assert_eq!(of("http://{name}.{namespace}/"), "jammy.vm.images:80");
        assert_eq!(of("http://127.0.0.1:1234"), "127.0.0.1:1234");
        assert_eq!(of("http://[::1]:1234"), "[::1]:1234");
        for wrong in [
            "",
            "{service}",
            "ftp://{service}",
            "http://",
            "http://a/{name}",
            "http://a?{name}",
            "http://u@{name}",
            "http://{nom}",
        ] {
            assert_eq!(template(wrong).unwrap_err().kind(), Kind::Usage, "{wrong}");
        }
        let error = template("https://{service}").unwrap_err().to_string();
        assert!(error.contains("--server-ca"), "{error}");
    }

    #[test]
    fn names_that_are_none_are_no_addresses() {
        let template = template("http://{name}.{namespace}").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for (namespace, name) in
            [("images", "evil.org/"), ("images", "a@b"), ("a.b", "c"), ("images", "{namespace}"), ("images", "<b>")]
        {
            let object = Object { namespace: namespace.into(), name: name.into() };
            let not = runtime.block_on(template.find(&object)).unwrap_err();
            assert!(!not.may_change, "{not:?}");
        }
    }
}
