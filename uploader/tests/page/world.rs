//! A running program, images to send, and a browser.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fixtures::browser::{Browser, Element};
use fixtures::content::Pattern;
use fixtures::{run, tool};
use tempfile::TempDir;

use crate::gate::Gate;

/// A running program. Dropping it ends it.
pub struct World {
    child: Child,
    pub address: SocketAddr,
    dir: TempDir,
    place: Vec<String>,
}

/// Large enough to be held in the middle of its third part.
pub const SIZE: u64 = 24 << 20;
pub const SECRET: &str = "s3cr3t-of-16-letters";

impl World {
    /// `uploader serve --target`, with a secret in its address.
    pub fn one() -> Self {
        Self::start(&["--target", "out/disk.raw", "--token-file", "token"])
    }

    /// `uploader serve --root`, with a token.
    pub fn folder() -> Self {
        Self::start(&["--root", "out", "--token-file", "token"])
    }

    fn start(place: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("out")).unwrap();
        fs::write(dir.path().join("token"), SECRET).unwrap();
        let place: Vec<_> = place.iter().map(|&word| word.to_owned()).collect();
        let (child, address) = serve(dir.path(), &place, "127.0.0.1:0");
        Self { child, address, dir, place }
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again at the same address.
    pub fn start_again(&mut self) {
        (self.child, self.address) = serve(self.dir.path(), &self.place, &self.address.to_string());
    }

    /// A raw disk, and an image of it.
    pub fn image(&self, name: &str) -> (PathBuf, PathBuf) {
        let raw = Pattern::Noise.disk(self.dir.path(), SIZE);
        let image = self.dir.path().join(name);
        run(tool("qemu-img").args(["convert", "-f", "raw", "-O", "qcow2"]).args([&raw, &image]));
        (raw, image)
    }

    /// A file to send.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// A file that the program made.
    pub fn disk(&self, name: &str) -> PathBuf {
        self.dir.path().join("out").join(name)
    }

    /// How many files the program has left.
    pub fn left(&self) -> usize {
        fs::read_dir(self.dir.path().join("out")).unwrap().count()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(dir: &Path, place: &[String], listen: &str) -> (Child, SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uploader"));
    command.current_dir(dir).arg("serve").args(place).args(["--listen", listen]);
    let log = File::options().create(true).append(true).open(dir.join("log")).unwrap();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit('/').next().unwrap().parse();
    let address = address.unwrap_or_else(|_| panic!("{line}{}", fs::read_to_string(dir.join("log")).unwrap()));
    (child, address)
}

/// Opens the page of the one upload.
pub fn open(browser: &Browser, address: SocketAddr) {
    browser.open(&format!("http://{address}/upload/{SECRET}"));
    wait(browser, "idle");
}

/// Chooses a file, as people do.
pub fn choose(browser: &Browser, path: &Path) {
    browser.element("#file").type_in(path.to_str().unwrap());
}

/// A browser that sends `image`, held up on its way after 8 MiB.
pub fn sending(world: &World, image: &Path) -> (Gate, Browser) {
    let gate = Gate::to(world.address, 8 << 20);
    let browser = Browser::start();
    open(&browser, gate.address);
    choose(&browser, image);
    gate.wait_until_it_holds();
    (gate, browser)
}

/// Waits until the page has come so far.
pub fn wait(browser: &Browser, state: &str) {
    browser.until(&format!("document.querySelector('main').dataset.state === '{state}'"));
}

/// The button with this name.
pub fn button<'a>(browser: &'a Browser, name: &str) -> Element<'a> {
    let all = browser.elements("button");
    let found = all.into_iter().find(|button| button.is_shown() && button.label() == name);
    found.unwrap_or_else(|| panic!("there is no button {name}"))
}

/// What the page says.
pub fn text(browser: &Browser) -> String {
    browser.element("main").text()
}

/// What the browser has complained of, but for answers that are refusals, and for a page that may not ask whether it is to
/// be left because nobody has touched it.
pub fn complaints(browser: &Browser) -> Vec<String> {
    let known = |line: &str| line.starts_with("\"network\"") || line.starts_with("\"intervention\"");
    browser.log().into_iter().filter(|line| !known(line)).collect()
}
