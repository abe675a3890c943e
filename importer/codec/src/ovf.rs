//! OVF descriptors (DSP0243): the disks that have a file.
//!
//! Only what tells where a disk's bytes are is read. The XML may have no DTD, so there are no entities to expand, and
//! is at most [`MAX`] bytes long.

use roxmltree::{Document, Node, ParsingOptions};

use crate::printable::printable;
use crate::{Error, Kind, Result};

/// A disk with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    /// `ovf:diskId`.
    pub(crate) id: String,
    /// `ovf:href` of its file: the name of a member of the archive, relative to the descriptor.
    pub(crate) href: String,
    /// `ovf:size` of its file, in bytes.
    pub(crate) size: Option<u64>,
    /// `ovf:chunkSize` of its file, in bytes: it is stored in parts of this size.
    pub(crate) chunk: Option<u64>,
    /// `ovf:capacity` with its unit, for people.
    capacity: String,
    /// `ovf:parentRef`: it holds only what differs from another disk.
    delta: bool,
}

impl Disk {
    /// Itself on one line: file, id, capacity.
    pub(crate) fn describe(&self) -> String {
        let (href, id) = (printable(self.href.as_bytes()), printable(self.id.as_bytes()));
        format!("{href} ({id}, {})", printable(self.capacity.as_bytes()))
    }

    /// Refuses what can't be streamed out of the archive.
    pub(crate) fn check(&self) -> Result<()> {
        let name = printable(self.href.as_bytes());
        if self.delta {
            return Err(Error::new(
                Kind::External,
                format!("the disk {name} holds only the differences to a parent; export the machine without snapshots"),
            ));
        }
        let href = &self.href;
        let scheme = href.split('/').next().is_some_and(|first| first.contains(':'));
        let up = href.split(['/', '\\']).any(|part| part == "..");
        if href.is_empty() || scheme || up || href.starts_with(['/', '\\']) {
            return Err(Error::new(
                Kind::External,
                format!(
                    "the descriptor refers to {name:?}, which is no member of the archive; nothing outside is opened"
                ),
            ));
        }
        Ok(())
    }
}

/// Reads the disks that have a file, in the order of the descriptor, each file once.
pub(crate) fn disks(xml: &[u8]) -> Result<Vec<Disk>> {
    if xml.starts_with(b"\xff\xfe") || xml.starts_with(b"\xfe\xff") {
        return Err(Error::new(Kind::Unsupported, "it is UTF-16; convert it to UTF-8"));
    }
    let xml = xml.strip_prefix(b"\xef\xbb\xbf").unwrap_or(xml);
    let text = std::str::from_utf8(xml).map_err(|error| {
        Error::new(Kind::Corrupt, "it is not valid UTF-8").at(u64::try_from(error.valid_up_to()).unwrap_or_default())
    })?;
    let options = ParsingOptions { allow_dtd: false, nodes_limit: MAX_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| match error {
        roxmltree::Error::DtdDetected => Error::new(Kind::External, "it has a DTD, which is not allowed"),
        roxmltree::Error::NodesLimitReached => {
            Error::new(Kind::Oversized, format!("it has more than {MAX_NODES} XML nodes"))
        }
        error => {
            // It quotes the text, control characters and all.
            let error = printable(error.to_string().as_bytes());
            Error::new(Kind::Corrupt, format!("it is no well-formed XML: {error}"))
        }
    })?;
    let root = document.root_element();
    if root.tag_name().name() != "Envelope" {
        return Err(Error::new(Kind::Corrupt, "it is no OVF envelope"));
    }
    let files: Vec<Node<'_, '_>> = children(root, "References").flat_map(|section| children(section, "File")).collect();
    let mut disks: Vec<Disk> = Vec::new();
    for section in root.children().filter(|node| is_disk_section(*node)) {
        for disk in children(section, "Disk") {
            // A disk without a file is an empty one.
            let Some(reference) = attribute(disk, "fileRef") else { continue };
            let Some(file) = files.iter().find(|file| attribute(**file, "id") == Some(reference)) else {
                let reference = printable(reference.as_bytes());
                return Err(Error::new(
                    Kind::Corrupt,
                    format!("a disk refers to the file {reference}, which is not there"),
                ));
            };
            let capacity = attribute(disk, "capacity").unwrap_or("unknown capacity");
            let unit = attribute(disk, "capacityAllocationUnits").unwrap_or("byte");
            let found = Disk {
                id: attribute(disk, "diskId").unwrap_or_default().to_owned(),
                href: attribute(*file, "href").unwrap_or_default().to_owned(),
                size: attribute(*file, "size").and_then(|size| size.parse().ok()),
                chunk: attribute(*file, "chunkSize").and_then(|size| size.parse().ok()).filter(|&size| size != 0),
                capacity: format!("{capacity} x {unit}"),
                delta: attribute(disk, "parentRef").is_some(),
            };
            if !disks.iter().any(|disk| disk.href == found.href) {
                disks.push(found);
            }
        }
    }
    Ok(disks)
}

/// The section that lists the disks; before OVF 1.0 its name was in its type.
fn is_disk_section(node: Node<'_, '_>) -> bool {
    match node.tag_name().name() {
        "DiskSection" => true,
        "Section" => attribute(node, "type").is_some_and(|kind| kind.ends_with("DiskSection_Type")),
        _ => false,
    }
}

/// Child elements by local name: producers differ in the namespace.
fn children<'a, 'input: 'a>(node: Node<'a, 'input>, name: &'static str) -> impl Iterator<Item = Node<'a, 'input>> {
    node.children().filter(move |child| child.tag_name().name() == name)
}

/// An attribute by local name.
fn attribute<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.attributes().find(|attribute| attribute.name() == name).map(|attribute| attribute.value())
}

/// The longest descriptor read, in bytes.
pub(crate) const MAX: u64 = 1 << 20;

/// The most XML nodes read; about 100 bytes of memory each.
const MAX_NODES: u32 = 1 << 17;

#[cfg(test)]
mod tests;
