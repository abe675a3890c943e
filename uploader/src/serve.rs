//! `uploader serve`.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use importer_flow::registry::Registry;
use importer_flow::report::Report;
use importer_flow::sink::Options;
use importer_flow::{Error, Kind, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};
use uploader::api::Api;
use uploader::budget::Budget;
use uploader::cors::Cors;
use uploader::health;
use uploader::server::Server;
use uploader::session::{Phase, Session, Wish};
use uploader::sessions::Sessions;
use uploader::state::State;
use uploader::target::Target;

use crate::args::Serve;

/// Serves until a signal comes, or until the one image is complete. Gives the exit code.
pub fn run(args: &Serve) -> Result<u8> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("server")
        .build()
        .map_err(|error| Error::new(Kind::Ours, "can't start the server's threads").because(error))?;
    runtime.block_on(serve(args))
}

async fn serve(args: &Serve) -> Result<u8> {
    let secret = args.token_file.as_deref().map(secret).transpose()?;
    let budget = Budget::new(args.memory.0, args.uploads);
    let sessions = Sessions::new(budget, MOST_SESSIONS, args.expiry);
    let mut only = None;
    let mut api = match (&args.place.target, &args.place.root) {
        (Some(target), _) => {
            let state = state(args, target);
            let wish = Wish {
                name: "upload".into(),
                target: self::target(args, target, state.is_some())?,
                len: None,
                checksums: args.checksum.clone(),
                state: state.as_deref().map(State::only),
            };
            let (api, session) = Api::one(sessions, secret.as_deref(), wish, args.timeout, Instant::now())
                .map_err(|refusal| Error::new(Kind::Ours, refusal.to_string()))?;
            only = Some(session);
            api
        }
        (None, root) => {
            check_none(args)?;
            let root = root.clone().unwrap_or_default();
            fs::create_dir_all(&root).map_err(|error| {
                Error::new(Kind::Target, format!("{}: can't be made", root.display())).because(error)
            })?;
            Api::folder(sessions, root, secret.as_deref(), args.timeout)
        }
    };
    api.metrics_here = args.health_listen.is_none();
    api.cors = Cors::new(args.cors_origin.clone());
    let tls = args.secure.tls(Some(&args.clients))?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let listening = |at| move |error| Error::new(Kind::Usage, format!("{at} can't be listened on")).because(error);
    // Both addresses, or none.
    let server = Server::bind(api, args.listen, tls, DRAIN).await.map_err(listening(args.listen))?;
    let address = server.address().map_err(listening(args.listen))?;
    let health = match args.health_listen {
        Some(listen) => Some(health::serve(server.api(), listen).await.map_err(listening(listen))?),
        None => None,
    };
    let mut signals = Signals::listen()?;
    // Whoever started it may wait for these lines.
    say(&format!("listening on {scheme}://{address}"));
    if let Some(health) = health {
        say(&format!("health and metrics at http://{health}"));
    }
    let (mut code, api) = (0, server.api());
    match &only {
        None => {
            let signalled = async {
                signals.next().await;
            };
            server.run(signalled).await;
        }
        Some(session) => {
            let mut signal = None;
            server.run(async { (code, signal) = over(session, args, &mut signals).await }).await;
            if let Some(signal) = signal {
                code = interrupted(session, args, signal, code).await;
            }
        }
    }
    api.sessions.leave().await;
    Ok(code)
}

/// Where something is kept so that an upload can go on after this program was started again.
fn state(args: &Serve, target: &str) -> Option<PathBuf> {
    if args.state.is_some() {
        return args.state.clone();
    }
    let (is_url, target) = (target.contains("://"), Path::new(target));
    // A device has no folder of its own, and a registry none at all.
    let file = !is_url && !fs::metadata(target).is_ok_and(|metadata| metadata.file_type().is_block_device());
    let name = target.file_name()?.to_str()?;
    file.then(|| target.with_file_name(format!(".{name}.upload")))
}

