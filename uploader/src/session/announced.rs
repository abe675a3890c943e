//! What a client says of an upload before it sends it.

use importer_flow::Checksum;

/// What a client says of an upload before it sends it. It is forgotten with what came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// How many bytes there will be.
    pub len: Option<u64>,
    /// What they hash to, besides what the upload was wished to.
    pub checksums: Vec<Checksum>,
    /// What the client wants to be told again, word for word; at most some KiB.
    pub note: String,
}
