//! An OCI layout: a folder or an archive with an image.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dvcr_oci::{Descriptor, Digest, Found, Index, MAX_DOCUMENT, Manifest, Platform};
use importer_codec::tar::{EntryKind, Event};
use importer_codec::{Wrapper, wrapper};

use super::entries::Entries;
use super::path::EntryPath;
use super::resolve::{Documents, bounded, checked, failed, resolve};
use super::{Blobs, Image};
use crate::source::FileSource;
use crate::source::part::Part;
use crate::{Error, Kind, Result, Source};

/// The image `reference` of the layout at `place`: a folder, or a tar archive of one. Without a reference the layout must
/// have one image, or one index. A reference may also be a digest, `@sha256:…`.
///
/// # Errors
///
/// What is no layout, what is not in it, and an image that is not for `platform`.
pub fn layout(place: &Path, reference: Option<&str>, platform: Option<&Platform>) -> Result<Image> {
    let name = match reference {
        Some(reference) => format!("{}:{reference}", place.display()),
        None => place.display().to_string(),
    };
    let image = || {
        let layout = if fs::metadata(place).is_ok_and(|place| place.is_dir()) {
            Layout::Folder(place.to_owned())
        } else {
            Layout::Archive(Archive::open(place)?)
        };
        let index = layout.index()?;
        let root = named(&index, reference)?;
        let Found { digest, manifest, config, platform, .. } = resolve(&root, platform, &layout)?;
        Ok(Image { name: name.clone(), digest, manifest, config, platform, blobs: Arc::new(layout) })
    };
    image().map_err(|error: Error| error.within(&name))
}

/// Where a layout is.
enum Layout {
    Folder(PathBuf),
    Archive(Archive),
}

/// An archive with a layout in it.
struct Archive {
    path: PathBuf,
    /// Where its files are.
    files: HashMap<Vec<u8>, Range<u64>>,
}

/// The manifest of that name.
fn named(index: &Index, reference: Option<&str>) -> Result<Descriptor> {
    let digest = match reference.and_then(|reference| reference.strip_prefix('@')) {
        Some(digest) => Some(Digest::parse(digest).map_err(|error| Error::new(Kind::Usage, error.to_string()))?),
        None => None,
    };
    let name = |entry: &Descriptor| entry.annotations.get(NAME).cloned();
    let mut found: Vec<&Descriptor> = match (&digest, reference) {
        (Some(digest), _) => index.manifests.iter().filter(|entry| entry.digest == *digest).collect(),
        (None, Some(reference)) => index.images().filter(|entry| name(entry).as_deref() == Some(reference)).collect(),
        (None, None) => index.images().collect(),
    };
    found.dedup_by(|one, other| one.digest == other.digest);
    let there = || {
        let names: Vec<_> = index.images().filter_map(name).take(LISTED).collect();
        if names.is_empty() { "none has a name".to_owned() } else { names.join(", ") }
    };
    match (found.as_slice(), reference) {
        ([one], _) => Ok((*one).clone()),
        ([], Some(reference)) => Err(Error::new(Kind::Refused, format!("there is no {reference} in it: {}", there()))),
        ([], None) => Err(Error::new(Kind::NotUsable, "there is no image in it")),
        (several, _) => {
            let message = format!("there are {} images in it; name one of them: {}", several.len(), there());
            Err(Error::new(Kind::Usage, message))
        }
    }
}

impl Layout {
    fn index(&self) -> Result<Index> {
        let marker = self.read(b"oci-layout", 4096);
        let Ok(Some(_)) = marker else {
            let message = match self.has(b"manifest.json") {
                true => {
                    "it is what docker save wrote before it wrote OCI layouts: copy it with skopeo copy docker-archive:… oci-archive:…"
                }
                false => "it is no OCI layout: there is no oci-layout in it",
            };
            return marker.and(Err(Error::new(Kind::NotUsable, message)));
        };
        let bytes = self.read(b"index.json", MAX_DOCUMENT)?;
        let bytes = bytes.ok_or_else(|| Error::new(Kind::NotUsable, "there is no index.json in the OCI layout"))?;
        match Manifest::parse(&bytes, Some(dvcr_oci::media::OCI_INDEX)).map_err(|error| failed(&error))? {
            Manifest::Index(index) => Ok(index),
            Manifest::Image(_) => Err(Error::new(Kind::NotUsable, "index.json is no index")),
        }
    }

    fn has(&self, name: &[u8]) -> bool {
        match self {
            Self::Folder(folder) => folder.join(text(name)).exists(),
            Self::Archive(archive) => archive.files.contains_key(name),
        }
    }

