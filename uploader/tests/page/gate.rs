//! A way to a server that closes where it is told to.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Passes on what comes. Once so many bytes have passed, whoever sends much waits; small requests pass always.
pub struct Gate {
    pub address: SocketAddr,
    inner: Arc<Inner>,
}

struct Inner {
    server: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    allowed: u64,
    passed: u64,
    waiting: usize,
    cuts: usize,
    streams: Vec<TcpStream>,
}

impl Gate {
    pub fn to(server: SocketAddr, allowed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Mutex::new(State { allowed, ..State::default() });
        let inner = Arc::new(Inner { server, state, changed: Condvar::new() });
        let gate = Arc::clone(&inner);
        // It ends with the process of the test.
        thread::spawn(move || {
            for client in listener.incoming() {
                let (gate, client) = (Arc::clone(&gate), client.unwrap());
                thread::spawn(move || gate.pass(client));
            }
        });
        Self { address, inner }
    }

    /// Waits until somebody waits.
    pub fn wait_until_it_holds(&self) {
        let state = self.inner.state.lock().unwrap();
        drop(self.inner.changed.wait_while(state, |state| state.waiting == 0).unwrap());
    }

    /// From here on everything passes.
    pub fn open(&self) {
        self.inner.state.lock().unwrap().allowed = u64::MAX;
        self.inner.changed.notify_all();
    }

    /// Ends all connections.
    pub fn cut(&self) {
        let mut state = self.inner.state.lock().unwrap();
        state.cuts += 1;
        for stream in state.streams.drain(..) {
            // It may have ended.
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.inner.changed.notify_all();
    }

    /// How many bytes clients have sent.
    pub fn passed(&self) -> u64 {
        self.inner.state.lock().unwrap().passed
    }
}

impl Inner {
    fn pass(&self, mut client: TcpStream) {
        // A server that is not there is a connection that ends.
        let Ok(mut server) = TcpStream::connect(self.server) else { return };
        let cuts = {
            let mut state = self.state.lock().unwrap();
            state.streams.extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
            state.cuts
        };
        let (mut back, mut from) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        thread::spawn(move || {
            // Either side may go first.
            let _ = std::io::copy(&mut from, &mut back);
            let _ = back.shutdown(Shutdown::Both);
        });
        let (mut carried, mut buffer) = (0, vec![0; 64 << 10]);
        while let Ok(read @ 1..) = client.read(&mut buffer) {
            carried += read as u64;
            let mut state = self.state.lock().unwrap();
            let closed =
                |state: &mut State| carried > TALK && state.passed + read as u64 > state.allowed && state.cuts == cuts;
            if closed(&mut state) {
                state.waiting += 1;
                self.changed.notify_all();
                state = self.changed.wait_while(state, closed).unwrap();
                state.waiting -= 1;
            }
            if state.cuts != cuts {
                break;
            }
            state.passed += read as u64;
            drop(state);
            if server.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        let _ = server.shutdown(Shutdown::Both);
        let _ = client.shutdown(Shutdown::Both);
    }
}

/// More than requests have that bring no image.
const TALK: u64 = 128 << 10;
