//! Registries: what goes in and comes out, and the server beside the one of the distribution project.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fixtures::registry::{Config, Registry};
use fixtures::{differ, run, tool};

use crate::images::Images;
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
        Self { importer, images, runs, ours: place(Config::dvcr(program)), theirs: place(Config::distribution()) }
    }

    /// All rows whose name has `only` in it.
    pub fn rows(&self, only: &str) -> Vec<Row> {
        let all: [(&'static str, Measure<'a>); 5] = [
            ("push qcow2, kept", Self::push_kept),
            ("push raw, zstd", Self::push_raw),
            ("pull qcow2 into a file", Self::pull),
            ("registry: blob GET", Self::get),
            ("registry: blob PUT", Self::put),
        ];
        all.into_iter().filter(|(name, _)| name.contains(only)).map(|(name, row)| row(self, name)).collect()
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

    /// A blob from both registries, asked for with curl.
    fn get(&self, name: &'static str) -> Row {
        let digest = self.put_both();
        let script = format!(r#"exec curl -sSf -o /dev/null "$1/v2/bench/blob/blobs/{digest}""#);
        self.servers(name, &script)
    }

    /// A blob to both registries, sent with curl.
    fn put(&self, name: &'static str) -> Row {
        let digest = self.put_both();
        let image = self.images.path("disk.zlib.qcow2");
        let script = put_script(&digest, &image);
        self.servers(name, &script)
    }

    /// Puts a blob into both registries; gives its digest.
    fn put_both(&self) -> String {
        let image = self.images.path("disk.zlib.qcow2");
        let sum = run(tool("sha256sum").arg(&image)).stdout;
        let digest = format!("sha256:{}", String::from_utf8_lossy(&sum).split(' ').next().unwrap_or_default());
        for place in [&self.ours, &self.theirs] {
            run(tool("sh").args([
                "-euc",
                &put_script(&digest, &image),
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
fn put_script(digest: &str, file: &Path) -> String {
    format!(
        r#"at=$(curl -sSf -X POST -o /dev/null -D - "$1/v2/bench/blob/blobs/uploads/" | tr -d '\r' | sed -n 's/^[Ll]ocation: //p')
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
fn peak(registry: &Registry) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", registry.pid())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()).unwrap_or(0) << 10
}
