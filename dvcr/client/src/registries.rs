//! `registries.conf` of containers: which registries have mirrors, are insecure, or are not to be asked.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use crate::config::{Mirror, Pulls, Route};
use crate::error::{Error, Kind, Result};
use crate::keyring::Keyring;

/// What a `registries.conf` says, in version 2 of its format (containers-registries.conf(5)).
///
/// `[[registry]]` with `prefix`, `location`, `insecure`, `blocked` and `mirror-by-digest-only`, and in it
/// `[[registry.mirror]]` with `location`, `insecure` and `pull-from-mirror`, are read. What is about short names is not,
/// because we know none. Other files, as in `registries.conf.d`, are not looked for.
#[derive(Clone, Debug, Default)]
pub struct Registries {
    routes: Vec<Route>,
}

impl Registries {
    /// Reads a file. Certificates for a mirror, or for a registry that its images are redirected to, may lie beside it, where
    /// containers have them: `certs.d/HOST[:PORT]/*.crt`.
    ///
    /// # Errors
    ///
    /// `Kind::Usage` that names the file, and the line where that helps.
    pub fn read(path: &Path) -> Result<Self> {
        let unusable = |why: String| Error::new(Kind::Usage, format!("{}: {why}", path.display()));
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(MAX_FILE).read_to_string(&mut text));
        read.map_err(|error| unusable(error.to_string()))?;
        let mut registries = Self::parse(&text).map_err(|error| unusable(error.to_string()))?;
        let certificates = path.parent().unwrap_or(Path::new("")).join("certs.d");
        for mirror in registries.routes.iter_mut().flat_map(|route| &mut route.mirrors) {
            let host = mirror.at.split('/').next().unwrap_or_default();
            let Ok(files) = certificates.join(host).read_dir() else { continue };
            let files = files.filter_map(|file| Some(file.ok()?.path()));
            mirror.ca_files.extend(files.filter(|file| file.extension().is_some_and(|end| end == "crt")));
            mirror.ca_files.sort();
        }
        Ok(registries)
    }

    /// Understands the text of such a file.
    ///
    /// # Errors
    ///
    /// `Kind::Usage`.
    pub fn parse(text: &str) -> Result<Self> {
        let line = |at: usize| text.get(..at).map_or(1, |before| before.split('\n').count());
        let table = DeTable::parse(text).map_err(|error| {
            let place = error.span().map(|span| format!("line {}: ", line(span.start))).unwrap_or_default();
            Error::new(Kind::Usage, format!("{place}{}", error.message().lines().next().unwrap_or_default()))
        })?;
        let table = table.get_ref();
        if table.contains_key("registries") {
            let why = "it is of version 1: write [[registry]] in place of [registries.…]";
            return Err(Error::new(Kind::Usage, why));
        }
        let mut routes: Vec<Route> = Vec::new();
        for (at, registry) in tables(table, "registry")? {
            let route = route(registry).map_err(|error| error.at(format_args!("line {}", line(at))))?;
            if routes.iter().any(|before| before.of == route.of) {
                let message = format!("line {}: {} is there twice", line(at), route.of);
                return Err(Error::new(Kind::Usage, message));
            }
            routes.push(route);
        }
        Ok(Self { routes })
    }

    /// The routes, for a client that is known to mirrors by `keyring`, and trusts `ca_files` there too.
    #[must_use]
    pub fn routes(mut self, keyring: &Keyring, ca_files: &[std::path::PathBuf]) -> Vec<Route> {
        for mirror in self.routes.iter_mut().flat_map(|route| &mut route.mirrors) {
            mirror.keyring = keyring.clone();
            mirror.ca_files.extend_from_slice(ca_files);
        }
        self.routes
    }
}

fn route(registry: &DeTable<'_>) -> Result<Route> {
    let location = text(registry, "location")?;
    let prefix = text(registry, "prefix")?;
    let (of, location) = match (prefix, location) {
        (Some(prefix), location) => {
            if location.is_none() && !prefix.starts_with("*.") {
                let message = format!("the registry {prefix} has no location");
                return Err(Error::new(Kind::Usage, message));
            }
            let elsewhere = location.filter(|location| *location != prefix);
            (prefix, elsewhere)
        }
        (None, Some(location)) => (location, None),
        (None, None) => return Err(Error::new(Kind::Usage, "a registry has neither prefix nor location")),
    };
    let by_digest_only = flag(registry, "mirror-by-digest-only")?;
    let mut mirrors = Vec::new();
    for (_, mirror) in tables(registry, "mirror")? {
        let Some(at) = text(mirror, "location")? else {
            return Err(Error::new(Kind::Usage, format!("a mirror of {of} has no location")));
        };
        let pulls = match text(mirror, "pull-from-mirror")?.as_deref() {
            None if by_digest_only => Pulls::ByDigest,
            None | Some("all") if !by_digest_only => Pulls::All,
            Some("digest-only") if !by_digest_only => Pulls::ByDigest,
            Some("tag-only") if !by_digest_only => Pulls::ByTag,
            Some(_) if by_digest_only => {
                let why = "has mirror-by-digest-only, and a mirror with pull-from-mirror: only one of them counts";
                return Err(Error::new(Kind::Usage, format!("the registry {of} {why}")));
            }
            _ => {
                let message = format!("the mirror {at}: pull-from-mirror is all, digest-only or tag-only");
                return Err(Error::new(Kind::Usage, message));
            }
        };
        mirrors.push(Mirror { at, insecure: flag(mirror, "insecure")?, pulls, ..Mirror::default() });
    }
    Ok(Route { of, location, insecure: flag(registry, "insecure")?, blocked: flag(registry, "blocked")?, mirrors })
}

