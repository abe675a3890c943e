//! For which machines an image is.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::error::{Error, Kind, Result, shown};
use crate::json::Object;

/// An operating system and a processor, as they are written somewhere.
///
/// Displays normalised as containerd does it: `linux/arm64/v8` and `linux/aarch64` are `linux/arm64`, `linux/armhf` is
/// `linux/arm/v7`, `linux/x86_64` is `linux/amd64`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Platform {
    /// As in `GOARCH`.
    pub architecture: String,
    /// As in `GOOS`.
    pub os: String,
    /// Of Windows.
    #[serde(rename = "os.version", skip_serializing_if = "Option::is_none")]
    pub os_version: Option<String>,
    /// Of Windows.
    #[serde(rename = "os.features", skip_serializing_if = "Vec::is_empty")]
    pub os_features: Vec<String>,
    /// Of the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

impl Platform {
    /// Of these names.
    #[must_use]
    pub fn new(os: &str, architecture: &str, variant: Option<&str>) -> Self {
        Self {
            architecture: architecture.into(),
            os: os.into(),
            os_version: None,
            os_features: Vec::new(),
            variant: variant.map(Into::into),
        }
    }

    /// Understands `os/architecture` and `os/architecture/variant`, in any spelling that is normalised.
    ///
    /// # Errors
    ///
    /// `Kind::Reference`.
    pub fn parse(text: &str) -> Result<Self> {
        let parts: Vec<_> = text.split('/').collect();
        let sound = |part: &&str| {
            (1..=32).contains(&part.len())
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
        };
        match parts.as_slice() {
            [os, architecture] if parts.iter().all(sound) => Ok(Self::new(os, architecture, None)),
            [os, architecture, variant] if parts.iter().all(sound) => Ok(Self::new(os, architecture, Some(variant))),
            _ => {
                let message = format!("\"{}\" is no platform: write it as linux/amd64 or linux/arm/v7", shown(text));
                Err(Error::new(Kind::Reference, message))
            }
        }
    }

    /// Linux on a machine like this one.
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self::new("linux", std::env::consts::ARCH, None).normalised()
    }

    pub(crate) fn read(mut object: Object) -> Result<Self> {
        Ok(Self {
            architecture: object.text("architecture")?.unwrap_or_default(),
            os: object.text("os")?.unwrap_or_default(),
            os_version: object.text("os.version")?,
            os_features: object.texts("os.features", MAX_FEATURES)?,
            variant: object.text("variant")?.filter(|text| !text.is_empty()),
        })
    }

    /// The same in the one spelling of containerd (`platforms.Normalize`).
    #[must_use]
    pub fn normalised(&self) -> Self {
        let os = match self.os.to_ascii_lowercase().as_str() {
            "macos" => "darwin".to_owned(),
            os => os.to_owned(),
        };
        let variant = self.variant.as_deref().unwrap_or_default().to_ascii_lowercase();
        let (architecture, variant) = match (self.architecture.to_ascii_lowercase().as_str(), variant.as_str()) {
            ("i386" | "x86", _) => ("386".to_owned(), String::new()),
            ("x86_64" | "x86-64" | "amd64", "v1") => ("amd64".into(), String::new()),
            ("x86_64" | "x86-64" | "amd64", variant) => ("amd64".into(), variant.into()),
            ("aarch64" | "arm64", "8" | "v8" | "v8.0") => ("arm64".into(), String::new()),
            ("aarch64" | "arm64", "9" | "9.0" | "v9.0") => ("arm64".into(), "v9".into()),
            ("aarch64" | "arm64", variant) => ("arm64".into(), variant.into()),
            ("armhf", _) | ("arm", "" | "7") => ("arm".into(), "v7".into()),
            ("armel", _) => ("arm".into(), "v6".into()),
            ("arm", variant @ ("5" | "6" | "8")) => ("arm".into(), format!("v{variant}")),
            (architecture, variant) => (architecture.into(), variant.into()),
        };
        let variant = Some(variant).filter(|variant| !variant.is_empty());
        Self { architecture, os, variant, ..self.clone() }
    }

    /// Whether an image for `other` is what was asked for by this: the same once both are normalised. A processor that
    /// could also run `other` is no reason to take it.
    #[must_use]
    pub fn accepts(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.normalised(), other.normalised());
        let version = self.os_version.is_none() || self.os_version == other.os_version;
        version && (ours.os, ours.architecture, ours.variant) == (theirs.os, theirs.architecture, theirs.variant)
    }

    /// Whether `other` is of another machine, whatever their variants: configurations often leave these out.
    #[must_use]
    pub fn contradicts(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.normalised(), other.normalised());
        (ours.os, ours.architecture) != (theirs.os, theirs.architecture)
    }

    /// Whether it says nothing: `unknown/unknown`, as attestations have it, or nothing at all.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        let unknown = |text: &str| text.is_empty() || text.eq_ignore_ascii_case("unknown");
        unknown(&self.os) && unknown(&self.architecture)
    }
}

