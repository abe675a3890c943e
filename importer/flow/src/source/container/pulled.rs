//! An image in a registry.

use std::sync::Arc;

use dvcr_client::Repository;
use dvcr_oci::{Descriptor, Platform, Reference};

use super::{Blobs, Image};
use crate::network::Network;
use crate::registry::{Registry, failed};
use crate::source::http::HttpSource;
use crate::{Result, Source};

/// The image that `reference` means in its registry, or in the first of its mirrors that has it.
///
/// # Errors
///
/// What is not there or may not be had, and an image that is not for `platform`.
pub fn pulled(registry: &Registry, reference: &Reference, platform: Option<&Platform>) -> Result<Image> {
    let (client, asked, platform) = (registry.client.clone(), reference.clone(), platform.cloned());
    let found = registry.network.wait(async move { client.resolve(&asked, platform.as_ref()).await })?;
    let image = found.map_err(failed)?;
    let (manifest, config, platform) = (image.manifest.clone(), image.config.clone(), image.platform.clone());
    Ok(Image {
        name: format!("docker://{reference}"),
        digest: image.digest,
        manifest,
        config,
        platform,
        blobs: Arc::new(Pulled { network: Arc::clone(&registry.network), image }),
    })
}

/// Where the blobs of the image are.
struct Pulled {
    network: Arc<Network>,
    image: dvcr_client::Image,
}

impl Blobs for Pulled {
    fn repository(&self) -> Option<&Repository> {
        self.image.repository()
    }

    fn blob(&self, descriptor: &Descriptor) -> Result<Box<dyn Source>> {
        let blob = self.image.blob(descriptor);
        let opened = self.network.wait(async move { blob.open().await })?.map_err(failed)?;
        let network = Arc::clone(&self.network);
        Ok(Box::new(HttpSource::begun(network, opened)))
    }
}
