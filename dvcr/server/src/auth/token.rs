//! Signed tokens: JSON Web Tokens (RFC 7519) with ES256, as the token servers of registries issue them.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use serde::Deserialize;

use super::{Grant, TokenRules};
use crate::error::{Error, Kind, Result};
use crate::watched::Watched;

/// Verifies tokens.
pub(super) struct Tokens {
    rules: TokenRules,
    /// The points of the curve.
    keys: Watched<Vec<Vec<u8>>>,
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
    sub: Option<String>,
    aud: Option<Audience>,
    exp: Option<f64>,
    nbf: Option<f64>,
    #[serde(default)]
    access: Option<Vec<Grant>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Tokens {
    pub(super) fn new(rules: TokenRules) -> Result<Self> {
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\');
        if !rules.realm.as_deref().is_none_or(is_plain) || !is_plain(&rules.service) {
            let message = "the realm and the service of tokens stand in a header: no quotes, spaces or other alphabets";
            return Err(Error::new(Kind::Usage, message));
        }
        let keys = Watched::new(vec![rules.public_key.clone()], |files| {
            parse(files.first().map(Vec::as_slice).unwrap_or_default())
        })?;
        Ok(Self { rules, keys })
    }

    pub(super) fn rules(&self) -> &TokenRules {
        &self.rules
    }

    /// Who a token is about, and what it allows.
    ///
    /// # Errors
    /// `Unauthorized` that says what is wrong with it, but nothing of what is in it before its signature is verified.
    pub(super) fn verify(&self, token: &str, now: SystemTime) -> Result<(String, Vec<Grant>)> {
        let refused = |why: &str| Error::new(Kind::Unauthorized, format!("the token is not valid: {why}"));
        if token.len() > MAX_TOKEN {
            return Err(refused("it is too long"));
        }
        let (signed, signature) = token.rsplit_once('.').ok_or_else(|| refused("it is no JSON Web Token"))?;
        let (header, claims) = signed.split_once('.').ok_or_else(|| refused("it is no JSON Web Token"))?;
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| refused("it is not in base64"));
        let header: Header =
            serde_json::from_slice(&decode(header)?).map_err(|_| refused("its header can't be read"))?;
        if header.alg != "ES256" || header.crit.is_some() {
            return Err(refused("only ES256 without extensions is taken"));
        }
        let signature = decode(signature)?;
        let keys = self.keys.now()?;
        let is_signed = keys.iter().any(|key| {
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(signed.as_bytes(), &signature).is_ok()
        });
        if !is_signed {
            return Err(refused("nobody who is trusted has signed it"));
        }
        let claims: Claims =
            serde_json::from_slice(&decode(claims)?).map_err(|_| refused("its claims can't be read"))?;
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64();
        let expires = claims.exp.ok_or_else(|| refused("it does not say when it expires"))?;
        if now >= expires + LEEWAY {
            return Err(refused("it has expired"));
        }
        if claims.nbf.is_some_and(|begins| now + LEEWAY < begins) {
            return Err(refused("it is not valid yet"));
        }
        if self.rules.issuer.is_some() && claims.iss != self.rules.issuer {
            return Err(refused("somebody else has issued it"));
        }
        let is_ours = match &claims.aud {
            Some(Audience::One(one)) => *one == self.rules.service,
            Some(Audience::Many(many)) => many.contains(&self.rules.service),
            None => false,
        };
        if !is_ours {
            return Err(refused("it is for another registry"));
        }
        let subject = claims.sub.filter(|subject| !subject.is_empty()).unwrap_or_else(|| "token".to_owned());
        Ok((subject, claims.access.unwrap_or_default()))
    }
}

/// The keys in a PEM file.
fn parse(pem: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut keys = Vec::new();
    for key in SubjectPublicKeyInfoDer::pem_slice_iter(pem) {
        let key = key.map_err(|error| format!("it can't be read as PEM: {error}"))?;
        match key.as_ref().split_at_checked(P256.len()) {
            Some((P256, point)) if point.len() == 65 && point.first() == Some(&4) => keys.push(point.to_vec()),
            _ => return Err("a public key in it is not of the curve P-256, which ES256 needs".to_owned()),
        }
    }
    if keys.is_empty() {
        return Err("there is no public key in it (-----BEGIN PUBLIC KEY-----)".to_owned());
    }
    Ok(keys)
}

/// What stands in front of the point in a public key of P-256 (RFC 5480, 2): the only way to write it.
const P256: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
const MAX_TOKEN: usize = 16 << 10;
/// Clocks differ.
const LEEWAY: f64 = 30.0;
