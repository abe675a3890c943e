//! From a reference to one image.

use dvcr_oci::{Descriptor, Found, ImageConfig, MAX_DOCUMENT, Manifest, Platform, Search, Step};

use crate::{Error, Kind, Result};

/// Where documents are: manifests and configurations.
pub trait Documents {
    /// The bytes of a document, which are those of its digest.
    fn document(&self, descriptor: &Descriptor) -> Result<Vec<u8>>;
}

/// The image for `asked` among what `root` points at; see [`Search`].
///
/// # Errors
///
/// When there is none for the platform, with a list of what there is; when a document is none.
pub fn resolve(root: &Descriptor, asked: Option<&Platform>, documents: &dyn Documents) -> Result<Found> {
    let manifest = |descriptor: &Descriptor| -> Result<Manifest> {
        let bytes = documents.document(descriptor)?;
        Manifest::parse(&bytes, Some(&descriptor.media_type)).map_err(|error| failed(&error))
    };
    let mut search = Search::new(asked.cloned());
    let mut step = search.root(root.digest, manifest(root)?);
    loop {
        step = match step.map_err(|error| failed(&error))? {
            Step::Manifest(entry) => {
                let manifest = manifest(entry.descriptor())?;
                search.manifest(entry, manifest)
            }
            Step::Config(image) => {
                let config = ImageConfig::parse(&documents.document(image.config())?);
                search.config(image, config.map_err(|error| failed(&error))?)
            }
            Step::Found(found) => return Ok(found),
        };
    }
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
