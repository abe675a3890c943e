//! What probes and Prometheus ask for, at an address of its own.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::api::Api;

/// Takes an address for `/healthz` and `/metrics` of `api`, over plain HTTP, and serves them on a task of its own as long
/// as the runtime lives. Gives the address.
///
/// # Errors
///
/// It can't be listened on.
pub async fn serve(api: Arc<Api>, listen: SocketAddr) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let doors = Arc::new(Semaphore::new(CONNECTIONS));
        while let Ok(door) = Arc::clone(&doors).acquire_owned().await {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let api = Arc::clone(&api);
            tokio::spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let answer = api.probe(&request);
                    async move { Ok::<_, Infallible>(answer) }
                });
                let mut http = http1::Builder::new();
                http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_headers(MAX_HEADERS);
                // Whoever goes away early has seen enough.
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
                drop(door);
            });
        }
    });
    Ok(address)
}

const CONNECTIONS: usize = 64;
const HEAD: Duration = Duration::from_secs(10);
const MAX_HEADERS: usize = 64;
