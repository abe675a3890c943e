//! The proxy, with curl before it and upload servers behind it.

#![allow(clippy::unwrap_used, reason = "this is a test; clippy allows it only inside the test functions")]

mod running;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use running::{Issuer, Pki, Running, command, curl, disk, list, read, text};
use uploader::cors::Cors;
use uploader::proxy::{Counters, NotReady, Object, Proxy, Settings, Target, Targets, Tokens, Upstream};
use uploader::server::Server;

fn serve(target: &Path) -> Running {
    Running::start(&["serve", "--target", text(target)])
}

fn proxy(issuer: &Issuer, upstream: &str, more: &[&str]) -> Running {
    let key = issuer.public_key();
    let args = [&["proxy", "--public-key", text(&key), "--upstream", upstream, "--wait", "0"][..], more].concat();
    Running::start(&args)
}

/// curl that sends what is written to it, through a proxy.
fn sending(proxy: &Running, token: &str, first: &[u8]) -> (std::process::Child, std::process::ChildStdin) {
    let mut sending = command(&["-H", token, "-T", "-", &format!("{}/upload", proxy.url)]);
    let mut sending = sending.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut bytes = sending.stdin.take().unwrap();
    bytes.write_all(first).unwrap();
    (sending, bytes)
}

/// Waits until something has come.
fn begun(server: &Running) {
    while !curl(&[format!("{}/upload", server.url)]).1.contains("received") {}
}

#[test]
fn a_token_is_for_one_upload_over_tls_on_both_sides() {
    let (dir, pki, issuer) = (tempfile::tempdir().unwrap(), Pki::new(), Issuer::new());
    pki.server("server");
    pki.client("proxy", "client.upload-server.cdi.kubevirt.io");
    let (image, target, ca) = (dir.path().join("image"), dir.path().join("disk.raw"), pki.file("ca.pem"));
    fs::write(&image, disk(3 << 20)).unwrap();
    let place = ["serve", "--target", text(&target)].map(str::to_owned);
    let named = ["--client-ca", &ca, "--client-name", "client.upload-server.cdi.kubevirt.io"];
    let server = Running::start(&list(&[&place, &pki.options("server")], &named));
    let upstream = format!("https://localhost:{}", server.address().rsplit_once(':').unwrap().1);
    let (certificate, key) = (pki.file("proxy.pem"), pki.file("proxy.key"));
    let mutual = ["--server-ca", &ca, "--client-cert", &certificate, "--client-key", &key];
    let tls = pki.options("server");
    let tls: Vec<&str> = tls.iter().map(String::as_str).collect();
    let proxy = proxy(&issuer, &upstream, &[&mutual[..], &tls].concat());
    let (url, token) = (format!("{}/v1beta1/upload", proxy.url), issuer.header("disk"));
    let send = |more: &[&str]| curl(&[&["--cacert", &ca, "-F", &format!("file=@{}", text(&image))][..], more].concat());
    let form = format!("{url}-form");
    for (header, status) in [
        (None, 400),
        (Some("Authorization: Basic YTpi".to_owned()), 400),
        (Some("Authorization: Bearer a.b.c".to_owned()), 401),
        (Some(format!("Authorization: Bearer {}", issuer.until(1, "disk"))), 401),
        (Some(Issuer::new().header("disk")), 401),
    ] {
        let header: Vec<&str> = header.iter().flat_map(|header| ["-H", header.as_str()]).collect();
        let (found, said) = send(&[&header[..], &[form.as_str()]].concat());
        assert_eq!(found, status, "{header:?}: {said}");
        assert!(said.contains("token") || said.contains("Bearer"), "{said}");
    }
    let (status, said) = send(&["-H", &token, &format!("{}/v1beta1/nothing", proxy.url)]);
    assert!(status == 404 && said.contains("/v1beta1/upload"), "{status} {said}");
    let (status, said) = send(&["-H", &token, &form]);
    assert_eq!(status, 200, "{said}");
    assert!(fs::read(&target).unwrap() == disk(3 << 20));
}

