//! The table, and the page it is kept on.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use fixtures::{run, tool};

use crate::measure::Usage;

/// What was measured for one line: the middle of several runs.
pub struct Row {
    /// What was done.
    pub name: &'static str,
    /// Ours.
    pub ours: Usage,
    /// Bytes of storage that the data of the disk takes; 0 where nothing is stored.
    pub data: u64,
    /// Bytes of storage that our output takes.
    pub stored: u64,
    /// What ours is held against.
    pub checks: Vec<Check>,
}

/// One bar, and whether it was met.
pub struct Check {
    /// Against whom or what.
    pub against: String,
    /// What was measured there, in words.
    pub theirs: String,
    /// Ours, as a share of it.
    pub value: f64,
    /// The largest share that meets the bar.
    pub bar: f64,
}

impl Check {
    /// Whether the bar was met.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.value <= self.bar
    }

    fn verdict(&self) -> &'static str {
        if self.passed() { "PASS" } else { "MISS" }
    }
}

/// The rows as a Markdown table.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| work | ours, s (CPU s) | peak RSS | written / data | against | theirs | ours is | bar | |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let written = match row.data {
            0 => "-".to_owned(),
            data => format!("{:.2}", row.ours.written as f64 / data as f64),
        };
        let stored = match row.data {
            0 => String::new(),
            data => format!(" (allocated {:.2})", row.stored as f64 / data as f64),
        };
        let mut first = format!(
            "| {} | {} ({}) | {:.0} MiB | {written}{stored} |",
            row.name,
            seconds(row.ours.wall),
            seconds(row.ours.cpu),
            mib(row.ours.rss),
        );
        for check in &row.checks {
            let _ = writeln!(
                text,
                "{first} {} | {} | {:.2} | {} | {} |",
                check.against,
                check.theirs,
                check.value,
                check.bar,
                check.verdict()
            );
            "| | | | |".clone_into(&mut first);
        }
    }
    text
}

/// Writes the page with the table, the machine and the command.
///
/// # Panics
/// When it can't be written.
pub fn write(path: &Path, rows: &[Row], images: &str, runs: usize, command: &str) {
    let (met, all) = score(rows);
    let page = format!(
        "# Measurements\n\n{met} of {all} bars met. Times are medians of {runs} runs, ours and the rivals' in turn; \
         caches are warm for all; outputs are removed between runs. Each output of ours was compared with the disk byte \
         for byte.\n\n{}\n{}\n- images: {images}\n- command: `{command}`\n",
        table(rows),
        machine()
    );
    fs::write(path, page).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// How many bars were met, and how many there are.
#[must_use]
pub fn score(rows: &[Row]) -> (usize, usize) {
    let checks = || rows.iter().flat_map(|row| &row.checks);
    (checks().filter(|check| check.passed()).count(), checks().count())
}

/// A duration in seconds, with as many digits as it deserves.
#[must_use]
pub fn seconds(time: Duration) -> String {
    match time.as_secs_f64() {
        time if time < 10.0 => format!("{time:.2}"),
        time => format!("{time:.1}"),
    }
}

/// Bytes as MiB.
#[must_use]
pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The load of the last minute.
#[must_use]
pub fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or_default().to_owned()
}

fn machine() -> String {
    let field = |file: &str, key: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
        line.split_once(':').map_or("", |(_, value)| value.trim()).to_owned()
    };
    let line = |command: &[&str]| {
        let output = run(tool(command[0]).args(&command[1..])).stdout;
        String::from_utf8_lossy(&output).lines().next().unwrap_or_default().to_owned()
    };
    format!(
        "- machine: {} × {}, {} of memory, Linux {}\n- rivals: {}; {}; {}; {}; {}\n- date: {}\n- revision: {}\n- load \
         average at the end: {}",
        std::thread::available_parallelism().map_or(0, usize::from),
        field("/proc/cpuinfo", "model name"),
        field("/proc/meminfo", "MemTotal"),
        fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
        line(&["qemu-img", "--version"]),
        line(&["curl", "--version"]).split(' ').take(2).collect::<Vec<_>>().join(" "),
        line(&["gzip", "--version"]),
        line(&["zstd", "--version"]).trim_matches(['*', ' ']),
        line(&["xz", "--version"]),
        line(&["date", "-u", "+%Y-%m-%d"]),
        line(&["git", "describe", "--always", "--dirty"]),
        load(),
    )
}
