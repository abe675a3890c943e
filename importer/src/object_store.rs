//! Objects in stores: what options and environment say about them.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use importer_flow::Result;
use importer_flow::source::object_store::{self as stores, Gcs, Keys, Object, S3, S3Options, ServiceAccount};

use crate::args::{From, PathStyle};
use crate::credentials::{Credentials, usage};

/// The object that `name`, which begins with `s3://` or `gs://`, means. Options come before the environment.
pub fn object(name: &str, from: &From, environment: impl Fn(&str) -> Option<OsString>) -> Result<Object> {
    let environment = Environment(&environment);
    if name.get(..2).is_some_and(|scheme| scheme.eq_ignore_ascii_case("gs")) {
        return Ok(Arc::new(gcs(name, from, &environment)?));
    }
    Ok(Arc::new(s3(name, from, &environment)?))
}

fn s3(name: &str, from: &From, environment: &Environment<'_>) -> Result<S3> {
    if from.auth_file.is_some() {
        return Err(usage("--auth-file is for gs://; s3:// takes --user and --password-file"));
    }
    let endpoint = match &from.store.endpoint {
        Some(endpoint) => Some(endpoint.clone()),
        None => environment.first(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"])?,
    };
    let region = match &from.store.region {
        Some(region) => Some(region.clone()),
        None => environment.first(&["AWS_REGION", "AWS_DEFAULT_REGION"])?,
    };
    let path_style = match from.store.path_style {
        PathStyle::Auto => stores::PathStyle::Auto,
        PathStyle::Always => stores::PathStyle::Always,
        PathStyle::Never => stores::PathStyle::Never,
    };
    S3::new(name, S3Options { endpoint, region, path_style, keys: keys(from, environment)? })
}

/// The keys that were given, or those of the environment; never one of these and one of those.
fn keys(from: &From, environment: &Environment<'_>) -> Result<Option<Keys>> {
    if from.store.anonymous {
        return Ok(None);
    }
    if from.user.is_some() || from.password_file.is_some() {
        let given = Credentials::gather(from, |name| environment.get(name).ok().flatten())?;
        return Keys::new(&given.user.unwrap_or_default(), &given.password.unwrap_or_default(), None).map(Some);
    }
    let (id, secret) = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
    match (environment.get(id)?, environment.get(secret)?) {
        (Some(id), Some(secret)) => {
            let token = environment.get("AWS_SESSION_TOKEN")?;
            Keys::new(&id, &secret, token.as_deref()).map(Some)
        }
        (None, None) => Ok(None),
        (Some(_), None) => Err(usage(format!("{id} is set and {secret} is not: set both, or use --anonymous"))),
        (None, Some(_)) => Err(usage(format!("{secret} is set and {id} is not: set both, or use --anonymous"))),
    }
}

fn gcs(name: &str, from: &From, environment: &Environment<'_>) -> Result<Gcs> {
    let unfit = [("--user", from.user.is_some()), ("--region", from.store.region.is_some())];
    if let Some((option, _)) = unfit.iter().find(|(_, given)| *given) {
        let hint = "gs:// takes --auth-file; HMAC keys work for s3:// with --endpoint https://storage.googleapis.com";
        return Err(usage(format!("{option} is not for gs://: {hint}")));
    }
    let emulator = environment.get("STORAGE_EMULATOR_HOST")?;
    let account = match (&from.auth_file, environment.get("GOOGLE_APPLICATION_CREDENTIALS")?) {
        _ if from.store.anonymous => None,
        (Some(path), _) => Some(account(path, "--auth-file")?),
        // As in Google's libraries: an emulator is not shown the key of a real account.
        (None, Some(path)) if emulator.is_none() => Some(account(Path::new(&path), "GOOGLE_APPLICATION_CREDENTIALS")?),
        (None, _) => None,
    };
    let emulator = emulator.map(|host| if host.contains("://") { host } else { format!("http://{host}") });
    Gcs::new(name, from.store.endpoint.as_deref().or(emulator.as_deref()), account)
}

fn account(path: &Path, who: &str) -> Result<ServiceAccount> {
    let named = format!("{who} {}", path.display());
    let json = fs::read(path).map_err(|error| usage(format!("{named}: can't be read")).because(error))?;
    ServiceAccount::parse(&json).map_err(|error| error.within(named))
}

/// Variables; an empty one counts as none.
struct Environment<'a>(&'a dyn Fn(&str) -> Option<OsString>);

