//! Clients that others wrote.

use std::fs;

use fixtures::tus::{tus_js, tuspy};
use serde_json::{Value, json};

use crate::relay::Relay;
use crate::world::{ONE, SECRET, SIZE, World};

fn requests(said: &Value) -> Vec<&str> {
    said["requests"].as_array().unwrap().iter().map(|request| request.as_str().unwrap()).collect()
}

#[test]
fn tuspy_sends_parts_with_checksums_and_goes_on_in_another_process() {
    let world = World::folder(&[]);
    let image = world.image();
    let common = json!({"file": image, "chunk": 1 << 20, "checksum": true, "metadata": {"filename": "größe.img"}});
    let with = |more: Value| {
        let mut told = common.clone();
        told.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        tuspy(&told)
    };
    let first = with(json!({"endpoint": world.url("/files/"), "stop_at": 3 << 20}));
    assert_eq!(first["offset"], 3 << 20, "{first}");
    let rest = with(json!({"url": first["url"]}));
    assert_eq!(rest["offset"], SIZE, "{rest}");
    assert!(world.disk("größe.raw") == fs::read(image).unwrap());
    // It learns that it is done.
    assert_eq!(with(json!({"url": first["url"]}))["offset"], SIZE);
}

#[test]
fn tuspy_sends_all_at_once_with_a_token_and_tells_why_not() {
    let token = tempfile::NamedTempFile::new().unwrap();
    fs::write(token.path(), SECRET).unwrap();
    let world = World::folder(&["--token-file", token.path().to_str().unwrap()]);
    let (image, endpoint) = (world.image(), world.url("/files"));
    let refused = tuspy(&json!({"file": image, "endpoint": endpoint}));
    assert_eq!(refused["status"], 401, "{refused}");
    let headers = json!({"Authorization": format!("Bearer {SECRET}")});
    let done = tuspy(&json!({"file": image, "endpoint": endpoint, "headers": headers}));
    assert_eq!(done["offset"], SIZE, "{done}");
    let page = world.file("page.html", "<!DOCTYPE html><html><body>Sign in</body></html>".repeat(9000).as_bytes());
    let no_disk = tuspy(&json!({"file": page, "endpoint": endpoint, "headers": headers}));
    assert_eq!(no_disk["status"], 400, "{no_disk}");
    assert!(no_disk["text"].as_str().unwrap().contains("HTML"), "{no_disk}");
}

#[test]
fn tus_js_goes_on_after_cuts_and_sends_little_twice() {
    for cuts in [&[7_500_000][..], &[2_500_000, 4_000_000, 8_000_000]] {
        let world = World::folder(&[]);
        let relay = Relay::to(world.address, cuts);
        let endpoint = format!("http://{}/files", relay.address);
        let options =
            json!({"endpoint": endpoint, "retryDelays": [0, 0, 0, 0, 0, 0], "metadata": {"filename": "a.img"}});
        let said = tus_js(&json!({"file": world.image(), "options": options}));
        assert_eq!(said["done"], true, "{said}");
        assert!(requests(&said).iter().filter(|request| **request == "HEAD 200").count() >= cuts.len(), "{said}");
        assert!(world.disk("a.raw") == fs::read(world.image()).unwrap());
        let (passed, left) = relay.passed();
        assert_eq!(left, 0);
        // What was on its way at the cut.
        assert!(cuts.len() > 1 || passed < SIZE + SIZE / 100 + (4 << 20), "{passed}");
    }
}

#[test]
fn tus_js_goes_on_in_another_process_after_it_was_closed() {
    let world = World::one(&[]);
    let image = world.image();
    let options = json!({"endpoint": world.url(ONE), "chunkSize": 1_000_000});
    let stopped = tus_js(&json!({"file": image, "options": options, "stopAt": 4_000_000}));
    assert_eq!((&stopped["done"], &stopped["url"]), (&json!(false), &json!(world.url(ONE))), "{stopped}");
    let rest = tus_js(&json!({
        "file": image,
        "options": {"uploadUrl": world.url(ONE), "endpoint": world.url(ONE), "retryDelays": [0, 0, 0]},
    }));
    assert_eq!(rest["done"], true, "{rest}");
    assert_eq!(requests(&rest)[0], "HEAD 200");
    assert!(!requests(&rest).contains(&"POST 201"), "{rest}");
    assert!(world.disk("disk.raw") == fs::read(image).unwrap());
}

#[test]
fn tus_js_has_many_ways() {
    let world = World::folder(&[]);
    let (image, endpoint) = (world.image(), world.url("/files/"));
    let bytes = fs::read(&image).unwrap();
    for (name, stream, options) in [
        ("creation", false, json!({"uploadDataDuringCreation": true})),
        ("parts", false, json!({"uploadDataDuringCreation": true, "chunkSize": 1_000_000})),
        ("override", false, json!({"overridePatchMethod": true, "chunkSize": 5_000_000})),
        ("stream", true, json!({"uploadLengthDeferred": true, "chunkSize": 3_000_000})),
        ("draft-03", false, json!({"protocol": "ietf-draft-03", "chunkSize": 3_000_000})),
        ("draft-05", false, json!({"protocol": "ietf-draft-05"})),
        ("draft-05 parts", false, json!({"protocol": "ietf-draft-05", "chunkSize": 3_000_000})),
    ] {
        let mut all = json!({"endpoint": endpoint, "metadata": {"filename": name, "filetype": "a/b"}});
        all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let said = tus_js(&json!({"file": image, "stream": stream, "options": all}));
        assert_eq!(said["done"], true, "{name}: {said}");
        assert!(world.disk(&format!("{name}.raw")) == bytes, "{name}");
    }
}

#[test]
fn tus_js_does_not_try_again_what_can_not_succeed() {
    let world = World::folder(&[]);
    let page = "<!DOCTYPE html><html><body>Sign in</body></html>".repeat(9000);
    let page = world.file("page.html", page.as_bytes());
    let endpoint = world.url("/files");
    let options = json!({"endpoint": endpoint, "retryDelays": [0, 0, 0, 0]});
    let said = tus_js(&json!({"file": page, "options": options}));
    assert_eq!((&said["status"], requests(&said)), (&json!(400), vec!["POST 201", "PATCH 400"]), "{said}");
    assert!(said["text"].as_str().unwrap().contains("HTML"), "{said}");
    let options = json!({"endpoint": endpoint, "retryDelays": [0, 0], "parallelUploads": 2});
    let said = tus_js(&json!({"file": page, "options": options}));
    assert!(said["status"] == 400 && said["text"].as_str().unwrap().contains("parallelUploads"), "{said}");
}
