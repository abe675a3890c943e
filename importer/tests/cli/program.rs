//! Running the program.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fixtures::images::{self, Image, Recipe};
use serde_json::Value;
use tempfile::TempDir;

/// A folder of its own for a test, in which the target of copies is `out/disk.raw`.
pub struct Place {
    dir: TempDir,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; minus the signal for a program that died of one.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Place {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("out")).unwrap();
        Self { dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A file with these bytes.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    pub fn out(&self) -> PathBuf {
        self.path().join("out")
    }

    pub fn target(&self) -> PathBuf {
        self.out().join("disk.raw")
    }

    /// `importer copy SOURCE out/disk.raw`.
    pub fn copy(&self, source: impl AsRef<OsStr>) -> Command {
        copy(source, self.target())
    }

    /// The names in the folder of the target.
    pub fn left(&self) -> Vec<String> {
        names(&self.out())
    }

    /// Fails unless the target reads as `expected`, and is alone; then removes it.
    #[track_caller]
    pub fn assert_copied(&self, expected: &Path, what: &str) {
        assert_eq!(fixtures::differ(&self.target(), expected), None, "{what}");
        assert_eq!(self.left(), ["disk.raw"], "{what}");
        fs::remove_file(self.target()).unwrap();
    }
}

/// The names in a folder, sorted.
pub fn names(dir: &Path) -> Vec<String> {
    let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = fs::read_dir(dir).unwrap().map(name).collect();
    names.sort();
    names
}

/// The program, with nothing from the environment that would change what it says.
pub fn importer() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_importer"));
    for name in ["LOG", "USER", "PASSWORD", "HEADERS"] {
        command.env_remove(format!("MILLRACE_{name}"));
    }
    command.env_remove("CONTAINERS_REGISTRIES_CONF");
    // A server that stays broken is not waited for.
    command.env("MILLRACE_ATTEMPTS", "2");
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_uppercase());
    }
    for (name, _) in std::env::vars_os() {
        if ["AWS_", "GOOGLE_", "STORAGE_"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// `importer copy SOURCE TARGET`.
pub fn copy(source: impl AsRef<OsStr>, target: impl AsRef<OsStr>) -> Command {
    let mut command = importer();
    command.arg("copy").arg(source).arg(target);
    command
}

/// Runs it to its end.
pub fn run(command: &mut Command) -> Ran {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    end(command.spawn().unwrap())
}

/// Runs it to its end with the file at `path` coming through a pipe.
pub fn run_piped(command: &mut Command, path: &Path) -> Ran {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut file = File::open(path).unwrap();
    let feeder = std::thread::spawn(move || match io::copy(&mut file, &mut stdin) {
        // It has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        result => drop(result.unwrap()),
    });
    let ran = end(child);
    feeder.join().unwrap();
    ran
}

/// Waits for the end of a program whose outputs are pipes.
pub fn end(mut child: Child) -> Ran {
    let mut out = child.stdout.take().unwrap();
    let stdout = std::thread::spawn(move || io::read_to_string(&mut out).unwrap());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    let status = child.wait().unwrap();
    let code = status.code().or(status.signal().map(|signal| -signal)).unwrap();
    Ran { code, stdout: stdout.join().unwrap(), stderr }
}

impl Ran {
    /// Fails unless it succeeded.
    #[track_caller]
    pub fn succeeded(self) -> Self {
        assert_eq!(self.code, 0, "{}", self.stderr);
        self
    }

    /// Fails unless it failed with this exit code and one line that says so; gives the line.
    #[track_caller]
    pub fn failed(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.stderr.starts_with("importer: ") && self.stderr.ends_with('\n'), "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "{self:?}");
        assert_eq!(self.stdout, "");
        self.stderr
    }

    /// What it printed, as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Runs a copy that writes a report, and gives both.
pub fn reported(command: &mut Command, place: &Place) -> (Ran, Value) {
    let path = place.path().join("report.json");
    let ran = run(command.arg("--report").arg(&path));
    (ran, report(&path))
}

/// Reads a report.
pub fn report(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Makes the image of this name.
pub fn image(name: &str, place: &Place) -> Image {
    recipe(name).build(place.path())
}

/// How the image of this name is made.
pub fn recipe(name: &str) -> Recipe {
    let mut all = images::catalogue();
    all.extend(images::wrapped());
    all.into_iter().find(|recipe| recipe.name == name).unwrap_or_else(|| panic!("no image is called {name}"))
}
