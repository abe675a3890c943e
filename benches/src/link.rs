//! A long link: what a server far away looks like, on one machine.
//!
//! A proxy that holds every byte for half a round trip in each direction, and lets a connection have only so many bytes
//! under way as a TCP window would: few at first, doubled by what was acknowledged, up to [`WINDOW`]. Each connection
//! has its own window; together they have the processor's speed.

#![allow(clippy::disallowed_methods, reason = "a delay is what it is")]

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A link to a server. It is a process of its own: what it holds under way is large, and the kernel counts the memory of
/// whoever starts a program as the program's.
pub struct Link {
    address: String,
    process: Child,
    /// A line on it asks for the bytes carried.
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// What a link does to those who use it.
#[derive(Clone, Copy)]
pub struct Nature {
    /// The time there and back.
    pub round_trip: Duration,
    /// A connection is cut after so many bytes.
    pub cut: Option<u64>,
}

/// The first argument of the process that is a link.
pub const NAME: &str = "--link";

impl Link {
    /// A link to `server`.
    pub fn to(server: SocketAddr, nature: Nature) -> Self {
        let program = std::env::current_exe().expect("the name of this program");
        let cut = nature.cut.map_or_else(String::new, |cut| cut.to_string());
        let mut process = Command::new(program)
            .args([NAME, &server.to_string(), &nature.round_trip.as_millis().to_string(), &cut])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts again");
        let ask = process.stdin.take().expect("it is piped");
        let answers = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut link = Self { address: String::new(), process, ask, answers };
        link.address = link.answer();
        link
    }

    /// The URL of `path` over this link.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    /// Bytes carried towards clients since the last time.
    pub fn take_carried(&mut self) -> u64 {
        writeln!(self.ask).expect("the link runs");
        self.answer().parse().expect("the link tells a number")
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the link runs");
        line.trim_end().to_owned()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// What the process does that is a link: tells its address, and the bytes it carried whenever it is asked. Ends with
/// those who ask.
pub fn run(arguments: &[String]) -> io::Result<()> {
    let [server, round_trip, cut] = arguments else { panic!("the arguments of a link: {arguments:?}") };
    let server = server.parse().expect("an address");
    let nature =
        Nature { round_trip: Duration::from_millis(round_trip.parse().expect("milliseconds")), cut: cut.parse().ok() };
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    let carried = Arc::<AtomicU64>::default();
    let count = Arc::clone(&carried);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let count = Arc::clone(&count);
            thread::spawn(move || drop(carry(client, server, nature, &count)));
        }
    });
    for line in io::stdin().lines() {
        line?;
        println!("{}", carried.swap(0, Ordering::Relaxed));
    }
    Ok(())
}

/// Carries one connection until either side ends it.
fn carry(client: TcpStream, server: SocketAddr, nature: Nature, carried: &AtomicU64) -> io::Result<()> {
    // The handshake.
    thread::sleep(nature.round_trip);
    let upstream = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    let requests = (client.try_clone()?, upstream.try_clone()?);
    thread::spawn(move || drop(forward_requests(requests.0, requests.1, nature.round_trip / 2)));
    let (sender, due) = channel();
    let writer = client.try_clone()?;
    let writing = thread::spawn(move || deliver(writer, &due));
    let mut window = Window::new(nature.round_trip);
    let mut left = nature.cut.unwrap_or(u64::MAX);
    let mut reader = upstream;
    while left > 0 {
        let room = window.wait().min(CHUNK).min(usize::try_from(left).unwrap_or(CHUNK));
        let mut bytes = vec![0; room];
        let len = reader.read(&mut bytes)?;
        if len == 0 {
            break;
        }
        bytes.truncate(len);
        left -= len as u64;
        carried.fetch_add(len as u64, Ordering::Relaxed);
        let now = Instant::now();
        window.sent(len, now + nature.round_trip);
        if sender.send((now + nature.round_trip / 2, bytes)).is_err() {
            break;
        }
    }
    drop(sender);
    drop(writing.join());
    // Both directions, whoever still waits.
    drop(client.shutdown(Shutdown::Both));
    drop(reader.shutdown(Shutdown::Both));
    Ok(())
}

fn forward_requests(mut client: TcpStream, mut upstream: TcpStream, delay: Duration) -> io::Result<()> {
    let mut bytes = [0; 16 << 10];
    loop {
        let len = client.read(&mut bytes)?;
        if len == 0 {
            return upstream.shutdown(Shutdown::Write);
        }
        thread::sleep(delay);
        upstream.write_all(&bytes[..len])?;
    }
}

fn deliver(mut client: TcpStream, due: &Receiver<(Instant, Vec<u8>)>) -> io::Result<()> {
    for (when, bytes) in due {
        thread::sleep(when.saturating_duration_since(Instant::now()));
        client.write_all(&bytes)?;
    }
    Ok(())
}

/// The bytes a connection may have under way.
struct Window {
    size: usize,
    under_way: usize,
    /// When what will be acknowledged.
    acknowledged: VecDeque<(Instant, usize)>,
    round_trip: Duration,
}

impl Window {
    fn new(round_trip: Duration) -> Self {
        Self { size: FIRST, under_way: 0, acknowledged: VecDeque::new(), round_trip }
    }

    /// Waits until there is room; gives it.
    fn wait(&mut self) -> usize {
        loop {
            let now = Instant::now();
            while let Some((_, len)) = self.acknowledged.pop_front_if(|(when, _)| *when <= now) {
                self.under_way -= len;
                self.size = (self.size + len).min(WINDOW);
            }
            if self.size - self.under_way >= CHUNK.min(self.size / 2) {
                return self.size - self.under_way;
            }
            let next = self.acknowledged.front().map_or(now + self.round_trip, |(when, _)| *when);
            thread::sleep(next.saturating_duration_since(now));
        }
    }

    fn sent(&mut self, len: usize, acknowledged: Instant) {
        self.under_way += len;
        self.acknowledged.push_back((acknowledged, len));
    }
}

/// What is carried at once.
const CHUNK: usize = 256 << 10;
/// Ten segments, as Linux begins (RFC 6928), of a jumbo size.
const FIRST: usize = 64 << 10;
/// What Linux lets a connection have under way unless told otherwise (`tcp_rmem`): 6 MiB with its overhead.
const WINDOW: usize = 4 << 20;
