//! `gs://bucket/key`: Google Cloud Storage.

use std::fmt;

use dvcr_transport::Locator;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject;
use serde::Deserialize;

use super::name::Name;
use super::sign::{GOOGLE, Signing};
use super::time::Moment;
use super::{VALID_SECONDS, endpoint, usage};
use crate::Result;

/// An account of a program, which signs by itself: Google is not asked for a token.
pub struct ServiceAccount {
    email: String,
    key: RsaKeyPair,
}

/// The file that Google gives out for a service account; it has more in it.
#[derive(Deserialize)]
struct File {
    #[serde(rename = "type")]
    kind: String,
    client_email: Option<String>,
    private_key: Option<String>,
}

impl ServiceAccount {
    /// Reads the JSON that Google gives out for a key of a service account.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` that says what is missing or can't be used. Never repeats the file.
    pub fn parse(json: &[u8]) -> Result<Self> {
        let file: File = serde_json::from_slice(json)
            .map_err(|error| usage(format!("it is no JSON of a Google account (line {})", error.line())))?;
        if file.kind != "service_account" {
            let kind: String = file.kind.chars().filter(|char| char.is_ascii_alphanumeric() || *char == '_').collect();
            return Err(usage(format!("it is of the type {kind}, which can't sign: give a key of a service_account")));
        }
        let missing = |name: &str| usage(format!("it has no {name}"));
        let email = file.client_email.filter(|email| !email.is_empty()).ok_or_else(|| missing("client_email"))?;
        let pem = file.private_key.ok_or_else(|| missing("private_key"))?;
        let unusable = |why: &dyn fmt::Display| usage(format!("its private_key can't be used: {why}"));
        let key = match PrivateKeyDer::from_pem_slice(pem.as_bytes()) {
            Ok(PrivateKeyDer::Pkcs8(der)) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
            Ok(PrivateKeyDer::Pkcs1(der)) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
            Ok(_) => return Err(unusable(&"it is not an RSA key")),
            Err(_) => return Err(unusable(&"it is no PEM")),
        };
        let key = key.map_err(|error| unusable(&error))?;
        Ok(Self { email, key })
    }

    fn sign(&self, text: &str) -> Result<Vec<u8>, String> {
        let mut signature = vec![0; self.key.public().modulus_len()];
        match self.key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature) {
            Ok(()) => Ok(signature),
            Err(_) => Err(format!("the key of {} could not sign", self.email)),
        }
    }
}

impl fmt::Debug for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceAccount({})", self.email)
    }
}

/// An object in Google Cloud Storage.
#[derive(Debug)]
pub struct Gcs {
    name: Name,
    endpoint: String,
    account: Option<ServiceAccount>,
}

impl Gcs {
    /// The object that `name`, `gs://bucket/key`, means; the key is taken as it is. Without an account it is asked for
    /// without a name. `endpoint` is that of an emulator or a private entrance, `https://host:port`.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` for a name or an endpoint that makes no sense.
    pub fn new(name: &str, at: Option<&str>, account: Option<ServiceAccount>) -> Result<Self> {
        let endpoint = endpoint(at.unwrap_or("https://storage.googleapis.com"))?;
        Ok(Self { name: Name::parse(name, "gs")?, endpoint, account })
    }

    fn signed(&self, now: &Moment) -> Result<String, String> {
        let url = format!("{}/{}/{}", self.endpoint, self.name.bucket(), self.name.encoded_key());
        let Some(account) = &self.account else { return Ok(url) };
        let signing =
            Signing { dialect: GOOGLE, id: &account.email, region: "auto", more: &[], now, seconds: VALID_SECONDS };
        signing.sign(&url, |text| account.sign(text))
    }
}

impl Locator for Gcs {
    fn name(&self) -> String {
        self.name.to_string()
    }

    fn locate(&self) -> Result<String, String> {
        self.signed(&Moment::now())
    }

    fn moved(&self, _region: &str) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
