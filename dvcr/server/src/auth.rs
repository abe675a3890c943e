//! Who sends a request, and what they may do.

mod htpasswd;
mod token;

use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dvcr_oci::Name;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

use crate::error::{Error, Kind, Result};
use htpasswd::Htpasswd;
use token::Tokens;

/// Who may come in. With neither passwords nor tokens: everybody, to do everything.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// A file of `htpasswd -B`: whoever is in it may do everything. Read again when it changes.
    pub htpasswd: Option<PathBuf>,
    /// The same of those who may only pull and list.
    pub htpasswd_pull: Option<PathBuf>,
    /// Signed tokens, and what they must say.
    pub tokens: Option<TokenRules>,
    /// Whether pulling needs neither.
    pub anonymous_pull: bool,
}

/// What a token must say to be believed. It may come as `Bearer`, or as the password of the user `dvcr-jwt`.
#[derive(Clone, Debug, Default)]
pub struct TokenRules {
    /// A PEM file with the public keys (P-256) of whoever issues tokens. Read again when it changes.
    pub public_key: PathBuf,
    /// Where clients get tokens: the `realm` of the challenge. None: they have them already.
    pub realm: Option<String>,
    /// What the registry is called in tokens: the `service` of the challenge, and their `aud`.
    pub service: String,
    /// Who issues them: their `iss`. None: whoever has the key.
    pub issuer: Option<String>,
}

/// What somebody wants to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Ask whether this is a registry.
    Enter,
    /// List the repositories.
    Catalog,
    Pull(Name),
    Push(Name),
    Delete(Name),
}

/// Who sent a request.
#[derive(Clone, Debug)]
pub(crate) enum Identity {
    Nobody,
    /// In the file of passwords.
    User(String),
    /// In that of those who may only pull.
    Reader(String),
    /// Has a token that allows this.
    Holder(String, Vec<Grant>),
}

/// What a token allows.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub(crate) struct Grant {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) actions: Vec<String>,
}

/// Judges requests.
pub(crate) struct Auth {
    htpasswd: Option<Htpasswd>,
    readers: Option<Htpasswd>,
    tokens: Option<Tokens>,
    anonymous_pull: bool,
}

impl Auth {
    /// Reads the files now, so that a wrong one is named before anything is served.
    pub(crate) fn new(access: Access) -> Result<Self> {
        let files = access.htpasswd.as_ref().zip(access.htpasswd_pull.as_ref());
        let files = files.map(|(all, pull)| format!("{} and in {}", all.display(), pull.display()));
        let htpasswd = access.htpasswd.map(Htpasswd::new).transpose()?;
        let readers = access.htpasswd_pull.map(Htpasswd::new).transpose()?;
        if let (Some(users), Some(readers), Some(files)) = (&htpasswd, &readers, files)
            && let Some(user) = users.shared(readers)?
        {
            let message =
                format!("{user} is in {files}: whoever may do everything need not be among those who may pull");
            return Err(Error::new(Kind::Usage, message));
        }
        Ok(Self {
            htpasswd,
            readers,
            tokens: access.tokens.map(Tokens::new).transpose()?,
            anonymous_pull: access.anonymous_pull,
        })
    }

    fn is_open(&self) -> bool {
        self.htpasswd.is_none() && self.readers.is_none() && self.tokens.is_none()
    }

    /// Whether there is a place where clients get tokens.
    pub(crate) fn has_realm(&self) -> bool {
        self.tokens.as_ref().is_some_and(|tokens| tokens.rules().realm.is_some())
    }

