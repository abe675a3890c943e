//! From a connection into an upload.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError};
use hyper::body::Body;
use hyper::header::{CONNECTION, HeaderMap, HeaderValue};
use hyper::{Response, Version};

use crate::refusal::Refusal;
use crate::session::Writer;

/// Why a body was not read to its end.
#[derive(Debug)]
pub enum Stop {
    /// The client went away, or sent nothing for too long. What came before counts.
    Cut,
    /// There is a reason that the client should learn.
    Refused(Refusal),
}

/// Reads a body into an upload, no faster than the import takes it. Only standing still is limited, by `patience`.
///
/// # Errors
///
/// What ended it before its end.
pub async fn receive<B>(writer: &mut Writer, body: &mut B, patience: Duration) -> Result<(), Stop>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    loop {
        let frame = tokio::select! {
            biased;
            () = writer.superseded() => return Err(Stop::Refused(Refusal::busy())),
            refusal = writer.refused() => return Err(Stop::Refused(refusal)),
            frame = tokio::time::timeout(patience, body.frame()) => frame,
        };
        match frame {
            Ok(None) => return Ok(()),
            Ok(Some(Ok(frame))) => {
                let Ok(bytes) = frame.into_data() else { continue };
                writer.push(bytes).await.map_err(Stop::Refused)?;
            }
            Ok(Some(Err(error))) => return Err(broken(error)),
            Err(_) => return Err(Stop::Cut),
        }
    }
}

/// Why a body broke off.
pub fn broken(error: impl Into<Box<dyn Error + Send + Sync>>) -> Stop {
    if error.into().is::<LengthLimitError>() { Stop::Refused(Refusal::too_long()) } else { Stop::Cut }
}

/// An answer to a request whose body may not have been read: then the connection ends with it, and what still comes
/// [lingers](linger), so that the client reads the answer.
pub fn end_early<T, B>(answer: Response<T>, version: Version, body: B) -> Response<T>
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
{
    end(answer, version, body, LINGER_BYTES)
}

/// The same for who sends what is there already. A browser whose connection was cut sends a request again by itself, and looks
/// at no answer before it has sent all of it: for it, a connection that is reset is the shorter way to the same.
pub fn end_soon<T, B>(answer: Response<T>, version: Version, body: B) -> Response<T>
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
{
    end(answer, version, body, BRIEF_BYTES)
}

fn end<T, B>(mut answer: Response<T>, version: Version, body: B, most: usize) -> Response<T>
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
{
    if !body.is_end_stream() {
        close(answer.headers_mut(), version);
        discard(body, most);
    }
    answer
}

/// Says that a connection ends with this answer. HTTP/2 ends streams, not connections.
pub fn close(headers: &mut HeaderMap, version: Version) {
    if version < Version::HTTP_2 {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Takes what a client still sends after it was refused, for a while and up to a limit, and throws it away: a connection
/// that is closed while bytes come is reset, and the answer lost with it.
pub fn linger(body: impl Body<Data = Bytes> + Unpin + Send + 'static) {
    discard(body, LINGER_BYTES);
}

fn discard(mut body: impl Body<Data = Bytes> + Unpin + Send + 'static, most: usize) {
    tokio::spawn(async move {
        let mut left = most;
        let drain = async {
            while let Some(Ok(frame)) = body.frame().await {
                left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
                if left == 0 {
                    return;
                }
            }
        };
        // Whoever still sends then does not read.
        let _ = tokio::time::timeout(LINGER, drain).await;
    });
}

/// What is on its way when the answer is sent: clients that read look at it long before.
const LINGER_BYTES: usize = 256 << 20;
/// More than what most clients that read have on its way, and little to send in vain.
const BRIEF_BYTES: usize = 256 << 10;
const LINGER: Duration = Duration::from_secs(10);
