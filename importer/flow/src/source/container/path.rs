//! Names in a layer.

use crate::{Error, Kind, Result};

/// The path of an entry from the root of the image, without `./`, `/` in front or behind and `//`: one spelling for all
/// that mean the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct EntryPath(Vec<u8>);

impl EntryPath {
    /// The path of a name as an archive has it; `None` for the root.
    ///
    /// # Errors
    ///
    /// One that leads out of the image is refused.
    pub(super) fn of(name: &[u8]) -> Result<Option<Self>> {
        let mut parts: Vec<&[u8]> = Vec::new();
        for part in name.split(|&byte| byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    let message = format!("the entry {} leads out of the image", shown(name));
                    return Err(Error::new(Kind::NotUsable, message));
                }
                part => parts.push(part),
            }
        }
        let path = parts.join(&b'/');
        Ok((!path.is_empty()).then_some(Self(path)))
    }

    /// Where a symbolic link at this path leads; `None` when it leads out of the image, or to its root.
    pub(super) fn follow(&self, link: &[u8]) -> Option<Self> {
        let mut parts: Vec<&[u8]> = Vec::new();
        if !link.starts_with(b"/") {
            parts.extend(self.parent().into_iter().flat_map(|parent| parent.split(|&byte| byte == b'/')));
        }
        for part in link.split(|&byte| byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    parts.pop()?;
                }
                part => parts.push(part),
            }
        }
        let path = parts.join(&b'/');
        (!path.is_empty()).then_some(Self(path))
    }

    /// Its last part.
    pub(super) fn base(&self) -> &[u8] {
        self.0.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
    }

    fn parent(&self) -> Option<&[u8]> {
        let slash = self.0.iter().rposition(|&byte| byte == b'/')?;
        self.0.get(..slash)
    }

    /// The same with another last part; nothing for an empty one.
    pub(super) fn beside(&self, base: &[u8]) -> Option<Self> {
        let path = [self.parent().unwrap_or_default(), base].join(&b'/');
        let path = path.strip_prefix(b"/").map(<[u8]>::to_vec).unwrap_or(path);
        (!base.is_empty()).then_some(Self(path))
    }

    /// The folder it is in; `None` for what is in the root.
    pub(super) fn folder(&self) -> Option<Self> {
        self.parent().map(|parent| Self(parent.to_vec()))
    }

    /// Whether it lies in `disk/`, at any depth, where a container disk has its disk.
    pub(super) fn is_in_disk(&self) -> bool {
        self.0.starts_with(b"disk/")
    }

    /// Whether a part of it begins with a dot.
    pub(super) fn is_hidden(&self) -> bool {
        self.0.split(|&byte| byte == b'/').any(|part| part.starts_with(b"."))
    }

    /// How much it takes to keep it.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Display for EntryPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&shown(&self.0))
    }
}

/// A name for people.
pub(super) fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().take(SHOWN).flat_map(char::escape_debug).collect()
}

const SHOWN: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> EntryPath {
        EntryPath::of(name.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn every_spelling_is_one() {
        for name in ["disk/a.img", "./disk/a.img", "/disk/a.img", "//disk//./a.img/"] {
            assert_eq!(path(name), path("disk/a.img"), "{name}");
        }
        assert!(["", "/", "./", "."].iter().all(|name| EntryPath::of(name.as_bytes()).unwrap().is_none()));
        assert!(["..", "../disk/a", "disk/../../a"].iter().all(|name| EntryPath::of(name.as_bytes()).is_err()));
        assert!(path("disk/a").is_in_disk() && !path("disk").is_in_disk() && !path("disks/a").is_in_disk());
    }

    #[test]
    fn links_are_followed_inside_only() {
        let from = path("disk/current.img");
        let cases = [
            ("a.img", Some("disk/a.img")),
            ("../images/./a.img", Some("images/a.img")),
            ("/images/a.img", Some("images/a.img")),
            ("../../etc/passwd", None),
            ("..", None),
        ];
        for (link, to) in cases {
            assert_eq!(from.follow(link.as_bytes()), to.map(path), "{link}");
        }
        assert_eq!(from.beside(b"x"), Some(path("disk/x")));
        assert_eq!(path("x").beside(b"y"), Some(path("y")));
        assert_eq!(from.folder(), Some(path("disk")));
        assert_eq!(path("x").folder(), None);
    }
}
