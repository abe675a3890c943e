//! Measures the importer beside its rivals: the numbers of the design, on a real disk, served by nginx on loopback.
//!
//! ```text
//! make bench                                  five runs of everything; writes benches/RESULTS.md
//! make bench ARGS="--quick --only zstd"       one run of the lines with zstd in their name; only prints
//! ```
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "it measures for people, and stops at the first thing that is wrong"
)]

mod drain;
mod images;
mod link;
mod many;
mod measure;
mod registry;
mod report;
mod work;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use fixtures::nginx::Nginx;
use fixtures::{allocated, differ, tool};

use crate::images::Images;
use crate::link::{Link, Nature};
use crate::measure::{Usage, measure};
use crate::report::{Check, Row};
use crate::work::{CARRIED, EMPTY_SECONDS, Rival, WORK, WRITTEN, Way, Work};

const USAGE: &str = "usage: benches [--importer FILE] [--runs N | --quick] [--only NAME] [--gib N] [--cache DIR]";

struct Options {
    importer: PathBuf,
    runs: usize,
    only: String,
    gib: u64,
    cache: PathBuf,
}

fn main() -> ExitCode {
    if let [_, name, link @ ..] = &*std::env::args().collect::<Vec<_>>()
        && name == link::NAME
    {
        link::run(link).expect("a link");
        return ExitCode::SUCCESS;
    }
    let options = match options() {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let images = Images::make(&options.cache, options.gib << 30);
    let server = Nginx::serve(images.dir());
    println!("{}; {} runs, load {}", images.describe(), options.runs, report::load());
    let mut rows = Vec::new();
    for work in WORK.iter().filter(|work| work.name.contains(&options.only)) {
        let link = match work.way {
            Way::Near => None,
            Way::Far(round_trip) => Some(Nature { round_trip, cut: None }),
            Way::Cut(len) => Some(Nature { round_trip: Duration::ZERO, cut: Some(len) }),
        };
        let link = link.map(|nature| Link::to(server.address(), nature));
        let mut bench = Bench { options: &options, images: &images, server: &server, link };
        let row = bench.row(work);
        println!("{}", report::table(std::slice::from_ref(&row)).lines().skip(2).collect::<Vec<_>>().join("\n"));
        rows.push(row);
    }
    let registries = registry::Bench::start(&options.importer, &images, options.runs);
    for row in registries.rows(&options.only) {
        println!("{}", report::table(std::slice::from_ref(&row)).lines().skip(2).collect::<Vec<_>>().join("\n"));
        rows.push(row);
    }
    drop(registries);
    let (met, all) = report::score(&rows);
    println!("\n{}\n{met} of {all} bars met", report::table(&rows));
    let whole = options.only.is_empty() && options.runs >= 3 && options.gib == 6;
    if whole {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("RESULTS.md");
        report::write(&page, &rows, &images.describe(), options.runs, "make bench");
        println!("written to {}", page.display());
    }
    ExitCode::SUCCESS
}

struct Bench<'a> {
    options: &'a Options,
    images: &'a Images,
    server: &'a Nginx,
    link: Option<Link>,
}

