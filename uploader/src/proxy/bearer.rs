//! The tokens of CDI: JSON Web Tokens (RFC 7519) with PS256, which the API server gives to whoever may upload.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HeaderMap};
use importer_flow::{Error, Kind, Result};
use ring::signature::{RSA_PSS_2048_8192_SHA256, UnparsedPublicKey};
use serde::Deserialize;

use super::targets::Object;
use crate::der::{BIT_STRING, Der, INTEGER, OID, SEQUENCE};
use crate::refusal::Refusal;
use crate::watched::Watched;

/// Judges tokens by the public keys of their issuer.
pub struct Tokens(Keys);

enum Keys {
    File(Watched<Vec<Vec<u8>>>),
    Fixed(Arc<Vec<Vec<u8>>>),
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    /// Extensions that must be understood (RFC 7515, 4.1.11): none is.
    crit: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Claims {
    iss: Option<String>,
    /// For whom it is: CDI's name nobody, and so one that does is not for us.
    aud: Option<serde::de::IgnoredAny>,
    iat: Option<f64>,
    nbf: Option<f64>,
    exp: Option<f64>,
    operation: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    resource: Option<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resource: String,
}

impl Tokens {
    /// By the keys in a PEM file, which is read again when it changes.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` for a file without a key of RSA of 2048 bits or more.
    pub fn file(path: PathBuf) -> Result<Self> {
        let read = |contents: &[Vec<u8>]| {
            let pem = contents.first().map(Vec::as_slice).unwrap_or_default();
            keys(std::str::from_utf8(pem).map_err(|_| NO_KEY.to_owned())?)
        };
        Watched::new(vec![path], read).map(Keys::File).map(Self)
    }

    /// By the keys in this text in PEM.
    ///
    /// # Errors
    ///
    /// As [`file`](Self::file).
    pub fn text(pem: &str) -> Result<Self> {
        keys(pem).map(|keys| Self(Keys::Fixed(Arc::new(keys)))).map_err(|why| Error::new(Kind::Usage, why))
    }

    /// What a token allows to upload to.
    ///
    /// # Errors
    ///
    /// 401 for a token that is not valid now, and 400 for one that is for something else than an upload. Nothing of what
    /// is in a token is said before its signature is verified.
    pub fn verify(&self, token: &str, now: SystemTime) -> Result<Object, Refusal> {
        if token.len() > MAX_TOKEN {
            return Err(refused("it is too long"));
        }
        let (signed, signature) = token.rsplit_once('.').ok_or_else(|| refused("it is no JSON Web Token"))?;
        let (header, claims) = signed.split_once('.').ok_or_else(|| refused("it is no JSON Web Token"))?;
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| refused("it is not in base64"));
        let header: Header =
            serde_json::from_slice(&decode(header)?).map_err(|_| refused("its header can't be read"))?;
        if header.alg != "PS256" || header.crit.is_some() {
            return Err(refused("only PS256 without extensions is taken"));
        }
        let signature = decode(signature)?;
        let keys = match &self.0 {
            Keys::File(file) => file.now(),
            Keys::Fixed(keys) => Arc::clone(keys),
        };
        let verifies = |key: &Vec<u8>| {
            UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA256, key).verify(signed.as_bytes(), &signature).is_ok()
        };
        if !keys.iter().any(verifies) {
            return Err(refused("nobody who is trusted has signed it"));
        }
        let claims: Claims =
            serde_json::from_slice(&decode(claims)?).map_err(|_| refused("its claims can't be read"))?;
        claims.judge(now)
    }
}

