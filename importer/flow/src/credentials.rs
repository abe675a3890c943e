//! Who we are, as options, files and the environment say it.

use std::convert::Infallible;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use crate::{Error, Kind, Result};

/// Text on a command line that may be secret: `Debug` does not show it.
#[derive(Clone)]
pub struct Secret(pub String);

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Name and value of a header, as a line has them: `Name: value`.
#[must_use]
pub fn header(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    is_name(name.trim()).then(|| (name.trim().to_owned(), value.trim_start().to_owned()))
}

/// RFC 9110, 5.6.2: a token. Anything else may be a value in the wrong place, and must not be shown.
#[must_use]
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// What a file with a password or with headers says.
///
/// # Errors
///
/// `Kind::Usage` that names the file, and nothing of what it says.
pub fn read(path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE).read_to_string(&mut text));
    let unreadable = |error| Error::new(Kind::Usage, format!("{}: can't be read", path.display())).because(error);
    read.map_err(unreadable)?;
    Ok(text)
}

/// As large as a Secret can be.
const MAX_FILE: u64 = 1 << 20;
