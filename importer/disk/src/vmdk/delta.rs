//! COWD and seSparse: what ESX and ESXi keep snapshots in. Named, not read.
//!
//! Such a file can't say whether it is whole: what it doesn't hold is to be read from a parent that only the separate
//! descriptor names. Reading it as a disk of its own would give zeros for the rest, with no error.

use crate::{Error, Kind};

/// Why this file isn't read, if it begins as one of them.
pub(super) fn refuse(head: &[u8]) -> Option<Error> {
    let name = if head.starts_with(b"COWD") {
        "vmfsSparse (COWD)"
    } else if head.starts_with(&0xcafe_babe_u64.to_le_bytes()) {
        "seSparse"
    } else {
        return None;
    };
    let advice = "it holds the difference to another disk; merge the snapshots and export the machine with ovftool";
    Some(Error::new(Kind::External, format!("a {name} extent of ESXi: {advice}")))
}
