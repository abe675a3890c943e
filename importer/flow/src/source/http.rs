//! An object on a web server.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use dvcr_client::Opened;
use dvcr_transport::{Client, Coding, Config, Object, Resource, Transfer};
use importer_codec::{Limits, Wrapper};

use super::Observer;
use crate::network::{Body, Network, failed};
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
    /// The first answer, where it is here already.
    begun: Option<Transfer>,
    /// What stands before its errors, where there may be two servers.
    role: Option<String>,
    observer: Option<Observer>,
}

impl fmt::Debug for HttpSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpSource").field(&self.resource).finish()
    }
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
        let client = Client::new(config).map_err(failed)?;
        let resource = resource(&client).map_err(failed)?;
        Ok(Self { network: Network::start()?, resource, object: None, begun: None, role: None, observer: None })
    }

    /// The source of a blob that was asked for already, and perhaps can't be asked for in another way.
    pub(crate) fn begun(network: Arc<Network>, opened: Opened) -> Self {
        let role = Some(opened.role().to_owned());
        let Opened { resource, object, transfer, .. } = opened;
        Self { network, resource, object: Some(object), begun: Some(transfer), role, observer: None }
    }

    /// The stream, whose errors say on which side they were.
    fn told(&self, stream: Body) -> Box<dyn Stream> {
        match &self.role {
            Some(role) => Box::new(Told { stream, role: role.clone() }),
            None => Box::new(stream),
        }
    }

    /// Asks for the object.
    fn ask(&self) -> Result<(Arc<Object>, Transfer)> {
        let resource = self.resource.clone();
        self.network.wait(async move { resource.open().await })?.map_err(failed)
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

impl Source for HttpSource {
    fn open(&mut self) -> Result<Box<dyn Stream>> {
        let (object, transfer) = match (&self.object, self.begun.take()) {
            (Some(object), Some(transfer)) => (Arc::clone(object), transfer),
            (Some(object), None) if object.ranges => {
                let all = std::iter::once(0..object.len.unwrap_or_default());
                (Arc::clone(object), self.resource.read(object, all))
            }
            (Some(before), None) => {
                let (now, transfer) = self.ask()?;
                self.check_same(before, &now)?;
                (now, transfer)
            }
            (None, _) => self.ask()?,
        };
        let body = self.told(self.network.fetch(transfer)?);
        let object = self.object.insert(object);
        let body: Box<dyn Stream> = match self.observer.take().filter(|_| !object.codings.is_empty()) {
            Some(observer) => Box::new(Observed { stream: body, observer }),
            None => body,
        };
        decoded(body, &object.codings, &self.resource.address().to_string())
    }

    fn read(&mut self, ranges: Vec<Range<u64>>) -> Result<Box<dyn Stream>> {
        match &self.object {
            Some(object) if self.ranges() => Ok(self.told(self.network.fetch(self.resource.read(object, ranges))?)),
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

/// A stream whose errors begin with the role of its server.
struct Told {
    stream: Body,
    role: String,
}

impl Stream for Told {
    fn next(&mut self) -> Result<Option<Piece>> {
        self.stream.next().map_err(|error| error.within(&self.role))
    }
}

/// A stream that somebody looks at.
struct Observed {
    stream: Box<dyn Stream>,
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
