//! The `Authorization` header for one repository, as long as it takes.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dvcr_transport::{Address, Client, Credentials, Error, Kind, Renewal, Result};
use tokio::time::Instant;

use crate::challenge::Challenge;
use crate::login::Login;
use crate::token::Issuer;

/// The `Authorization` header for what is done in one repository. Nothing is sent before the registry asks for it; then
/// the token is renewed a little before it expires, and whenever the registry no longer takes it.
#[derive(Debug)]
pub(crate) struct Auth {
    client: Client,
    registry: Address,
    /// Whether passwords may go over an insecure connection: somebody has allowed it.
    insecure: bool,
    login: Option<Login>,
    /// What is to be done, as tokens name it.
    scopes: Vec<String>,
    state: Mutex<State>,
    /// One renewal at a time; the others take its result.
    renewing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    header: Option<String>,
    /// When to ask for another, and whom.
    renewal: Option<(Instant, Issuer)>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("header", &self.header.is_some()).finish()
    }
}

impl Auth {
    pub(crate) fn new(
        client: Client,
        registry: Address,
        insecure: bool,
        login: Option<Login>,
        scopes: Vec<String>,
    ) -> Self {
        let header = match &login {
            Some(Login::Bearer(token)) => Some(format!("Bearer {token}")),
            _ => None,
        };
        let state = Mutex::new(State { header, renewal: None });
        Self { client, registry, insecure, login, scopes, state, renewing: tokio::sync::Mutex::default() }
    }

    /// What was given to be known by, without what is secret in it.
    pub(crate) fn given(&self) -> Option<String> {
        self.login.as_ref().map(|login| match login {
            Login::Basic { user, .. } => format!("the credentials given for the user {user}"),
            Login::Identity(_) | Login::Bearer(_) => "the tokens given".to_owned(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for another token if the one there is about to expire: to be called before much is sent.
    pub(crate) async fn prepare(&self) -> Result<()> {
        let due = |state: &State| state.renewal.clone().filter(|(due, _)| *due <= Instant::now());
        if due(&self.state()).is_none() {
            return Ok(());
        }
        let _alone = self.renewing.lock().await;
        let Some((_, issuer)) = due(&self.state()) else { return Ok(()) };
        self.issue(issuer).await
    }

    async fn issue(&self, issuer: Issuer) -> Result<()> {
        let token = issuer.token(&self.client, self.login.as_ref()).await?;
        // A token is used up a little earlier than its issuer says: a request takes time, and so did the answer.
        let lasts = token.lasts.saturating_sub(MARGIN).max(token.lasts / 2);
        let mut state = self.state();
        state.header = Some(format!("Bearer {}", token.text));
        state.renewal = Some((Instant::now() + lasts, issuer));
        Ok(())
    }

    async fn answer(&self, used: Option<&str>, challenges: &[Challenge]) -> Result<bool> {
        if matches!(self.login, Some(Login::Bearer(_))) {
            return Ok(false);
        }
        let mut failed = None;
        for challenge in challenges.iter().filter(|challenge| challenge.scheme == "bearer") {
            let Some(issuer) = self.issuer(challenge)? else { continue };
            match self.issue(issuer).await {
                Ok(()) => return Ok(self.state().header.as_deref() != used),
                Err(error) => failed = Some(error),
            }
        }
        let asks_for_basic = challenges.is_empty() || challenges.iter().any(|challenge| challenge.scheme == "basic");
        if let Some(header) = self.login.as_ref().and_then(Login::basic).filter(|_| asks_for_basic) {
            if !self.registry.is_secure() && !self.registry.is_loopback() && !self.insecure {
                return Err(Error::new(Kind::Redirect, "a password is not sent over http").at(&self.registry));
            }
            let fresh = used != Some(header.as_str());
            let mut state = self.state();
            (state.header, state.renewal) = (Some(header), None);
            return Ok(fresh);
        }
        failed.map_or(Ok(false), Err)
    }

    fn issuer(&self, challenge: &Challenge) -> Result<Option<Issuer>> {
        let Some(realm) = challenge.value("realm") else { return Ok(None) };
        // Some give a realm that is a name, as basic authentication has it, or a path.
        let realm = match Address::parse(realm) {
            Ok(realm) => realm,
            Err(_) => return Ok(None),
        };
        if self.registry.is_secure() && !realm.is_secure() && !realm.is_loopback() && !self.insecure {
            let message = format!("it wants tokens to be had from {realm}, which is not secure: refused");
            return Err(Error::new(Kind::Redirect, message).at(&self.registry));
        }
        let mut scopes = self.scopes.clone();
        for scope in challenge.value("scope").unwrap_or_default().split_whitespace() {
            let covered = scopes.iter().any(|ours| covers(ours, scope));
            if !covered && scopes.len() < MAX_SCOPES {
                scopes.push(scope.to_owned());
            }
        }
        Ok(Some(Issuer { realm, service: challenge.value("service").map(Into::into), scopes }))
    }
}

/// Whether `ours` allows all that `theirs` does: the same resource, with the same actions or more.
fn covers(ours: &str, theirs: &str) -> bool {
    let (Some((resource, actions)), Some((same, wanted))) = (ours.rsplit_once(':'), theirs.rsplit_once(':')) else {
        return ours == theirs;
    };
    resource == same && wanted.split(',').all(|action| actions.split(',').any(|ours| ours == action))
}

impl Credentials for Auth {
    fn authorization(&self) -> Option<String> {
        self.state().header.clone()
    }

    fn renew<'a>(&'a self, used: Option<&'a str>, challenges: &'a [String]) -> Renewal<'a> {
        Box::pin(async move {
            let _alone = self.renewing.lock().await;
            if self.state().header.as_deref() != used {
                // Somebody else was told the same, and has done something about it.
                return Ok(true);
            }
            self.answer(used, &Challenge::parse(challenges)).await
        })
    }
}

/// How much earlier than it expires a token is renewed.
const MARGIN: Duration = Duration::from_secs(10);
const MAX_SCOPES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_that_are_covered_are_not_asked_for_twice() {
        assert!(covers("repository:a/b:pull,push", "repository:a/b:pull"));
        assert!(covers("repository:a/b:pull", "repository:a/b:pull"));
        assert!(!covers("repository:a/b:pull", "repository:a/b:pull,push"));
        assert!(!covers("repository:a/b:pull,push", "repository:a:pull"));
        assert!(!covers("repository:a:pull", "registry:catalog:*"));
        assert!(covers("aws", "aws"));
    }
}
