//! Images of layers as a source.

use std::path::Path;

use importer_flow::registry::Registry;
use importer_flow::source::ContainerSource;
use importer_flow::source::container::{Reading, layout, pulled};
use importer_flow::{Result, Source};

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
        Place::Layout(rest) => Some(split(rest).0),
        Place::Registry(_) => None,
    }
}

/// Opens the image at `place`.
pub fn open(place: Place<'_>, from: &From, reading: Reading) -> Result<Box<dyn Source>> {
    let platform = source::platform(from)?;
    let image = match place {
        Place::Registry(name) => pulled(&registry::source(from)?, &Registry::reference(name)?, platform.as_ref())?,
        Place::Layout(rest) => {
            let (path, reference) = split(rest);
            layout(path, reference, platform.as_ref())?
        }
    };
    Ok(Box::new(ContainerSource::new(image, from.disk.clone(), reading)?))
}

/// Cuts `PATH[:REFERENCE]` or `PATH@DIGEST`. A path that exists as it stands has no reference.
fn split(text: &str) -> (&Path, Option<&str>) {
    if Path::new(text).exists() {
        return (Path::new(text), None);
    }
    if let Some(at) = text.find("@sha") {
        let (path, digest) = text.split_at(at);
        return (Path::new(path.strip_suffix(':').unwrap_or(path)), Some(digest));
    }
    // The path is what exists; a reference may have colons itself.
    let mut cuts = text.match_indices(':').map(|(at, _)| at);
    let cut = cuts
        .clone()
        .find(|&at| text.get(..at).is_some_and(|path| Path::new(path).exists()))
        .or_else(|| cuts.next_back());
    match cut.and_then(|at| Some((text.get(..at)?, text.get(at + 1..)?))) {
        Some((path, reference)) if !reference.is_empty() => (Path::new(path), Some(reference)),
        Some((path, _)) => (Path::new(path), None),
        None => (Path::new(text), None),
    }
}