#[test]
fn pages_of_other_origins_may_ask_first() {
    let issuer = Issuer::new();
    let proxy = proxy(&issuer, "http://127.0.0.1:1", &[]);
    let url = format!("{}/v1beta1/upload", proxy.url);
    let asked = ["-i", "-H", "Origin: https://cloud.example", url.as_str()];
    let preflight = ["-X", "OPTIONS", "-H", "Access-Control-Request-Method: POST"];
    let (status, said) =
        curl(&[&preflight[..], &["-H", "Access-Control-Request-Headers: authorization"], &asked].concat());
    assert_eq!(status, 204, "{said}");
    let said = said.to_lowercase();
    assert!(said.contains("access-control-allow-origin: *"), "{said}");
    assert!(said.contains("access-control-allow-headers: authorization"), "{said}");
    let (status, said) = curl(&asked);
    assert!(status == 400 && said.to_lowercase().contains("access-control-allow-origin: *"), "{said}");
    assert_eq!(curl(&[format!("{}/healthz", proxy.url)]), (200, "OK\n".to_owned()));
}

#[test]
fn who_is_not_ready_is_told_with_the_reason() {
    let issuer = Issuer::new();
    // Nobody listens where somebody has.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = proxy(&issuer, &format!("http://{nobody}"), &[]);
    let url = format!("{}/v1beta1/upload", proxy.url);
    let (status, said) = curl(&["-i", "-X", "POST", "-d", "x", "-H", &issuer.header("disk"), &url]);
    assert!(status == 503 && said.contains("images/disk is not ready: it is not reachable"), "{said}");
    assert!(said.to_lowercase().contains("\nretry-after: 5\r"), "{said}");
    let (status, said) = curl(&["-i", "-H", &issuer.header("<script>alert(1)</script>"), &url]);
    assert!(status == 503 && said.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && !said.contains('<'), "{said}");
    let said = said.to_lowercase();
    assert!(said.contains("content-type: text/plain") && said.contains("nosniff"), "{said}");
}

#[test]
fn a_proxy_that_is_killed_costs_nothing_but_a_connection() {
    let (dir, issuer, disk) = (tempfile::tempdir().unwrap(), Issuer::new(), disk(4 << 20));
    let target = dir.path().join("disk.raw");
    let server = serve(&target);
    let token = issuer.header("disk");
    let mut first = proxy(&issuer, &server.url, &[]);
    let (mut cut, bytes) = sending(&first, &token, &disk[..3 << 20]);
    begun(&server);
    first.child.kill().unwrap();
    drop(bytes);
    cut.wait().unwrap();
    let second = proxy(&issuer, &server.url, &[]);
    let url = format!("{}/upload", second.url);
    let (status, said) = curl(&["-I", "-H", &token, &url]);
    let said = said.to_lowercase();
    let offset = said.lines().find_map(|line| line.strip_prefix("upload-offset: ")).unwrap();
    let offset: usize = offset.trim().parse().unwrap();
    assert!(status == 200 && offset > 0 && offset <= 3 << 20, "{said}");
    let rest = dir.path().join("rest");
    fs::write(&rest, &disk[offset..]).unwrap();
    let range = format!("Content-Range: bytes {offset}-{}/{}", disk.len() - 1, disk.len());
    let (status, said) = curl(&["-H", &token, "-H", &range, "-T", text(&rest), &url]);
    assert_eq!(status, 200, "{said}");
    assert!(fs::read(&target).unwrap() == disk);
}

#[test]
fn a_server_that_dies_is_told() {
    let (dir, issuer) = (tempfile::tempdir().unwrap(), Issuer::new());
    let mut server = serve(&dir.path().join("disk.raw"));
    let proxy = proxy(&issuer, &server.url, &[]);
    let (sending, bytes) = sending(&proxy, &issuer.header("disk"), &disk(1 << 20));
    begun(&server);
    server.child.kill().unwrap();
    // curl waits for more before it looks at the answer.
    drop(bytes);
    let output = sending.wait_with_output().unwrap();
    let (status, said) = read(&output.stdout, &output.stderr);
    assert!(status == 502 && said.contains("the upload server is gone"), "{status} {said}");
}

