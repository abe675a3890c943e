//! `importer copy`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use importer_flow::checksum::listed;
use importer_flow::registry::Platform;
use importer_flow::relay::{Relay, Relayed};
use importer_flow::report::{self, Report};
use importer_flow::sink::{self, Claim, Left, NullSink, Options};
use importer_flow::source::container::Reading;
use importer_flow::{Error, Kind, Outcome, Progress, Pushed, Receipt, Result, Sink, import, size};

use crate::args::{Copy, List, Show};
use crate::progress::Watch;
use crate::registry::Push;
use crate::signals::{self, Signal};
use crate::{container, places, registry, source};

/// Copies, and reports also when it fails. Does not return when a signal asked the program to end.
pub fn run(args: &Copy) -> Result<()> {
    places::check(args)?;
    let job = Job {
        args,
        started: Instant::now(),
        progress: Arc::default(),
        claim: Mutex::default(),
        watch: Mutex::default(),
        pushed: Mutex::default(),
    };
    let mut result = job.wait();
    let elapsed = job.started.elapsed();
    if let Some(path) = &args.report {
        let report = match &result {
            Ok(outcome) => Report::succeeded(&args.target, outcome, job.pushed(), elapsed),
            Err(error) => Report::failed(error, job.progress.received(), elapsed),
        };
        // The disk is what counts: a report that can't be written does not undo a copy, but it is not hushed up either.
        if let Err(error) = report.write(path) {
            result = Err(match result {
                Ok(_) => {
                    let message = format!("the disk is complete, but the report {} can't be written", path.display());
                    Error::new(Kind::Target, message).because(error)
                }
                Err(failure) => failure.within(format_args!("the report {} can't be written; besides", path.display())),
            });
        }
    }
    let outcome = result?;
    // A program that reads lines of JSON has the last of them, and the report.
    if !matches!(args.progress, Show::None | Show::Json) {
        let platform = job.pushed().map(|pushed| pushed.platform);
        eprintln!("{}", summary(&outcome, &args.target, platform.as_deref(), elapsed));
    }
    Ok(())
}

/// A copy under way: one thread does it, while another waits for its end or for a signal.
struct Job<'a> {
    args: &'a Copy,
    started: Instant,
    progress: Arc<Progress>,
    /// On the target, as soon as there is one.
    claim: Mutex<Claim>,
    watch: Mutex<Option<Watch>>,
    /// What was pushed, once it is.
    pushed: Mutex<Option<Receipt>>,
}

/// What ends a copy.
enum End {
    Itself(Result<Outcome>),
    Signal(Signal),
}

