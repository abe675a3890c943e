//! A relay that cuts connections where it is told to.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Passes on what comes, to a server, and cuts whichever connection brings a byte that is to be the last.
pub struct Relay {
    pub address: SocketAddr,
    passed: Arc<Mutex<Passed>>,
}

struct Passed {
    bytes: u64,
    /// After how many bytes of all clients together there is a cut.
    cuts: Vec<u64>,
}

impl Relay {
    pub fn to(server: SocketAddr, cuts: &[u64]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let passed = Arc::new(Mutex::new(Passed { bytes: 0, cuts: cuts.to_vec() }));
        let all = Arc::clone(&passed);
        // It ends with the process of the test.
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
                let all = Arc::clone(&all);
                thread::spawn(move || pass(&client, &server, &all));
            }
        });
        Self { address, passed }
    }

    /// How many bytes clients have sent, and how many cuts are still to come.
    pub fn passed(&self) -> (u64, usize) {
        let passed = self.passed.lock().unwrap();
        (passed.bytes, passed.cuts.len())
    }
}

fn pass(mut client: &TcpStream, mut server: &TcpStream, all: &Mutex<Passed>) {
    let (mut back, mut from) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    thread::spawn(move || {
        // Either side may go first.
        let _ = io::copy(&mut from, &mut back);
        let _ = back.shutdown(Shutdown::Both);
    });
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = client.read(&mut buffer) {
        let (keep, cut) = {
            let mut all = all.lock().unwrap();
            let room = all.cuts.first().map_or(u64::MAX, |cut| cut - all.bytes);
            let keep = room.min(read as u64);
            all.bytes += keep;
            if keep == room {
                all.cuts.remove(0);
            }
            (usize::try_from(keep).unwrap(), keep == room)
        };
        if server.write_all(&buffer[..keep]).is_err() || cut {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
}