/// The tables under `key`, each with where it stands.
fn tables<'a>(table: &'a DeTable<'_>, key: &str) -> Result<Vec<(usize, &'a DeTable<'a>)>> {
    let wrong = || Error::new(Kind::Usage, format!("\"{key}\" is no list of tables: write [[{key}]]"));
    let Some(list) = table.get(key) else { return Ok(Vec::new()) };
    let DeValue::Array(list) = list.get_ref() else { return Err(wrong()) };
    let tables = list.iter().map(|one| match one.get_ref() {
        DeValue::Table(table) => Ok((one.span().start, table)),
        _ => Err(wrong()),
    });
    tables.collect()
}

fn text(table: &DeTable<'_>, key: &str) -> Result<Option<String>> {
    match table.get(key).map(|value| value.get_ref()) {
        None => Ok(None),
        Some(DeValue::String(text)) => Ok(Some(text.trim_end_matches('/').to_owned()).filter(|text| !text.is_empty())),
        Some(_) => Err(Error::new(Kind::Usage, format!("\"{key}\" is no text"))),
    }
}

fn flag(table: &DeTable<'_>, key: &str) -> Result<bool> {
    match table.get(key).map(|value| value.get_ref()) {
        None => Ok(false),
        Some(DeValue::Boolean(flag)) => Ok(*flag),
        Some(_) => Err(Error::new(Kind::Usage, format!("\"{key}\" is neither true nor false"))),
    }
}

/// More than anybody writes.
const MAX_FILE: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_containers_write_is_read() {
        let text = r#"
            unqualified-search-registries = ["registry.fedoraproject.org", "docker.io"]
            short-name-mode = "enforcing"

            [[registry]]
            location = "docker.io"
            [[registry.mirror]]
            location = "mirror.lan:5000/hub"
            insecure = true
            [[registry.mirror]]
            location = "other.lan"
            pull-from-mirror = "digest-only"

            [[registry]]
            prefix = "r.example/team"
            location = "inner.lan/team/"
            insecure = true
            mirror-by-digest-only = true
            mirror = [{ location = "m.lan" }]

            [[registry]]
            prefix = "*.bad.example"
            blocked = true

            [aliases]
            fedora = "registry.fedoraproject.org/fedora"
        "#;
        let routes = Registries::parse(text).unwrap().routes(&Keyring::default(), &["ca.pem".into()]);
        let [hub, team, bad] = routes.as_slice() else { panic!("{routes:?}") };
        assert_eq!((hub.of.as_str(), hub.location.as_deref(), hub.insecure), ("docker.io", None, false));
        let mirrors: Vec<_> = hub.mirrors.iter().map(|one| (one.at.as_str(), one.insecure, one.pulls)).collect();
        assert_eq!(mirrors, [("mirror.lan:5000/hub", true, Pulls::All), ("other.lan", false, Pulls::ByDigest)]);
        assert_eq!((team.of.as_str(), team.location.as_deref()), ("r.example/team", Some("inner.lan/team")));
        assert_eq!((team.insecure, team.mirrors[0].pulls), (true, Pulls::ByDigest));
        assert_eq!(team.mirrors[0].ca_files, [Path::new("ca.pem")]);
        assert!(bad.blocked && bad.location.is_none());
        assert!(Registries::parse("").unwrap().routes.is_empty());
    }

    #[test]
    fn what_can_not_be_meant_is_refused() {
        for (text, says) in [
            ("[registries.search]\nregistries = []", "version 1"),
            ("x = ", "line 1: "),
            ("\n\n[[registry]\n", "line 3: "),
            ("registry = 1", "[[registry]]"),
            ("[[registry]]\n", "neither prefix nor location"),
            ("\n[[registry]]\nprefix = \"a.b/c\"", "line 2: the registry a.b/c has no location"),
            ("[[registry]]\nlocation = 1", "\"location\" is no text"),
            ("[[registry]]\nlocation = \"a.b\"\nblocked = 1", "\"blocked\""),
            ("[[registry]]\nlocation = \"a.b\"\n[[registry]]\nlocation = \"a.b\"", "twice"),
            ("[[registry]]\nlocation = \"a.b\"\n[[registry.mirror]]", "a mirror of a.b has no location"),
            ("[[registry]]\nlocation = \"a.b\"\nmirror = [{location=\"c.d\",pull-from-mirror=\"x\"}]", "tag-only"),
        ] {
            let error = Registries::parse(text).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            assert!(error.to_string().contains(says), "{text}: {error}");
        }
    }
}
