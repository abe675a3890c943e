//! Progress, shown while an import runs.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use importer_flow::report::per_second;
use importer_flow::size::human;
use importer_flow::{Error, Kind, Progress, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::Show;
use crate::waiting::Waiting;

/// A thread that shows progress until it is stopped.
pub struct Watch {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts to show progress on standard error.
    pub fn start(show: Show, progress: Arc<Progress>) -> Result<Self> {
        let terminal = std::io::stderr().is_terminal();
        let mut display: Box<dyn Display> = match show {
            Show::None => return Ok(Self { stop: None, thread: None }),
            Show::Auto if terminal => Box::new(Bar::new()),
            Show::Bar => Box::new(Bar::new()),
            Show::Auto => Box::new(Lines { started: Instant::now(), waiting: Waiting::default() }),
            Show::Json => Box::new(Json { started: Instant::now(), waiting: Waiting::default() }),
        };
        let (stop, stopped) = sync_channel(1);
        let thread = std::thread::Builder::new().name("progress".into()).spawn(move || {
            while stopped.recv_timeout(display.interval()) == Err(RecvTimeoutError::Timeout) {
                display.show(&progress);
            }
            display.end(&progress);
        });
        let thread = thread.map_err(|error| Error::new(Kind::Ours, "can't start a thread").because(error))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Stops, and leaves the terminal clean.
    pub fn stop(mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // What it shows is not worth an error.
            let _ = thread.join();
        }
    }
}

/// A way to show progress.
trait Display: Send {
    fn interval(&self) -> Duration;
    fn show(&mut self, progress: &Progress);
    fn end(&mut self, progress: &Progress);
}

struct Bar {
    bar: ProgressBar,
    waiting: Waiting,
}

impl Bar {
    fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(style("{bytes} {binary_bytes_per_sec} {elapsed}  {wide_msg}"));
        Self { bar, waiting: Waiting::default() }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Display for Bar {
    fn interval(&self) -> Duration {
        Duration::from_millis(100)
    }

    fn show(&mut self, progress: &Progress) {
        let (done, whole) = progress.position();
        if whole > 0 && self.bar.length() != Some(whole) {
            if self.bar.length().is_none() {
                self.bar.set_style(style(
                    "{bar:30} {percent:>3}%  {bytes} of {total_bytes}  {binary_bytes_per_sec}  {eta} left  {wide_msg}",
                ));
            }
            self.bar.set_length(whole);
        }
        self.bar.set_position(done);
        self.bar.set_message(self.waiting.why(progress.received()).map(|why| trying(&why)).unwrap_or_default());
    }

    fn end(&mut self, _progress: &Progress) {
        self.bar.finish_and_clear();
    }
}

/// One line now and then, for logs.
struct Lines {
    started: Instant,
    waiting: Waiting,
}

impl Display for Lines {
    fn interval(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn show(&mut self, progress: &Progress) {
        let (done, whole) = progress.position();
        let speed = per_second(done, self.started.elapsed());
        let of = match progress.percent() {
            Some(percent) => {
                let left = whole.saturating_sub(done).checked_div(speed.max(1)).unwrap_or(0);
                format!(" of {} ({percent}%, {left} s left)", human(whole))
            }
            None => String::new(),
        };
        let pass = if progress.pass() > 1 { format!("pass {}: ", progress.pass()) } else { String::new() };
        let why = self.waiting.why(progress.received()).map(|why| format!("; {}", trying(&why))).unwrap_or_default();
        eprintln!("{pass}{}{of}, {}/s{why}", human(done), human(speed));
    }

    fn end(&mut self, _progress: &Progress) {}
}

/// What stands behind the progress that there isn't.
fn trying(why: &str) -> String {
    format!("trying again: {why}")
}

/// One object per line, for programs.
struct Json {
    started: Instant,
    waiting: Waiting,
}

impl Display for Json {
    fn interval(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn show(&mut self, progress: &Progress) {
        let elapsed = self.started.elapsed();
        let expected = progress.expected();
        let line = serde_json::json!({
            "receivedBytes": progress.received(),
            "expectedBytes": (expected > 0).then_some(expected),
            "pass": progress.pass(),
            "percent": progress.percent(),
            "bytesPerSecond": per_second(progress.received(), elapsed),
            "elapsedSeconds": elapsed.as_secs_f64(),
            "waiting": self.waiting.why(progress.received()),
        });
        eprintln!("{line}");
    }

    fn end(&mut self, progress: &Progress) {
        self.show(progress);
    }
}
