//! The registry in a reference.

use std::fmt;
use std::net::Ipv6Addr;

use crate::error::{Error, Kind, Result, shown};

/// Host and port of a registry, as they stand in a reference: in lower case, the port only where it was given.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host {
    /// A name, an IPv4 address, or an IPv6 address in brackets.
    name: Box<str>,
    port: Option<u16>,
}

impl Host {
    /// Understands `host`, `host:port` and `[v6]:port`.
    ///
    /// # Errors
    ///
    /// `Kind::Reference`.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |why: &str| Error::new(Kind::Reference, format!("\"{}\" is no registry: {why}", shown(text)));
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
            _ => (text, None),
        };
        let port = match port {
            None => None,
            Some(digits) => {
                let number = if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None };
                let number = number.filter(|number: &u16| *number > 0);
                Some(number.ok_or_else(|| wrong("its port is not a number from 1 to 65535"))?)
            }
        };
        let name = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(address) => {
                let address: Ipv6Addr =
                    address.parse().map_err(|_| wrong("there is no IPv6 address in the brackets"))?;
                format!("[{address}]")
            }
            None => {
                let label = |label: &str| {
                    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
                    label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                        && edge(label.bytes().next())
                        && edge(label.bytes().last())
                };
                if name.len() > MAX_HOST || !name.split('.').all(label) {
                    return Err(wrong("a host name has letters, digits, hyphens and dots"));
                }
                name.to_ascii_lowercase()
            }
        };
        // Docker's other name for itself.
        let name = if name == "index.docker.io" && port.is_none() { "docker.io".into() } else { name };
        Ok(Self { name: name.into(), port })
    }

    /// What is meant where no registry is named.
    #[must_use]
    pub fn docker_hub() -> Self {
        Self { name: "docker.io".into(), port: None }
    }

    /// Whether it is Docker Hub, which is reached under another name and keeps its own images in `library`.
    #[must_use]
    pub fn is_docker_hub(&self) -> bool {
        *self == Self::docker_hub()
    }

    /// The name alone: a host name, an IPv4 address, or an IPv6 address in brackets.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port, if it was given.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// RFC 1035, 2.3.4
const MAX_HOST: usize = 253;
