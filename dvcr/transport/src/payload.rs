//! What is sent with a request.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// What is sent with a request.
#[derive(Debug, Default)]
pub struct Payload(Source);

#[derive(Debug)]
enum Source {
    Pieces(VecDeque<Bytes>),
    Fed { pieces: mpsc::Receiver<io::Result<Bytes>>, len: Option<u64> },
}

impl Default for Source {
    fn default() -> Self {
        Self::Pieces(VecDeque::new())
    }
}

/// Where the pieces of a payload are put in; see [`Payload::fed`].
#[derive(Clone, Debug)]
pub struct Feeder(mpsc::Sender<io::Result<Bytes>>);

impl Payload {
    /// These bytes, which can be sent again if need be.
    pub fn pieces(pieces: impl IntoIterator<Item = Bytes>) -> Self {
        Self(Source::Pieces(pieces.into_iter().filter(|piece| !piece.is_empty()).collect()))
    }

    /// Bytes that come while they are sent: `len` of them, or as many as there are until the feeder is dropped. Sent once.
    ///
    /// The last four pieces may wait; it is told nobody's fault if they are waited for.
    #[must_use]
    pub fn fed(len: Option<u64>) -> (Feeder, Self) {
        let (sender, pieces) = mpsc::channel(WAITING);
        (Feeder(sender), Self(Source::Fed { pieces, len }))
    }

    /// The same again, if it can be sent again.
    pub(crate) fn again(&self) -> Option<Self> {
        match &self.0 {
            Source::Pieces(pieces) => Some(Self(Source::Pieces(pieces.clone()))),
            Source::Fed { .. } => None,
        }
    }

    /// How many bytes, where it is known.
    pub(crate) fn len(&self) -> Option<u64> {
        match &self.0 {
            Source::Pieces(pieces) => Some(pieces.iter().map(|piece| piece.len() as u64).sum()),
            Source::Fed { len, .. } => *len,
        }
    }
}

impl Feeder {
    /// The next piece, or why there is none; waits until there is room. False if nobody wants it any more.
    pub async fn put(&self, piece: io::Result<Bytes>) -> bool {
        self.0.send(piece).await.is_ok()
    }
}

/// How far the sending of a payload is.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    taken: AtomicU64,
    /// The next piece is not there yet.
    hungry: AtomicBool,
    done: AtomicBool,
}

impl Watch {
    /// Bytes that were taken for sending.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether whoever feeds it is waited for.
    pub(crate) fn is_hungry(&self) -> bool {
        self.hungry.load(Ordering::Relaxed)
    }

    /// Whether all of it was taken.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }
}

/// A payload on its way.
pub(crate) struct Outgoing {
    source: Source,
    /// How much is still to come, where it is known.
    left: Option<u64>,
    watch: Arc<Watch>,
}

impl Outgoing {
    pub(crate) fn new(payload: Payload, watch: Arc<Watch>) -> Self {
        let left = payload.len();
        watch.done.store(left == Some(0), Ordering::Relaxed);
        Self { source: payload.0, left, watch }
    }

    /// No bytes.
    pub(crate) fn empty() -> Self {
        Self::new(Payload::default(), Arc::default())
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        let piece = match &mut this.source {
            Source::Pieces(pieces) => {
                let Some(front) = pieces.front_mut() else {
                    this.watch.done.store(true, Ordering::Relaxed);
                    return Poll::Ready(None);
                };
                let piece = front.split_to(front.len().min(PIECE));
                if front.is_empty() {
                    pieces.pop_front();
                }
                piece
            }
            Source::Fed { pieces, .. } => loop {
                let next = pieces.poll_recv(context);
                this.watch.hungry.store(next.is_pending(), Ordering::Relaxed);
                match next {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Some(Ok(piece))) if piece.is_empty() => {}
                    Poll::Ready(Some(Ok(piece))) => break piece,
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                    Poll::Ready(None) if this.left.is_none_or(|left| left == 0) => {
                        this.watch.done.store(true, Ordering::Relaxed);
                        return Poll::Ready(None);
                    }
                    Poll::Ready(None) => {
                        return Poll::Ready(Some(Err(io::Error::other("there is less to send than was announced"))));
                    }
                }
            },
        };
        let len = piece.len() as u64;
        if let Some(left) = &mut this.left {
            match left.checked_sub(len) {
                Some(rest) => *left = rest,
                None => return Poll::Ready(Some(Err(io::Error::other("there is more to send than was announced")))),
            }
            if *left == 0 {
                this.watch.done.store(true, Ordering::Relaxed);
            }
        }
        this.watch.taken.fetch_add(len, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// The most that is taken at a time, so that progress can be seen on a slow link.
const PIECE: usize = 256 << 10;
/// Pieces that wait to be sent.
const WAITING: usize = 4;

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn pieces_are_cut_and_counted() {
        let payload = Payload::pieces([Bytes::new(), Bytes::from(vec![7; PIECE + 1]), Bytes::from_static(b"x")]);
        assert_eq!(payload.len(), Some(PIECE as u64 + 2));
        let again = payload.again().unwrap();
        let watch = Arc::<Watch>::default();
        let mut outgoing = Outgoing::new(payload, Arc::clone(&watch));
        let mut lens = Vec::new();
        while let Some(frame) = outgoing.frame().await {
            assert!(!watch.is_hungry());
            lens.push(frame.unwrap().into_data().unwrap().len());
        }
        assert_eq!(lens, [PIECE, 1, 1]);
        assert!(outgoing.is_end_stream() && watch.is_done());
        assert_eq!((watch.taken(), again.len()), (PIECE as u64 + 2, Some(PIECE as u64 + 2)));
        assert!(Outgoing::empty().is_end_stream());
    }

    #[tokio::test]
    async fn what_is_fed_is_as_long_as_was_announced() {
        let send = async |len, pieces: &[&'static [u8]]| {
            let (feeder, payload) = Payload::fed(len);
            assert!(payload.again().is_none());
            let mut outgoing = Outgoing::new(payload, Arc::default());
            for piece in pieces {
                assert!(feeder.put(Ok(Bytes::from_static(piece))).await);
            }
            drop(feeder);
            let mut got = Vec::new();
            while let Some(frame) = outgoing.frame().await {
                got.extend_from_slice(&frame.map_err(|error| error.to_string())?.into_data().unwrap());
            }
            Ok::<_, String>(got)
        };
        assert_eq!(send(None, &[b"ab", b"", b"c"]).await.unwrap(), b"abc");
        assert_eq!(send(Some(3), &[b"ab", b"c"]).await.unwrap(), b"abc");
        assert_eq!(send(Some(4), &[b"ab", b"c"]).await.unwrap_err(), "there is less to send than was announced");
        assert_eq!(send(Some(2), &[b"ab", b"c"]).await.unwrap_err(), "there is more to send than was announced");
    }

    #[tokio::test]
    async fn whoever_is_waited_for_is_known() {
        let (feeder, payload) = Payload::fed(None);
        let watch = Arc::<Watch>::default();
        let mut outgoing = Outgoing::new(payload, Arc::clone(&watch));
        {
            let mut frame = Box::pin(outgoing.frame());
            let waits = std::future::poll_fn(|context| Poll::Ready(frame.as_mut().poll(context).is_pending()));
            assert!(waits.await && watch.is_hungry());
            feeder.put(Ok(Bytes::from_static(b"x"))).await;
            frame.await.unwrap().unwrap();
        }
        assert!(!watch.is_hungry() && !watch.is_done());
        drop(outgoing);
        assert!(!feeder.put(Ok(Bytes::new())).await);
    }
}
