//! A connection, and how long it may stand still.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;

use crate::direct::Direct;

/// A connection that is given up when its client takes nothing for too long. How long it may send nothing is decided
/// above: hyper knows whether anything is expected.
pub(crate) struct Stream {
    inner: Inner,
    patience: Duration,
    /// Runs while a write waits.
    deadline: Option<Pin<Box<Sleep>>>,
}

enum Inner {
    Plain(TcpStream, Arc<Direct>),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(crate) fn plain(stream: TcpStream, patience: Duration) -> Self {
        Self { inner: Inner::Plain(stream, Arc::default()), patience, deadline: None }
    }

    /// What takes files past our memory. Not with TLS, which has to see what it encrypts.
    pub(crate) fn direct(&self) -> Option<Arc<Direct>> {
        match &self.inner {
            Inner::Plain(_, direct) => Some(Arc::clone(direct)),
            Inner::Tls(_) => None,
        }
    }

    pub(crate) fn tls(stream: TlsStream<TcpStream>, patience: Duration) -> Self {
        Self { inner: Inner::Tls(Box::new(stream)), patience, deadline: None }
    }

    fn watch<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.deadline = None;
            return polled;
        }
        let patience = self.patience;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(deadline.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.inner {
            Inner::Plain(stream, _) => Pin::new(stream).poll_read(context, to),
            Inner::Tls(stream) => Pin::new(stream).poll_read(context, to),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let polled = match &mut self.inner {
            Inner::Plain(stream, direct) => direct.poll_write(stream, context, &[io::IoSlice::new(from)]),
            Inner::Tls(stream) => Pin::new(stream).poll_write(context, from),
        };
        self.watch(context, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = match &mut self.inner {
            Inner::Plain(stream, direct) => direct.poll_write(stream, context, from),
            Inner::Tls(stream) => Pin::new(stream).poll_write_vectored(context, from),
        };
        self.watch(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.inner {
            Inner::Plain(stream, _) => stream.is_write_vectored(),
            Inner::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = match &mut self.inner {
            Inner::Plain(_, direct) => Poll::Ready(direct.settle()),
            Inner::Tls(stream) => Pin::new(stream).poll_flush(context),
        };
        self.watch(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = match &mut self.inner {
            Inner::Plain(stream, _) => Pin::new(stream).poll_shutdown(context),
            Inner::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        };
        self.watch(context, polled)
    }
}
