//! From a reference to one image.

use dvcr_oci::{Descriptor, ImageConfig, ImageManifest, Index, MAX_DOCUMENT, Manifest, Platform, media};

use crate::{Error, Kind, Result};

/// Where documents are: manifests and configurations.
pub trait Documents {
    /// The bytes of a document, which are those of its digest.
    fn document(&self, descriptor: &Descriptor) -> Result<Vec<u8>>;
}

/// The image for `asked` among what `root` points at, which may be an index, nested a few times.
///
/// Without a platform a list of images is searched for one for this machine, and a single image is taken as it is. There
/// is no falling back to another platform.
///
/// # Errors
///
/// When there is none for the platform, with a list of what there is; when a document is none.
pub fn resolve(
    root: &Descriptor,
    asked: Option<&Platform>,
    documents: &dyn Documents,
) -> Result<(Descriptor, ImageManifest, Option<ImageConfig>)> {
    let parse = |descriptor: &Descriptor| -> Result<Manifest> {
        let bytes = documents.document(descriptor)?;
        Manifest::parse(&bytes, Some(&descriptor.media_type)).map_err(|error| failed(&error))
    };
    match parse(root)? {
        Manifest::Image(manifest) => {
            let config = config(&manifest, documents)?;
            if let (Some(asked), Some(config)) = (asked, &config) {
                config.check(asked).map_err(|error| failed(&error))?;
            }
            Ok((root.clone(), manifest, config))
        }
        Manifest::Index(index) => {
            let asked = asked.cloned().unwrap_or_else(Platform::of_this_machine);
            let mut budget = OPENED;
            match search(&index, &asked, documents, DEPTH, &mut budget)? {
                Some(found) => Ok(found),
                None => Err(Error::new(Kind::Refused, format!("there is no image for {asked} in the index"))),
            }
        }
    }
}

fn search(
    index: &Index,
    asked: &Platform,
    documents: &dyn Documents,
    depth: usize,
    budget: &mut usize,
) -> Result<Option<(Descriptor, ImageManifest, Option<ImageConfig>)>> {
    let chosen = index.choose(asked).map_err(|error| failed(&error))?;
    let mut missing = None;
    for descriptor in chosen {
        *budget = budget.checked_sub(1).ok_or_else(|| {
            Error::new(Kind::NotUsable, format!("more than {OPENED} manifests would have to be opened to find {asked}"))
        })?;
        let bytes = documents.document(descriptor)?;
        match Manifest::parse(&bytes, Some(&descriptor.media_type)).map_err(|error| failed(&error))? {
            Manifest::Image(manifest) => {
                let config = config(&manifest, documents)?;
                let said = config.as_ref().and_then(ImageConfig::platform);
                let fits = match (&descriptor.platform, &config) {
                    (Some(_), _) => {
                        // Configurations lack variants, so the index counts; but it can't make one machine of another.
                        let other = said.filter(|said| asked.contradicts(said));
                        other.map_or(Ok(()), |_| config.as_ref().map_or(Ok(()), |config| config.check(asked)))
                    }
                    (None, Some(config)) => config.check(asked),
                    (None, None) => continue,
                };
                match fits {
                    Ok(()) => return Ok(Some((descriptor.clone(), manifest, config))),
                    Err(error) => missing = Some(failed(&error)),
                }
            }
            Manifest::Index(_) if depth == 0 => {
                let message = format!("indexes are nested more than {DEPTH} times");
                return Err(Error::new(Kind::NotUsable, message));
            }
            Manifest::Index(inner) => match search(&inner, asked, documents, depth - 1, budget) {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(error) if error.kind() == Kind::Refused => missing = Some(error),
                Err(error) => return Err(error),
            },
        }
    }
    missing.map_or(Ok(None), Err)
}

/// The configuration of an image; `None` for an artifact.
fn config(manifest: &ImageManifest, documents: &dyn Documents) -> Result<Option<ImageConfig>> {
    if !media::is_config(&manifest.config.media_type) {
        return Ok(None);
    }
    let bytes = documents.document(&manifest.config)?;
    ImageConfig::parse(&bytes).map(Some).map_err(|error| failed(&error))
}

/// Checks a document that was read.
pub(super) fn checked(descriptor: &Descriptor, bytes: Vec<u8>) -> Result<Vec<u8>> {
    if bytes.len() as u64 == descriptor.size && descriptor.digest.proves(&bytes) {
        return Ok(bytes);
    }
    let message = format!("what should be {} ({} bytes) is something else", descriptor.digest, descriptor.size);
    Err(Error::new(Kind::Mismatch, message))
}

/// Refuses a document that is larger than one may be, before it is read.
pub(super) fn bounded(descriptor: &Descriptor) -> Result<()> {
    if descriptor.size <= MAX_DOCUMENT as u64 {
        return Ok(());
    }
    let message = format!("the document {} of {} bytes is larger than any", descriptor.digest, descriptor.size);
    Err(Error::new(Kind::NotUsable, message))
}

/// What the documents' reader says, as an error of the pipeline.
pub(super) fn failed(error: &dvcr_oci::Error) -> Error {
    let kind = match error.kind() {
        dvcr_oci::Kind::NoPlatform => Kind::Refused,
        dvcr_oci::Kind::Reference | dvcr_oci::Kind::Name | dvcr_oci::Kind::Tag => Kind::Usage,
        _ => Kind::NotUsable,
    };
    Error::new(kind, error.to_string())
}

/// How deep indexes may be nested.
const DEPTH: usize = 4;
/// How many manifests are opened to find one.
const OPENED: usize = 64;
