//! `Upload-Checksum`: a part of an upload that is compared before it counts.
//!
//! What an import has got can't be taken back, so such a part waits in memory until it is whole: it may have 8 MiB at most.

use std::error::Error;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::Body;
use importer_flow::{Algorithm, Checksum};

use crate::budget::MOST_HELD;
use crate::receive::{Stop, broken};
use crate::refusal::Refusal;
use crate::session::{Session, Writer};

/// The algorithms, as `Tus-Checksum-Algorithm` lists them.
pub const ALGORITHMS: &str = "md5,sha1,sha256,sha512";

/// Reads `Upload-Checksum: ALGORITHM BASE64`.
///
/// # Errors
///
/// 400, also for an algorithm that is not known.
pub fn parse(header: &str) -> Result<Checksum, Refusal> {
    let wrong =
        || Refusal::bad(format!("Upload-Checksum makes no sense: write it as ALGORITHM BASE64, of {ALGORITHMS}"));
    let (name, digest) = header.trim().split_once(' ').ok_or_else(wrong)?;
    if !ALGORITHMS.split(',').any(|known| known == name) {
        return Err(wrong());
    }
    let digest = STANDARD.decode(digest.trim()).map_err(|_| wrong())?;
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Algorithm::named(name).and_then(|algorithm| Checksum::new(algorithm, &hex)).ok_or_else(wrong)
}

/// Reads a body, and hands it over when its checksum is right.
///
/// # Errors
///
/// 413 for a body that is too long, 460 for one that hashes to something else; and what [`receive`](crate::receive::receive)
/// says. Nothing of such a body counts.
pub async fn receive<B>(
    session: &Session,
    writer: &mut Writer,
    body: &mut B,
    checksum: &Checksum,
    patience: Duration,
) -> Result<(), Stop>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    let announced = body.size_hint().exact().map_or(Ok(MOST_HELD), usize::try_from).unwrap_or(usize::MAX);
    if announced > MOST_HELD {
        return Err(Stop::Refused(too_long()));
    }
    let later = || Stop::Refused(Refusal::later(1, "too many parts wait to be compared with their checksums"));
    let room = tokio::time::timeout(patience, session.hold(announced)).await;
    let room = room.ok().flatten().ok_or_else(later)?;
    let mut held = BytesMut::with_capacity(announced.min(FIRST));
    let mut verifier = checksum.verifier();
    loop {
        let frame = tokio::select! {
            biased;
            () = writer.superseded() => return Err(Stop::Refused(Refusal::busy())),
            refusal = writer.refused() => return Err(Stop::Refused(refusal)),
            frame = tokio::time::timeout(patience, body.frame()) => frame.map_err(|_| Stop::Cut)?,
        };
        let Some(frame) = frame else { break };
        let Ok(bytes) = frame.map_err(broken)?.into_data() else { continue };
        if held.len() + bytes.len() > MOST_HELD {
            return Err(Stop::Refused(too_long()));
        }
        verifier.push(&bytes);
        // Frames may be as small as a sender likes, and each would hold on to the buffer it was read into.
        held.extend_from_slice(&bytes);
    }
    if !verifier.matches() {
        return Err(Stop::Refused(mismatch()));
    }
    for part in held.chunks(PART) {
        // A copy, so that what waits for the import is no more than the queue has room for.
        writer.push(Bytes::copy_from_slice(part)).await.map_err(Stop::Refused)?;
    }
    drop(room);
    Ok(())
}

fn too_long() -> Refusal {
    let message = format!("a part with Upload-Checksum may have {} MiB at most: send smaller parts", MOST_HELD >> 20);
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "TooLong", message)
}

/// //# tus 1.0.0, Checksum: "the server MUST return the `460 Checksum Mismatch` status"
fn mismatch() -> Refusal {
    let status = StatusCode::from_u16(460).unwrap_or(StatusCode::BAD_REQUEST);
    Refusal::new(status, "ChecksumMismatch", "these bytes are not those that Upload-Checksum is of: send them again")
}

/// What a body without a length begins with.
const FIRST: usize = 1 << 20;
const PART: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_read() {
        // Of "abc", in the notation of the protocol.
        for (header, hex) in [
            ("sha1 qZk+NkcGgWq6PiVxeFDCbJzQ2J0=", "sha1:a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("md5 kAFQmDzST7DWlj99KOF/cg==", "md5:900150983cd24fb0d6963f7d28e17f72"),
            (
                "sha256 ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=",
                "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            ),
        ] {
            assert_eq!(parse(header).unwrap().to_string(), hex);
        }
        for wrong in ["", "sha1", "sha1 qZk=", "sha1 !", "crc32 qZk=", "SHA1 qZk+NkcGgWq6PiVxeFDCbJzQ2J0=", "md5  "] {
            assert_eq!(parse(wrong).unwrap_err().status, 400, "{wrong}");
        }
    }
}