impl Bench<'_> {
    fn row(&mut self, work: &Work) -> Row {
        let out = self.images.path("out.tmp");
        let expect = work.expect.map(|name| self.images.path(name));
        self.warm(work);
        let mut ours = Vec::new();
        let mut theirs: Vec<Vec<Usage>> = work.rivals.iter().map(|_| Vec::new()).collect();
        let (mut stored, mut carried) = (0, 0);
        for run in 0..self.options.runs {
            eprintln!("{}: run {} of {}, load {}", work.name, run + 1, self.options.runs, report::load());
            ours.push(self.timed(&mut self.ours(work, &out)));
            carried = self.link.as_mut().map_or(0, Link::take_carried).max(carried);
            if let Some(expect) = &expect {
                if run == 0 {
                    let at = differ(&out, expect);
                    assert!(at.is_none(), "{}: the output differs from the disk at {at:?}", work.name);
                }
                stored = allocated(&out);
            }
            remove(&out);
            for (rival, usages) in work.rivals.iter().zip(&mut theirs) {
                usages.push(self.timed(&mut self.theirs(work, rival, &out)));
                remove(&out);
            }
        }
        let ours = median(ours);
        let data = expect.as_deref().map_or(0, allocated);
        let mut checks = Vec::new();
        for (rival, usages) in work.rivals.iter().zip(theirs) {
            let wall = median(usages).wall;
            checks.push(Check {
                against: rival.name.to_owned(),
                theirs: format!("{} s", report::seconds(wall)),
                value: ours.wall.as_secs_f64() / wall.as_secs_f64(),
                bar: rival.bar,
            });
        }
        let mut absolute = |against: &str, unit: &str, limit: f64, value: f64| {
            checks.push(Check {
                against: against.to_owned(),
                theirs: format!("{limit} {unit}"),
                value: value / limit,
                bar: 1.0,
            });
        };
        if let Way::Cut(_) = work.way {
            let size = fs::metadata(self.images.path(work.image)).expect("the image").len();
            absolute("bytes that came", "× image", CARRIED, carried as f64 / size as f64);
        } else if work.rivals.is_empty() {
            absolute("time", "s", EMPTY_SECONDS, ours.wall.as_secs_f64());
        }
        absolute("peak RSS", "MiB", work.memory as f64, report::mib(ours.rss));
        if data > 0 {
            absolute("written", "× data", WRITTEN, ours.written as f64 / data as f64);
            absolute("allocated", "× data", WRITTEN, stored as f64 / data as f64);
        }
        Row { name: work.name, ours, data, stored, checks }
    }

    fn url(&self, work: &Work) -> String {
        self.link.as_ref().map_or_else(|| self.server.url(work.image), |link| link.url(work.image))
    }

    fn ours(&self, work: &Work, out: &Path) -> Command {
        let mut command = tool(&self.options.importer.to_string_lossy());
        command.args(["copy", "--progress", "none"]).arg(self.url(work));
        if work.expect.is_some() {
            command.arg(out)
        } else {
            command.arg("null:")
        };
        command
    }

    fn theirs(&self, work: &Work, rival: &Rival, out: &Path) -> Command {
        let mut command = tool("sh");
        command.args(["-euc", rival.script, "rival"]);
        command.arg(self.images.path(work.image)).arg(self.url(work)).arg(out);
        command
    }

    fn timed(&self, command: &mut Command) -> Usage {
        measure(command).unwrap_or_else(|why| panic!("{why}"))
    }

    /// Brings the image into memory, the same for all.
    fn warm(&self, work: &Work) {
        fixtures::run(tool("sh").args(["-euc", r#"cat "$1" > /dev/null"#, "warm"]).arg(self.images.path(work.image)));
    }
}

fn remove(out: &Path) {
    if out.exists() {
        fs::remove_file(out).expect("removing an output");
    }
}

/// The run whose wall time is the middle one, with the largest memory of all.
fn median(mut runs: Vec<Usage>) -> Usage {
    let rss = runs.iter().map(|usage| usage.rss).max().unwrap_or(0);
    runs.sort_by_key(|usage| usage.wall);
    Usage { rss, ..runs[runs.len() / 2] }
}

fn options() -> Result<Options, String> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let mut options = Options {
        importer: PathBuf::from("target/release/importer"),
        runs: 5,
        only: String::new(),
        gib: 6,
        cache: cache.unwrap_or_else(std::env::temp_dir).join("millrace"),
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match &*arg {
            "--importer" => options.importer = value()?.into(),
            "--runs" => options.runs = number(&value()?)?.max(1) as usize,
            "--quick" => options.runs = 1,
            "--only" => options.only = value()?,
            "--gib" => options.gib = number(&value()?)?.max(1),
            "--cache" => options.cache = value()?.into(),
            _ => return Err(format!("there is no {arg}")),
        }
    }
    if !options.importer.is_file() {
        return Err(format!("{} is not there: cargo build --release -p importer", options.importer.display()));
    }
    // The rivals' scripts run elsewhere.
    options.importer = options.importer.canonicalize().map_err(|error| error.to_string())?;
    Ok(options)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|error| format!("{text}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_median_is_the_middle_run_with_the_largest_memory() {
        let run = |wall, rss| Usage { wall: Duration::from_secs(wall), cpu: Duration::ZERO, rss, written: wall };
        let middle = median(vec![run(9, 1), run(1, 7), run(4, 2)]);
        assert_eq!((middle.wall.as_secs(), middle.rss, middle.written), (4, 7, 4));
    }

    #[test]
    fn a_bar_that_is_missed_is_said_to_be() {
        let check = |value| Check { against: "x".into(), theirs: "1 s".into(), value, bar: 0.4 };
        let row = Row {
            name: "work",
            ours: Usage { wall: Duration::from_secs(1), cpu: Duration::ZERO, rss: 1 << 20, written: 10 },
            data: 10,
            stored: 10,
            checks: vec![check(0.4), check(0.41)],
        };
        assert_eq!(report::score(std::slice::from_ref(&row)), (1, 2));
        let table = report::table(&[row]);
        let lines: Vec<&str> = table.lines().skip(2).collect();
        assert!(lines[0].ends_with("| 0.40 | 0.4 | PASS |"), "{table}");
        assert!(lines[1].ends_with("| 0.41 | 0.4 | MISS |"), "{table}");
    }
}