impl FromStr for Platform {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let this = self.normalised();
        let part = |text: &str| if text.is_empty() { "unknown".to_owned() } else { shown(text) };
        write!(f, "{}/{}", part(&this.os), part(&this.architecture))?;
        if let Some(variant) = &this.variant {
            write!(f, "/{}", shown(variant))?;
        }
        match &this.os_version {
            Some(version) => write!(f, " ({})", shown(version)),
            None => Ok(()),
        }
    }
}

const MAX_FEATURES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_normalised_as_containerd_does_it() {
        let cases = [
            ("linux/amd64", "linux/amd64"),
            ("Linux/AMD64", "linux/amd64"),
            ("linux/x86_64", "linux/amd64"),
            ("linux/x86-64", "linux/amd64"),
            ("linux/amd64/v1", "linux/amd64"),
            ("linux/amd64/v2", "linux/amd64/v2"),
            ("linux/i386", "linux/386"),
            ("linux/arm64", "linux/arm64"),
            ("linux/arm64/v8", "linux/arm64"),
            ("linux/arm64/8", "linux/arm64"),
            ("linux/arm64/v8.0", "linux/arm64"),
            ("linux/aarch64", "linux/arm64"),
            ("linux/aarch64/v8", "linux/arm64"),
            ("linux/arm64/v9.0", "linux/arm64/v9"),
            ("linux/arm64/v8.1", "linux/arm64/v8.1"),
            ("linux/arm", "linux/arm/v7"),
            ("linux/arm/7", "linux/arm/v7"),
            ("linux/arm/v7", "linux/arm/v7"),
            ("linux/arm/6", "linux/arm/v6"),
            ("linux/armhf", "linux/arm/v7"),
            ("linux/armel", "linux/arm/v6"),
            ("linux/s390x", "linux/s390x"),
            ("linux/ppc64le", "linux/ppc64le"),
            ("linux/riscv64", "linux/riscv64"),
            ("macos/arm64", "darwin/arm64"),
        ];
        for (text, normalised) in cases {
            let platform = Platform::parse(text).unwrap();
            assert_eq!(platform.to_string(), normalised, "{text}");
            assert_eq!(platform.normalised().normalised(), platform.normalised());
            assert!(platform.accepts(&Platform::parse(normalised).unwrap()), "{text}");
        }
    }

    #[test]
    fn nothing_near_is_taken() {
        let pairs = [
            ("linux/amd64", "linux/arm64"),
            ("linux/arm/v7", "linux/arm/v6"),
            ("linux/arm64", "linux/arm/v8"),
            ("linux/amd64", "linux/amd64/v3"),
            ("linux/amd64", "windows/amd64"),
            ("linux/amd64", "linux/386"),
            ("linux/arm64", "linux/arm64/v9"),
        ];
        for (asked, there) in pairs {
            let (asked, there) = (Platform::parse(asked).unwrap(), Platform::parse(there).unwrap());
            assert!(!asked.accepts(&there) && !there.accepts(&asked), "{asked} {there}");
        }
    }

    #[test]
    fn anything_else_is_no_platform() {
        for text in [
            "",
            "linux",
            "amd64",
            "linux/",
            "/amd64",
            "linux/amd64/",
            "linux/arm/v7/x",
            "linux amd64",
            "linux/a b",
            "*/*",
        ] {
            assert_eq!(Platform::parse(text).unwrap_err().kind(), Kind::Reference, "{text}");
        }
        let arm = Platform::parse("linux/arm/v6").unwrap();
        assert!(!arm.contradicts(&Platform::new("linux", "arm", None)));
        assert!(arm.contradicts(&Platform::new("linux", "arm64", None)));
        assert!(Platform::new("unknown", "unknown", None).is_unknown());
        assert!(!Platform::new("linux", "unknown", None).is_unknown());
        assert!(Platform::of_this_machine().to_string().starts_with("linux/"));
    }
}
