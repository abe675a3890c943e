//! From an origin to a connection.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use url::Host;

use crate::address::{Origin, Scheme};
use crate::connection::{Connection, Peer, Route};
use crate::error::{Error, Kind, Result, reason};
use crate::proxy::{self, Proxy, ProxyKind, Target};
use crate::reach::Reach;
use crate::tls::{H2, Trust};

/// Makes connections.
pub(crate) struct Connector {
    pub(crate) trust: Trust,
    /// Trusts anybody, for the servers in `unproved_for`: `host:port`.
    pub(crate) unproved: Trust,
    pub(crate) unproved_for: Vec<String>,
    pub(crate) reach: Reach,
    /// For each step.
    pub(crate) timeout: Duration,
}

impl Connector {
    /// A connection for this route; over TLS in HTTP/2 if the server likes, unless `http1_only`.
    pub(crate) async fn connect(&self, route: &Route, http1_only: bool) -> Result<Connection> {
        let Route { origin, proxy } = route;
        let Some(proxy) = proxy else {
            let addresses = self.reachable(self.resolve(&origin.host, origin.port).await?)?;
            let (stream, address) = self.dial(addresses).await?;
            return self.speak(stream, origin, address.into(), http1_only).await;
        };
        let at_proxy = |error: Error| error.at(format!("the proxy {proxy}"));
        // Whoever runs this machine chose the proxy, so its own address is not judged by `reach`.
        let addresses = self.resolve(&proxy.host, proxy.port).await.map_err(at_proxy)?;
        let (mut stream, address) = self.dial(addresses).await.map_err(at_proxy)?;
        let peer = Peer { address, proxy: Some(Arc::clone(proxy)) };
        match proxy.kind {
            ProxyKind::Http => self.through(stream, proxy, origin, peer, http1_only).await,
            ProxyKind::Https => {
                let stream = self.secure(&self.trust, stream, &proxy.host, true).await.map_err(at_proxy)?;
                self.through(stream, proxy, origin, peer, http1_only).await
            }
            ProxyKind::Socks5 { resolves } => {
                let target = self.target(origin, resolves).await?;
                self.patiently(proxy, proxy::ask(&mut stream, proxy, target)).await?;
                self.speak(stream, origin, peer, http1_only).await
            }
        }
    }

    /// A connection by way of the HTTP proxy at the other end of `stream`.
    async fn through<S>(
        &self,
        stream: S,
        proxy: &Arc<Proxy>,
        origin: &Origin,
        peer: Peer,
        http1_only: bool,
    ) -> Result<Connection>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        // Its name is resolved by the proxy; what can be judged here is.
        self.judged(origin)?;
        match origin.scheme {
            Scheme::Http => Ok(Connection::http1(stream, peer).await?.read_by(Arc::clone(proxy))),
            Scheme::Https => {
                let stream = self.patiently(proxy, proxy::open(stream, proxy, origin)).await?;
                self.speak(stream, origin, peer, http1_only).await
            }
        }
    }

    /// HTTP over `stream`, which leads to `origin`.
    async fn speak<S>(&self, stream: S, origin: &Origin, peer: Peer, http1_only: bool) -> Result<Connection>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        if origin.scheme == Scheme::Http {
            return Connection::http1(stream, peer).await;
        }
        let stream = self.secure(self.trust_in(origin), stream, &origin.host, http1_only).await;
        let stream = stream.map_err(|error| match error.kind() {
            Kind::Stalled => error.at(&peer),
            _ => error,
        })?;
        if stream.get_ref().1.alpn_protocol() == Some(H2) {
            Connection::http2(stream, peer).await
        } else {
            Connection::http1(stream, peer).await
        }
    }

    /// How this server has to prove who it is.
    fn trust_in(&self, origin: &Origin) -> &Trust {
        let server = format!("{}:{}", origin.host, origin.port);
        if self.unproved_for.iter().any(|named| named.eq_ignore_ascii_case(&server)) {
            &self.unproved
        } else {
            &self.trust
        }
    }

    async fn secure<S>(&self, trust: &Trust, stream: S, host: &Host<String>, http1_only: bool) -> Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        timeout(self.timeout, trust.secure(stream, host, http1_only)).await.unwrap_or_else(|_| {
            let message = format!("no end of the TLS handshake within {:?}", self.timeout);
            Err(Error::new(Kind::Stalled, message))
        })
    }

    /// A proxy resolves a name and tries several addresses before it answers.
    async fn patiently<T>(&self, proxy: &Proxy, answer: impl Future<Output = Result<T>>) -> Result<T> {
        let limit = self.timeout * 3;
        timeout(limit, answer).await.unwrap_or_else(|_| {
            let message = format!("the proxy {proxy} did not connect to the server within {limit:?}");
            Err(Error::new(Kind::Stalled, message))
        })
    }

    /// What a SOCKS proxy is asked for.
    async fn target<'a>(&self, origin: &'a Origin, resolves: bool) -> Result<Target<'a>> {
        match &origin.host {
            Host::Domain(name) if resolves => Ok(Target::Name(name, origin.port)),
            host => {
                let addresses = self.reachable(self.resolve(host, origin.port).await?)?;
                let first = addresses.first().ok_or_else(|| Error::new(Kind::Dns, "the host has no address"))?;
                Ok(Target::Address(*first))
            }
        }
    }

    /// Refuses an address out of reach that a proxy would be asked for.
    fn judged(&self, origin: &Origin) -> Result<()> {
        let address = match &origin.host {
            Host::Ipv4(address) => IpAddr::from(*address),
            Host::Ipv6(address) => IpAddr::from(*address),
            Host::Domain(_) => return Ok(()),
        };
        self.reachable(vec![(address, origin.port).into()]).map(drop)
    }

    async fn resolve(&self, host: &Host<String>, port: u16) -> Result<Vec<SocketAddr>> {
        let name = match host {
            Host::Ipv4(address) => return Ok(vec![(IpAddr::from(*address), port).into()]),
            Host::Ipv6(address) => return Ok(vec![(IpAddr::from(*address), port).into()]),
            Host::Domain(name) => name,
        };
        let found = timeout(self.timeout, tokio::net::lookup_host((name.as_str(), port))).await;
        let found = found.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let addresses: Vec<_> = found.map_err(|error| unresolved(name, &error))?.take(MAX_ADDRESSES).collect();
        if addresses.is_empty() {
            return Err(unresolved(name, &io::Error::other("No address associated with hostname")));
        }
        Ok(addresses)
    }

    fn reachable(&self, mut addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>> {
        let refusal = |address: &SocketAddr| self.reach.refusal(address.ip()).map(|why| (address.ip(), why));
        let refused = addresses.iter().find_map(refusal);
        addresses.retain(|address| refusal(address).is_none());
        match refused {
            Some((address, why)) if addresses.is_empty() => {
                let message = format!("{address} is {why}, which is not connected to unless it is allowed explicitly");
                Err(Error::new(Kind::Forbidden, message))
            }
            _ => Ok(addresses),
        }
    }

    async fn dial(&self, addresses: Vec<SocketAddr>) -> Result<(TcpStream, SocketAddr)> {
        let limit = self.timeout;
        let attempt = move |address| async move {
            timeout(limit, TcpStream::connect(address)).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        };
        let (stream, address) = race(interleaved(addresses), attempt).await.map_err(|failures| {
            let list: Vec<_> =
                failures.iter().take(4).map(|(address, error)| format!("{address} ({})", reason(error))).collect();
            let more = if failures.len() > list.len() { " and others" } else { "" };
            Error::new(Kind::Connect, format!("cannot connect to {}{more}: is the server up?", list.join(", ")))
        })?;
        // A request is one small write; it must not wait for anything.
        stream.set_nodelay(true).map_err(|error| Error::new(Kind::Connect, reason(&error)))?;
        Ok((stream, address))
    }
}

