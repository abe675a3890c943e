//! Why a descriptor doesn't describe a disk that is all here.

use super::{Descriptor, Part, corrupt};
use crate::text::printable;
use crate::{Error, Kind};

/// Why a descriptor file alone can't be imported: it says which file is missing, and what to do.
///
/// `text` is the beginning of the file, some KiB. Nothing it names is opened.
#[must_use]
pub fn refuse(text: &[u8]) -> Error {
    let error = match Descriptor::parse(text) {
        Ok(Some(descriptor)) => descriptor.refusal(),
        Ok(None) => corrupt("an empty descriptor"),
        Err(error) => error,
    };
    error.of(super::super::NAME)
}

impl Descriptor {
    /// What is wrong with a disk of which there is only this text. The most dangerous reason comes first.
    pub fn refusal(&self) -> Error {
        let kind = &self.create_type;
        if self.encrypted {
            return Error::new(Kind::Encrypted, "the disk is encrypted; decrypt it with the program that made it");
        }
        if self.parent {
            return Error::new(
                Kind::External,
                format!("this {kind} is only the difference to a parent disk; merge the snapshots, then export it"),
            );
        }
        if is_device(kind) || self.extents.iter().any(Part::is_device) {
            return Error::new(Kind::External, format!("this {kind} refers to a device of another machine"));
        }
        if let Some(name) = self.names().find(|name| leads_out(name)) {
            return Error::new(
                Kind::External,
                format!(
                    "this {kind} refers to a file elsewhere, \"{}\", which is never opened",
                    printable(name.as_bytes())
                ),
            );
        }
        if self.names().next().is_none() {
            return corrupt(format!("this {kind} names no file with data"));
        }
        Error::new(Kind::Incomplete, format!("this {kind} is in {}; {}", self.listing(), self.advice()))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.extents.iter().filter_map(|part| part.name.as_deref())
    }

    fn listing(&self) -> String {
        let names: Vec<_> = self.names().map(|name| format!("\"{}\"", printable(name.as_bytes()))).collect();
        let more = self.count.saturating_sub(self.extents.len());
        let names = names.join(", ");
        match (self.count, more) {
            (1, _) => format!("another file, {names}, which is missing"),
            (count, 0) => format!("{count} other files, which are missing: {names}"),
            (count, more) => format!("{count} other files, which are missing: {names} and {more} more"),
        }
    }

    fn advice(&self) -> &'static str {
        let raw = |part: &Part| matches!(part.kind.as_str(), "FLAT" | "VMFS") && part.offset == 0;
        match self.extents.as_slice() {
            [part] if raw(part) => "import that file instead, it is the raw disk",
            _ => "make one file of all of them where they are: qemu-img convert -O qcow2 THIS.vmdk disk.qcow2",
        }
    }
}

impl Part {
    fn is_device(&self) -> bool {
        matches!(self.kind.as_str(), "VMFSRDM" | "VMFSRAW") || self.name.as_deref().is_some_and(is_device_name)
    }
}

fn is_device(create_type: &str) -> bool {
    const DEVICES: [&str; 7] = [
        "fullDevice",
        "partitionedDevice",
        "vmfsRaw",
        "vmfsRDM",
        "vmfsRDMP",
        "vmfsRawDeviceMap",
        "vmfsPassthroughRawDeviceMap",
    ];
    DEVICES.iter().any(|device| device.eq_ignore_ascii_case(create_type))
}

fn is_device_name(name: &str) -> bool {
    name.starts_with("/dev/") || name.starts_with(r"\\.\")
}

/// Whether a name means something else than a file in the same folder or below it.
fn leads_out(name: &str) -> bool {
    let absolute = name.starts_with(['/', '\\']);
    // `C:…`, `http://…`, `json:{…}`, `nbd:…`
    let scheme = name.contains(':');
    absolute || scheme || name.split(['/', '\\']).any(|step| step == "..")
}
