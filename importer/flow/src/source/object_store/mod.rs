//! Objects in stores, known as `s3://bucket/key` and `gs://bucket/key`.
//!
//! An object store is a way to name and to sign an address; the bytes come from there as from any web server, with ranges,
//! retries, proxies and trust. Addresses are signed in their query, so that no credential is in a header: a redirect takes
//! none along. A signed address is good for 12 hours, and made anew when it has expired.
//!
//! The signature is written here, not taken from a crate. object_store cannot name a key with an empty segment or a
//! leading slash and brings a second time library; reqsign brings 60 crates, one of them the `rsa` with known timing leaks;
//! rusty-s3 builds on `url::Url`, which resolves `..` in a key, and knows no Google. The algorithm is a page, *ring*
//! has its arithmetic, and the tests compare with the libraries of AWS and Google.

mod gcs;
mod name;
mod s3;
mod sign;
mod time;

use std::sync::Arc;

use dvcr_transport::Locator;

pub use gcs::{Gcs, ServiceAccount};
pub use s3::{Keys, PathStyle, S3, S3Options};

use crate::{Error, Kind, Result};

/// An object in a store, from which [`HttpSource::located`](super::HttpSource::located) reads.
pub type Object = Arc<dyn Locator>;

/// How long a signed address is good for. Both stores allow up to 7 days.
const VALID_SECONDS: u32 = 12 * 60 * 60;

fn usage(message: impl Into<String>) -> Error {
    Error::new(Kind::Usage, message)
}

/// The endpoint as it is put in front of a path: scheme, host, port and path, without a slash at its end.
fn endpoint(text: &str) -> Result<String> {
    let fails = |why: &str| Err(usage(format!("the endpoint {text:?} {why}; write it as https://host:port")));
    let Some((scheme, rest)) = text.split_once("://") else { return fails("has no scheme") };
    if !matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") {
        return fails("is neither http nor https");
    }
    let rest = rest.trim_end_matches('/');
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    if host.is_empty() {
        return fails("has no host");
    }
    // It may hold a password, so it is not repeated.
    if host.contains('@') {
        return Err(usage("the endpoint has credentials in it: give them by the options for credentials"));
    }
    if !path.bytes().all(|byte| byte == b'/' || name::is_plain(byte)) || host.contains(['?', '#']) {
        return fails("has more in its path than plain words");
    }
    Ok(format!("{scheme}://{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_scheme_host_port_and_path() {
        for (given, used) in [
            ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
            ("HTTPS://minio.lan/", "HTTPS://minio.lan"),
            ("https://[fd00::1]:9000/s3//", "https://[fd00::1]:9000/s3"),
            ("https://gateway.lan/stores/s3", "https://gateway.lan/stores/s3"),
        ] {
            assert_eq!(endpoint(given).unwrap(), used);
        }
        for (given, word) in [
            ("minio.lan:9000", "no scheme"),
            ("ftp://host", "neither"),
            ("https:///path", "no host"),
            ("https://host/a?b", "path"),
            ("https://host?b", "path"),
            ("https://host/a%20b", "path"),
        ] {
            let error = endpoint(given).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            assert!(error.to_string().contains(word), "{error}");
        }
        let error = endpoint("https://user:s3cret@host").unwrap_err().to_string();
        assert!(error.contains("credentials") && !error.contains("s3cret"), "{error}");
    }
}
