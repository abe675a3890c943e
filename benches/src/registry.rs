//! Registries: what goes in and comes out, and the server beside the one of the distribution project.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fixtures::registry::{Config, Registry};
use fixtures::{differ, run, tool};

use crate::drain;
use crate::images::Images;
use crate::many::Many;
use crate::measure::{Usage, measure};
use crate::report::{self, Check, Row};
use crate::{median, remove};

/// A registry of either kind, and where it stores.
struct Place {
    registry: Registry,
    _root: tempfile::TempDir,
}

/// Measures what has to do with registries.
pub struct Bench<'a> {
    importer: &'a Path,
    program: PathBuf,
    images: &'a Images,
    runs: usize,
    ours: Place,
    theirs: Place,
}

impl<'a> Bench<'a> {
    /// Starts both registries on the disk of the images.
    pub fn start(importer: &'a Path, images: &'a Images, runs: usize) -> Self {
        let program: PathBuf = importer.with_file_name("dvcr");
        assert!(program.is_file(), "{}: not there; cargo build --release -p dvcr", program.display());
        let place = |config: Config| {
            let root = tempfile::tempdir_in(images.dir()).expect("a folder for a registry");
            Place { registry: config.root(root.path()).start(), _root: root }
        };
        let (ours, theirs) = (place(Config::dvcr(&program)), place(Config::distribution()));
        Self { importer, program, images, runs, ours, theirs }
    }

    /// All rows whose name has `only` in it.
    pub fn rows(&self, only: &str) -> Vec<Row> {
        // The disk use comes first, while there is nothing else in the registries.
        let all: [(&'static str, Measure<'a>); 8] = [
            ("registry: disk use", Self::disk),
            ("push qcow2, kept", Self::push_kept),
            ("push raw, zstd", Self::push_raw),
            ("pull qcow2 into a file", Self::pull),
            ("registry: blob GET", Self::get),
            ("registry: blob GET with curl", Self::get_by_curl),
            ("registry: blob PUT", Self::put),
            ("registry: 1000 pulls at once", Self::crowd),
        ];
        let wanted = |name: &str| name.contains(only);
        let mut rows: Vec<_> =
            all.into_iter().filter(|(name, _)| wanted(name)).map(|(name, row)| row(self, name)).collect();
        let (start, collect) = ("registry: start with 10000 images", "registry: collection of 5000 of 10000 images");
        if wanted(start) || wanted(collect) {
            let many = Many::make(&self.program);
            rows.extend(wanted(start).then(|| many.start(start, self.runs)));
            rows.extend(wanted(collect).then(|| many.collect(collect)));
        }
        rows
    }

    fn push_kept(&self, name: &'static str) -> Row {
        let image = self.images.path("disk.zlib.qcow2");
        self.push(name, &image, &image)
    }

    fn push_raw(&self, name: &'static str) -> Row {
        let image = self.images.path("disk.raw");
        run(&mut self.copy(&image, "bench/raw"));
        // What is stored: the layer as it came out.
        let stored = self.images.path("layer.tmp");
        let script = r#"digest=$(curl -sSf -H 'Accept: application/vnd.oci.image.manifest.v1+json' "$1/v2/bench/raw/manifests/v1" | tr ',{}' '\n\n\n' | grep -A3 'layer.v1' | sed -n 's/.*"\(sha256:[0-9a-f]*\)".*/\1/p' | head -1); curl -sSf -o "$2" "$1/v2/bench/raw/blobs/$digest""#;
        run(tool("sh").args(["-euc", script, "layer", &self.ours.registry.url("")]).arg(&stored));
        let row = self.push(name, &image, &stored);
        remove(&stored);
        row
    }