    /// A small file; `None` where there is none.
    fn read(&self, name: &[u8], most: usize) -> Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        match self {
            Self::Folder(folder) => {
                let path = folder.join(text(name));
                let failed =
                    |error| Error::new(Kind::Refused, format!("{} can't be read", path.display())).because(error);
                let file = match fs::File::open(&path) {
                    Ok(file) => file,
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                    Err(error) => return Err(failed(error)),
                };
                file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
            }
            Self::Archive(archive) => {
                let Some(range) = archive.files.get(name) else { return Ok(None) };
                if range.end - range.start <= most as u64 {
                    let mut part = archive.part(range.clone())?;
                    crate::import::read_all(&mut *part.open()?, &mut bytes)?;
                } else {
                    bytes.resize(most + 1, 0);
                }
            }
        }
        if bytes.len() > most {
            return Err(Error::new(Kind::NotUsable, format!("{} is larger than {most} bytes", text(name))));
        }
        Ok(Some(bytes))
    }
}

/// A name of ours as text.
fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Where a layout has a blob.
fn blob_name(digest: &Digest) -> String {
    format!("blobs/{}/{}", digest.algorithm().name(), digest.hex())
}

fn missing(digest: &Digest) -> Error {
    Error::new(Kind::NotUsable, format!("the blob {digest} is not in the layout; it is not complete"))
}

impl Documents for Layout {
    fn document(&self, descriptor: &Descriptor) -> Result<Vec<u8>> {
        bounded(descriptor)?;
        let bytes = self.read(blob_name(&descriptor.digest).as_bytes(), MAX_DOCUMENT)?;
        checked(descriptor, bytes.ok_or_else(|| missing(&descriptor.digest))?)
    }
}

impl Blobs for Layout {
    fn blob(&self, descriptor: &Descriptor) -> Result<Box<dyn Source>> {
        let name = blob_name(&descriptor.digest);
        if !self.has(name.as_bytes()) {
            return Err(missing(&descriptor.digest));
        }
        match self {
            Self::Folder(folder) => {
                let path = folder.join(name);
                if !fs::metadata(&path).is_ok_and(|blob| blob.is_file()) {
                    return Err(Error::new(Kind::NotUsable, format!("the blob {} is no file", path.display())));
                }
                Ok(Box::new(FileSource::open(&path)?))
            }
            Self::Archive(archive) => {
                let range = archive.files.get(name.as_bytes()).ok_or_else(|| missing(&descriptor.digest))?;
                Ok(Box::new(archive.part(range.clone())?))
            }
        }
    }
}

impl Archive {
    fn open(path: &Path) -> Result<Self> {
        let mut source = FileSource::open(path)?;
        if !source.ranges() {
            return Err(Error::new(Kind::Usage, "it can't be read at any offset: store it in a file first"));
        }
        let (head, _) = crate::peek::peek(source.open()?, wrapper::HEAD)?;
        match wrapper::detect(&head).unwrap_or_default() {
            Some(Wrapper::Tar) => {}
            Some(packed) => {
                let message = format!("it is compressed ({packed}), and has to be read at any offset: unpack it first");
                return Err(Error::new(Kind::Usage, message));
            }
            None => return Err(Error::new(Kind::NotUsable, "it is no tar archive")),
        }
        let mut entries = Entries::ranged(Box::new(source));
        let mut files = HashMap::new();
        loop {
            match entries.next()?.0 {
                Event::Entry(entry) => {
                    if entry.kind == EntryKind::Regular
                        && let Some(range) = entries.data()
                        && let Ok(Some(path)) = EntryPath::of(&entry.path)
                    {
                        files.insert(path.bytes().to_vec(), range);
                    }
                    if files.len() > FILES {
                        return Err(Error::new(Kind::Unsafe, format!("it has more than {FILES} files")));
                    }
                    entries.pass_over()?;
                }
                Event::Data(_) | Event::Hole(_) => {}
                Event::End => return Ok(Self { path: path.to_owned(), files }),
            }
        }
    }

    fn part(&self, range: Range<u64>) -> Result<Part> {
        let mut source = FileSource::open(&self.path)?;
        // It proves that it has ranges.
        drop(source.open()?);
        Part::of(Box::new(source), range)
    }
}

/// What a layout calls its manifests.
const NAME: &str = "org.opencontainers.image.ref.name";
/// How many names a message has.
const LISTED: usize = 16;
/// More than any archive of images has.
const FILES: usize = 100_000;
