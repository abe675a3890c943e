//! Nowhere: for those who want to know whether an image is good.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Claim, Written};
use crate::{Result, Sink};

/// Counts what it is given and keeps nothing. Never fails.
#[derive(Debug, Default)]
pub struct NullSink {
    data: AtomicU64,
}

impl Sink for NullSink {
    fn prepare(&self, _size: Option<u64>) -> Result<()> {
        Ok(())
    }

    fn write(&self, _at: u64, bytes: &[u8]) -> Result<()> {
        self.data.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn zero(&self, _at: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>, size: u64) -> Result<Written> {
        Ok(Written { data: self.data.into_inner(), size })
    }

    fn name(&self) -> String {
        "null:".to_owned()
    }

    fn claim(&self) -> Claim {
        Claim::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_counted_and_zeros_are_not() {
        let sink = Box::new(NullSink::default());
        sink.prepare(Some(1 << 46)).unwrap();
        sink.write(1 << 45, &[1; 700]).unwrap();
        sink.zero(0, 1 << 45).unwrap();
        sink.write(5, &[0; 5]).unwrap();
        assert_eq!(sink.finish(1 << 46).unwrap(), Written { data: 705, size: 1 << 46 });
    }
}
