//! What the kernel says of a target, in words that help.

use std::io;

use crate::{Error, Kind};

/// The error for a target that could not be used: `what` was tried on the target `name`.
pub(super) fn failed(name: &str, what: &str, cause: impl Into<io::Error>) -> Error {
    let cause = cause.into();
    let advice = match cause.kind() {
        io::ErrorKind::PermissionDenied => " (it is read-only, or another user must run this)",
        io::ErrorKind::ReadOnlyFilesystem => " (it can only be read)",
        io::ErrorKind::ResourceBusy => " (it is mounted or held by another program: release it first)",
        io::ErrorKind::NotFound => " (create the directory first)",
        _ => "",
    };
    Error::new(Kind::Target, format!("{name}: can't {what}{advice}")).because(cause)
}

/// The same for a write or a sync, after `done` bytes of a disk of `size` bytes, where its size is known.
pub(super) fn write_failed(name: &str, what: &str, done: u64, size: Option<u64>, cause: impl Into<io::Error>) -> Error {
    let cause = cause.into();
    let limit = match cause.kind() {
        io::ErrorKind::StorageFull => "no space left",
        io::ErrorKind::QuotaExceeded => "the disk quota is used up",
        io::ErrorKind::FileTooLarge => "it can't grow further",
        _ => return failed(name, what, cause),
    };
    let needs = size.map(|size| format!(" of a disk of {size}")).unwrap_or_default();
    let advice = "make room or choose another target";
    Error::new(Kind::Target, format!("{name}: {limit} after {done} bytes of data{needs}: {advice}"))
}
