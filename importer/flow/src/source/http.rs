//! An object on a web server.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use bytes::Bytes;
use dvcr_transport::{Client, Coding, Config, Request, Resource, Response, Validator};
use importer_codec::{Limits, Wrapper};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::{Error, Kind, Piece, Result, Source, Stream};

/// An object on a web server.
///
/// The first request asks for the range from byte 0: an answer of 206 with a strong validator proves that there are
/// ranges, and which object they are of. Any other answer is read as the plain stream it is. HEAD is never sent.
#[derive(Debug)]
pub struct HttpSource {
    network: Arc<Network>,
    resource: Resource,
    /// What the first answer proved.
    object: Option<Object>,
}

/// What is known of the object since the first answer.
#[derive(Clone, Debug)]
struct Object {
    len: Option<u64>,
    ranges: bool,
    validator: Option<Validator>,
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
        Ok(Self { network: Arc::new(Network { runtime: Some(runtime) }), resource, object: None })
    }

    /// Sends a request and gives its answer, whose body follows.
    fn get(&self, request: Request) -> Result<(Answer, Body)> {
        let Some(runtime) = &self.network.runtime else { return Err(Error::new(Kind::Ours, "the network is gone")) };
        let (answer_sender, answer) = sync_channel(1);
        let (sender, frames) = mpsc::channel(QUEUE);
        let resource = self.resource.clone();
        runtime.spawn(async move {
            match resource.get(&request).await {
                Ok(response) => {
                    let answer = Answer::of(&response);
                    if answer_sender.send(Ok(answer)).is_ok() {
                        forward(response, &sender).await;
                    }
                }
                Err(error) => drop(answer_sender.send(Err(failed(error)))),
            }
        });
        let answer = answer.recv().map_err(|_| Error::new(Kind::Ours, "the network thread has stopped"))??;
        Ok((answer, Body { frames, _network: Arc::clone(&self.network), ended: false }))
    }
}

/// Sends frames to the reader, which holds the network up when it is slower.
async fn forward(response: Response, sender: &mpsc::Sender<Result<Option<Bytes>>>) {
    let mut body = response.body;
    loop {
        let frame = body.next().await.map_err(failed);
        let last = !matches!(frame, Ok(Some(_)));
        if sender.send(frame).await.is_err() || last {
            return;
        }
    }
}

/// What an answer says, before its body.
#[derive(Debug)]
struct Answer {
    len: Option<u64>,
    start: Option<u64>,
    end: Option<u64>,
    validator: Option<Validator>,
    codings: Vec<Coding>,
}

impl Answer {
    fn of(response: &Response) -> Self {
        Self {
            len: response.len,
            start: response.range.as_ref().map(|range| range.start),
            end: response.range.as_ref().map(|range| range.end),
            validator: response.validator.clone(),
            codings: response.codings.clone(),
        }
    }
}

impl Source for HttpSource {
    fn open(&mut self) -> Result<Box<dyn Stream>> {
        let mut request = Request::from(0..);
        if let Some(validator) = self.object.as_ref().and_then(|object| object.validator.clone()) {
            request = request.same(validator);
        }
        let (answer, body) = self.get(request)?;
        let whole = answer.start.is_none() || (answer.start == Some(0) && answer.end == answer.len);
        if !whole {
            let message = format!("{}: the server gave only a part of the object", self.name());
            return Err(Error::new(Kind::Refused, message));
        }
        let plain = answer.codings.is_empty();
        match &self.object {
            Some(object) => self.check_same(object, &answer)?,
            None => {
                self.object = Some(Object {
                    len: answer.len.filter(|_| plain),
                    ranges: plain && answer.start == Some(0) && answer.len.is_some() && answer.validator.is_some(),
                    validator: answer.validator,
                });
            }
        }
        decoded(Box::new(body), &answer.codings, &self.name())
    }

    fn range(&mut self, range: Range<u64>) -> Result<Box<dyn Stream>> {
        let Some(object) = self.object.clone().filter(|object| object.ranges) else {
            return Err(Error::new(Kind::Ours, "a range was asked for, and there are none"));
        };
        let mut request = Request::from(range.clone());
        if let Some(validator) = &object.validator {
            request = request.same(validator.clone());
        }
        let (answer, body) = self.get(request)?;
        self.check_same(&object, &answer)?;
        if answer.start != Some(range.start) || answer.end != Some(range.end) {
            let message = format!("{}: the server does not give the range {range:?} any more", self.name());
            return Err(Error::new(Kind::Transient, message));
        }
        Ok(Box::new(body))
    }

    fn len(&self) -> Option<u64> {
        self.object.as_ref()?.len
    }

    fn ranges(&self) -> bool {
        self.object.as_ref().is_some_and(|object| object.ranges)
    }

    fn reopens(&self) -> bool {
        true
    }

    fn name(&self) -> String {
        self.resource.address().to_string()
    }
}

impl HttpSource {
    fn check_same(&self, object: &Object, answer: &Answer) -> Result<()> {
        let same = match (&object.validator, &answer.validator) {
            (Some(before), Some(now)) => now.proves(before),
            (Some(_), None) => false,
            // Nothing to prove it by: the passes are compared by their bytes.
            (None, _) => answer.codings.is_empty() == object.len.is_some() || object.len.is_none(),
        };
        if same {
            return Ok(());
        }
        Err(Error::new(Kind::Transient, format!("{} changed while it was read; try again", self.name())))
    }
}

/// The body of an answer.
struct Body {
    frames: mpsc::Receiver<Result<Option<Bytes>>>,
    /// The network lives as long as anything is read from it.
    _network: Arc<Network>,
    ended: bool,
}

impl Stream for Body {
    fn next(&mut self) -> Result<Option<Piece>> {
        while !self.ended {
            match self.frames.blocking_recv() {
                Some(Ok(Some(bytes))) if bytes.is_empty() => {}
                Some(Ok(Some(bytes))) => return Ok(Some(Piece::Bytes(bytes))),
                Some(Ok(None)) => self.ended = true,
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
            other => {
                let message = format!("{name}: the server sends the content encoding {other:?}, which is not read");
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
        _ if error.is_transient() => Kind::Transient,
        _ => Kind::Refused,
    };
    Error::new(kind, error.to_string())
}

/// Frames that wait for the reader. A frame has up to 408 KiB, usually 100: about 3 MiB.
const QUEUE: usize = 8;
