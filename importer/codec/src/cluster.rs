//! The whole compressed units of disk images: qcow2 clusters, VMDK grains.
//!
//! A unit comes with its compressed bytes, often with some more behind them (images count in sectors), and with the
//! room it must fill. The decoders here are as fast as it gets because they see it whole; each is meant to be kept by a
//! thread and used again.
//!
//! They give back how many bytes were made. Whether a short unit is an error is for the caller to say, who knows the
//! cluster size; one that would be longer than the room is an error here.

use std::fmt;

use libdeflater::{DecompressionError, Decompressor};
use zstd_safe::DCtx;

use crate::zstd::{self, is_skippable};
use crate::{Error, Kind, Result};

/// A decoder of deflate units; about 12 KiB.
pub struct Inflate {
    decompressor: Decompressor,
    zlib: bool,
}

impl Inflate {
    /// Raw deflate, RFC 1951, as in qcow2.
    #[must_use]
    pub fn raw() -> Self {
        Self { decompressor: Decompressor::new(), zlib: false }
    }

    /// With a zlib header and its checksum, RFC 1950, as in VMDK.
    #[must_use]
    pub fn zlib() -> Self {
        Self { decompressor: Decompressor::new(), zlib: true }
    }

    /// Unpacks the stream at the front of `input` into `output`; gives the number of bytes made.
    ///
    /// Fails when the stream is damaged, does not end inside `input`, or makes more than `output` holds. On failure
    /// `output` holds anything.
    pub fn unpack(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize> {
        let (done, format) = if self.zlib {
            (self.decompressor.zlib_decompress(input, output), "zlib")
        } else {
            (self.decompressor.deflate_decompress(input, output), "deflate")
        };
        done.map_err(|error| {
            match error {
                DecompressionError::BadData => Error::new(Kind::Corrupt, "compressed data are damaged or cut"),
                DecompressionError::InsufficientSpace => too_long(output.len()),
            }
            .of(format)
        })
    }
}

impl fmt::Debug for Inflate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflate").field("zlib", &self.zlib).finish_non_exhaustive()
    }
}

/// A decoder of zstd units; about 160 KiB. There is no window: frames are decoded straight into the output.
pub struct Zstd {
    context: DCtx<'static>,
}

impl Zstd {
    /// A new decoder. Fails when there is no memory for it.
    pub fn new() -> Result<Self> {
        let context =
            DCtx::try_create().ok_or_else(|| Error::new(Kind::Memory, "no memory is left for the decoder").of(NAME))?;
        Ok(Self { context })
    }

    /// Unpacks the frames at the front of `input` into `output`, until it is full or no frame follows; gives the number
    /// of bytes made.
    ///
    /// Fails when there is no frame, when one is damaged or does not end inside `input`, or makes more than `output`
    /// holds. On failure `output` holds anything.
    pub fn unpack(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize> {
        self.frames(input, output).map_err(|error| error.of(NAME))
    }

    fn frames(&mut self, input: &[u8], output: &mut [u8]) -> Result<usize> {
        let room = output.len();
        let mut input = input;
        let mut output = output;
        let mut any = false;
        while !any || !output.is_empty() {
            match input.first_chunk() {
                Some(&zstd::MAGIC) => {}
                Some(&magic) if is_skippable(magic) => {}
                _ if any => break,
                _ => return Err(Error::new(Kind::Corrupt, "there is no frame")),
            }
            let damaged = |code| Error::new(Kind::Corrupt, format!("a frame is damaged or cut ({})", zstd::name(code)));
            let len = zstd_safe::find_frame_compressed_size(input).map_err(damaged)?;
            let (frame, rest) = input
                .split_at_checked(len)
                .ok_or_else(|| Error::new(Kind::Ours, "a frame is longer than its input"))?;
            if frame.starts_with(&zstd::MAGIC) {
                let made = self.context.decompress(&mut *output, frame).map_err(|code| {
                    // The code is not public; its name is.
                    if zstd::name(code).contains("too small") { too_long(room) } else { damaged(code) }
                })?;
                output = output.get_mut(made..).unwrap_or_default();
                any = true;
            }
            input = rest;
        }
        Ok(room - output.len())
    }
}

impl fmt::Debug for Zstd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Zstd").finish_non_exhaustive()
    }
}

fn too_long(room: usize) -> Error {
    Error::new(Kind::Corrupt, format!("compressed data unpack to more than {room} bytes"))
}

const NAME: &str = "zstd";

#[cfg(test)]
mod tests;