impl Claims {
    fn judge(self, now: SystemTime) -> Result<Object, Refusal> {
        if self.iss.as_deref() != Some(ISSUER) {
            return Err(refused("somebody else has issued it"));
        }
        if self.aud.is_some() {
            return Err(refused("it is for somebody else"));
        }
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64();
        let expires = self.exp.ok_or_else(|| refused("it does not say when it expires"))?;
        if now > expires + LEEWAY {
            return Err(refused("it has expired: ask for a new one"));
        }
        if [self.iat, self.nbf].into_iter().flatten().any(|begins| now + LEEWAY < begins) {
            return Err(refused("it is not valid yet: do the clocks differ?"));
        }
        let resource = self.resource.filter(|it| it.group.is_empty() && it.resource == "persistentvolumeclaims");
        match (self.operation.as_deref(), resource, self.namespace, self.name) {
            (Some("Upload"), Some(_), Some(namespace), Some(name)) if !namespace.is_empty() && !name.is_empty() => {
                Ok(Object { namespace, name })
            }
            _ => Err(Refusal::bad("the token is for something else than an upload to a PersistentVolumeClaim")),
        }
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens")
    }
}

/// The token in `Authorization: Bearer TOKEN`.
///
/// # Errors
///
/// 400 without one, as CDI answers.
pub(super) fn token(headers: &HeaderMap) -> Result<&str, Refusal> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value =
        values.next().ok_or_else(|| Refusal::bad("there is no token: send it as Authorization: Bearer TOKEN"))?;
    let malformed = || Refusal::bad("the header Authorization makes no sense: write it as Bearer TOKEN");
    if values.next().is_some() {
        return Err(malformed());
    }
    let (scheme, token) = value.to_str().ok().and_then(|text| text.split_once(' ')).ok_or_else(malformed)?;
    let token = token.trim_start_matches(' ');
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() || !token.bytes().all(sound) {
        return Err(malformed());
    }
    Ok(token)
}

fn refused(why: &str) -> Refusal {
    Refusal::new(StatusCode::UNAUTHORIZED, "Unauthorized", format!("the token is not valid: {why}"))
}

/// The keys in a text in PEM, each as an `RSAPublicKey` (RFC 8017, A.1.1).
fn keys(pem: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut keys = Vec::new();
    for (mark, is_spki) in [("PUBLIC KEY", true), ("RSA PUBLIC KEY", false)] {
        let (begin, end) = (format!("-----BEGIN {mark}-----"), format!("-----END {mark}-----"));
        for section in pem.split(&begin).skip(1) {
            let (text, _) = section.split_once(&end).ok_or_else(|| format!("there is no {end} in it"))?;
            let text: String = text.split_whitespace().collect();
            let der = STANDARD.decode(text).map_err(|_| "a key in it is not in base64".to_owned())?;
            let key = if is_spki { in_spki(&der) } else { Some(der.as_slice()) };
            let key = key.filter(|key| is_strong(key));
            keys.push(key.ok_or("a key in it is not one of RSA with 2048 bits or more")?.to_vec());
        }
    }
    if keys.is_empty() { Err(NO_KEY.to_owned()) } else { Ok(keys) }
}

/// The key in a `SubjectPublicKeyInfo` (RFC 5280, 4.1) of RSA.
fn in_spki(der: &[u8]) -> Option<&[u8]> {
    let mut info = Der::new(der).enter(SEQUENCE)?;
    let is_rsa = info.enter(SEQUENCE)?.take(OID)? == RSA;
    let bits = info.take(BIT_STRING)?;
    let (0, key) = bits.split_first().map(|(unused, key)| (*unused, key))? else { return None };
    is_rsa.then_some(key)
}

/// Whether it is a key that the signatures can be verified with.
fn is_strong(key: &[u8]) -> bool {
    let modulus = Der::new(key).enter(SEQUENCE).and_then(|mut key| key.take(INTEGER));
    modulus.is_some_and(|modulus| modulus.iter().skip_while(|byte| **byte == 0).count() >= 256)
}

const ISSUER: &str = "cdi-apiserver";
/// Clocks differ.
const LEEWAY: f64 = 10.0;
const MAX_TOKEN: usize = 16 << 10;
const NO_KEY: &str = "there is no public key in it (-----BEGIN PUBLIC KEY-----)";
/// 1.2.840.113549.1.1.1
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];

#[cfg(test)]
mod tests;
