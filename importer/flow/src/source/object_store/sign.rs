//! Signatures in the query of an address: version 4 of AWS, and what Google made of it.
//!
//! - <https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html>
//! - <https://cloud.google.com/storage/docs/authentication/canonical-requests>

use std::fmt::Write as _;

use dvcr_transport::Address;
use ring::{digest, hmac};

use super::name::encode;
use super::time::Moment;

/// What differs between those who understand such signatures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialect {
    algorithm: &'static str,
    /// Before the names in the query.
    prefix: &'static str,
    service: &'static str,
    /// The last word of a scope.
    request: &'static str,
}

pub(super) const AWS: Dialect =
    Dialect { algorithm: "AWS4-HMAC-SHA256", prefix: "X-Amz", service: "s3", request: "aws4_request" };
pub(super) const GOOGLE: Dialect =
    Dialect { algorithm: "GOOG4-RSA-SHA256", prefix: "X-Goog", service: "storage", request: "goog4_request" };

/// Who signs what for whom.
#[derive(Debug)]
pub(super) struct Signing<'a> {
    pub(super) dialect: Dialect,
    /// Of the credentials.
    pub(super) id: &'a str,
    pub(super) region: &'a str,
    /// More of the query that is signed: names and values, not encoded.
    pub(super) more: &'a [(&'a str, &'a str)],
    pub(super) now: &'a Moment,
    /// How long the address is good for.
    pub(super) seconds: u32,
}

impl Signing<'_> {
    /// `url`, which has a path and no query, with a query that `sign` signs, for GET.
    pub(super) fn sign(&self, url: &str, sign: impl FnOnce(&str) -> Result<Vec<u8>, String>) -> Result<String, String> {
        let address = Address::parse(url).map_err(|error| error.to_string())?;
        let Dialect { algorithm, prefix, service, request } = self.dialect;
        let scope = format!("{}/{}/{service}/{request}", self.now.date, self.region);
        let (credential, expires) = (format!("{}/{scope}", self.id), self.seconds.to_string());
        let mut query: Vec<(String, &str)> = [
            ("Algorithm", algorithm),
            ("Credential", &credential),
            ("Date", &self.now.time),
            ("Expires", &expires),
            ("SignedHeaders", "host"),
        ]
        .iter()
        .map(|(name, value)| (format!("{prefix}-{name}"), *value))
        .collect();
        query.extend(self.more.iter().map(|&(name, value)| (name.to_owned(), value)));
        // "sorted by name", of encoded names; ours have nothing to encode.
        query.sort();
        let pairs: Vec<_> = query.iter().map(|(name, value)| format!("{name}={}", encode(value, |_| false))).collect();
        let query = pairs.join("&");
        let (path, host) = (address.target(), address.authority());
        let canonical = format!("GET\n{path}\n{query}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD");
        let hash = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
        let signature = hex(&sign(&format!("{algorithm}\n{}\n{scope}\n{hash}", self.now.time))?);
        Ok(format!("{url}?{query}&{prefix}-Signature={signature}"))
    }

    /// Signs `text` with a secret key, as AWS does.
    pub(super) fn with_secret(&self, secret: &str, text: &str) -> Vec<u8> {
        let mac = |key: &[u8], text: &str| {
            hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
        };
        let key = mac(format!("AWS4{secret}").as_bytes(), &self.now.date);
        let key =
            [self.region, self.dialect.service, self.dialect.request].iter().fold(key, |key, text| mac(&key, text));
        mac(&key, text)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
