//! `importer copy`.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use importer_flow::sink::{self, NullSink, Options};
use importer_flow::{Error, Kind, Outcome, Progress, Result, Sink, import};

use crate::args::{Copy, Show};
use crate::progress::Watch;
use crate::{places, report, size, source};

/// Copies, and reports also when it fails.
pub fn run(args: &Copy) -> Result<()> {
    places::check(args)?;
    let started = Instant::now();
    let progress = Arc::new(Progress::default());
    let mut result = copy(args, &progress);
    let elapsed = started.elapsed();
    if let Some(path) = &args.report {
        let report = report::Report::new(&args.target, &result, progress.received(), elapsed);
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
        eprintln!("{}", summary(&outcome, &args.target, elapsed));
    }
    Ok(())
}

fn copy(args: &Copy, progress: &Arc<Progress>) -> Result<Outcome> {
    let mut settings = source::settings(&args.from)?;
    settings.spool_limit = args.spool_limit.0;
    settings.checksums = args.checksum.clone();
    let mut source = source::open(&args.source, &args.from)?;
    let sink = target(args)?;
    if let Some(directory) = spool_directory(&args.target) {
        settings.spool_directory = directory;
    }
    let watch = Watch::start(args.progress, Arc::clone(progress))?;
    let result = import(&mut *source, sink, &settings, Arc::clone(progress));
    watch.stop();
    result
}

fn target(args: &Copy) -> Result<Box<dyn Sink>> {
    let options = Options { size: args.size.map(|size| size.0), preallocate: args.preallocate };
    match args.target.split_once(':') {
        Some(("null", "")) => Ok(Box::new(NullSink::default())),
        Some((scheme, rest)) if rest.starts_with("//") => Err(Error::new(
            Kind::Usage,
            format!("targets of the kind {scheme}:// can't be written; a file, a block device and null: can"),
        )),
        _ => sink::create(Path::new(&args.target), options),
    }
}

/// Beside a file; elsewhere the system's place for large temporary files does.
fn spool_directory(target: &str) -> Option<std::path::PathBuf> {
    let target = Path::new(target);
    if target.starts_with("/dev") || target == Path::new("null:") {
        return None;
    }
    let parent = target.parent()?;
    Some(if parent.as_os_str().is_empty() { ".".into() } else { parent.to_owned() })
}

fn summary(outcome: &Outcome, target: &str, elapsed: std::time::Duration) -> String {
    let wrappers = outcome.image.wrappers.iter().map(|wrapper| format!("{wrapper} "));
    let speed = report::per_second(outcome.source_bytes, elapsed);
    format!(
        "{target}: {} from {}{} ({} received, {} written, {}) in {:.1} s, {}/s",
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
