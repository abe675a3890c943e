//! What an object store says when it refuses, in the XML that S3 and Google Cloud Storage share.

use hyper::{HeaderMap, StatusCode};

use crate::error::{Error, Kind};

/// The answer of an object store that refuses.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// `NoSuchKey`, …; a word.
    code: String,
    /// What it says to people.
    message: String,
    /// Where it says the bucket is.
    region: Option<String>,
}

impl Refusal {
    /// Reads an error page, if it is one of an object store. `shown` makes a text fit to be shown.
    pub(crate) fn read(headers: &HeaderMap, page: &[u8], shown: impl Fn(&[u8]) -> String) -> Option<Self> {
        let page = String::from_utf8_lossy(page);
        let start = page.trim_start_matches('\u{feff}').trim_start();
        let xml = start.starts_with("<?xml") && start.contains("<Error>");
        if !xml && !start.starts_with("<Error>") {
            return None;
        }
        let code = shown(element(&page, "Code")?.as_bytes());
        if code.is_empty() || !code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.') {
            return None;
        }
        // Google says what happened in the details, and S3 has no such element.
        let words = ["Message", "Details"].into_iter().filter_map(|name| element(&page, name));
        let message = words.map(|text| plain(&shown(text.as_bytes()))).collect::<Vec<_>>().join(" ");
        let header = headers.get("x-amz-bucket-region").and_then(|value| value.to_str().ok());
        let region = element(&page, "Region").or(header).filter(|text| is_region(text)).map(Into::into);
        Some(Self { code, message, region })
    }

    /// The same as an error.
    pub(crate) fn error(self, status: StatusCode) -> Error {
        let Self { code, message, region } = self;
        let reason = status.canonical_reason().unwrap_or_default();
        let answered = format!("the server answered {} {reason}", status.as_u16());
        let said = if message.is_empty() { code.clone() } else { format!("{code}: {message}") };
        let advice = match (hint(&code), &region) {
            (Hint::Region, Some(region)) => format!("the bucket is in the region {region}: give --region {region}"),
            (Hint::Region, None) => "check the region and the endpoint".into(),
            (Hint::Later, _) => "try again later".into(),
            (Hint::Words(words), _) => words.into(),
            (Hint::None, _) if status.is_server_error() => "try again later".into(),
            (Hint::None, _) => "check the address and the credentials".into(),
        };
        let text = format!("{} (\"{said}\"): {advice}", answered.trim_end());
        let error = Error::new(Kind::Status(status.as_u16()), text);
        // Some of these come with a status that sounds final: RequestTimeout is a 400.
        let error = if matches!(hint(&code), Hint::Later) { error.transient() } else { error };
        match region {
            Some(region) => error.in_region(region),
            None => error,
        }
    }
}

/// What to do about a refusal.
enum Hint {
    Region,
    Later,
    Words(&'static str),
    None,
}

fn hint(code: &str) -> Hint {
    Hint::Words(match code {
        "PermanentRedirect"
        | "TemporaryRedirect"
        | "AuthorizationHeaderMalformed"
        | "AuthorizationQueryParametersError"
        | "IllegalLocationConstraintException" => return Hint::Region,
        "SlowDown"
        | "ServiceUnavailable"
        | "InternalError"
        | "RequestTimeout"
        | "TooManyRequests"
        | "OperationAborted"
        | "BandwidthLimitExceeded" => return Hint::Later,
        "NoSuchKey" => "check the name of the object; every character of it counts",
        "NoSuchBucket" | "InvalidBucketName" => "check the name of the bucket and the endpoint",
        "NoSuchVersion" => "check the version",
        "AccessDenied" | "AllAccessDisabled" => {
            "check what the credentials allow, or whether a signed address has expired; a missing object may look like this too"
        }
        "AccountProblem" | "NotSignedUp" => "ask the owner of the account",
        "InvalidAccessKeyId" => "check the access key id and the endpoint",
        "SignatureDoesNotMatch" => "check the secret key",
        "InvalidToken" => "check the session token",
        "ExpiredToken" | "TokenRefreshRequired" => "get new credentials or a new signed address",
        "RequestTimeTooSkewed" | "RequestExpired" => "set the clock of this machine",
        "InvalidObjectState" => "the object is archived: restore it first",
        "MethodNotAllowed" => "the newest version of the object is a mark that it was deleted",
        "UserProjectMissing" => "the bucket wants the reader to pay, which is not offered: copy the object elsewhere",
        _ => return Hint::None,
    })
}

/// The text of the first element of this name.
fn element<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = page.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    Some(text.trim())
}

/// The characters that XML can't carry as they are.
fn plain(text: &str) -> String {
    let text = text.replace("&quot;", "'").replace("&apos;", "'").replace("&#39;", "'");
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// Whether a text can be the name of a region. It is put into a host name, so it must be a plain word.
fn is_region(text: &str) -> bool {
    (1..=40).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests;
