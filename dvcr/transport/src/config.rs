//! What a client is told.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue, PROXY_AUTHORIZATION};

use crate::base64;
use crate::error::{Error, Kind, Result};
use crate::proxy::Proxies;
use crate::reach::Reach;
use crate::retry::Retry;
use crate::side::Side;

/// What a client is told. `Debug` shows no credential.
#[derive(Clone)]
pub struct Config {
    /// Files with certificates to trust besides the system's: PEM under any name, also several in one file, or one in
    /// DER; or folders of PEM files. A certificate of a server itself is accepted for that server.
    pub ca_files: Vec<PathBuf>,
    /// Trust any certificate, and follow redirects from `https` to `http`.
    pub insecure: bool,
    /// Trust any certificate of these hosts: `host:port`, exactly as written here.
    pub insecure_for: Vec<String>,
    /// Headers for the origin (scheme, host and port) of a resource; redirects to another origin don't get them. One
    /// newline at the end of a value is dropped.
    pub headers: Vec<(String, String)>,
    /// For basic authentication, with the same rules. Takes precedence over credentials in the URL.
    pub user: Option<String>,
    /// The password to it.
    pub password: Option<String>,
    /// For a name to resolve, for each address to answer, and for the TLS handshake.
    pub connect_timeout: Duration,
    /// The longest time without progress (4 KiB, or the end), while it is waited for. There is no limit on total time.
    pub idle_timeout: Duration,
    /// How often and how patiently a transfer tries again.
    pub retry: Retry,
    /// The most connections that read one object at a time. Each costs up to 4 MiB of memory, and 8 MiB come on top.
    pub connections: usize,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// Which addresses may be connected to.
    pub reach: Reach,
    /// By which proxies.
    pub proxies: Proxies,
    /// Whose options errors name.
    pub side: Side,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            ca_files: Vec::new(),
            insecure: false,
            insecure_for: Vec::new(),
            headers: Vec::new(),
            user: None,
            password: None,
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            retry: Retry::default(),
            connections: 8,
            user_agent: concat!("millrace/", env!("CARGO_PKG_VERSION")).into(),
            reach: Reach::default(),
            proxies: Proxies::default(),
            side: Side::default(),
        }
    }
}

impl Config {
    /// The same without anything that tells who we are: for an address of another origin.
    #[must_use]
    pub fn without_credentials(self) -> Self {
        Self { headers: Vec::new(), user: None, password: None, ..self }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Config")
            .field("ca_files", &self.ca_files)
            .field("insecure", &self.insecure)
            .field("insecure_for", &self.insecure_for)
            .field("headers", &names)
            .field("user", &self.user.is_some())
            .field("password", &self.password.is_some())
            .field("connect_timeout", &self.connect_timeout)
            .field("idle_timeout", &self.idle_timeout)
            .field("retry", &self.retry)
            .field("connections", &self.connections)
            .field("user_agent", &self.user_agent)
            .field("reach", &self.reach)
            .field("proxies", &self.proxies)
            .field("side", &self.side)
            .finish()
    }
}

/// The headers that identify us to the origin of a resource, checked.
pub(crate) struct Identity {
    /// For the origin of a resource only.
    pub(crate) headers: HeaderMap,
    /// For everyone.
    pub(crate) user_agent: HeaderValue,
    /// What must not be shown when a server repeats it.
    pub(crate) secrets: Vec<String>,
}

