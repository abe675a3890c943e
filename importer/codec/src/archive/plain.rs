//! The disk in a tar without a descriptor.

use super::{Chosen, base, extension, is_hidden, normal, size};
use crate::tar::{Entry, EntryKind};
use crate::{Error, Kind, Result};

/// The choice by the names of entries.
pub(super) struct Plain {
    want: Option<String>,
    /// The entry chosen, for messages.
    chosen: Option<String>,
    /// What else there is that could be a disk, for messages: the first few.
    others: Vec<String>,
    /// Whether a link or a device has the wanted name.
    link: bool,
    /// Whether it looks like the image of a container.
    oci: bool,
}

impl Plain {
    pub(super) fn new(want: Option<String>) -> Self {
        Self { want, chosen: None, others: Vec::new(), link: false, oci: false }
    }

    /// Whether a descriptor would still decide.
    pub(super) fn awaits_descriptor(&self) -> bool {
        self.chosen.is_none() && self.others.is_empty()
    }

    /// Decides on an entry; gives it when it is the disk.
    pub(super) fn entry(&mut self, entry: &Entry) -> Result<Option<Chosen>> {
        let path = normal(&entry.path);
        self.oci |= path == b"oci-layout" || path.starts_with(b"blobs/sha256/");
        let name = format!("{} ({})", entry.name(), size(entry.size));
        let is_it = match &self.want {
            None => can_be_disk(entry),
            Some(want) => path == normal(want.as_bytes()) || (base(path) == want.as_bytes() && !is_hidden(&entry.path)),
        };
        if !is_it {
            if self.want.is_some() && can_be_disk(entry) && self.others.len() < LISTED {
                self.others.push(name);
            }
            return Ok(None);
        }
        if entry.kind != EntryKind::Regular {
            self.link |= entry.kind != EntryKind::Directory;
            return Ok(None);
        }
        if let Some(first) = &self.chosen {
            let hint = if self.oci { "; it looks like a container image: give it as oci-archive:FILE" } else { "" };
            return Err(Error::new(
                Kind::Ambiguous,
                match &self.want {
                    None => format!(
                        "there is more than one file that can be a disk: {first}, {name}, perhaps more; choose one with \
                         --disk NAME{hint}"
                    ),
                    Some(_) => format!("there is more than one file of that name: {first}, {name}; give its full path"),
                },
            ));
        }
        self.chosen = Some(name);
        Ok(Some(Chosen { name: entry.name(), size: Some(entry.size), ova: false }))
    }

    /// Whether the archive had what was wanted.
    pub(super) fn end(&self) -> Result<()> {
        if self.chosen.is_some() {
            return Ok(());
        }
        let Some(want) = &self.want else {
            return Err(Error::new(Kind::NotFound, "there is no file in the archive that can be a disk"));
        };
        let others = match self.others.len() {
            0 => "nothing that can be a disk".to_owned(),
            LISTED => format!("{}, …", self.others.join(", ")),
            _ => self.others.join(", "),
        };
        let link = if self.link { " (only a link or a device)" } else { "" };
        Err(Error::new(Kind::NotFound, format!("there is no file {want:?} in the archive{link}; it holds {others}")))
    }
}

/// Whether an entry can be a disk, by what it is and by its name.
fn can_be_disk(entry: &Entry) -> bool {
    entry.kind == EntryKind::Regular
        && entry.size != 0
        && !is_hidden(&entry.path)
        && (entry.size > SMALL || !is_side_file(&entry.path))
}

/// Whether a small file of this name goes along with a disk and is none.
fn is_side_file(path: &[u8]) -> bool {
    let extension = extension(path).to_ascii_lowercase();
    let base = base(path).to_ascii_uppercase();
    SIDE_EXTENSIONS.contains(&extension.as_slice()) || SIDE_NAMES.contains(&base.as_slice()) || base.ends_with(b"SUMS")
}

/// A larger file is a disk, whatever its name, in bytes.
const SMALL: u64 = 1 << 20;

/// How many names a message lists.
const LISTED: usize = 16;

const SIDE_EXTENSIONS: [&[u8]; 27] = [
    b"asc", b"cert", b"cfg", b"conf", b"crt", b"html", b"ini", b"json", b"log", b"md", b"md5", b"mf", b"nvram", b"ovf",
    b"pem", b"sha1", b"sha256", b"sha512", b"sig", b"toml", b"txt", b"vbox", b"vmsd", b"vmx", b"xml", b"yaml", b"yml",
];

const SIDE_NAMES: [&[u8]; 8] =
    [b"CHANGELOG", b"COPYING", b"CREDITS", b"LICENCE", b"LICENSE", b"NOTICE", b"README", b"VERSION"];
