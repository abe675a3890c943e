//! The media types of registries.

/// An image manifest of OCI.
pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// An index of OCI.
pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// The configuration of an image of OCI.
pub const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// A layer of OCI: a tar archive.
pub const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
/// The same, compressed.
pub const OCI_LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
/// The same, compressed.
pub const OCI_LAYER_ZSTD: &str = "application/vnd.oci.image.layer.v1.tar+zstd";
/// `{}`: the configuration of what has none.
pub const OCI_EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// An image manifest of Docker, schema 2.
pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// An index of Docker.
pub const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// The configuration of an image of Docker.
pub const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";
/// A layer of Docker: a tar archive.
pub const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar";
/// The same, compressed.
pub const DOCKER_LAYER_GZIP: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";

/// What a client can read: for the `Accept` header.
pub const MANIFESTS: [&str; 4] = [OCI_MANIFEST, OCI_INDEX, DOCKER_MANIFEST, DOCKER_LIST];

/// A media type without its parameters, in lower case: `text/plain` of `Text/Plain; charset=utf-8`.
#[must_use]
pub fn essence(value: &str) -> String {
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether it is the manifest of one image.
#[must_use]
pub fn is_manifest(media_type: &str) -> bool {
    matches!(media_type, OCI_MANIFEST | DOCKER_MANIFEST)
}

/// Whether it is a list of manifests.
#[must_use]
pub fn is_index(media_type: &str) -> bool {
    matches!(media_type, OCI_INDEX | DOCKER_LIST)
}

/// Whether it is the configuration of an image, which says for which platform it is.
#[must_use]
pub fn is_config(media_type: &str) -> bool {
    matches!(media_type, OCI_CONFIG | DOCKER_CONFIG)
}

/// Why a document of this type is not read, if it is known and not supported.
pub(crate) fn refusal(media_type: &str) -> Option<&'static str> {
    if SCHEMA1.contains(&media_type) {
        Some("image manifests of schema 1 are not supported, nobody makes them any more: push the image again")
    } else if media_type == OCI_ARTIFACT {
        Some("artifact manifests were dropped from the specification: push the artifact again, as an image manifest")
    } else {
        None
    }
}

const SCHEMA1: [&str; 3] = [
    "application/vnd.docker.distribution.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v1+prettyjws",
    "application/vnd.docker.distribution.manifest.v1",
];
const OCI_ARTIFACT: &str = "application/vnd.oci.artifact.manifest.v1+json";