impl Identity {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let mut headers = HeaderMap::new();
        let mut secrets = Vec::new();
        for (name, value) in &config.headers {
            let value = without_newline(value);
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| usage(format!("{name:?} is not the name of a header: write it as 'Name: value'")))?;
            if name == PROXY_AUTHORIZATION {
                // A tunnel would carry it to the server.
                return Err(usage(
                    "credentials for a proxy belong into the proxy's address: leave the header out".into(),
                ));
            }
            if OURS.contains(&name.as_str()) {
                return Err(usage(format!("the header {name} is set by the transfer itself: leave it out")));
            }
            headers.append(&name, header(value, &format!("the header {name}"))?);
            // `Bearer TOKEN`: the token alone is as secret. Shorter ones appear by chance, and are no secrets.
            let token = value.split_once(' ').map_or(value, |(_, token)| token);
            secrets.extend([value, token].iter().filter(|text| text.len() >= 4).map(|&text| text.to_owned()));
        }
        match (&config.user, &config.password) {
            (None, None) => {}
            (None, Some(_)) => return Err(usage("there is a password but no user: give both".into())),
            (Some(_), _) if headers.contains_key(AUTHORIZATION) => {
                return Err(usage("there is a user and an Authorization header: give one of them".into()));
            }
            (Some(user), password) => {
                let user = without_newline(user);
                let password = without_newline(password.as_deref().unwrap_or_default());
                if user.contains(':') {
                    return Err(usage("the user name has a colon, which basic authentication can't carry".into()));
                }
                if user.chars().chain(password.chars()).any(char::is_control) {
                    return Err(usage("the user name or the password has a control character: remove it".into()));
                }
                let value = base64::basic(user.as_bytes(), password.as_bytes());
                secrets.extend(value.to_str().ok().and_then(|value| value.split_once(' ')).map(|(_, v)| v.to_owned()));
                headers.insert(AUTHORIZATION, value);
                secrets.push(password.to_owned());
            }
        }
        let mut user_agent = header(&config.user_agent, "the user agent")?;
        user_agent.set_sensitive(false);
        Ok(Self { headers, user_agent, secrets })
    }
}

fn header(value: &str, what: &str) -> Result<HeaderValue> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| usage(format!("{what} has a line break or a control character in its value: remove it")))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Drops exactly one newline, which `echo` puts at the end of a secret.
fn without_newline(text: &str) -> &str {
    match text.strip_suffix('\n') {
        Some(line) => line.strip_suffix('\r').unwrap_or(line),
        None => text,
    }
}

fn usage(message: String) -> Error {
    Error::new(Kind::Usage, message)
}

/// Headers that say what is transferred and how.
const OURS: [&str; 11] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "if-range",
    "keep-alive",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(headers: &[(&str, &str)], user: Option<&str>, password: Option<&str>) -> Result<Identity> {
        let headers = headers.iter().map(|&(name, value)| (name.into(), value.into())).collect();
        let config =
            Config { headers, user: user.map(Into::into), password: password.map(Into::into), ..Config::default() };
        Identity::new(&config)
    }

    /// HT29.
    #[test]
    fn one_newline_is_dropped_and_no_more() {
        let found = identity(&[("X-Auth-Token", "secret\n")], None, None).unwrap();
        assert_eq!(found.headers["x-auth-token"], "secret");
        let found = identity(&[], Some("Aladdin\n"), Some("open sesame\r\n")).unwrap();
        assert_eq!(found.headers[AUTHORIZATION], "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        for value in ["secret\n\n", "sec\nret", "sec\0ret"] {
            let error = identity(&[("X-Auth-Token", value)], None, None).err().unwrap();
            assert_eq!(error.kind(), Kind::Usage);
            assert!(error.to_string().contains("x-auth-token"), "{error}");
            assert!(!error.to_string().contains("sec"), "{error}");
            assert_eq!(identity(&[], Some("user"), Some(value)).err().unwrap().kind(), Kind::Usage);
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let kind = |headers: &[(&str, &str)], user, password| identity(headers, user, password).err().unwrap().kind();
        assert_eq!(kind(&[], None, Some("password")), Kind::Usage);
        assert_eq!(kind(&[], Some("a:b"), Some("password")), Kind::Usage);
        assert_eq!(kind(&[("Authorization", "Bearer x")], Some("user"), None), Kind::Usage);
        assert_eq!(kind(&[("Range", "bytes=0-1")], None, None), Kind::Usage);
        assert_eq!(kind(&[("Proxy-Authorization", "Basic x")], None, None), Kind::Usage);
        assert_eq!(kind(&[("two words", "x")], None, None), Kind::Usage);
    }

    #[test]
    fn debug_shows_no_secret() {
        let config = Config {
            headers: vec![("X-Auth-Token".into(), "s3cret".into())],
            user: Some("s3cret".into()),
            password: Some("s3cret".into()),
            ..Config::default()
        };
        let shown = format!("{config:?}");
        assert!(shown.contains("X-Auth-Token") && !shown.contains("s3cret"), "{shown}");
        assert_eq!(Identity::new(&config.without_credentials()).unwrap().secrets, [""; 0]);
    }
}