    /// Finds out who sent a request.
    ///
    /// # Errors
    /// `Unauthorized` when the credentials are wrong: they are never taken for none.
    pub(crate) async fn identify(&self, headers: &HeaderMap) -> Result<Identity> {
        let Some(value) = headers.get(AUTHORIZATION) else { return Ok(Identity::Nobody) };
        if self.is_open() {
            return Ok(Identity::Nobody);
        }
        let wrong = || Error::new(Kind::Unauthorized, "the Authorization is neither Basic nor Bearer");
        let (scheme, rest) = value.to_str().ok().and_then(|text| text.trim().split_once(' ')).ok_or_else(wrong)?;
        let rest = rest.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            return self.holder(rest);
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return Err(wrong());
        }
        let decoded = STANDARD.decode(rest).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let decoded = decoded.ok_or_else(wrong)?;
        let (user, password) = decoded.split_once(':').ok_or_else(wrong)?;
        if user == TOKEN_USER && self.tokens.is_some() {
            return self.holder(password);
        }
        if let Some(users) = &self.htpasswd
            && users.accepts(user, password).await?
        {
            return Ok(Identity::User(user.to_owned()));
        }
        if let Some(readers) = &self.readers
            && readers.accepts(user, password).await?
        {
            return Ok(Identity::Reader(user.to_owned()));
        }
        Err(Error::new(Kind::Unauthorized, "the name or the password is wrong"))
    }

    fn holder(&self, token: &str) -> Result<Identity> {
        let Some(tokens) = &self.tokens else {
            return Err(Error::new(Kind::Unauthorized, "this registry takes no tokens, only passwords"));
        };
        let (subject, grants) = tokens.verify(token, SystemTime::now())?;
        Ok(Identity::Holder(subject, grants))
    }

    /// Whether somebody may do something.
    pub(crate) fn allows(&self, identity: &Identity, action: &Action) -> bool {
        if self.is_open() {
            return true;
        }
        match identity {
            // Clients ask here what they have to send: they are told even where pulling needs nothing.
            Identity::Nobody => self.anonymous_pull && matches!(action, Action::Pull(_)),
            Identity::User(_) => true,
            Identity::Reader(_) => matches!(action, Action::Enter | Action::Catalog | Action::Pull(_)),
            Identity::Holder(_, grants) => {
                let is_anyones = *action == Action::Enter || self.anonymous_pull && matches!(action, Action::Pull(_));
                is_anyones || grants.iter().any(|grant| grant.allows(action))
            }
        }
    }

    /// Whether somebody may pull whatever there is.
    pub(crate) fn allows_all(&self, identity: &Identity) -> bool {
        self.is_open() || self.anonymous_pull || matches!(identity, Identity::User(_) | Identity::Reader(_))
    }

    /// What the token of somebody names.
    pub(crate) fn repositories(&self, identity: &Identity) -> Vec<Name> {
        let Identity::Holder(_, grants) = identity else { return Vec::new() };
        let names = grants.iter().filter_map(|grant| Name::parse(&grant.name).ok());
        names.filter(|name| self.allows(identity, &Action::Pull(name.clone()))).collect()
    }

    /// What to answer to who has shown nothing, or not enough.
    pub(crate) fn challenge(&self, action: Option<&Action>, error: Option<&str>) -> Option<String> {
        if self.is_open() {
            return None;
        }
        let rules = self.tokens.as_ref().map(Tokens::rules);
        let Some((rules, realm)) = rules.and_then(|rules| Some((rules, rules.realm.as_ref()?))) else {
            return Some("Basic realm=\"dvcr\"".to_owned());
        };
        let mut text = format!("Bearer realm=\"{realm}\",service=\"{}\"", rules.service);
        if let Some(scope) = action.and_then(Action::scope) {
            text.push_str(&format!(",scope=\"{scope}\""));
        }
        if let Some(error) = error {
            text.push_str(&format!(",error=\"{error}\""));
        }
        Some(text)
    }
}

impl Action {
    /// What to ask a token server for.
    fn scope(&self) -> Option<String> {
        match self {
            Self::Enter => None,
            Self::Catalog => Some("registry:catalog:*".to_owned()),
            Self::Pull(name) => Some(format!("repository:{name}:pull")),
            Self::Push(name) => Some(format!("repository:{name}:pull,push")),
            Self::Delete(name) => Some(format!("repository:{name}:delete")),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enter => f.write_str("use this registry"),
            Self::Catalog => f.write_str("list the repositories"),
            Self::Pull(name) => write!(f, "pull from {name}"),
            Self::Push(name) => write!(f, "push to {name}"),
            Self::Delete(name) => write!(f, "delete from {name}"),
        }
    }
}

impl Identity {
    /// Their name, for people.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Nobody => "anonymous",
            Self::User(name) | Self::Reader(name) | Self::Holder(name, _) => name,
        }
    }
}

impl Grant {
    fn allows(&self, action: &Action) -> bool {
        let (kind, name, wanted) = match action {
            Action::Enter => return true,
            Action::Catalog => ("registry", "catalog", "*"),
            Action::Pull(name) => ("repository", name.as_str(), "pull"),
            Action::Push(name) => ("repository", name.as_str(), "push"),
            Action::Delete(name) => ("repository", name.as_str(), "delete"),
        };
        self.kind == kind && self.name == name && self.actions.iter().any(|action| action == wanted || action == "*")
    }
}

/// Deckhouse's clients send a token as the password of this user.
const TOKEN_USER: &str = "dvcr-jwt";
