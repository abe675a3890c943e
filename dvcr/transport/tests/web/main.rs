//! Against a scripted web server: what [`dvcr_transport`] promises, as its callers see it.
#![allow(clippy::unwrap_used, reason = "in a test, that is the failure")]

mod answers;
mod exchanges;
mod failures;
mod located;
mod proxies;
mod redirects;
mod requests;
mod rows;
mod secure;
mod transfers;

use dvcr_transport::{Client, Config, Error, Request, Resource, Response, Result};
use fixtures::http::Server;

/// The object at `path` for a client with the default configuration.
fn resource(server: &Server, path: &str) -> Resource {
    with(Config::default(), &server.url(path))
}

fn with(config: Config, url: &str) -> Resource {
    Client::new(config).unwrap().resource(url).unwrap()
}

async fn read(response: Response) -> Result<Vec<u8>> {
    let mut body = response.body;
    let mut bytes = Vec::new();
    while let Some(more) = body.next().await? {
        bytes.extend_from_slice(&more);
    }
    Ok(bytes)
}

async fn whole(resource: &Resource) -> Vec<u8> {
    read(resource.get(&Request::default()).await.unwrap()).await.unwrap()
}

async fn failure(resource: &Resource) -> Error {
    resource.get(&Request::from(0..)).await.unwrap_err()
}

/// Bytes in which no part equals another.
fn sample(len: u32) -> Vec<u8> {
    (0..len.div_ceil(4)).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).take(len as usize).collect()
}