#[test]
fn uploads_side_by_side() {
    let (dir, issuer, disk) = (tempfile::tempdir().unwrap(), Issuer::new(), disk(4 << 20));
    let image = dir.path().join("image");
    fs::write(&image, &disk).unwrap();
    let ways: Vec<_> = (0..4)
        .map(|number| {
            let server = serve(&dir.path().join(format!("{number}.raw")));
            let proxy = proxy(&issuer, &server.url, &[]);
            let url = format!("{}/upload", proxy.url);
            let mut sending = command(&["-H", &issuer.header("disk"), "-T", text(&image), &url]);
            let sending = sending.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            (server, proxy, sending)
        })
        .collect();
    for (number, (server, proxy, sending)) in ways.into_iter().enumerate() {
        let output = sending.wait_with_output().unwrap();
        let (status, said) = read(&output.stdout, &output.stderr);
        assert_eq!(status, 200, "{said}");
        assert!(fs::read(dir.path().join(format!("{number}.raw"))).unwrap() == disk);
        drop((server, proxy));
    }
}

/// A server that is ready, and reads what is sent to it in little pieces.
fn slow() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap().to_lowercase();
            if head.contains("expect: 100-continue") {
                stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
            }
            let len = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut left: usize = len.map_or(0, |len| len.parse().unwrap());
            let mut piece = [0; 4096];
            while left > 0 {
                let len = stream.read(&mut piece).unwrap();
                assert!(len > 0, "it was cut");
                left -= len;
            }
            // Whoever asked may be gone.
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nOK");
        }
    });
    address
}

#[test]
fn a_slow_server_costs_no_memory() {
    let (dir, issuer) = (tempfile::tempdir().unwrap(), Issuer::new());
    let image = dir.path().join("image");
    fs::File::create(&image).unwrap().set_len(192 << 20).unwrap();
    let proxy = proxy(&issuer, &format!("http://{}", slow()), &[]);
    let url = format!("{}/upload", proxy.url);
    let (status, said) = curl(&["-H", &issuer.header("disk"), "-T", text(&image), &url]);
    assert_eq!(status, 200, "{said}");
    let peak = fs::read_to_string(format!("/proc/{}/status", proxy.child.id())).unwrap();
    let peak = peak.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: usize = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(kib < 48 << 10, "{kib} KiB");
}

/// A target that is not ready at first.
struct Late {
    asked: AtomicU64,
    address: SocketAddr,
}

impl Targets for Late {
    async fn find(&self, _: &Object) -> Result<Target, NotReady> {
        if self.asked.fetch_add(1, Ordering::SeqCst) < 2 {
            return Err(NotReady::yet("the pod waits for its image"));
        }
        Ok(Target { secure: false, host: self.address.ip().to_string(), port: self.address.port() })
    }
}

fn exchange(proxy: SocketAddr, token: &str, counters: &Counters, between: impl FnOnce()) -> String {
    let mut stream = TcpStream::connect(proxy).unwrap();
    let head = format!(
        "POST /v1beta1/upload HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 10\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let before = counters.bytes();
    stream.write_all(b"01234").unwrap();
    if counters.bytes() == 0 {
        while counters.bytes() < before + 5 {
            std::thread::yield_now();
        }
    }
    between();
    stream.write_all(b"56789").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_token_may_expire_while_bytes_come_and_a_target_may_be_late() {
    let issuer = Issuer::new();
    let time = Arc::new(AtomicU64::new(1100));
    let clock = Arc::clone(&time);
    let settings = Settings {
        interval: Duration::from_millis(1),
        clock: Arc::new(move || SystemTime::UNIX_EPOCH + Duration::from_secs(clock.load(Ordering::SeqCst))),
        ..Settings::default()
    };
    let tokens = Tokens::file(issuer.public_key()).unwrap();
    let targets = Late { asked: AtomicU64::new(0), address: slow() };
    let proxy = Proxy::new(tokens, targets, Arc::new(Upstream::plain()), Cors::default(), settings);
    let counters = proxy.counters();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = runtime.block_on(Server::bind(proxy, "127.0.0.1:0".parse().unwrap(), None, Duration::ZERO)).unwrap();
    let address = server.address().unwrap();
    runtime.spawn(server.run(std::future::pending()));
    let token = issuer.until(1300, "disk");
    let answer = exchange(address, &token, &counters, || time.store(9999, Ordering::SeqCst));
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nOK"), "{answer}");
    let answer = exchange(address, &token, &counters, || {});
    assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("it has expired"), "{answer}");
}
