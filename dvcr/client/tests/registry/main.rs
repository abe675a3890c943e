//! Against registries: Debian's, and scripted ones that fail as they are told to.
#![allow(clippy::unwrap_used, reason = "in a test, that is the failure")]

mod fake;
mod logins;
mod mirrors;
mod pulls;
mod pushes;
mod real;

use std::time::Duration;

use dvcr_client::{Client, Config, Repository};
use dvcr_oci::{Host, Name, Reference};
use dvcr_transport::Retry;
use fixtures::http::Server;

/// A client that does not wait long before it tries again.
fn quick() -> Config {
    let retry = Retry { attempts: 5, first: Duration::from_millis(1), longest: Duration::from_millis(5) };
    let transport = dvcr_transport::Config { retry, ..dvcr_transport::Config::default() };
    Config { transport, chunk: 1 << 20, ..Config::default() }
}

fn client(config: Config) -> Client {
    Client::new(config).unwrap()
}

/// What is written for this image of a scripted server.
fn reference(server: &Server, rest: &str) -> Reference {
    Reference::parse(&format!("docker://{}/{rest}", server.address())).unwrap()
}

fn repository(config: Config, server: &Server, name: &str) -> Repository {
    client(config).repository(&Host::parse(&server.address().to_string()).unwrap(), &Name::parse(name).unwrap())
}

/// Bytes in which no part equals another.
fn sample(len: u32) -> Vec<u8> {
    (0..len.div_ceil(4)).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).take(len as usize).collect()
}
