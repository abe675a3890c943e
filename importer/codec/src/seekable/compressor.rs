//! Making frames.

use std::fmt;

use bytes::Bytes;
use zstd_safe::{CCtx, CParameter};

use super::Frame;
use crate::{Error, Kind, Result, zstd};

/// Makes frames, each from its own bytes alone. Holds about 3 MiB: libzstd's tables and the frame at hand.
pub struct Compressor {
    context: CCtx<'static>,
    output: Vec<u8>,
}

/// The level of compression that keeps up with disks and networks on two cores.
///
/// Measured on programs and documents, one thread of a virtual machine: level 1 compresses to 52.4 % at 470 MB/s, 2 to 50.7 %
/// at 390, 3 to 49.6 % at 270; below, -1 to 56.7 % at 530.
pub const LEVEL: i32 = 1;

impl Compressor {
    /// A compressor of this level, as `zstd` counts them.
    ///
    /// # Errors
    ///
    /// [`Kind::Memory`] when there is no memory for it.
    pub fn new(level: i32) -> Result<Self> {
        let mut context = context()?;
        set(&mut context, CParameter::CompressionLevel(level))?;
        Ok(Self { context, output: Vec::new() })
    }

    /// A frame with all of `data`, its length and its checksum. Copies what it has made once, so that the frame holds
    /// no more memory than its length.
    ///
    /// # Errors
    ///
    /// [`Kind::Ours`] when `data` are longer than a table can say, or when libzstd fails.
    pub fn frame(&mut self, data: &[u8]) -> Result<Frame> {
        let len = u32::try_from(data.len()).map_err(|_| Error::new(Kind::Ours, "a frame of more than 4 GiB"))?;
        self.output.clear();
        self.output.reserve(zstd_safe::compress_bound(data.len()));
        self.context.compress2(&mut self.output, data).map_err(failed)?;
        Ok(Frame { stored: Bytes::copy_from_slice(&self.output), len })
    }
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

/// A context whose frames have a checksum. That they have their length is the default.
pub(super) fn context() -> Result<CCtx<'static>> {
    let mut context = CCtx::try_create().ok_or_else(|| Error::new(Kind::Memory, "no memory is left to compress"))?;
    set(&mut context, CParameter::ChecksumFlag(true))?;
    Ok(context)
}

pub(super) fn set(context: &mut CCtx<'static>, parameter: CParameter) -> Result<()> {
    context.set_parameter(parameter).map(drop).map_err(failed)
}

/// What libzstd says, as an error.
pub(super) fn failed(code: usize) -> Error {
    Error::new(Kind::Ours, format!("can't compress: {}", zstd::name(code))).of("zstd")
}
