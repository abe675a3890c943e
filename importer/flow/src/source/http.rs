//! An object on a web server.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use bytes::Bytes;
use dvcr_transport::{Client, Coding, Config, Object, Resource, Transfer};
use importer_codec::{Limits, Wrapper};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::Observer;
use crate::{Error, Kind, Piece, Result, Source, Stream};

/// An object on a web server.
///
/// The first answer proves whether there are ranges and which object they are of; without them it is read as the plain
/// stream it is. Failures on the way are mended by the transport, which goes on where it was.
pub struct HttpSource {
    network: Arc<Network>,
    resource: Resource,
    /// What the first answer proved.
    object: Option<Arc<Object>>,
    observer: Option<Observer>,
}

impl fmt::Debug for HttpSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpSource").field(&self.resource).finish()
    }
}

/// The thread that moves bytes from the network.
#[derive(Debug)]
struct Network {
    runtime: Option<Runtime>,
}

impl HttpSource {
    /// The source at this URL. Sends nothing yet.
    pub fn open(url: &str, config: Config) -> Result<Self> {
        Self::new(config, |client| client.resource(url))
    }

    /// The source whose addresses are made by an object store. Sends nothing yet.
    pub fn located(object: super::object_store::Object, config: Config) -> Result<Self> {
        Self::new(config, |client| client.located(object))
    }

    fn new(config: Config, resource: impl FnOnce(&Client) -> dvcr_transport::Result<Resource>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(2)
            .thread_name("network")
            .enable_all()
            .build()
            .map_err(|error| Error::new(Kind::Ours, "can't start the network thread").because(error))?;
        let client = Client::new(config).map_err(failed)?;
        let resource = resource(&client).map_err(failed)?;
        Ok(Self { network: Arc::new(Network { runtime: Some(runtime) }), resource, object: None, observer: None })
    }

    fn runtime(&self) -> Result<&Runtime> {
        self.network.runtime()
    }

    /// Asks for the object.
    fn ask(&self) -> Result<(Arc<Object>, Transfer)> {
        let (sender, answer) = sync_channel(1);
        let resource = self.resource.clone();
        self.runtime()?.spawn(async move { drop(sender.send(resource.open().await)) });
        answer.recv().map_err(|_| Error::new(Kind::Ours, "the network thread has stopped"))?.map_err(failed)
    }

    /// Lets the network bring what a transfer gives.
    fn fetch(&self, transfer: Transfer) -> Result<Body> {
        Ok(Body { frames: self.network.fetch(transfer)?, network: Arc::clone(&self.network), ended: false })
    }

    fn check_same(&self, before: &Object, now: &Object) -> Result<()> {
        let same = match (&before.validator, &now.validator) {
            (Some(before), Some(now)) => now.proves(before),
            (Some(_), None) => false,
            // Nothing to prove it by: the passes are compared by their bytes.
            (None, _) => before.codings.is_empty() == now.codings.is_empty(),
        };
        if same {
            return Ok(());
        }
        Err(Error::new(Kind::Changed, format!("{} changed while it was read; try again", self.name())))
    }
}

impl Network {
    fn runtime(&self) -> Result<&Runtime> {
        self.runtime.as_ref().ok_or_else(|| Error::new(Kind::Ours, "the network is gone"))
    }