impl Job<'_> {
    /// Copies, and sees to it that nothing is left behind when a signal comes, whatever the copy waits for by then.
    fn wait(&self) -> Result<Outcome> {
        let (tell, ends) = channel();
        let tell_signal = tell.clone();
        signals::listen(move |signal| {
            // No one listens any more when all is done.
            let _ = tell_signal.send(End::Signal(signal));
        })?;
        let work = || {
            let bug = |_| Err(Error::new(Kind::Ours, "a mistake of ours, told of above, ended it; please report it"));
            let result = catch_unwind(AssertUnwindSafe(|| self.copy())).unwrap_or_else(bug);
            let _ = tell.send(End::Itself(result));
        };
        thread::scope(|scope| {
            if let Err(error) = thread::Builder::new().name("import".into()).spawn_scoped(scope, work) {
                return Err(Error::new(Kind::Ours, "can't start a thread").because(error));
            }
            loop {
                match ends.recv() {
                    Ok(End::Itself(result)) => {
                        self.stop_watch();
                        return result;
                    }
                    Ok(End::Signal(signal)) => self.interrupted(signal),
                    Err(error) => return Err(Error::new(Kind::Ours, "the import has no end").because(error)),
                }
            }
        })
    }

    /// Copies; from the start when the source has become another meanwhile, so that the disk is never of two, and once
    /// more when what came from a registry was not what it has to be: a bit that flipped on the way is right next time.
    fn copy(&self) -> Result<Outcome> {
        let (mut restarts, mut damaged) = (0, None);
        loop {
            match self.attempt() {
                Err(error) if error.kind() == Kind::Changed && restarts < RESTARTS => {
                    restarts += 1;
                    crate::complain(&format!("{error}; starting over, attempt {} of {}", restarts + 1, RESTARTS + 1));
                }
                Err(error) if error.kind() == Kind::Mismatch && damaged.is_none() && self.may_come_right() => {
                    damaged = Some(error);
                }
                result => {
                    if let (Some(error), Ok(_)) = (damaged, &result) {
                        crate::complain(&format!("{error}; it was right when it was read again"));
                    }
                    return result;
                }
            }
        }
    }

    /// Whether what was compared is known to be right at its origin, so that it may be what came that was wrong.
    fn may_come_right(&self) -> bool {
        let checksums = !self.args.checksum.is_empty() || !self.args.checksum_url.is_empty();
        !checksums && matches!(container::place(&self.args.source), Some(container::Place::Registry(_)))
    }

    /// Copies once. Whatever it fails at, the target is given up.
    fn attempt(&self) -> Result<Outcome> {
        // That of the attempt before may hold a lock on the target.
        *lock(&self.claim) = Claim::default();
        let result = self.bring();
        if let Err(error) = &result {
            let claim = lock(&self.claim);
            match error.kind() {
                // It would fail again where it goes on, or hide where it went wrong.
                Kind::NotUsable | Kind::Unsafe | Kind::Mismatch => claim.discard(),
                Kind::Changed => {}
                _ if claim.abandon() == Left::Resumable => {
                    crate::complain("what was done is kept; run the same command again to continue");
                }
                _ => {}
            }
        }
        result
    }

    fn bring(&self) -> Result<Outcome> {
        let args = self.args;
        let mut settings = source::settings(&args.source, &args.from)?;
        settings.spool_limit = args.spool_limit.0;
        settings.checksums = args.checksum.clone();
        settings.notice = crate::complain;
        source::check_platform(&args.source, &args.from, registry::reference(&args.target).is_some())?;
        let push = registry::push(args)?;
        source::check(&args.source, &args.from)?;
        // What is waited for shows from the first request on.
        self.watch()?;
        if let Some(push) = &push {
            *lock(&self.claim) = push.destination.claim();
            push.destination.check()?;
        }
        let mut inherited = None;
        let mut source = match (container::place(&args.source), &push) {
            (Some(place), Some(push)) => {
                let image = container::image(place, &args.from)?;
                inherited = image.inherited();
                if args.from.disk.is_none()
                    && args.checksum.is_empty()
                    && args.checksum_url.is_empty()
                    && let Some(relay) = Relay::find(&image, &settings)?
                    && relay.is_wanted(push.platform.as_ref(), &push.storing)
                    && let Some(outcome) = self.relay(&relay, push)?
                {
                    return Ok(outcome);
                }
                container::disk(image, &args.from, Reading::Verified)?
            }
            _ => source::open(&args.source, &args.from, Reading::Verified)?,
        };
        for List { algorithm, place } in &args.checksum_url {
            let mut list = source::open_list(place, &args.source, &args.from)?;
            settings.checksums.extend(listed(&mut *list, *algorithm, source.file_name().as_deref())?);
        }
        let sink = {
            // Whoever gives up the target waits until it is known what there is to give up.
            let mut claim = lock(&self.claim);
            let sink: Box<dyn Sink> = match push {
                Some(Push { destination, platform, storing }) => {
                    let platform = platform.or(inherited).unwrap_or_else(Platform::of_this_machine);
                    let (sink, pushed) = sink::registry(destination, &platform, storing);
                    *lock(&self.pushed) = Some(pushed);
                    sink
                }
                None => target(args)?,
            };
            *claim = sink.claim();
            sink
        };
        if let Some(directory) = spool_directory(&args.target) {
            settings.spool_directory = directory;
        }
        import(&mut *source, sink, &settings, Arc::clone(&self.progress))
    }

    /// Takes an image over as it is, if the target has its layer.
    fn relay(&self, relay: &Relay, push: &Push) -> Result<Option<Outcome>> {
        let Some(Relayed { pushed, outcome }) = relay.push(&push.destination, &self.progress)? else {
            return Ok(None);
        };
        *lock(&self.pushed) = Some(Receipt::from(OnceLock::from(pushed)));
        Ok(Some(outcome))
    }

    fn watch(&self) -> Result<()> {
        let mut watch = lock(&self.watch);
        if watch.is_none() {
            *watch = Some(Watch::start(self.args.progress, Arc::clone(&self.progress))?);
        }
        Ok(())
    }

    /// What was pushed, if something was.
    fn pushed(&self) -> Option<Pushed> {
        lock(&self.pushed).as_ref()?.get().cloned()
    }

    fn stop_watch(&self) {
        if let Some(watch) = lock(&self.watch).take() {
            watch.stop();
        }
    }

    /// Gives the target up and dies of `signal`; returns only when the target is complete, and so the copy over.
    fn interrupted(&self, signal: Signal) {
        let name = &self.args.target;
        let left = match lock(&self.claim).abandon() {
            Left::Whole => return,
            Left::Part => {
                format!(
                    "; {name} has a part of the disk, and zeros where it begins, so that nothing boots it: copy again"
                )
            }
            Left::Resumable => format!("; run the same command again to continue at {name}"),
            Left::Untouched if is_null(name) => String::new(),
            Left::Untouched if registry::reference(name).is_some() || Path::new(name).exists() => {
                format!("; {name} is as it was")
            }
            Left::Untouched => format!("; nothing is left at {name}"),
        };
        self.stop_watch();
        let mut message = format!("interrupted by {}{left}", signal.name());
        if let Some(path) = &self.args.report {
            let report =
                Report::interrupted(signal.exit_code(), &message, self.progress.received(), self.started.elapsed());
            if let Err(error) = report.write(path) {
                message += &format!("; the report {} can't be written: {error}", path.display());
            }
        }
        crate::complain(&message);
        signal.die()
    }
}