    /// A push, beside the hash of what is stored.
    fn push(&self, name: &'static str, image: &Path, stored: &Path) -> Row {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for number in 0..self.runs {
            eprintln!("{name}: run {} of {}", number + 1, self.runs);
            ours.push(timed(&mut self.copy(image, &format!("bench/push{number}"))));
            theirs.push(timed(tool("sha256sum").arg(stored)));
        }
        row(name, ours, vec![("sha256sum of what is stored", theirs, 1.25)])
    }

    fn pull(&self, name: &'static str) -> Row {
        run(&mut self.copy(&self.images.path("disk.zlib.qcow2"), "bench/qcow2"));
        let source = format!("docker://{}/bench/qcow2:v1", self.ours.registry.host());
        let out = self.images.path("out.tmp");
        let dir = self.images.path("pulled.tmp");
        // As people do it by hand.
        let script = r#"skopeo copy -q --src-tls-verify=false "$1" "dir:$2"; cd "$2"; layer=$(ls -S | head -1); tar -xf "$layer"; qemu-img convert -O raw disk/disk.img "$3"; cd /; rm -rf "$2""#;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for number in 0..self.runs {
            eprintln!("{name}: run {} of {}", number + 1, self.runs);
            ours.push(timed(
                tool(&self.importer.to_string_lossy()).args(["copy", "--progress", "none", &source]).arg(&out),
            ));
            if number == 0 {
                let at = differ(&out, &self.images.path("disk.raw"));
                assert!(at.is_none(), "{name}: the output differs from the disk at {at:?}");
            }
            remove(&out);
            theirs.push(timed(tool("sh").args(["-euc", script, "rival", &source]).arg(&dir).arg(&out)));
            remove(&out);
        }
        row(name, ours, vec![("skopeo copy, tar, qemu-img convert", theirs, 0.33)])
    }

    /// What both have on the disk after the same blob went into two repositories.
    fn disk(&self, name: &'static str) -> Row {
        let image = self.images.path("disk.zlib.qcow2");
        self.put_both("disk/one");
        self.put_both("disk/two");
        let size = fs::metadata(&image).expect("the image").len();
        let [ours, theirs] = [&self.ours, &self.theirs].map(|place| used(place.registry.root()) as f64 / size as f64);
        let usage = Usage { wall: Duration::ZERO, cpu: Duration::ZERO, rss: peak(&self.ours.registry), written: 0 };
        let mut checks =
            vec![Check { against: "content".into(), theirs: "1.05 × content".into(), value: ours / 1.05, bar: 1.0 }];
        checks.push(Check {
            against: "disk use of docker-registry".into(),
            theirs: format!("{theirs:.2} × content"),
            value: ours / theirs,
            bar: 1.05,
        });
        Row { name, data: 0, stored: 0, checks, ours: usage }
    }

    /// A blob from both registries, by a client that costs nothing.
    fn get(&self, name: &'static str) -> Row {
        let path = format!("/v2/bench/blob/blobs/{}", self.put_both("bench/blob"));
        self.drained(name, &path, 1)
    }

    /// A thousand who want the same at once: a raw disk in small.
    fn crowd(&self, name: &'static str) -> Row {
        let part = self.images.path("crowd.tmp");
        let whole = fs::File::open(self.images.path("disk.zlib.qcow2")).expect("the image");
        let mut bytes = Vec::new();
        whole.take(CROWD_BYTES).read_to_end(&mut bytes).expect("the image");
        fs::write(&part, &bytes).expect("a part of it");
        let digest = self.put_to_both("bench/crowd", &part);
        remove(&part);
        let mut row = self.drained(name, &format!("/v2/bench/crowd/blobs/{digest}"), CROWD);
        // Memory is bounded for itself here.
        row.checks.pop();
        row.checks.push(Check {
            against: "peak RSS".into(),
            theirs: format!("{CROWD_MIB} MiB"),
            value: report::mib(row.ours.rss) / CROWD_MIB,
            bar: 1.0,
        });
        row
    }

    /// So many pulls at once from both, by a client that costs nothing.
    fn drained(&self, name: &'static str, path: &str, count: usize) -> Row {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for number in 0..self.runs {
            eprintln!("{name}: run {} of {}", number + 1, self.runs);
            for (place, usages) in [(&self.ours, &mut ours), (&self.theirs, &mut theirs)] {
                let before = cpu(&place.registry);
                let wall = drain::pulls(place.registry.address(), path, count);
                usages.push(Usage { wall, cpu: cpu(&place.registry) - before, rss: 0, written: 0 });
            }
        }
        self.beside(name, ours, theirs)
    }

    /// A blob from both registries, asked for with curl, which is a part of the work itself.
    fn get_by_curl(&self, name: &'static str) -> Row {
        let digest = self.put_both("bench/blob");
        let script = format!(r#"exec curl -sSf -o /dev/null "$1/v2/bench/blob/blobs/{digest}""#);
        self.servers(name, &script)
    }

    /// A blob to both registries, sent with curl.
    fn put(&self, name: &'static str) -> Row {
        let digest = self.put_both("bench/blob");
        let image = self.images.path("disk.zlib.qcow2");
        let script = put_script("bench/blob", &digest, &image);
        self.servers(name, &script)
    }

    /// Puts a blob into both registries; gives its digest.
    fn put_both(&self, repository: &str) -> String {
        self.put_to_both(repository, &self.images.path("disk.zlib.qcow2"))
    }

    fn put_to_both(&self, repository: &str, image: &Path) -> String {
        let sum = run(tool("sha256sum").arg(image)).stdout;
        let digest = format!("sha256:{}", String::from_utf8_lossy(&sum).split(' ').next().unwrap_or_default());
        for place in [&self.ours, &self.theirs] {
            run(tool("sh").args([
                "-euc",
                &put_script(repository, &digest, image),
                "put",
                place.registry.url("").trim_end_matches('/'),
            ]));
        }
        digest
    }

    fn servers(&self, name: &'static str, script: &str) -> Row {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for number in 0..self.runs {
            eprintln!("{name}: run {} of {}", number + 1, self.runs);
            for (place, usages) in [(&self.ours, &mut ours), (&self.theirs, &mut theirs)] {
                let url = place.registry.url("");
                usages.push(timed(tool("sh").args(["-euc", script, "client", url.trim_end_matches('/')])));
            }
        }
        self.beside(name, ours, theirs)
    }

    /// What both servers took.
    fn beside(&self, name: &'static str, ours: Vec<Usage>, theirs: Vec<Usage>) -> Row {
        let (memory, rival) = (peak(&self.ours.registry), peak(&self.theirs.registry));
        let mut row = row(name, ours, vec![("docker-registry", theirs, 0.67)]);
        row.ours.rss = memory;
        row.checks.push(Check {
            against: "memory of docker-registry".into(),
            theirs: format!("{:.0} MiB", report::mib(rival)),
            value: report::mib(memory) / report::mib(rival),
            bar: 0.5,
        });
        row
    }

    fn copy(&self, image: &Path, repository: &str) -> Command {
        let mut command = tool(&self.importer.to_string_lossy());
        command.args(["copy", "--progress", "none"]).arg(image);
        command.arg(format!("docker://{}/{repository}:v1", self.ours.registry.host()));
        command
    }
}