impl Environment<'_> {
    fn get(&self, name: &str) -> Result<Option<String>> {
        let Some(value) = (self.0)(name).filter(|value| !value.is_empty()) else { return Ok(None) };
        value.into_string().map(Some).map_err(|_| usage(format!("{name} is no UTF-8")))
    }

    fn first(&self, names: &[&str]) -> Result<Option<String>> {
        names.iter().find_map(|name| self.get(name).transpose()).transpose()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// The address of the object, or what is said instead.
    fn locate(name: &str, options: &[&str], variables: &[(&str, &str)]) -> Result<String, String> {
        let from = From::try_parse_from([&["importer"], options].concat()).map_err(|error| error.to_string())?;
        let get = |name: &str| variables.iter().find(|(given, _)| *given == name).map(|(_, value)| (*value).into());
        object(name, &from, get).map_err(|error| error.to_string())?.locate()
    }

    const ID: (&str, &str) = ("AWS_ACCESS_KEY_ID", "AKID");
    const SECRET: (&str, &str) = ("AWS_SECRET_ACCESS_KEY", "s3cret\n");

    #[test]
    fn options_come_before_the_environment() {
        let variables = [
            ("AWS_ENDPOINT_URL", "http://general"),
            ("AWS_ENDPOINT_URL_S3", "http://special"),
            ("AWS_REGION", "eu-west-3"),
            ("AWS_DEFAULT_REGION", "eu-west-1"),
        ];
        assert_eq!(locate("s3://b/k", &[], &variables).unwrap(), "http://special/b/k");
        assert_eq!(locate("s3://b/k", &[], &variables[..1]).unwrap(), "http://general/b/k");
        assert_eq!(locate("s3://b/k", &["--endpoint", "http://given"], &variables).unwrap(), "http://given/b/k");
        let at_aws = |options: &[&str], variables: &[_]| locate("s3://b/k", options, variables).unwrap();
        assert_eq!(at_aws(&[], &variables[2..]), "https://b.s3.eu-west-3.amazonaws.com/k");
        assert_eq!(at_aws(&[], &variables[3..]), "https://b.s3.eu-west-1.amazonaws.com/k");
        assert_eq!(at_aws(&["--region", "us-west-2"], &variables[2..]), "https://b.s3.us-west-2.amazonaws.com/k");
        assert_eq!(at_aws(&["--path-style", "always"], &[]), "https://s3.us-east-1.amazonaws.com/b/k");
        assert_eq!(
            at_aws(&[], &[("AWS_ENDPOINT_URL", ""), ("AWS_REGION", "")]),
            "https://b.s3.us-east-1.amazonaws.com/k"
        );
    }

    #[test]
    fn keys_come_together_from_one_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secretKey");
        fs::write(&path, "other\n").unwrap();
        let token = ("AWS_SESSION_TOKEN", "t0ken");
        let signed = locate("s3://b/k", &[], &[ID, SECRET, token]).unwrap();
        assert!(
            signed.contains("X-Amz-Credential=AKID%2F") && signed.contains("X-Amz-Security-Token=t0ken"),
            "{signed}"
        );
        let given = ["--user", "given", "--password-file", path.to_str().unwrap()];
        let signed = locate("s3://b/k", &given, &[ID, SECRET, token]).unwrap();
        assert!(signed.contains("X-Amz-Credential=given%2F") && !signed.contains("t0ken"), "{signed}");
        assert!(!locate("s3://b/k", &["--anonymous"], &[ID, SECRET]).unwrap().contains('?'));
        assert!(!locate("s3://b/k", &[], &[(ID.0, ""), (SECRET.0, "")]).unwrap().contains('?'));
        let error = locate("s3://b/k", &[], &[ID]).unwrap_err();
        assert!(error.contains("AWS_SECRET_ACCESS_KEY is not"), "{error}");
        let error = locate("s3://b/k", &[], &[SECRET]).unwrap_err();
        assert!(error.contains("AWS_ACCESS_KEY_ID is not") && !error.contains("s3cret"), "{error}");
    }

    #[test]
    fn google_has_an_account_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = fixtures::store::service_account(dir.path());
        let path = path.to_str().unwrap();
        let credentials = ("GOOGLE_APPLICATION_CREDENTIALS", path);
        let emulator = ("STORAGE_EMULATOR_HOST", "localhost:9023");
        let signed = |options: &[&str], variables: &[(&str, &str)]| {
            locate("gs://b/k", options, variables).unwrap().contains("?X-Goog-Algorithm")
        };
        assert!(!signed(&[], &[]));
        assert!(signed(&[], &[credentials]));
        assert!(signed(&["--auth-file", path], &[]));
        assert!(signed(&["--auth-file", path], &[emulator]));
        assert!(!signed(&[], &[credentials, emulator]));
        assert!(!signed(&["--anonymous"], &[credentials]));
        assert_eq!(locate("gs://b/k", &[], &[emulator]).unwrap(), "http://localhost:9023/b/k");
        assert_eq!(locate("gs://b/k", &["--endpoint", "https://e"], &[emulator]).unwrap(), "https://e/b/k");
        let error = locate("gs://b/k", &["--auth-file", "/no/such"], &[]).unwrap_err();
        assert!(error.starts_with("--auth-file /no/such: can't be read"), "{error}");
        let error = locate("gs://b/k", &[], &[("GOOGLE_APPLICATION_CREDENTIALS", "/dev/null")]).unwrap_err();
        assert!(error.starts_with("GOOGLE_APPLICATION_CREDENTIALS /dev/null: it is no JSON"), "{error}");
    }

    #[test]
    fn options_of_the_other_store_are_refused() {
        let error = locate("gs://b/k", &["--user", "a", "--password-file", "b"], &[]).unwrap_err();
        assert!(error.contains("s3:// with --endpoint https://storage.googleapis.com"), "{error}");
        assert!(locate("gs://b/k", &["--region", "eu"], &[]).unwrap_err().contains("--region"));
        assert!(locate("s3://b/k", &["--auth-file", "a"], &[]).unwrap_err().contains("--auth-file"));
        assert!(locate("s3://b/k", &["--anonymous", "--auth-file", "a"], &[]).unwrap_err().contains("cannot be used"));
    }
}