/// How often a copy starts over because its source has changed: a source that is written to all the time has no disk.
const RESTARTS: usize = 2;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_null(target: &str) -> bool {
    target == "null:"
}

/// The sink for what is in no registry.
fn target(args: &Copy) -> Result<Box<dyn Sink>> {
    if let Some(option) = args.to.given() {
        return Err(Error::new(Kind::Usage, format!("{option} is for targets in a registry, and the target is none")));
    }
    let options = Options { size: args.size.map(|size| size.0), preallocate: args.preallocate, resume: args.resume };
    if is_null(&args.target) {
        if args.resume {
            return Err(Error::new(Kind::Usage, "--resume needs a target that keeps something; null: does not"));
        }
        return Ok(Box::new(NullSink::default()));
    }
    if args.target == "-" {
        let message = "-: a disk can't be written to standard output: name a file, a block device, \
                       docker://HOST/REPOSITORY:TAG or null:; for a file of that name write ./-";
        return Err(Error::new(Kind::Usage, message));
    }
    if args.target == "null" {
        let message =
            "null: for a copy that is only verified write null: with the colon, for a file of that name ./null";
        return Err(Error::new(Kind::Usage, message));
    }
    match args.target.split_once(':') {
        Some((scheme, rest)) if rest.starts_with("//") => Err(Error::new(
            Kind::Usage,
            format!(
                "targets of the kind {scheme}:// can't be written; docker://, a file, a block device and null: can"
            ),
        )),
        // A slip, and not a file of that name.
        Some((scheme @ ("docker" | "oci" | "oci-archive" | "docker-archive" | "s3" | "gs"), _)) => {
            let what =
                if scheme == "docker" { "write it as docker://HOST/REPOSITORY:TAG" } else { "it is no kind of target" };
            Err(Error::new(
                Kind::Usage,
                format!("{}: {what}; for a file of that name write ./{}", args.target, args.target),
            ))
        }
        _ => {
            registry::check_slip(&args.target)?;
            sink::create(Path::new(&args.target), options)
        }
    }
}

/// Beside a file; elsewhere the system's place for large temporary files does.
fn spool_directory(target: &str) -> Option<std::path::PathBuf> {
    if Path::new(target).starts_with("/dev") || is_null(target) || registry::reference(target).is_some() {
        return None;
    }
    let parent = Path::new(target).parent()?;
    Some(if parent.as_os_str().is_empty() { ".".into() } else { parent.to_owned() })
}

fn summary(outcome: &Outcome, target: &str, platform: Option<&str>, elapsed: Duration) -> String {
    let wrappers = outcome.image.wrappers.iter().map(|wrapper| format!("{wrapper} "));
    let speed = report::per_second(outcome.source_bytes, elapsed);
    let platform = platform.map(|platform| format!(" for {platform}")).unwrap_or_default();
    let earlier = outcome.resumed_from.map(|bytes| format!("{} before, ", size::human(bytes))).unwrap_or_default();
    format!(
        "{target}: {}{platform} from {}{} ({earlier}{} received, {} written, {}) in {:.1} s, {}/s",
        size::human(outcome.target_size),
        wrappers.collect::<String>(),
        outcome.image.format,
        size::human(outcome.source_bytes),
        size::human(outcome.bytes_written),
        outcome.mode.name(),
        elapsed.as_secs_f64(),
        size::human(speed),
    )
}
