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
    let only = output("ls", root, &["cvi/a:v2"]);
    assert!(only.starts_with(&format!("cvi/a:v2\t{}", two.digest())) && only.lines().count() == 1, "{only}");
    assert_eq!(output("ls", root, &[&format!("cvi/a@{}", one.digest())]).lines().count(), 1);
    output("rm", root, &["cvi/a:v1", "vi/ns/b:v1"]);
    assert!(output("gc", root, &["--dry-run"]).starts_with("would remove"));
    let said = output("gc", root, &[]);
    assert!(said.contains("of 2 repositories; freed 3 blobs, "), "{said}");
    assert_eq!(output("ls", root, &["--untagged"]).lines().count(), 1);
    assert!(output("check", root, &[]).contains("1 repositories, 1 manifests, 1 tags: all sound"));
    output("rm", root, &["--all", "cvi/a"]);
    output("gc", root, &[]);
    let said = run("ls", root, &[]);
    assert!(said.status.success() && said.stdout.is_empty(), "{said:?}");
    assert!(String::from_utf8(said.stderr).unwrap().contains("the store is empty"));
    assert!(output("check", root, &[]).starts_with("0 blobs"));
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
        said.contains("1 manifests and blobs that nobody needs stay for now whatever --grace is, because a push"),
        "{said}"
    );
    let when = said.trim().rsplit("in ").next().unwrap();
    assert!(when == "10m" || when.starts_with("9m "), "{said}");
    // And the other reason.
    push(&wire, "b", "v1", &image(b"two"));
    push(&wire, "b", "v1", &image(b"three"));
    let said = output("gc", root, &[]);
    assert!(
        said.contains("1 manifests that nobody needs stay for now, because they are younger than --grace"),
        "{said}"
    );
}

#[test]
fn what_has_no_tag_is_not_listed_but_said() {
    let registry = dvcr().start();
    let (wire, root) = (registry.wire(), registry.root());
    push(&wire, "a", "v1", &image(b"one"));
    push(&wire, "a", "v1", &image(b"two"));
    assert_eq!(wire.send(&Call::new("DELETE", "/v2/a/manifests/v1")).unwrap().status, 202);
    for (args, words) in [(&["a"][..], "a has no tags, and 2 manifests without one"), (&[], "the store has no tags")] {
        let output = run("ls", root, args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && output.stdout.is_empty() && said.contains(words), "{said}");
    }
    assert_eq!(output("ls", root, &["a", "--untagged"]).lines().count(), 2);
}

#[test]
fn what_is_damaged_is_discarded_and_pushed_again() {
    let registry = dvcr().start();
    let (wire, root) = (registry.wire(), registry.root());
    let manifest = image(b"one");
    push(&wire, "a", "v1", &manifest);
    push(&wire, "b", "v2", &manifest);
    let layer = manifest.blobs.iter().find(|blob| blob.bytes == b"one").unwrap().digest();
    let hex = &layer["sha256:".len()..];
    let content = root.join("blobs/sha256").join(&hex[..2]).join(hex);
    std::fs::remove_file(&content).unwrap();
    std::fs::write(&content, "onf").unwrap();
    let head = |name: &str| wire.send(&Call::new("HEAD", &format!("/v2/{name}/blobs/{layer}"))).unwrap().status;
    let checked = |args: &[&str]| {
        let output = run("check", root, args);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, said) = checked(&[]);
    assert_eq!(code, Some(7));
    assert!(said.contains("run dvcr check --discard, then push a:v1, b:v2 again"), "{said}");
    assert_eq!(head("a"), 200, "a push would leave it out");
    let (code, said) = checked(&["--discard"]);
    assert_eq!(code, Some(7));
    assert!(said.contains(&format!("{layer}: its bytes are others than were pushed: it was removed")), "{said}");
    assert_eq!((head("a"), head("b")), (404, 404));
    push(&wire, "a", "v1", &manifest);
    let (code, said) = checked(&[]);
    assert_eq!(code, Some(0), "{said}");
    for name in ["a", "b"] {
        let answer = wire.send(&Call::new("GET", &format!("/v2/{name}/blobs/{layer}"))).unwrap();
        assert_eq!((answer.status, answer.body.as_slice()), (200, b"one".as_slice()));
    }
}

#[test]
fn without_a_command_it_says_what_there_is() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_dvcr")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("Usage: dvcr") && said.contains("serve") && said.contains("check"), "{said}");
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let registry = dvcr().start();
    let manifest = image(b"one");
    push(&registry.wire(), "a", "v1", &manifest);
    let root = registry.root().to_owned();
    let nowhere = root.join("nowhere");
    let occupied = registry.host();
    let cases: [(&str, &std::path::Path, &[&str], i32, &str); 15] = [
        ("ls", &nowhere, &[], 2, "is no store of dvcr"),
        ("rm", &root, &["a:v9"], 4, "a has no manifest v9"),
        ("rm", &root, &["a"], 2, "names a whole repository"),
        ("rm", &root, &["../a:v1"], 2, "is no name of a repository"),
        ("rm", &root, &["docker://host/a:v1"], 2, "so write it as a:v1"),
        ("rm", &root, &["--all", "a:v1"], 2, "a:v1 is one image, but --all"),
        ("rm", &root, &["a:v1", "b"], 2, "b names a whole repository"),
        ("ls", &root, &["b"], 4, "there is no repository b"),
        ("ls", &root, &["a:v9"], 4, "a has no manifest v9"),
        ("ls", &root, &["127.0.0.1:5000/a:v1"], 2, "so write it as a:v1"),
        ("check", &root, &["--repair"], 2, "see dvcr check --help"),
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
