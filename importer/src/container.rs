//! Images of layers as a source.

use std::path::Path;

use importer_flow::registry::Registry;
use importer_flow::source::ContainerSource;
use importer_flow::source::container::{Image, Reading, layout, pulled};
use importer_flow::{Error, Kind, Result, Source};

use crate::args::From;
use crate::{registry, source};

/// The kinds of places that hold images of layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// A registry, by a reference.
    Registry(&'a str),
    /// A folder or an archive, and what is behind it.
    Layout(&'a str),
}

/// What kind of place `name` means; `None` for what holds no images of layers.
pub fn place(name: &str) -> Option<Place<'_>> {
    if registry::reference(name).is_some() {
        return Some(Place::Registry(name));
    }
    let layout = name.strip_prefix("oci-archive:").or_else(|| name.strip_prefix("oci:"));
    layout.map(Place::Layout)
}

/// The file or folder that a name stands for, where it is one of an image of layers.
pub fn path(name: &str) -> Option<&Path> {
    match place(name)? {
        Place::Layout(rest) => split(rest).ok().map(|(path, _)| path),
        Place::Registry(_) => None,
    }
}

/// Opens the image at `place`.
pub fn open(place: Place<'_>, from: &From, reading: Reading) -> Result<Box<dyn Source>> {
    disk(image(place, from)?, from, reading)
}

/// Finds the image at `place`.
pub fn image(place: Place<'_>, from: &From) -> Result<Image> {
    let platform = source::platform(from)?;
    match place {
        Place::Registry(name) => {
            let reference = Registry::reference(name)?;
            let image = pulled(&registry::source(from)?, &reference, platform.as_ref())?;
            if let Some(there) = image.blobs.repository().filter(|there| there.host() != reference.host()) {
                crate::complain(&format!("{name} comes from {there}"));
            }
            Ok(image)
        }
        Place::Layout(rest) => {
            let (path, reference) = split(rest)?;
            layout(path, reference, platform.as_ref())
        }
    }
}

/// The disk in an image.
pub fn disk(image: Image, from: &From, reading: Reading) -> Result<Box<dyn Source>> {
    Ok(Box::new(ContainerSource::new(image, from.disk.clone(), reading)?))
}

/// Cuts `PATH[:NAME]` or `PATH@DIGEST`. Both may have colons: the path is what exists.
///
/// # Errors
///
/// `Kind::Usage` where several paths exist.
fn split(text: &str) -> Result<(&Path, Option<&str>)> {
    if let Some(at) = text.find("@sha").filter(|_| !Path::new(text).exists()) {
        let (path, digest) = text.split_at(at);
        return Ok((Path::new(path.strip_suffix(':').unwrap_or(path)), Some(digest)));
    }
    let cuts = text.match_indices(':').filter_map(|(at, _)| Some((text.get(..at)?, text.get(at + 1..)?)));
    let all: Vec<(&str, &str)> = cuts.chain([(text, "")]).filter(|(path, _)| !path.is_empty()).collect();
    let there: Vec<_> = all.iter().filter(|(path, _)| Path::new(path).exists()).collect();
    let (path, name) = match there.as_slice() {
        [one] => **one,
        [] => all.iter().rev().find(|(_, name)| !name.is_empty()).copied().unwrap_or((text, "")),
        several => {
            let meanings = several.iter().map(|(path, name)| match *name {
                "" => format!("all of {path}"),
                name => format!("{name} in {path}"),
            });
            let meanings = meanings.collect::<Vec<_>>().join(", or ");
            return Err(Error::new(Kind::Usage, format!("{text} may mean {meanings}: rename one of them")));
        }
    };
    Ok((Path::new(path), Some(name).filter(|name| !name.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_what_exists() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| format!("{}/{name}", dir.path().display());
        for name in ["la", "lb:x", "lc", "lc:x"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        for (text, path, name) in [
            ("la", "la", None),
            ("la:", "la", None),
            ("la:v1", "la", Some("v1")),
            ("la:x:v1", "la", Some("x:v1")),
            ("lb:x", "lb:x", None),
            ("lb:x:v1", "lb:x", Some("v1")),
            ("lc:v1", "lc", Some("v1")),
            ("la@sha256:00", "la", Some("@sha256:00")),
            ("la:@sha256:00", "la", Some("@sha256:00")),
            ("nowhere:v1", "nowhere", Some("v1")),
            ("nowhere", "nowhere", None),
        ] {
            let (text, path) = (at(text), at(path));
            assert_eq!(split(&text).unwrap(), (Path::new(&path), name), "{text}");
        }
        for (text, first, second) in [("lc:x:v1", "x:v1 in ", "v1 in "), ("lc:x", "x in ", "all of ")] {
            let error = split(&at(text)).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            let meanings = format!("may mean {first}{}, or {second}{}: ", at("lc"), at("lc:x"));
            assert!(error.to_string().contains(&meanings), "{error}");
        }
    }
}
