//! `uploader proxy`.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use importer_flow::{Error, Kind, Result};
use tokio::signal::unix::{SignalKind, signal};
use uploader::cors::Cors;
use uploader::proxy::{Identity, Metrics, Proxy, Settings, Template, Tokens, Upstream};
use uploader::server::Server;

use crate::args;

/// Passes uploads on until a signal comes.
pub fn run(args: &args::Proxy) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("proxy")
        .build()
        .map_err(|error| Error::new(Kind::Ours, "can't start the proxy's threads").because(error))?;
    runtime.block_on(pass(args))
}

async fn pass(args: &args::Proxy) -> Result<()> {
    let tokens = match (&args.public_key, std::env::var("APISERVER_PUBLIC_KEY")) {
        (Some(file), _) => Tokens::file(file.clone())?,
        (None, Ok(pem)) => Tokens::text(&pem).map_err(|error| error.within("APISERVER_PUBLIC_KEY"))?,
        (None, Err(_)) => {
            return Err(Error::new(Kind::Usage, "whose tokens are good must be known: give --public-key"));
        }
    };
    let upstream = Arc::new(match &args.server_ca {
        Some(authority) => {
            let identity = args.client_cert.clone().zip(args.client_key.clone());
            let identity = identity.map(|(certificate, key)| Identity { certificate, key });
            Upstream::secure(authority.clone(), identity)?
        }
        None => Upstream::plain(),
    });
    let targets = Template::new(&args.upstream, Arc::clone(&upstream)).map_err(|error| error.within("--upstream"))?;
    let settings = Settings { wait: args.wait, patience: args.timeout, ..Settings::default() };
    let proxy = Proxy::new(tokens, targets, upstream, Cors::new(args.cors_origin.clone()), settings);
    let counters = proxy.counters();
    let tls = args.secure.tls(None)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let listening =
        |at: SocketAddr| move |error| Error::new(Kind::Usage, format!("{at} can't be listened on")).because(error);
    let failed = |error| Error::new(Kind::Ours, "can't listen to signals").because(error);
    let mut term = signal(SignalKind::terminate()).map_err(failed)?;
    let mut int = signal(SignalKind::interrupt()).map_err(failed)?;
    let server = Server::bind(proxy, args.listen, tls, args.drain).await.map_err(listening(args.listen))?;
    let address = server.address().map_err(listening(args.listen))?;
    let mut lines = vec![format!("listening on {scheme}://{address}")];
    if let Some(listen) = args.health_listen {
        let health = Server::bind(Metrics(counters), listen, None, args.drain).await.map_err(listening(listen))?;
        lines.push(format!("health and metrics at http://{}", health.address().map_err(listening(listen))?));
        // It ends with the program.
        tokio::spawn(health.run(std::future::pending()));
    }
    for line in lines {
        // Whoever started it may not read it.
        let _ = writeln!(std::io::stdout(), "{line}");
    }
    server
        .run(async {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            tracing::info!("ending: uploads that are under way have {} s", args.drain.as_secs());
        })
        .await;
    Ok(())
}
