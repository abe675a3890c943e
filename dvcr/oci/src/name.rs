//! Names of repositories, and tags.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Kind, Result, shown};

/// The name of a repository in a registry, such as `library/ubuntu`.
///
/// //# distribution-spec: `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(\/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*`
///
/// So it has no `..`, no empty part and no slash in front, and can be used as a path.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

/// What a person calls a manifest, such as `latest`.
///
/// //# distribution-spec: `[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}`
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(Box<str>);

impl Name {
    /// Understands the name of a repository, without a host.
    ///
    /// # Errors
    ///
    /// `Kind::Name` that says which part is wrong.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong =
            |why: String| Error::new(Kind::Name, format!("{:?} is no name of a repository: {why}", Shown(text)));
        if text.len() > MAX_NAME {
            return Err(wrong(format!("it has {} characters, {MAX_NAME} are allowed", text.len())));
        }
        for part in text.split('/') {
            if let Err(why) = check_part(part) {
                return Err(wrong(why.into()));
            }
        }
        Ok(Self(text.into()))
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its parts between the slashes; at least one.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }
}

fn check_part(part: &str) -> Result<(), &'static str> {
    if part.is_empty() {
        return Err("a part of it is empty");
    }
    if part.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err("it has to be in lower case");
    }
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut separator = String::new();
    for (at, byte) in part.bytes().enumerate() {
        if is_word(byte) {
            let joins = matches!(separator.as_str(), "" | "." | "_" | "__") || separator.bytes().all(|b| b == b'-');
            if !joins || (at > 0 && at == separator.len()) {
                return Err("between letters and digits there may be one of . _ __ or hyphens");
            }
            separator.clear();
        } else if matches!(byte, b'.' | b'_' | b'-') {
            separator.push(char::from(byte));
        } else {
            return Err("only letters, digits and . _ - / are allowed");
        }
    }
    if separator.is_empty() { Ok(()) } else { Err("each part begins and ends with a letter or a digit") }
}

impl Tag {
    /// Understands a tag.
    ///
    /// # Errors
    ///
    /// `Kind::Tag`.
    pub fn parse(text: &str) -> Result<Self> {
        let first = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let other = |byte: u8| first(byte) || matches!(byte, b'.' | b'-');
        let sound = text.bytes().next().is_some_and(first) && text.bytes().all(other) && text.len() <= MAX_TAG;
        if !sound {
            let message = format!(
                "{:?} is no tag: it has 1 to {MAX_TAG} letters, digits and . _ -, and begins with no . or -",
                Shown(text)
            );
            return Err(Error::new(Kind::Tag, message));
        }
        Ok(Self(text.into()))
    }

    /// What is meant where nothing is said: `latest`.
    #[must_use]
    pub fn latest() -> Self {
        Self("latest".into())
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Quoted, on one line, and not longer than is of use.
struct Shown<'a>(&'a str);

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", shown(self.0))
    }
}

macro_rules! is_text {
    ($name:ident) => {
        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                Self::parse(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

is_text!(Name);
is_text!(Tag);

/// What registries and clients agree on, and what fits into a file name with room for more.
const MAX_NAME: usize = 255;
const MAX_TAG: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_the_grammar_has_them() {
        let long = "a".repeat(255);
        for text in
            ["a", "ubuntu", "library/ubuntu", "a.b", "a_b", "a__b", "a-b", "a---b", "1/2/3", "cvi/jammy-22.04", &long]
        {
            assert_eq!(Name::parse(text).unwrap().as_str(), text);
        }
        assert_eq!(Name::parse("vd/ns/disk").unwrap().parts().collect::<Vec<_>>(), ["vd", "ns", "disk"]);
        let longer = "a".repeat(256);
        let wrong = [
            "", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", ".a", "a.", "-a", "a-", "_a", "a_", "a..b",
            "a___b", "a.-b", "a-_b", "A", "a/B", "a b", "a\0b", "a%2fb", "a\\b", "é", "a:b", "a@b", "a\n", &longer,
        ];
        for text in wrong {
            let error = Name::parse(text).unwrap_err();
            assert_eq!(error.kind(), Kind::Name, "{text}");
            assert!(!error.to_string().contains(['\n', '\0']) && error.to_string().len() < 300, "{error}");
        }
    }

    #[test]
    fn tags_as_the_grammar_has_them() {
        let long = "a".repeat(128);
        for text in ["latest", "v1", "1.0-rc.1", "_a", "A_b", "5000", "9b1f0c2e-0e6f-4a5e-8f3e-1c2d3e4f5a6b", &long] {
            assert_eq!(Tag::parse(text).unwrap().to_string(), text);
        }
        let longer = "a".repeat(129);
        for text in ["", ".", "..", ".a", "-a", "a/b", "a:b", "a b", "é", "a\0", &longer] {
            assert_eq!(Tag::parse(text).unwrap_err().kind(), Kind::Tag, "{text}");
        }
        assert_eq!(Tag::latest(), Tag::parse("latest").unwrap());
    }
}