/// How a row is measured.
type Measure<'a> = fn(&Bench<'a>, &'static str) -> Row;

/// Sends a file as a blob, in one request after the one that begins it.
fn put_script(repository: &str, digest: &str, file: &Path) -> String {
    format!(
        r#"at=$(curl -sSf -X POST -o /dev/null -D - "$1/v2/{repository}/blobs/uploads/" | tr -d '\r' | sed -n 's/^[Ll]ocation: //p')
case $at in /*) at=$1$at;; esac
case $at in *\?*) at="$at&";; *) at="$at?";; esac
exec curl -sSf -o /dev/null -H 'Content-Type: application/octet-stream' -T '{}' "${{at}}digest={digest}""#,
        file.display()
    )
}

fn timed(command: &mut Command) -> Usage {
    measure(command).unwrap_or_else(|why| panic!("{why}"))
}

fn row(name: &'static str, ours: Vec<Usage>, rivals: Vec<(&str, Vec<Usage>, f64)>) -> Row {
    let ours = median(ours);
    let checks = rivals.into_iter().map(|(against, usages, bar)| {
        let wall = median(usages).wall;
        Check {
            against: against.to_owned(),
            theirs: format!("{} s", report::seconds(wall)),
            value: ours.wall.as_secs_f64() / wall.as_secs_f64(),
            bar,
        }
    });
    Row { name, data: 0, stored: 0, checks: checks.collect(), ours }
}

/// The most memory a server has had, in bytes.
pub fn peak(registry: &Registry) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", registry.pid())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()).unwrap_or(0) << 10
}

/// What a server has used of the processors so far. Ticks of 10 ms on every Linux there is.
fn cpu(registry: &Registry) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", registry.pid())).unwrap_or_default();
    // The name of the program, in parentheses, may have spaces; utime and stime are the fields 14 and 15.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().skip(11).take(2);
    Duration::from_millis(fields.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10)
}

/// The bytes of storage that everything in a folder takes, the folders too.
fn used(folder: &Path) -> u64 {
    let said = run(tool("du").args(["-s", "--block-size=1"]).arg(folder)).stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    said.split_whitespace().next().and_then(|bytes| bytes.parse().ok()).expect("what du says")
}

const CROWD: usize = 1000;
const CROWD_BYTES: u64 = 8 << 20;
const CROWD_MIB: f64 = 256.0;
