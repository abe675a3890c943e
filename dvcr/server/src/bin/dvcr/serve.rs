//! `dvcr serve`.

use std::io::Write;
use std::time::Duration;

use dvcr::{Access, Config, Error, Keep, Kind, Limits, Options, Result, Server, Store, TokenRules};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{Garbage, Log, Serve};

pub(crate) fn run(serve: Serve) -> Result<()> {
    log(serve.log);
    raise_limits();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(MAX_THREADS)
        .build()
        .map_err(|error| Error::new(Kind::Internal, format!("no threads: {error}")))?;
    let served = runtime.block_on(serve_until_told(serve));
    // What still waits for a disk must not keep the process.
    runtime.shutdown_background();
    served
}

async fn serve_until_told(serve: Serve) -> Result<()> {
    let store = Store::create(&serve.root, Limits { quota: serve.quota, reserve: serve.reserve })?;
    if let Err(error) = store.probe() {
        tracing::warn!("nothing can be pushed, only pulled: {error}");
    }
    if serve.htpasswd_pull.is_some() && serve.htpasswd.is_none() && serve.token_public_key.is_none() {
        tracing::warn!(
            "nobody can push: --htpasswd-pull names who may pull, and neither --htpasswd nor tokens who else"
        );
    }
    let options = options(&serve.garbage)?;
    let config = Config {
        listen: serve.listen,
        tls: serve.tls_cert.zip(serve.tls_key),
        access: Access {
            htpasswd: serve.htpasswd,
            htpasswd_pull: serve.htpasswd_pull,
            tokens: serve.token_public_key.map(|public_key| TokenRules {
                public_key,
                realm: serve.token_realm,
                service: serve.token_service,
                issuer: serve.token_issuer,
            }),
            anonymous_pull: serve.anonymous_pull,
        },
        metrics: serve.metrics_listen,
        gc: Some(match serve.gc_interval {
            Some(interval) => (interval.max(SHORTEST), options),
            // Uploads that nobody goes on with take room that nobody knows of.
            None => (HOUR, Options { uploads_only: true, ..options }),
        }),
        connections: serve.connections.max(1),
        memory: serve.memory,
        head_timeout: serve.timeout,
        stall_timeout: serve.timeout,
        drain: serve.drain,
    };
    let failed = |error: std::io::Error| Error::new(Kind::Internal, format!("signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    // Files are read again when they change, so there is nothing to do; but it must not end the process.
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    let server = Server::bind(store, config).await?;
    // Whoever started it may not read it.
    let mut out = std::io::stdout();
    let _ = writeln!(out, "listening on {}", server.address());
    if let Some(address) = server.metrics_address() {
        let _ = writeln!(out, "metrics on http://{address}/metrics");
    }
    let _ = out.flush();
    server
        .run(async move {
            loop {
                tokio::select! {
                    _ = terminate.recv() => break,
                    _ = interrupt.recv() => break,
                    _ = hangup.recv() => tracing::info!("files that have changed are read again with the next request"),
                }
            }
            tracing::info!("ending: waiting for requests that are under way");
        })
        .await
}

/// What is garbage, as the options say.
pub(crate) fn options(garbage: &Garbage) -> Result<Options> {
    let mut keep = Keep::default();
    for file in &garbage.keep {
        keep.read(file)?;
    }
    Ok(Options {
        grace: garbage.grace,
        keep_untagged: garbage.keep_untagged,
        keep,
        only_kept: garbage.only_kept,
        uploads_only: false,
        expiry: garbage.upload_expiry,
        dry_run: false,
    })
}

fn log(log: Log) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("MILLRACE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match log {
        Log::Text => builder.init(),
        Log::Json => builder.json().flatten_event(true).init(),
    }
}

/// Each connection is an open file, and each pull another one. If it can't be raised, fewer clients are served at a time.
fn raise_limits() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Threads that wait for the disk or hash; each costs some KiB while it does nothing.
const MAX_THREADS: usize = 64;
const SHORTEST: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
