//! The program as it runs, and curl before it.

#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "only tests use this; clippy allows it only inside the test functions")]

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fixtures::http::{Authority, Identity};
use fixtures::{run, tool};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PSS_SHA256, RsaKeyPair};

/// The program, until it is dropped.
pub struct Running {
    pub child: Child,
    /// Where it listens, as it says itself.
    pub url: String,
}

impl Running {
    /// Starts `uploader ARGS`, and waits until it listens.
    pub fn start<A: AsRef<OsStr>>(args: &[A]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_uploader"));
        command.args(args).args(["--listen", "127.0.0.1:0"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { child, url }
    }

    /// `127.0.0.1:PORT`
    pub fn address(&self) -> &str {
        self.url.split_once("://").unwrap().1
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What curl got: the status, 0 where there was none, and the text.
pub fn curl<A: AsRef<OsStr>>(args: &[A]) -> (u16, String) {
    let output = command(args).output().unwrap();
    read(&output.stdout, &output.stderr)
}

/// curl with these arguments, which prints the status behind the text.
pub fn command<A: AsRef<OsStr>>(args: &[A]) -> Command {
    let mut command = tool("curl");
    command.args(["--silent", "--show-error", "--max-time", "120", "--noproxy", "*", "--write-out", "\n%{http_code}"]);
    command.args(args);
    command
}

/// What such a curl has printed.
pub fn read(out: &[u8], err: &[u8]) -> (u16, String) {
    let out = String::from_utf8_lossy(out);
    let (text, status) = out.rsplit_once('\n').unwrap_or_default();
    (status.parse().unwrap_or(0), format!("{text}{}", String::from_utf8_lossy(err)))
}

/// Files with what makes connections secure.
pub struct Pki {
    dir: tempfile::TempDir,
    authority: Authority,
}

impl Pki {
    pub fn new() -> Self {
        let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new("test"));
        fs::write(dir.path().join("ca.pem"), authority.pem()).unwrap();
        Self { dir, authority }
    }

    pub fn file(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A certificate for this machine, in `FILE.pem` and `FILE.key`.
    pub fn server(&self, file: &str) {
        self.save(file, &self.authority.issue(&["127.0.0.1", "localhost"]));
    }

    /// A certificate for a client with this common name.
    pub fn client(&self, file: &str, name: &str) {
        self.save(file, &self.authority.issue_to(name, &[]));
    }

    /// Replaces files as everything does that replaces secrets.
    pub fn save(&self, file: &str, identity: &Identity) {
        for (ending, text) in [("pem", identity.chain_pem()), ("key", identity.key_pem())] {
            fs::write(self.path("new"), text).unwrap();
            fs::rename(self.path("new"), self.path(&format!("{file}.{ending}"))).unwrap();
        }
    }

    /// Options of `uploader` for this certificate.
    pub fn options(&self, file: &str) -> Vec<String> {
        let (certificate, key) = (self.file(&format!("{file}.pem")), self.file(&format!("{file}.key")));
        vec!["--tls-cert".into(), certificate, "--tls-key".into(), key]
    }

    /// Options of curl to show this certificate, and to trust the authority.
    pub fn shown(&self, file: &str) -> Vec<String> {
        let (certificate, key) = (self.file(&format!("{file}.pem")), self.file(&format!("{file}.key")));
        vec!["--cacert".into(), self.file("ca.pem"), "--cert".into(), certificate, "--key".into(), key]
    }
}

/// A disk in which no block is like another, so that none is left out.
pub fn disk(len: usize) -> Vec<u8> {
    let block = |at: usize| u8::try_from((at / 7 + at / 4096) % 255 + 1).unwrap();
    (0..len).map(block).collect()
}

/// Strings from all kinds of lists.
pub fn list(parts: &[&[String]], more: &[&str]) -> Vec<String> {
    parts.iter().flat_map(|part| part.iter().cloned()).chain(more.iter().map(|&one| one.to_owned())).collect()
}

/// The path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Who issues tokens, with a key made by openssl.
pub struct Issuer {
    dir: tempfile::TempDir,
    key: RsaKeyPair,
}

impl Issuer {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for args in [
            &["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", "key.pem"][..],
            &["pkcs8", "-topk8", "-nocrypt", "-in", "key.pem", "-outform", "DER", "-out", "key"],
            &["pkey", "-in", "key.pem", "-pubout", "-out", "public.pem"],
        ] {
            run(tool("openssl").current_dir(dir.path()).args(args));
        }
        let key = RsaKeyPair::from_pkcs8(&fs::read(dir.path().join("key")).unwrap()).unwrap();
        Self { dir, key }
    }

    pub fn public_key(&self) -> PathBuf {
        self.dir.path().join("public.pem")
    }

    /// A token that is good until this second.
    pub fn until(&self, expires: u64, name: &str) -> String {
        let claims = serde_json::json!({
            "iss": "cdi-apiserver", "iat": 1000, "nbf": 1000, "exp": expires,
            "operation": "Upload", "name": name, "namespace": "images",
            "resource": { "group": "", "version": "v1", "resource": "persistentvolumeclaims" },
        });
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let signed = format!("{}.{}", part("{\"alg\":\"PS256\"}"), part(&claims.to_string()));
        let mut signature = vec![0; self.key.public().modulus_len()];
        self.key.sign(&RSA_PSS_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    /// The header with a token that is good.
    pub fn header(&self, name: &str) -> String {
        format!("Authorization: Bearer {}", self.until(1 << 40, name))
    }
}
