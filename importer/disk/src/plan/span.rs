//! Where in the file an extent lies.

use crate::{Body, Extent, GuestOffset, HostOffset};

pub(super) fn host_start(extent: &Extent) -> u64 {
    match extent.body {
        Body::Data { at } | Body::Packed { at, .. } => at.0,
        Body::Zero | Body::Inline(_) => 0,
    }
}

pub(super) fn host_end(extent: &Extent) -> u64 {
    match extent.body {
        Body::Data { at } => at.0.saturating_add(extent.len),
        Body::Packed { at, len, .. } => at.0.saturating_add(u64::from(len)),
        Body::Zero | Body::Inline(_) => 0,
    }
}

/// The part of a data extent that begins `skip` bytes into it.
pub(super) fn part_of(extent: &Extent, skip: u64, len: u64) -> Extent {
    let body = match &extent.body {
        Body::Data { at } => Body::Data { at: HostOffset(at.0 + skip) },
        other => other.clone(),
    };
    Extent { guest: GuestOffset(extent.guest.0 + skip), len, body }
}

/// Sorts ranges and joins those that touch.
pub(super) fn join(ranges: &mut Vec<(u64, u64)>) {
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let touches = next.0 <= last.1;
        if touches {
            last.1 = last.1.max(next.1);
        }
        touches
    });
}
