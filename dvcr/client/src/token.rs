//! Tokens, in the dialects of those who issue them.

use std::time::Duration;

use dvcr_transport::{Address, Ask, Budget, Client, Error, Kind, Method, Payload, Reply, Result, basic_authorization};
use serde_json::Value;

use crate::login::Login;
use crate::refusal::Refusal;

/// Where tokens are had, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issuer {
    pub(crate) realm: Address,
    pub(crate) service: Option<String>,
    /// Such as `repository:library/ubuntu:pull`.
    pub(crate) scopes: Vec<String>,
}

/// A token, and for how long it is good.
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) lasts: Duration,
}

impl Issuer {
    /// Asks for a token, as often as it takes.
    ///
    /// //# distribution, token.md and oauth.md
    ///
    /// With name and password, or with neither, by GET; by POST where that is not known, and with an identity token.
    pub(crate) async fn token(&self, client: &Client, login: Option<&Login>) -> Result<Token> {
        let mut budget = Budget::new(client.retry());
        let mut by_post = matches!(login, Some(Login::Identity(_)));
        loop {
            let failed = match self.attempt(client, login, by_post).await {
                Ok(Attempt::Token(token)) => return Ok(token),
                Ok(Attempt::OtherWay) if !by_post && login.is_some() => {
                    by_post = true;
                    continue;
                }
                Ok(Attempt::OtherWay) => Error::new(Kind::Status(405), "the server issues no tokens").at(&self.realm),
                Err(error) => error,
            };
            tracing::debug!(error = %failed, "no token");
            tokio::time::sleep(budget.failed(failed)?).await;
        }
    }

    async fn attempt(&self, client: &Client, login: Option<&Login>, by_post: bool) -> Result<Attempt> {
        let reply = if by_post { self.post(client, login).await? } else { self.get(client, login).await? };
        match reply.status {
            200 => {}
            // A form that is not known is no refusal of who fills it in.
            404 | 405 | 501 if !by_post => return Ok(Attempt::OtherWay),
            _ => {
                let refusal = Refusal::read(reply, self.secrets(login)).await;
                return Err(refusal
                    .error(&format!("give valid credentials with {}", client.side().credentials()))
                    .at(&self.realm));
            }
        }
        let at = self.realm.clone();
        let body = reply.bytes(MAX_ANSWER).await?;
        parse(&body).map(Attempt::Token).map_err(|why| Error::new(Kind::Protocol, why).at(at))
    }

    async fn get(&self, client: &Client, login: Option<&Login>) -> Result<Reply> {
        let mut address = self.realm.clone();
        if let Some(Login::Basic { user, .. }) = login {
            address = address.with_query(&format!("account={}", encoded(user)));
        }
        if let Some(service) = &self.service {
            address = address.with_query(&format!("service={}", encoded(service)));
        }
        for scope in &self.scopes {
            address = address.with_query(&format!("scope={}", encoded(scope)));
        }
        let authorization = match login {
            Some(Login::Basic { user, password }) => Some(basic_authorization(user, password)),
            _ => None,
        };
        client.ask(&address, Ask { authorization, ..Ask::new(Method::Get) }).await
    }

    async fn post(&self, client: &Client, login: Option<&Login>) -> Result<Reply> {
        let mut form = match login {
            Some(Login::Identity(token)) => format!("grant_type=refresh_token&refresh_token={}", encoded(token)),
            Some(Login::Basic { user, password }) => {
                format!("grant_type=password&username={}&password={}", encoded(user), encoded(password))
            }
            Some(Login::Bearer(_)) | None => {
                return Err(Error::new(Kind::Usage, "there is nothing to ask for a token with"));
            }
        };
        form.push_str("&client_id=millrace");
        if let Some(service) = &self.service {
            form.push_str(&format!("&service={}", encoded(service)));
        }
        form.push_str(&format!("&scope={}", encoded(&self.scopes.join(" "))));
        let ask = Ask::new(Method::Post)
            .header("content-type", "application/x-www-form-urlencoded")
            .payload(Payload::pieces([form.into()]));
        client.ask(&self.realm, ask).await
    }

    fn secrets(&self, login: Option<&Login>) -> Vec<String> {
        match login {
            Some(Login::Basic { password, .. }) => vec![password.clone()],
            Some(Login::Identity(token) | Login::Bearer(token)) => vec![token.clone()],
            None => Vec::new(),
        }
    }
}

enum Attempt {
    Token(Token),
    /// The server does not know this way to ask.
    OtherWay,
}

fn parse(body: &[u8]) -> Result<Token, &'static str> {
    let value: Value = serde_json::from_slice(body).map_err(|_| "what it gave for a token is not JSON")?;
    let text = |key: &str| value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let text = text("token").or_else(|| text("access_token")).ok_or("it gave no token")?;
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("what it gave for a token is none that can be sent");
    }
    // A number, or a text of one; 60 where nothing is said.
    let seconds = value.get("expires_in").and_then(|lasts| lasts.as_f64().or_else(|| lasts.as_str()?.parse().ok()));
    let seconds = seconds.filter(|seconds| *seconds > 0.0).unwrap_or(60.0).min(86_400.0);
    Ok(Token { text: text.into(), lasts: Duration::from_secs_f64(seconds) })
}

/// As it stands in a query or a form.
pub(crate) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Far longer than any token.
const MAX_ANSWER: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dialect_is_read() {
        let cases = [
            (r#"{"token": "a", "expires_in": 300, "issued_at": "2026-01-01T00:00:00Z"}"#, "a", 300),
            (r#"{"access_token": "b"}"#, "b", 60),
            (r#"{"token": "", "access_token": "b", "expires_in": "3600"}"#, "b", 3600),
            (r#"{"token": "a", "access_token": "b", "expires_in": 0}"#, "a", 60),
            (r#"{"token": "a", "expires_in": 1e30}"#, "a", 86_400),
            (r#"{"token": "a", "expires_in": null}"#, "a", 60),
        ];
        for (text, token, lasts) in cases {
            let found = parse(text.as_bytes()).ok().unwrap();
            assert_eq!((found.text.as_str(), found.lasts.as_secs()), (token, lasts), "{text}");
        }
        for text in ["", "[]", "{}", r#"{"token": 1}"#, r#"{"token": "a b"}"#, r#"{"token": "a\r\nb"}"#] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn nothing_of_a_value_is_left_to_be_understood() {
        assert_eq!(encoded("repository:a/b:pull,push"), "repository%3Aa%2Fb%3Apull%2Cpush");
        assert_eq!(encoded("a b&c=é+"), "a%20b%26c%3D%C3%A9%2B");
    }
}
