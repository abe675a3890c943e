//! A store that can only be read.

mod support;

use fixtures::devices::TinyTmpfs;
use fixtures::http::Call;
use fixtures::oci::push;
use support::{dvcr, image, noise, run};

#[test]
fn what_can_not_be_written_serves_pulls() {
    let Some(disk) = TinyTmpfs::mount(24 << 20) else { return };
    let root = disk.path().join("root");
    let manifest = image(&noise(1 << 20, 1));
    let registry = dvcr().root(&root).start();
    push(&registry.wire(), "a", "v1", &manifest);
    assert!(registry.finish().0);
    disk.freeze().unwrap();

    let registry = dvcr().root(&root).start();
    while !registry.said().contains("nothing can be pushed, only pulled: the registry can't be written, only read") {
        std::thread::yield_now();
    }
    let wire = registry.wire();
    let status = |method: &str, target: &str| wire.send(&Call::new(method, target)).unwrap().status;
    for method in ["HEAD", "GET"] {
        assert_eq!(status(method, "/v2/a/manifests/v1"), 200);
        for blob in &manifest.blobs {
            assert_eq!(status(method, &format!("/v2/a/blobs/{}", blob.digest())), 200);
        }
    }
    assert_eq!((status("GET", "/healthz"), status("GET", "/livez")), (503, 200));
    let put = Call::new("PUT", "/v2/a/manifests/v2").header("Content-Type", &manifest.media_type);
    for call in [
        Call::new("POST", "/v2/a/blobs/uploads/"),
        Call::new("POST", &format!("/v2/b/blobs/uploads/?mount={}&from=a", manifest.blobs[0].digest())),
        put.body(manifest.bytes.clone()),
        Call::new("DELETE", "/v2/a/manifests/v1"),
        Call::new("DELETE", &format!("/v2/a/manifests/{}", manifest.digest())),
        Call::new("DELETE", &format!("/v2/a/blobs/{}", manifest.blobs[0].digest())),
    ] {
        let answer = wire.send(&call).unwrap();
        let error = &answer.json()["errors"][0];
        assert_eq!((answer.status, error["code"].as_str()), (405, Some("UNSUPPORTED")), "{}: {error}", call.line());
        assert!(error["message"].as_str().unwrap().contains("can't be written, only read"), "{error}");
        assert_eq!(answer.header("allow"), Some("GET, HEAD"));
    }

    for (command, args) in [("rm", ["a:v1"].as_slice()), ("gc", &[])] {
        let output = run(command, &root, args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(8), 1), "{said}");
        assert!(said.contains("read-only file system"), "{said}");
    }
    for (command, args) in [("ls", ["a"].as_slice()), ("check", &[])] {
        assert!(run(command, &root, args).status.success(), "{command}");
    }
}
