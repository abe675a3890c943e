//! From an origin to a connection.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use url::Host;

use crate::address::{Origin, Scheme};
use crate::connection::Connection;
use crate::error::{Error, Kind, Result, reason};
use crate::reach::Reach;
use crate::tls::{H2, Trust};

/// Makes connections. A proxy would be one more way to get the stream that [`connect`](Self::connect) hands to TLS.
pub(crate) struct Connector {
    pub(crate) trust: Trust,
    pub(crate) reach: Reach,
    /// For each step.
    pub(crate) timeout: Duration,
}

impl Connector {
    pub(crate) async fn connect(&self, origin: &Origin) -> Result<Connection> {
        let addresses = self.reachable(self.resolve(origin).await?)?;
        let (stream, peer) = self.dial(addresses).await?;
        // A request is one small write; it must not wait for anything.
        stream.set_nodelay(true).map_err(|error| Error::new(Kind::Connect, reason(&error)))?;
        match origin.scheme {
            Scheme::Http => Connection::http1(stream, peer).await,
            Scheme::Https => {
                let secure = timeout(self.timeout, self.trust.secure(stream, &origin.host)).await;
                let stream = secure.map_err(|_| {
                    let message = format!("{peer} did not finish the TLS handshake within {:?}", self.timeout);
                    Error::new(Kind::Stalled, message)
                })??;
                if stream.get_ref().1.alpn_protocol() == Some(H2) {
                    Connection::http2(stream, peer).await
                } else {
                    Connection::http1(stream, peer).await
                }
            }
        }
    }

    async fn resolve(&self, origin: &Origin) -> Result<Vec<SocketAddr>> {
        let name = match &origin.host {
            Host::Ipv4(address) => return Ok(vec![(IpAddr::from(*address), origin.port).into()]),
            Host::Ipv6(address) => return Ok(vec![(IpAddr::from(*address), origin.port).into()]),
            Host::Domain(name) => name,
        };
        let found = timeout(self.timeout, tokio::net::lookup_host((name.as_str(), origin.port))).await;
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
        race(interleaved(addresses), attempt).await.map_err(|failures| {
            let list: Vec<_> =
                failures.iter().take(4).map(|(address, error)| format!("{address} ({})", reason(error))).collect();
            let more = if failures.len() > list.len() { " and others" } else { "" };
            Error::new(Kind::Connect, format!("cannot connect to {}{more}: is the server up?", list.join(", ")))
        })
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