    /// Brings what a transfer gives.
    fn fetch(&self, transfer: Transfer) -> Result<mpsc::Receiver<Result<Next>>> {
        let (sender, frames) = mpsc::channel(QUEUE);
        self.runtime()?.spawn(forward(transfer, sender));
        Ok(frames)
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

impl Source for HttpSource {
    fn open(&mut self) -> Result<Box<dyn Stream>> {
        let (object, transfer) = match &self.object {
            Some(object) if object.ranges => {
                let all = std::iter::once(0..object.len.unwrap_or_default());
                (Arc::clone(object), self.resource.read(object, all))
            }
            Some(before) => {
                let (now, transfer) = self.ask()?;
                self.check_same(before, &now)?;
                (now, transfer)
            }
            None => self.ask()?,
        };
        let body = self.fetch(transfer)?;
        let object = self.object.insert(object);
        let body: Box<dyn Stream> = match self.observer.take().filter(|_| !object.codings.is_empty()) {
            Some(observer) => Box::new(Observed { stream: body, observer }),
            None => Box::new(body),
        };
        decoded(body, &object.codings, &self.resource.address().to_string())
    }

    fn read(&mut self, ranges: Vec<Range<u64>>) -> Result<Box<dyn Stream>> {
        match &self.object {
            Some(object) if self.ranges() => Ok(Box::new(self.fetch(self.resource.read(object, ranges))?)),
            _ => Err(Error::new(Kind::Ours, "a range was asked for, and there are none")),
        }
    }

    fn len(&self) -> Option<u64> {
        self.object.as_ref().filter(|object| object.codings.is_empty())?.len
    }

    fn ranges(&self) -> bool {
        // Those of an encoded object are ranges of the encoding.
        self.object.as_ref().is_some_and(|object| object.ranges && object.codings.is_empty())
    }

    fn reopens(&self) -> bool {
        true
    }

    fn identity(&self) -> Option<String> {
        self.object.as_ref()?.validator.as_ref().map(ToString::to_string)
    }

    fn name(&self) -> String {
        self.resource.address().to_string()
    }

    fn file_name(&self) -> Option<Vec<u8>> {
        self.resource.address().file_name()
    }

    fn served(&self) -> Option<String> {
        let object = self.object.as_ref()?;
        let kind = object.content_type.as_deref().and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
        let kind = kind.chars().take(60).collect::<String>().to_ascii_lowercase();
        let text = kind.starts_with("text/") || kind.ends_with("json") || kind.ends_with("xml");
        let moved = object.final_url != *self.resource.address();
        match (text, moved) {
            (true, true) => Some(format!("served as {kind} by {}", object.final_url)),
            (true, false) => Some(format!("served as {kind}")),
            (false, true) => Some(format!("served by {}", object.final_url)),
            (false, false) => None,
        }
    }

    fn observe_encoded(&mut self, observer: Option<Observer>) {
        self.observer = observer;
    }
}

/// A stream that somebody looks at.
struct Observed {
    stream: Body,
    observer: Observer,
}

impl Stream for Observed {
    fn next(&mut self) -> Result<Option<Piece>> {
        let piece = self.stream.next()?;
        if let Some(piece) = &piece {
            (self.observer)(piece)?;
        }
        Ok(piece)
    }
}

/// The body of an answer.
struct Body {
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
                Some(Ok(Next::Rest(transfer))) => self.frames = self.network.fetch(*transfer)?,
                Some(Ok(Next::End)) => self.ended = true,
                Some(Err(error)) => return Err(error),
                None => return Err(Error::new(Kind::Ours, "the network thread has stopped")),
            }
        }
        Ok(None)
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

/// Undoes the encodings that a server applied though none was asked for, exactly once.
fn decoded(body: Box<dyn Stream>, codings: &[Coding], name: &str) -> Result<Box<dyn Stream>> {
    let mut stream = body;
    for coding in codings.iter().rev() {
        let wrapper = match coding {
            Coding::Gzip => Wrapper::Gzip,
            Coding::Zstd => Wrapper::Zstd,
            Coding::Deflate => Wrapper::Zlib,
            other => {
                let coding = match other {
                    Coding::Brotli => "br (Brotli)".to_owned(),
                    other => format!("{other:?}"),
                };
                let message = format!(
                    "{name}: the server sends it in the content encoding {coding}, though asked for none, and that is not \
                     read: turn it off there for this file, or use another address"
                );
                return Err(Error::new(Kind::Refused, message));
            }
        };
        stream = crate::unwrap::decode(stream, wrapper, Limits::default())?;
    }
    Ok(stream)
}

/// What the transport says, as an error of the pipeline.
fn failed(error: dvcr_transport::Error) -> Error {
    let kind = match error.kind() {
        dvcr_transport::Kind::Usage => Kind::Usage,
        dvcr_transport::Kind::Changed => Kind::Changed,
        _ if error.is_transient() => Kind::Transient,
        _ => Kind::Refused,
    };
    Error::new(kind, error.to_string())
}

/// Frames that wait for the reader. A frame has up to 408 KiB, usually 100: about 3 MiB.
const QUEUE: usize = 8;