/// Waits for the end of the program that serves one upload, and reports each import that ends by itself. Gives the exit
/// code, and the name of the signal that has ended it before there was a reason of its own.
async fn over(session: &Session, args: &Serve, signals: &mut Signals) -> (u8, Option<&'static str>) {
    let begun = Instant::now();
    let mut last = None;
    loop {
        let end = tokio::select! {
            end = session.decided(last.as_ref()) => end,
            () = session.cancelled() => {
                // A reason that is known counts more than that nothing followed.
                let Some(last) = last else {
                    let status = session.status();
                    let what = if status.offset == 0 { "nothing was uploaded" } else { "nothing more was uploaded" };
                    let message = format!("{what} for {} s: begin again", args.expiry.as_secs());
                    let expired = Report::expired(&message, status.offset, begun.elapsed());
                    report(&expired, args);
                    return (complain(&expired), None);
                };
                return (complain(&last.report), None);
            }
            (name, code) = signals.next() => return (code, Some(name)),
        };
        report(&end.report, args);
        if end.report.is_success() {
            // Others may still want to know how it ended.
            tokio::select! {
                () = tokio::time::sleep(args.exit_after) => {}
                _ = signals.next() => {}
            }
            return (0, None);
        }
        if args.once {
            return (complain(&end.report), None);
        }
        last = Some(end);
    }
}

/// What became of the upload when the program was told to end: what was all there had the time to be stored.
async fn interrupted(session: &Session, args: &Serve, signal: &str, code: u8) -> u8 {
    if session.phase() == Phase::Finishing {
        // Nothing is made of it otherwise.
        let _ = tokio::time::timeout(DRAIN, session.ended()).await;
    }
    let status = session.status();
    let end = match status.report {
        Some(end) if end.is_success() => end,
        _ => {
            let message = format!("ended by {signal} before the disk was complete: start it again to go on");
            Report::interrupted(code, &message, status.offset, Duration::ZERO)
        }
    };
    report(&end, args);
    if end.is_success() { 0 } else { complain(&end) }
}

/// Says why the program ends with this exit code.
fn complain(report: &Report) -> u8 {
    crate::complain(report.message());
    report.exit_code()
}

fn report(report: &Report, args: &Serve) {
    if let Some(file) = &args.report
        && let Err(error) = report.write(file)
    {
        // What became of the disk is not changed by this.
        tracing::error!("{}: the report can't be written: {error}", file.display());
    }
}

/// The signals that ask the program to end. One is not missed while nobody waits for it.
struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    fn listen() -> Result<Self> {
        let listen =
            |kind| signal(kind).map_err(|error| Error::new(Kind::Ours, "can't listen to signals").because(error));
        Ok(Self { term: listen(SignalKind::terminate())?, int: listen(SignalKind::interrupt())? })
    }

    /// Waits for one. Gives its name, and what a shell says of who died of it.
    async fn next(&mut self) -> (&'static str, u8) {
        tokio::select! {
            _ = self.term.recv() => ("SIGTERM", 143),
            _ = self.int.recv() => ("SIGINT", 130),
        }
    }
}

fn target(args: &Serve, target: &str, resume: bool) -> Result<Target> {
    let usage = |message: String| Err(Error::new(Kind::Usage, message));
    match target.split_once("://") {
        Some(("docker", _)) => {
            let given = [
                ("--size", args.size.is_some()),
                ("--preallocate", args.preallocate),
                ("--state", args.state.is_some()),
            ];
            if let Some((option, _)) = given.iter().find(|(_, given)| *given) {
                return usage(format!("{option} is for files and devices, and the target is in a registry"));
            }
            args.to.target(Registry::reference(target)?)
        }
        Some((scheme, _)) => {
            usage(format!("targets of the kind {scheme}:// can't be written; docker:// and a path can"))
        }
        None => {
            check_none(args)?;
            let options = Options { size: args.size.map(|size| size.0), preallocate: args.preallocate, resume };
            Ok(Target::path(Path::new(target), options))
        }
    }
}

/// Refuses options of registries where none is.
fn check_none(args: &Serve) -> Result<()> {
    let Some(option) = args.to.given() else { return Ok(()) };
    Err(Error::new(Kind::Usage, format!("{option} is for targets in a registry, and the target is none")))
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

fn say(line: &str) {
    // Whoever started it may not read it.
    let _ = writeln!(std::io::stdout(), "{line}");
}

const MOST_SESSIONS: usize = 4096;
const DRAIN: Duration = Duration::from_secs(25);
