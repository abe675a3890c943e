//! Logins by registry and repository, as Docker and Kubernetes keep them.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use dvcr_oci::{Host, Name};
use serde_json::{Map, Value};

use crate::base64;
use crate::error::{Error, Kind, Result};
use crate::login::Login;

/// Logins by registry and repository: what Docker's `config.json` and Kubernetes' pull secrets hold.
///
/// A key is a host, with a port if it has one, and may go on with the beginning of a repository
/// (`registry.example/team/app`): the longest that fits is taken. `https://` in front and `/v1/` or `/v2/` behind mean
/// nothing, and `*.` in front any one label, as kubelet has it.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    logins: Vec<(Key, Option<Login>)>,
    /// Hosts whose logins some other program has, and its name; `None` for all hosts.
    helpers: Vec<(Option<String>, String)>,
}

/// For what a login is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    host: String,
    /// The beginning of a repository, without slashes around it.
    path: String,
}

impl Keyring {
    /// The one login for every registry.
    #[must_use]
    pub fn only(login: Login) -> Self {
        let key = Key { host: "*".into(), path: String::new() };
        Self { logins: vec![(key, Some(login))], helpers: Vec::new() }
    }

    /// Reads a file: `config.json` of Docker, `auth.json` of Podman, or the `.dockerconfigjson` or `.dockercfg` of a secret;
    /// also a folder with one of them in it.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` that names the file.
    pub fn read(path: &Path) -> Result<Self> {
        let unusable =
            |why: String| Error::new(Kind::Usage, format!("the file of credentials {}: {why}", path.display()));
        let found = if path.is_dir() {
            let names = [".dockerconfigjson", "config.json", "auth.json", ".dockercfg"];
            let found = names.iter().map(|name| path.join(name)).find(|file| file.is_file());
            found.ok_or_else(|| unusable(format!("the folder has none of {}", names.join(", "))))?
        } else {
            path.to_owned()
        };
        let mut text = String::new();
        let read = File::open(found).and_then(|file| file.take(MAX_FILE).read_to_string(&mut text));
        read.map_err(|error| unusable(error.to_string()))?;
        Self::parse(&text).map_err(|error| unusable(error.to_string()))
    }

    /// Understands the text of such a file.
    ///
    /// # Errors
    ///
    /// `Kind::Usage`, without a word of what is in it.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |why: String| Error::new(Kind::Usage, why);
        let value: Value = serde_json::from_str(text).map_err(|error| {
            wrong(format!("it can't be read as JSON (line {}, column {})", error.line(), error.column()))
        })?;
        let Value::Object(file) = value else { return Err(wrong("it is not a JSON object".into())) };
        let known = ["auths", "credHelpers", "credsStore"].iter().any(|key| file.contains_key(*key));
        let auths = match file.get("auths") {
            Some(Value::Object(auths)) => auths.clone(),
            None | Some(Value::Null) if known => Map::new(),
            // The old form has the entries at the top.
            None => file.clone(),
            Some(_) => return Err(wrong("\"auths\" is not an object".into())),
        };
        let mut logins = Vec::new();
        for (key, entry) in &auths {
            // Whatever else Docker keeps in the file has no place here.
            let Value::Object(entry) = entry else { continue };
            let login = login(entry).map_err(|why| wrong(format!("the entry for {key}: {why}")))?;
            logins.push((Key::parse(key), login));
        }
        let mut helpers = Vec::new();
        if let Some(Value::Object(named)) = file.get("credHelpers") {
            let named =
                named.iter().filter_map(|(host, name)| Some((Some(Key::parse(host).host), name.as_str()?.to_owned())));
            helpers.extend(named);
        }
        if let Some(name) = file.get("credsStore").and_then(Value::as_str).filter(|name| !name.is_empty()) {
            helpers.push((None, name.to_owned()));
        }
        Ok(Self { logins, helpers })
    }

    /// The same, and where it has none, those of `other`.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.logins.extend(other.logins);
        self.helpers.extend(other.helpers);
        self
    }

    /// The login for this repository, if there is one.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` where only a credential helper has it: other programs are not run.
    pub fn find(&self, host: &Host, name: &Name) -> Result<Option<&Login>> {
        let names = names_of(host);
        let fits = |key: &Key| {
            let path = key.path.is_empty()
                || name.as_str().strip_prefix(&key.path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            path && names.iter().any(|name| key.is_for(name))
        };
        // Of equally long ones the first; one that names the host before one that fits many.
        let rank = |key: &Key| (key.path.len(), !key.host.contains('*'));
        let mut best: Option<&(Key, Option<Login>)> = None;
        for entry in self.logins.iter().filter(|(key, _)| fits(key)) {
            if best.is_none_or(|best| rank(&entry.0) > rank(&best.0)) {
                best = Some(entry);
            }
        }
        if let Some((_, Some(login))) = best {
            return Ok(Some(login));
        }
        let named = |helper: &&(Option<String>, String)| helper.0.as_ref().is_some_and(|host| names.contains(host));
        let of_all = |helper: &&(Option<String>, String)| helper.0.is_none() && best.is_some();
        if let Some((_, helper)) = self.helpers.iter().find(named).or_else(|| self.helpers.iter().find(of_all)) {
            let message = format!(
                "the credentials for {host} are with the credential helper docker-credential-{helper}, and no other program \
                 is run for them: put user and password, or a token, into the file"
            );
            return Err(Error::new(Kind::Usage, message));
        }
        Ok(None)
    }
}

