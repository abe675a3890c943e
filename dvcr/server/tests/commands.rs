//! What people do with a store.

mod support;

use fixtures::http::Call;
use fixtures::oci::push;
use rustix::process::Signal;
use support::{dvcr, image, output, run};

#[test]
fn list_remove_collect_check() {
    let registry = dvcr().start();
    let wire = registry.wire();
    let (one, two) = (image(b"one"), image(b"two"));
    push(&wire, "cvi/a", "v1", &one);
    push(&wire, "cvi/a", "v2", &two);
    push(&wire, "vi/ns/b", "v1", &one);
    let root = registry.root();
    let lines = output("ls", root, &[]);
    assert_eq!(
        lines.lines().map(|line| line.split('\t').next().unwrap()).collect::<Vec<_>>(),
        ["cvi/a:v1", "cvi/a:v2", "vi/ns/b:v1"]
    );
    assert!(lines.contains(&one.digest()) && lines.contains(&two.digest()));
    let json: serde_json::Value = serde_json::from_str(&output("ls", root, &["vi/ns/b", "--json"])).unwrap();
    assert_eq!((json["name"].as_str(), json["tag"].as_str()), (Some("vi/ns/b"), Some("v1")));
    output("rm", root, &["cvi/a:v1", "vi/ns/b:v1"]);
    assert!(output("gc", root, &["--dry-run"]).starts_with("would remove"));
    let said = output("gc", root, &[]);
    assert!(said.contains("of 2 repositories"), "{said}");
    assert_eq!(output("ls", root, &["--untagged"]).lines().count(), 1);
    assert!(output("check", root, &[]).contains("1 repositories, 1 manifests, 1 tags: all sound"));
    output("rm", root, &["--all", "cvi/a"]);
    output("gc", root, &[]);
    assert_eq!(output("ls", root, &[]), "");
    assert!(output("check", root, &[]).starts_with("0 contents"));
}

#[test]
fn what_stays_is_said_with_when_it_can_go() {
    let registry = dvcr().start();
    let (wire, root) = (registry.wire(), registry.root());
    let one = image(b"one");
    push(&wire, "a", "v1", &one);
    // As clients do before they push: what is there they leave out.
    let blob = format!("/v2/a/blobs/{}", one.blobs[0].digest());
    assert_eq!(wire.send(&Call::new("HEAD", &blob)).unwrap().status, 200);
    output("rm", root, &["a:v1"]);
    let said = output("gc", root, &["--grace", "0"]);
    assert!(
        said.contains("1 manifests and blobs that nobody needs stay for now") && said.contains("again in "),
        "{said}"
    );
    let when = said.trim().rsplit("in ").next().unwrap();
    assert!(when == "10m" || when.starts_with("9m "), "{said}");
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let registry = dvcr().start();
    let manifest = image(b"one");
    push(&registry.wire(), "a", "v1", &manifest);
    let root = registry.root().to_owned();
    let nowhere = root.join("nowhere");
    let occupied = registry.host();
    let cases: [(&str, &std::path::Path, &[&str], i32, &str); 9] = [
        ("ls", &nowhere, &[], 2, "is no store of dvcr"),
        ("rm", &root, &["a:v9"], 4, "a has no manifest v9"),
        ("rm", &root, &["a"], 2, "names a whole repository"),
        ("rm", &root, &["../a:v1"], 2, "is no name of a repository"),
        ("ls", &root, &["b"], 4, "there is no repository b"),
        ("gc", &root, &["--keep", "/does/not/exist"], 2, "no such file"),
        ("gc", &root, &["--grace", "soon"], 2, "write it as 90s"),
        ("serve", &root, &["--listen", &occupied], 2, "can't be listened on: address already in use"),
        ("serve", &root, &["--listen", "127.0.0.1:0", "--htpasswd", "/nowhere"], 2, "/nowhere: no such file"),
    ];
    for (command, root, args, code, words) in cases {
        let output = run(command, root, args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{command} {args:?}: {said}");
        assert!(said.contains(words) && said.lines().count() == 1, "{command} {args:?}: {said}");
    }
    let hex = &manifest.blobs[0].digest()["sha256:".len()..].to_owned();
    let content = root.join("blobs/sha256").join(&hex[..2]).join(hex);
    std::fs::remove_file(&content).unwrap();
    std::fs::write(&content, "others").unwrap();
    let output = run("check", &root, &[]);
    assert_eq!(output.status.code(), Some(7));
    assert!(String::from_utf8(output.stdout).unwrap().contains(&format!("sha256:{hex}: its bytes are others")));
}

#[test]
fn collects_by_itself_and_tells_on_another_address() {
    let options = ["--gc-interval", "1s", "--grace", "0", "--metrics-listen", "127.0.0.1:0"];
    let registry = options.into_iter().fold(dvcr(), |config, one| config.with(one)).start();
    let wire = registry.wire();
    let image = image(b"one");
    push(&wire, "a", "v1", &image);
    assert_eq!(wire.send(&Call::new("GET", "/metrics")).unwrap().status, 404, "metrics are not for everybody");
    let delete = Call::new("DELETE", &format!("/v2/a/manifests/{}", image.digest()));
    assert_eq!(wire.send(&delete).unwrap().status, 202);
    let hex = &image.digest()["sha256:".len()..].to_owned();
    let content = registry.root().join("blobs/sha256").join(&hex[..2]).join(hex);
    while content.exists() {
        std::thread::yield_now();
    }
}

#[test]
fn requests_are_logged_with_why_they_were_refused() {
    let registry = dvcr().with("--log").with("json").start();
    let wire = registry.wire();
    assert_eq!(wire.send(&Call::new("GET", "/v2/a/manifests/v1").header("User-Agent", "me/1")).unwrap().status, 404);
    let line = loop {
        let said = registry.said();
        if let Some(line) = said.lines().find(|line| line.contains("/v2/a/manifests/v1")) {
            break serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
        std::thread::yield_now();
    };
    assert_eq!(
        (line["status"].as_u64(), line["method"].as_str(), line["agent"].as_str()),
        (Some(404), Some("GET"), Some("me/1"))
    );
    assert_eq!(line["error"], "a has no manifest v1");
}

#[test]
fn ends_when_it_is_told_and_not_when_files_change() {
    let registry = dvcr().start();
    registry.signal(Signal::HUP);
    push(&registry.wire(), "a", "v1", &image(b"one"));
    let (succeeded, _) = registry.finish();
    assert!(succeeded);
}
