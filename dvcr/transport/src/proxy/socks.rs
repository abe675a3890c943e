//! SOCKS5 (RFC 1928), with user and password (RFC 1929).
//!
//! By hand: the crates that are kept well bring a second `thiserror` or hide their errors, and it is three messages.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Proxy;
use crate::error::{Error, Kind, Result, reason};

/// Where a proxy is to connect to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    /// A name that it resolves, and a port.
    Name(&'a str, u16),
    /// An address.
    Address(SocketAddr),
}

/// Asks `proxy`, at the other end of `stream`, for a connection. After it, `stream` is that connection.
pub(crate) async fn ask<S>(stream: &mut S, proxy: &Proxy, target: Target<'_>) -> Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let cut = |error: io::Error| {
        let message = format!("the connection broke before the proxy {proxy} connected: {}", reason(&error));
        Error::new(Kind::Cut, message)
    };
    let protocol = || Error::new(Kind::Protocol, format!("{proxy} is no SOCKS5 proxy: check its address"));
    let greeting: &[u8] = if proxy.login.is_some() { &[VERSION, 2, OPEN, PASSWORD] } else { &[VERSION, 1, OPEN] };
    stream.write_all(greeting).await.map_err(cut)?;
    match read(stream).await.map_err(cut)? {
        [VERSION, OPEN] => {}
        [VERSION, PASSWORD] => {
            let (user, password) = proxy.login.as_ref().ok_or_else(protocol)?;
            let mut message = vec![PASSWORD_VERSION];
            for text in [user, password] {
                message.push(u8::try_from(text.len()).map_err(|_| protocol())?);
                message.extend_from_slice(text);
            }
            stream.write_all(&message).await.map_err(cut)?;
            let [_, status] = read(stream).await.map_err(cut)?;
            if status != 0 {
                return Err(proxy.unknown(&format!("the proxy {proxy} refused us")));
            }
        }
        [VERSION, _] => return Err(proxy.unknown(&format!("the proxy {proxy} refused us"))),
        _ => return Err(protocol()),
    }
    stream.write_all(&request(target).ok_or_else(unfit)?).await.map_err(cut)?;
    let [version, verdict, _, kind] = read(stream).await.map_err(cut)?;
    if version != VERSION {
        return Err(protocol());
    }
    if verdict != 0 {
        return Err(refusal(proxy, verdict));
    }
    // Where the proxy connects from, which is of no use to anybody.
    let len = match kind {
        IPV4 => 4,
        IPV6 => 16,
        DOMAIN => usize::from(read::<1>(stream).await.map_err(cut)?[0]),
        _ => return Err(protocol()),
    };
    let mut rest = vec![0; len + 2];
    stream.read_exact(&mut rest).await.map_err(cut)?;
    Ok(())
}

async fn read<const N: usize>(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// CONNECT; `None` for a name that is too long.
fn request(target: Target<'_>) -> Option<Vec<u8>> {
    let mut message = vec![VERSION, CONNECT, 0];
    let port = match target {
        Target::Name(name, port) => {
            message.extend([DOMAIN, u8::try_from(name.len()).ok()?]);
            message.extend_from_slice(name.as_bytes());
            port
        }
        Target::Address(SocketAddr::V4(address)) => {
            message.push(IPV4);
            message.extend(address.ip().octets());
            address.port()
        }
        Target::Address(SocketAddr::V6(address)) => {
            message.push(IPV6);
            message.extend(address.ip().octets());
            address.port()
        }
    };
    message.extend(port.to_be_bytes());
    Some(message)
}

fn unfit() -> Error {
    Error::new(Kind::Usage, "the host name is longer than the 255 bytes that a SOCKS5 proxy can be told")
}

/// RFC 1928, 6.
fn refusal(proxy: &Proxy, verdict: u8) -> Error {
    let (why, transient) = match verdict {
        1 => ("it failed", true),
        2 => ("its rules do not allow it", false),
        3 => ("it has no network to there", true),
        4 => ("it can't reach the host, or does not know its name", true),
        5 => ("the server refused the connection", true),
        6 => ("the way is too long", true),
        8 => ("it does not speak this kind of address", false),
        _ => ("it does not say why", false),
    };
    let error = Error::new(Kind::Proxy, format!("the proxy {proxy} did not connect to the server: {why}"));
    if transient { error.transient() } else { error }
}

const VERSION: u8 = 5;
const OPEN: u8 = 0;
const PASSWORD: u8 = 2;
const PASSWORD_VERSION: u8 = 1;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const DOMAIN: u8 = 3;
const IPV6: u8 = 4;