impl Key {
    fn parse(text: &str) -> Self {
        let rest = text.split_once("://").map_or(text, |(_, rest)| rest).trim_matches('/');
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = match path {
            "v1" | "v2" => "",
            path => path,
        };
        Self { host: host.to_ascii_lowercase(), path: path.into() }
    }

    fn is_for(&self, name: &str) -> bool {
        match self.host.strip_prefix("*.") {
            _ if self.host == "*" => true,
            Some(end) => name.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest == end),
            None => self.host == name,
        }
    }
}

/// The names under which the logins for a registry may be kept.
fn names_of(host: &Host) -> Vec<String> {
    if host.is_docker_hub() {
        return ["docker.io", "index.docker.io", "registry-1.docker.io"].map(str::to_owned).to_vec();
    }
    let mut names = vec![host.to_string()];
    match host.port() {
        Some(443) => names.push(host.name().into()),
        None => names.push(format!("{}:443", host.name())),
        Some(_) => {}
    }
    names
}

/// What an entry says. One without anything is what Docker leaves where a helper has the rest.
fn login(entry: &Map<String, Value>) -> Result<Option<Login>, &'static str> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    if let Some(token) = text("registrytoken") {
        return Ok(Some(Login::Bearer(token)));
    }
    let (mut user, mut password) = (text("username"), text("password"));
    if let Some(auth) = text("auth") {
        let decoded = base64::decode(&auth).and_then(|bytes| String::from_utf8(bytes).ok());
        let decoded = decoded.ok_or("\"auth\" is not base64 of a text")?;
        let (first, second) = decoded.split_once(':').ok_or("\"auth\" has no colon between user and password")?;
        // Docker pads with zeros.
        (user, password) = (Some(first.into()), Some(second.trim_end_matches('\0').into()));
    }
    if let Some(token) = text("identitytoken") {
        return Ok(Some(Login::Identity(token)));
    }
    Ok(match (user, password) {
        (Some(user), Some(token)) if user == "<token>" => Some(Login::Identity(token)),
        (Some(user), password) => Some(Login::Basic { user, password: password.unwrap_or_default() }),
        (None, _) => None,
    })
}

/// What a secret of Kubernetes may hold.
const MAX_FILE: u64 = 1 << 20;

#[cfg(test)]
mod tests;
