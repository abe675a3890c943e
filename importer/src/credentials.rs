//! Who we are to a source: from options, files and the environment.

use std::fs;
use std::path::Path;

use importer_flow::credentials::{Secret, header, is_name, read};
use importer_flow::{Error, Kind, Result};

use crate::args::From;

/// Headers, user and password for a source. The one newline that `echo` leaves at the end of a value is dropped where they
/// are put into requests.
#[derive(Default)]
pub struct Credentials {
    pub headers: Vec<(String, String)>,
    pub user: Option<String>,
    pub password: Option<String>,
}

impl Credentials {
    /// Only headers.
    pub fn of_headers(given: &[Secret]) -> Result<Self> {
        let parse =
            |line: &Secret| header(&line.0).ok_or_else(|| usage("a header has no name; write it as 'Name: value'"));
        Ok(Self { headers: given.iter().map(parse).collect::<Result<_>>()?, ..Self::default() })
    }

    /// What the options say, and what the environment says of things that no option speaks of. No error repeats a value.
    pub fn gather(from: &From, env: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let mut headers = Vec::new();
        for line in &from.header {
            headers.push(header(&line.0).ok_or_else(|| usage("a --header has no name; write it as 'Name: value'"))?);
        }
        for path in &from.header_file {
            headers.extend(headers_at(path)?);
        }
        if from.header.is_empty() && from.header_file.is_empty() {
            headers = lines(&env(HEADERS).unwrap_or_default(), HEADERS)?;
        }
        let user = from.user.clone().or_else(|| env(USER));
        let password = match &from.password_file {
            Some(path) => Some(read(path)?),
            None => env(PASSWORD),
        };
        match (&user, &password) {
            (Some(_), None) => Err(usage("a user needs a password: give --password-file, or MILLRACE_PASSWORD")),
            (None, Some(_)) => Err(usage("a password needs a user: give --user, or MILLRACE_USER")),
            _ => Ok(Self { headers, user, password }),
        }
    }
}

/// The headers in a file, or those in a folder whose files are named like headers, as a Secret is mounted.
fn headers_at(path: &Path) -> Result<Vec<(String, String)>> {
    if !path.is_dir() {
        return lines(&read(path)?, &path.display().to_string());
    }
    let mut headers = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| unreadable(path).because(error))? {
        let entry = entry.map_err(|error| unreadable(path).because(error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Kubernetes keeps the versions of a Secret beside it, in folders that begin with two dots.
        if name.starts_with('.') || entry.path().is_dir() {
            continue;
        }
        if !is_name(&name) {
            return Err(usage(format!("{}: its name is not that of a header", entry.path().display())));
        }
        headers.push((name, read(&entry.path())?));
    }
    headers.sort();
    Ok(headers)
}

/// One header a line; empty lines are nothing.
fn lines(text: &str, place: &str) -> Result<Vec<(String, String)>> {
    let numbered = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    let one = |(line, number): (&str, u64)| {
        header(line).ok_or_else(|| usage(format!("{place}: line {number} is not a header; write it as 'Name: value'")))
    };
    numbered.map(one).collect()
}

fn unreadable(path: &Path) -> Error {
    usage(format!("{}: can't be read", path.display()))
}

/// A command line, or what it names, that makes no sense.
pub fn usage(message: impl Into<String>) -> Error {
    Error::new(Kind::Usage, message)
}

const USER: &str = "MILLRACE_USER";
const PASSWORD: &str = "MILLRACE_PASSWORD";
const HEADERS: &str = "MILLRACE_HEADERS";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn gather(args: &[&str], env: &[(&str, &str)]) -> Result<Credentials> {
        let from = From::parse_from(["importer"].iter().chain(args));
        let shown = format!("{from:?}");
        assert!(!shown.contains("s3cret"), "{shown}");
        Credentials::gather(&from, |name| {
            env.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn pairs(found: &Credentials) -> Vec<(&str, &str)> {
        found.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    #[test]
    fn headers_come_from_options_files_and_folders() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("headers");
        fs::write(&file, "X-Auth-Token: s3cret:a b\r\n\n Cookie :c\n").unwrap();
        let folder = dir.path().join("mounted");
        fs::create_dir_all(folder.join("..2026_01")).unwrap();
        fs::write(folder.join("..2026_01/Authorization"), "Bearer s3cret\n").unwrap();
        std::os::unix::fs::symlink("..2026_01", folder.join("..data")).unwrap();
        std::os::unix::fs::symlink("..data/Authorization", folder.join("Authorization")).unwrap();
        let (file, folder) = (file.to_str().unwrap(), folder.to_str().unwrap());
        let args = ["--header", "A: s3cret", "--header-file", file, "--header-file", folder];
        let found = gather(&args, &[("MILLRACE_HEADERS", "B: not taken")]).unwrap();
        let expected =
            [("A", "s3cret"), ("X-Auth-Token", "s3cret:a b"), ("Cookie", "c"), ("Authorization", "Bearer s3cret\n")];
        assert_eq!(pairs(&found), expected);
        let found = gather(&[], &[("MILLRACE_HEADERS", "A: 1\nB: 2")]).unwrap();
        assert_eq!(pairs(&found), [("A", "1"), ("B", "2")]);
    }

    #[test]
    fn user_and_password_come_in_pairs() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        fs::write(&file, "from file\n").unwrap();
        let file = file.to_str().unwrap();
        let env = [("MILLRACE_USER", "e"), ("MILLRACE_PASSWORD", "p")];
        let pair = |args: &[&str], env: &[(&str, &str)]| gather(args, env).map(|found| found.user.zip(found.password));
        let some = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(pair(&[], &[]).unwrap(), None);
        assert_eq!(pair(&[], &env).unwrap(), some("e", "p"));
        assert_eq!(pair(&["--user", "o"], &env).unwrap(), some("o", "p"));
        assert_eq!(pair(&["--password-file", file], &env).unwrap(), some("e", "from file\n"));
        assert_eq!(pair(&["--user", "o", "--password-file", file], &[]).unwrap(), some("o", "from file\n"));
        for (args, env) in [(&["--user", "o"][..], &[][..]), (&[], &env[..1]), (&[], &env[1..])] {
            assert_eq!(pair(args, env).unwrap_err().kind(), Kind::Usage);
        }
    }

    #[test]
    fn what_is_no_header_is_told_by_its_place_and_not_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("headers");
        let path = file.to_str().unwrap();
        for text in ["Bearer s3cret", "Bearer s3cret: x", ": s3cret"] {
            fs::write(&file, format!("A: b\n\n{text}\n")).unwrap();
            for (args, env, place) in [
                (&["--header-file", path][..], "", "headers: line 3 is not a header"),
                (&["--header", text], "", "a --header has no name"),
                (&[], text, "MILLRACE_HEADERS: line 1 is not a header"),
            ] {
                let error = gather(args, &[("MILLRACE_HEADERS", env)]).err().unwrap();
                assert_eq!(error.kind(), Kind::Usage);
                assert!(error.to_string().contains(place) && !error.to_string().contains("s3cret"), "{error}");
            }
        }
        let error = gather(&["--header-file", "/does/not/exist"], &[]).err().unwrap();
        assert!(error.to_string().contains("/does/not/exist"), "{error}");
        fs::remove_file(&file).unwrap();
        fs::write(dir.path().join("two words"), "x").unwrap();
        let error = gather(&["--header-file", dir.path().to_str().unwrap()], &[]).err().unwrap();
        assert!(error.to_string().contains("two words"), "{error}");
    }
}
