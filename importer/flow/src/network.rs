//! The thread that moves bytes from and to the network.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use bytes::Bytes;
use dvcr_transport::Transfer;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::{Error, Kind, Piece, Result, Stream};

/// The thread that moves bytes from and to the network. It lives as long as anybody holds it.
#[derive(Debug)]
pub(crate) struct Network {
    runtime: Option<Runtime>,
}

impl Network {
    /// Starts the thread.
    pub(crate) fn start() -> Result<Arc<Self>> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(2)
            .thread_name("network")
            .enable_all()
            .build()
            .map_err(|error| Error::new(Kind::Ours, "can't start the network thread").because(error))?;
        Ok(Arc::new(Self { runtime: Some(runtime) }))
    }

    fn runtime(&self) -> Result<&Runtime> {
        self.runtime.as_ref().ok_or_else(|| Error::new(Kind::Ours, "the network is gone"))
    }

    /// What `work` comes to, on the network's thread.
    pub(crate) fn wait<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T> {
        let (sender, answer) = sync_channel(1);
        self.runtime()?.spawn(async move { drop(sender.send(work.await)) });
        answer.recv().map_err(|_| stopped())
    }

    /// Lets the network bring what a transfer gives.
    pub(crate) fn fetch(self: &Arc<Self>, transfer: Transfer) -> Result<Body> {
        Ok(Body { frames: self.frames(transfer)?, network: Arc::clone(self), ended: false })
    }

    fn frames(&self, transfer: Transfer) -> Result<mpsc::Receiver<Result<Next>>> {
        let (sender, frames) = mpsc::channel(QUEUE);
        self.runtime()?.spawn(forward(transfer, sender));
        Ok(frames)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Connections that still send are cut, not waited for.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// What the network hands over.
enum Next {
    Bytes(Bytes),
    /// A transfer that does nothing until it is asked for more.
    Rest(Box<Transfer>),
    End,
}

/// Sends frames to the reader, which holds the network up when it is slower.
async fn forward(mut transfer: Transfer, sender: mpsc::Sender<Result<Next>>) {
    loop {
        let next = match transfer.next().await {
            Ok(Some(bytes)) => Ok(Next::Bytes(bytes)),
            Ok(None) => Ok(Next::End),
            Err(error) => Err(failed(error)),
        };
        let last = !matches!(next, Ok(Next::Bytes(_)));
        if sender.send(next).await.is_err() || last {
            return;
        }
        if transfer.at_rest() {
            // Whoever has it by now and drops it wanted only the start.
            drop(sender.send(Ok(Next::Rest(Box::new(transfer)))).await);
            return;
        }
    }
}

/// The body of an answer.
pub(crate) struct Body {
    frames: mpsc::Receiver<Result<Next>>,
    /// The network lives as long as anything is read from it.
    network: Arc<Network>,
    ended: bool,
}

impl Stream for Body {
    fn next(&mut self) -> Result<Option<Piece>> {
        while !self.ended {
            match self.frames.blocking_recv() {
                Some(Ok(Next::Bytes(bytes))) => return Ok(Some(Piece::Bytes(bytes))),
                Some(Ok(Next::Rest(transfer))) => self.frames = self.network.frames(*transfer)?,
                Some(Ok(Next::End)) => self.ended = true,
                Some(Err(error)) => return Err(error),
                None => return Err(stopped()),
            }
        }
        Ok(None)
    }
}

fn stopped() -> Error {
    Error::new(Kind::Ours, "the network thread has stopped")
}

/// What the transport says, as an error of the pipeline.
pub(crate) fn failed(error: dvcr_transport::Error) -> Error {
    let kind = match error.kind() {
        dvcr_transport::Kind::Usage => Kind::Usage,
        dvcr_transport::Kind::Changed => Kind::Changed,
        dvcr_transport::Kind::Mismatch => Kind::Mismatch,
        _ if error.is_transient() => Kind::Transient,
        _ => Kind::Refused,
    };
    Error::new(kind, error.to_string())
}

/// Frames that wait for the reader. A frame has up to 408 KiB, usually 100: about 3 MiB.
const QUEUE: usize = 8;