/// What the resolver said. Only "no such name" is final; the standard library passes on nothing but its words (of glibc
/// and musl, which are not translated unless a program asks for it).
fn unresolved(name: &str, error: &io::Error) -> Error {
    const FINAL: [&str; 4] = [
        "Name or service not known",
        "No address associated with hostname",
        "Name does not resolve",
        "Name has no usable address",
    ];
    let text = error.to_string();
    if FINAL.iter().any(|words| text.contains(words)) {
        return Error::new(Kind::Dns, format!("there is no host named {name}: check the address"));
    }
    let why = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
    Error::new(Kind::Dns, format!("the host name {name} can't be resolved now: {why}")).transient()
}

/// Alternates the address families, beginning with the one the resolver prefers (RFC 8305, 4).
fn interleaved(addresses: Vec<SocketAddr>) -> VecDeque<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (preferred, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|a| a.is_ipv6() == first_is_v6);
    let mut out = VecDeque::new();
    let (mut preferred, mut other) = (preferred.into_iter(), other.into_iter());
    loop {
        match (preferred.next(), other.next()) {
            (None, None) => return out,
            (first, second) => out.extend(first.into_iter().chain(second)),
        }
    }
}

/// Happy eyeballs (RFC 8305, 5): tries the addresses in order, each when the one before has failed or has taken
/// [`ATTEMPT_DELAY`], and takes the first that succeeds. Gives every failure otherwise.
async fn race<T, F>(
    mut addresses: VecDeque<SocketAddr>,
    attempt: impl Fn(SocketAddr) -> F,
) -> Result<(T, SocketAddr), Vec<(SocketAddr, io::Error)>>
where
    T: Send + 'static,
    F: Future<Output = io::Result<T>> + Send + 'static,
{
    let mut running = JoinSet::new();
    let mut failures = Vec::new();
    loop {
        if let Some(address) = addresses.pop_front() {
            let attempt = attempt(address);
            running.spawn(async move { (address, attempt.await) });
        }
        let ended = if addresses.is_empty() {
            running.join_next().await
        } else {
            // Nothing within the delay starts the next one.
            timeout(ATTEMPT_DELAY, running.join_next()).await.unwrap_or(None)
        };
        match ended {
            Some(Ok((address, Ok(stream)))) => return Ok((stream, address)),
            Some(Ok((address, Err(error)))) => failures.push((address, error)),
            Some(Err(_)) => {}
            None if addresses.is_empty() && running.is_empty() => return Err(failures),
            None => {}
        }
    }
}

const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Whoever answers for a name must not make us connect to the whole world.
const MAX_ADDRESSES: usize = 32;

#[cfg(test)]
mod tests;
