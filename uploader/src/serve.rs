//! `uploader serve`.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use importer_flow::sink::Options;
use importer_flow::{Error, Kind, Result};
use tokio::signal::unix::{SignalKind, signal};
use uploader::api::Api;
use uploader::budget::Budget;
use uploader::server::Server;
use uploader::session::Wish;
use uploader::sessions::Sessions;
use uploader::state::State;
use uploader::target::Target;

use crate::args::Serve;

/// Serves until a signal comes, or until the one image is complete.
pub fn run(args: &Serve) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("server")
        .build()
        .map_err(|error| Error::new(Kind::Ours, "can't start the server's threads").because(error))?;
    runtime.block_on(serve(args))
}

async fn serve(args: &Serve) -> Result<()> {
    let secret = args.token_file.as_deref().map(secret).transpose()?;
    let budget = Budget::new(args.memory.0, args.uploads);
    let sessions = Sessions::new(budget, MOST_SESSIONS, args.expiry);
    let api = match (&args.place.target, &args.place.root) {
        (Some(target), _) => {
            let state = state(args, Path::new(target));
            let wish = Wish {
                name: "upload".into(),
                target: self::target(args, target, state.is_some())?,
                len: None,
                checksums: args.checksum.clone(),
                state: state.as_deref().map(State::only),
            };
            Api::one(sessions, secret.as_deref(), wish, args.timeout, Instant::now())
                .map_err(|refusal| Error::new(Kind::Ours, refusal.to_string()))?
        }
        (None, root) => {
            let root = root.clone().unwrap_or_default();
            fs::create_dir_all(&root).map_err(|error| {
                Error::new(Kind::Target, format!("{}: can't be made", root.display())).because(error)
            })?;
            Api::folder(sessions, root, secret.as_deref(), args.timeout)
        }
    };
    let tls = args.secure.tls(Some(&args.clients))?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let server = Server::bind(api, args.listen, tls, DRAIN).await;
    let listening = |error| Error::new(Kind::Usage, format!("{} can't be listened on", args.listen)).because(error);
    let server = server.map_err(listening)?;
    let address = server.address().map_err(listening)?;
    // Whoever started it may wait for this line, or not read it.
    let _ = writeln!(std::io::stdout(), "listening on {scheme}://{address}");
    let api = server.api();
    server.run(ended()).await;
    api.sessions.leave().await;
    Ok(())
}

/// Where something is kept so that an upload can go on after this program was started again.
fn state(args: &Serve, target: &Path) -> Option<PathBuf> {
    if args.state.is_some() {
        return args.state.clone();
    }
    // A device has no folder of its own.
    let file = !fs::metadata(target).is_ok_and(|metadata| metadata.file_type().is_block_device());
    let name = target.file_name()?.to_str()?;
    file.then(|| target.with_file_name(format!(".{name}.upload")))
}

/// Waits for a signal that asks the program to end.
async fn ended() {
    let listen = |kind| signal(kind).ok();
    let (mut term, mut int) = (listen(SignalKind::terminate()), listen(SignalKind::interrupt()));
    let wait = async |signal: &mut Option<tokio::signal::unix::Signal>| match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    };
    tokio::select! {
        _ = wait(&mut term) => {}
        _ = wait(&mut int) => {}
    }
}

fn target(args: &Serve, target: &str, resume: bool) -> Result<Target> {
    let options = Options { size: args.size.map(|size| size.0), preallocate: args.preallocate, resume };
    Ok(Target::path(Path::new(target), options))
}

/// The first line of a file.
fn secret(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file)
        .map_err(|error| Error::new(Kind::Usage, format!("{}: can't be read", file.display())).because(error))?;
    let secret = text.lines().next().unwrap_or_default().trim();
    if secret.len() < 16 || !secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte)) {
        let message = format!("{}: a secret has at least 16 letters, digits or - _ . ~", file.display());
        return Err(Error::new(Kind::Usage, message));
    }
    Ok(secret.to_owned())
}

const MOST_SESSIONS: usize = 4096;
const DRAIN: std::time::Duration = std::time::Duration::from_secs(25);
