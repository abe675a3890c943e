//! `s3://bucket/key`: S3 of AWS, and those who speak as it does.

use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use dvcr_transport::Locator;

use super::name::Name;
use super::sign::{AWS, Signing};
use super::time::Moment;
use super::{VALID_SECONDS, endpoint, usage};
use crate::Result;

/// Where a store is and who asks.
#[derive(Clone, Debug, Default)]
pub struct S3Options {
    /// `https://host:port`; `None` for AWS.
    pub endpoint: Option<String>,
    /// The region that signatures are for; without one it is read from the endpoint, and otherwise `us-east-1`.
    pub region: Option<String>,
    /// Where the bucket stands.
    pub path_style: PathStyle,
    /// `None` asks without a name.
    pub keys: Option<Keys>,
}

/// Whether the bucket is the first part of the path, or of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathStyle {
    /// In the path at an endpoint that was given and where the bucket is no name of a host, otherwise in the host.
    #[default]
    Auto,
    /// `https://host/bucket/key`.
    Always,
    /// `https://bucket.host/key`.
    Never,
}

/// Credentials. `Debug` shows none of them.
#[derive(Clone)]
pub struct Keys {
    id: String,
    secret: String,
    token: Option<String>,
}

impl Keys {
    /// An access key id, its secret and, for temporary ones, the session token. One newline at the end of each, which
    /// `echo` puts there, is dropped.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` that names what is empty, or has white space in it.
    pub fn new(id: &str, secret: &str, token: Option<&str>) -> Result<Self> {
        let word = |text: &str, what: &str| {
            let text = text.strip_suffix('\n').map_or(text, |line| line.strip_suffix('\r').unwrap_or(line));
            if text.is_empty() {
                return Err(usage(format!("the {what} is empty")));
            }
            if text.chars().any(|char| char.is_whitespace() || char.is_control()) {
                return Err(usage(format!("the {what} has white space or a control character in it: remove it")));
            }
            Ok(text.to_owned())
        };
        let token = token.map(|token| word(token, "session token")).transpose()?;
        Ok(Self { id: word(id, "access key id")?, secret: word(secret, "secret key")?, token })
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

/// An object in an S3 store.
#[derive(Debug)]
pub struct S3 {
    name: Name,
    /// Without a slash at its end; `None` for AWS.
    endpoint: Option<String>,
    in_path: bool,
    keys: Option<Keys>,
    region: Mutex<String>,
}

impl S3 {
    /// The object that `name`, `s3://bucket/key`, means. The key is taken as it is: nothing in it is encoded.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` for a name, an endpoint or a region that makes no sense.
    pub fn new(name: &str, options: S3Options) -> Result<Self> {
        let name = Name::parse(name, "s3")?;
        let endpoint = options.endpoint.as_deref().map(endpoint).transpose()?;
        let region = match options.region {
            Some(region) if region.is_empty() || !region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') => {
                return Err(usage(format!("the region {region:?} is no word of letters, digits and -")));
            }
            Some(region) => region,
            None => endpoint.as_deref().and_then(region_of).unwrap_or("us-east-1").to_owned(),
        };
        let in_path = match options.path_style {
            PathStyle::Auto => endpoint.is_some() || !is_label(name.bucket()),
            PathStyle::Always => true,
            PathStyle::Never => false,
        };
        if let Some(endpoint) = endpoint.as_deref().filter(|endpoint| !in_path && is_number(host_of(endpoint))) {
            let message =
                format!("no bucket can be put in front of the address of {endpoint}: use --path-style always");
            return Err(usage(message));
        }
        Ok(Self { name, endpoint, in_path, keys: options.keys, region: Mutex::new(region) })
    }

    /// The address without a signature.
    fn plain(&self, region: &str) -> String {
        let (bucket, key) = (self.name.bucket(), self.name.encoded_key());
        let own;
        let endpoint = match &self.endpoint {
            Some(endpoint) => endpoint,
            None => {
                let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
                own = format!("https://s3.{region}.{domain}");
                &own
            }
        };
        if self.in_path {
            return format!("{endpoint}/{bucket}/{key}");
        }
        let (scheme, rest) = endpoint.split_once("://").unwrap_or(("https", endpoint));
        format!("{scheme}://{bucket}.{rest}/{key}")
    }

    fn signed(&self, now: &Moment) -> Result<String, String> {
        let region = self.region.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let url = self.plain(&region);
        let Some(keys) = &self.keys else { return Ok(url) };
        let more: Vec<_> = keys.token.as_deref().map(|token| ("X-Amz-Security-Token", token)).into_iter().collect();
        let signing = Signing { dialect: AWS, id: &keys.id, region: &region, more: &more, now, seconds: VALID_SECONDS };
        signing.sign(&url, |text| Ok(signing.with_secret(&keys.secret, text)))
    }
}

impl Locator for S3 {
    fn name(&self) -> String {
        self.name.to_string()
    }

    fn locate(&self) -> Result<String, String> {
        self.signed(&Moment::now())
    }

    fn moved(&self, to: &str) -> bool {
        let mut region = self.region.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.plain(&region);
        let changed = *region != to;
        to.clone_into(&mut region);
        // Without a signature, the region counts only where it is part of the address.
        changed && (self.keys.is_some() || self.plain(&region) != before)
    }
}

/// The region in an endpoint as AWS and many others name theirs: `s3.eu-central-1.amazonaws.com`.
fn region_of(endpoint: &str) -> Option<&str> {
    let mut labels = host_of(endpoint).split('.');
    let first = labels.next()?;
    if first != "s3" {
        return first.strip_prefix("s3-").filter(|region| is_region(region));
    }
    labels.find(|label| *label != "dualstack").filter(|label| is_region(label))
}

/// Whether it looks like a region, and not like the name of somebody's host.
fn is_region(label: &str) -> bool {
    label.contains('-') && label.ends_with(|char: char| char.is_ascii_digit())
}

fn host_of(endpoint: &str) -> &str {
    let (_, rest) = endpoint.split_once("://").unwrap_or(("", endpoint));
    let place = rest.split('/').next().unwrap_or_default();
    if place.starts_with('[') { place } else { place.split(':').next().unwrap_or_default() }
}

fn is_number(host: &str) -> bool {
    host.starts_with('[') || host.parse::<IpAddr>().is_ok()
}

/// Whether a bucket can stand in front of a host, where a certificate for `*.host` holds for it.
fn is_label(bucket: &str) -> bool {
    let valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    bucket.len() <= 63 && bucket.bytes().all(valid) && !bucket.starts_with('-') && !bucket.ends_with('-')
}

#[cfg(test)]
mod tests;
