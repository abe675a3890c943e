//! A client that costs next to nothing: the kernel throws away what comes, so that what is measured is the server.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};

/// Pulls `path` so many times at once, each over a connection of its own, and takes the time from the moment when all
/// are connected.
///
/// # Panics
/// When one is refused or cut short.
pub fn pulls(server: SocketAddr, path: &str, count: usize) -> Duration {
    let barrier = Barrier::new(count + 1);
    std::thread::scope(|scope| {
        for _ in 0..count {
            let pull = || {
                let stream = TcpStream::connect(server).expect("a connection");
                barrier.wait();
                pull(stream, server, path);
            };
            std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, pull).expect("a thread");
        }
        barrier.wait();
        Instant::now()
    })
    .elapsed()
}

/// Asks for a blob and lets the kernel drop it (`MSG_TRUNC`, tcp(7)).
fn pull(mut stream: TcpStream, server: SocketAddr, path: &str) {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n").expect("a request");
    // What is read too much with the head counts.
    let mut head = BufReader::with_capacity(1024, stream);
    let mut left = None;
    let mut line = String::new();
    loop {
        line.clear();
        head.read_line(&mut line).expect("a head");
        let lower = line.trim_end().to_ascii_lowercase();
        if lower.starts_with("http/") {
            assert!(lower.contains(" 200"), "{path}: {lower}");
        } else if let Some(len) = lower.strip_prefix("content-length:") {
            left = len.trim().parse::<usize>().ok();
        } else if lower.is_empty() {
            break;
        }
    }
    let mut left = left.expect("a length") - head.buffer().len();
    let stream = head.into_inner();
    // Never touched.
    let mut window = vec![0; WINDOW];
    while left > 0 {
        let most = left.min(WINDOW);
        let (came, _) = recv(&stream, &mut window[..most], RecvFlags::TRUNC).expect("bytes");
        assert!(came > 0, "{path}: {left} bytes are missing");
        left -= came;
    }
}

const STACK: usize = 128 << 10;
const WINDOW: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use fixtures::http::{Reply, Server};

    #[test]
    fn takes_everything_or_says_what_is_missing() {
        let server = Server::start(|seen| match &*seen.target {
            "/whole" => Reply::ok(vec![7; 5 << 20]),
            _ => Reply::ok("short").claim(9).cut(),
        });
        pulls(server.address(), "/whole", 3);
        let address = server.address();
        assert!(std::thread::spawn(move || pulls(address, "/short", 1)).join().is_err());
    }
}
