//! CDI's doors, and what its clients send: the table of cases in its tests.

use std::io::Write;

use fixtures::{run, tool};

use crate::program::{Place, begin, curl, disk, got, text};

const DOORS: [&str; 8] = [
    "/v1beta1/upload",
    "/v1beta1/upload-async",
    "/v1beta1/upload-form",
    "/v1beta1/upload-form-async",
    "/v1alpha1/upload",
    "/v1alpha1/upload-async",
    "/v1alpha1/upload-form",
    "/v1alpha1/upload-form-async",
];

/// The options of curl for this door.
fn sending(door: &str, file: &str) -> Vec<String> {
    if door.contains("form") {
        return vec![
            "-F".into(),
            "note=first".into(),
            "-F".into(),
            format!("file=@{file};filename=\"größe \\\"1\\\".img\""),
        ];
    }
    vec!["-X".into(), "POST".into(), "-T".into(), file.into()]
}

#[test]
fn all_doors_take_images() {
    let place = Place::new();
    let disk = disk(5);
    let image = place.file("image.img", &disk);
    let qcow2 = place.path().join("image.qcow2");
    run(tool("qemu-img").args(["convert", "-O", "qcow2"]).args([&image, &qcow2]));
    for door in DOORS {
        for file in [&image, &qcow2] {
            let server = place.serve();
            let args = [sending(door, text(file)), vec![server.url(door)]].concat();
            curl(&args).says(200, "");
            let status = server.until(|status| status["phase"] == "Succeeded");
            assert_eq!(status["report"]["target"]["size"], disk.len());
            place.assert_disk(&disk);
            // A second upload to the same volume fails.
            curl(&args).says(409, "complete");
            std::fs::remove_file(place.target()).unwrap();
        }
    }
}

#[test]
fn what_can_be_done_is_found_out_by_head() {
    let place = Place::new();
    let server = place.serve();
    for door in DOORS {
        let expected = if door.ends_with("async") { 200 } else { 404 };
        assert_eq!(curl(&["-I", &server.url(door)]).status, expected, "{door}");
        assert_eq!(curl(&[&server.url(door)]).status, 404, "{door}");
    }
    assert_eq!(curl(&["-I", &server.url("/v1beta1/upload-other")]).status, 404);
}

/// "too large {virtual, physical} × {qcow2, raw.xz} × {sync, async}": all are 400, and the answer waits for that.
#[test]
fn what_does_not_fit_is_refused_at_every_door() {
    let place = Place::new();
    let server = place.serve_with(&["--size", "4Mi"]);
    let big = place.file("big.img", disk(6));
    let virtually = place.path().join("virtually.qcow2");
    run(tool("qemu-img").args(["create", "-f", "qcow2"]).arg(&virtually).arg("5M"));
    let physically = place.path().join("physically.qcow2");
    run(tool("qemu-img").args(["convert", "-O", "qcow2"]).args([&big, &physically]));
    let wrapped = place.path().join("big.xz");
    fixtures::images::wrapper_named("xz").apply(&big, &wrapped);
    for door in DOORS {
        for file in [&virtually, &physically, &wrapped, &big] {
            let args = [sending(door, text(file)), vec![server.url(door)]].concat();
            curl(&args).says(400, "effective image size larger than available storage");
            assert!(place.left().is_empty());
        }
    }
    let just = place.file("just.img", disk(4));
    curl(&[sending(DOORS[1], text(&just)), vec![server.url(DOORS[1])]].concat()).says(200, "");
    server.until(|status| status["phase"] == "Succeeded");
}

#[test]
fn while_one_is_uploaded_others_are_asked_to_wait() {
    let place = Place::new();
    let image = place.file("image.img", disk(8));
    let server = place.serve();
    let url = server.url("/v1beta1/upload");
    let mut slow = begin(&["-X", "POST", "-T", text(&image), "--limit-rate", "2M", &url]);
    server.until(|status| status["offset"].as_u64() > Some(1 << 20));
    let refused = curl(&["-i", "-X", "POST", "-T", text(&image), &url]).says(503, "another request");
    assert!(refused.text.contains("retry-after: "), "{refused:?}");
    // UP07: one that was given up does not stand in the way of the next.
    slow.kill().unwrap();
    slow.wait().unwrap();
    let mut answer = curl(&["-X", "POST", "-T", text(&image), &url]);
    while answer.status == 503 {
        answer = curl(&["-X", "POST", "-T", text(&image), &url]);
    }
    answer.says(200, "complete");
}

#[test]
fn forms_that_make_no_sense_are_refused_and_leave_nothing() {
    let place = Place::new();
    let server = place.serve();
    let image = place.file("image.img", disk(2));
    let file = text(&image);
    let url = server.url("/v1beta1/upload-form");
    curl(&["-X", "POST", "-T", file, &url]).says(400, "multipart/form-data");
    curl(&["-F", &format!("disk=@{file}"), &url]).says(400, "no part named file");
    curl(&["-F", &format!("file=@{file}"), "-F", &format!("file=@{file}"), &url]).says(400, "two parts");
    curl(&["-F", &format!("file=@{file};encoder=base64"), &url]).says(400, "encoded");
    curl(&["-F", "file=@/dev/null", &url]).says(400, "");
    assert_eq!(server.status()["phase"], "Failed");
    // One that ends in the middle, in good order for HTTP.
    let body = "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nxxxxxxxx";
    let form = place.file("form", body);
    let send = ["-H", "content-type: multipart/form-data; boundary=b", "--data-binary"];
    curl(&[&send[..], &[&format!("@{}", text(&form)), &url]].concat()).says(400, "ends before its last boundary");
    assert!(place.left().is_empty());
    // And one whose connection is cut in the middle does not count either.
    let head = "POST /v1beta1/upload-form HTTP/1.1\r\nhost: x\r\ncontent-type: multipart/form-data; boundary=b\r\n";
    let mut stream = server.send(format!("{head}content-length: 999999\r\n\r\n{body}"));
    stream.flush().unwrap();
    server.until(|status| status["offset"] == 8);
    drop(stream);
    let mut answer = curl(&["-F", &format!("file=@{file}"), &url]);
    while answer.status == 503 {
        answer = curl(&["-F", &format!("file=@{file}"), &url]);
    }
    answer.says(200, "complete");
    place.assert_disk(&disk(2));
}

#[test]
fn what_is_no_disk_image_is_refused_by_its_head() {
    let place = Place::new();
    let server = place.serve();
    let image = place.file("image.img", disk(1));
    let post = |path: &str, header: &str| curl(&["-X", "POST", "-T", text(&image), "-H", header, &server.url(path)]);
    post("/v1beta1/upload", "x-cdi-content-type: blockdevice-clone").says(415, "clones");
    post("/v1beta1/upload", "x-cdi-content-type: filesystem-clone").says(415, "clones");
    post("/v1beta1/upload-archive", "x: y").says(415, "archive content isn't supported yet");
    assert!(place.left().is_empty());
}

/// Where the upload has a secret, CDI's doors want it as a bearer token: their addresses are known to all.
#[test]
fn doors_do_not_lead_past_a_secret() {
    let place = Place::new();
    let disk = disk(1);
    let image = place.file("image.img", &disk);
    let secret = place.file("token", "0123456789abcdef0123456789abcdef\n");
    let server = place.serve_with(&["--token-file", text(&secret)]);
    for door in DOORS {
        for bearer in ["", "authorization: Bearer", "authorization: Bearer x", "authorization: Basic MDE6"] {
            let args = [sending(door, text(&image)), vec!["-H".into(), bearer.into(), server.url(door)]].concat();
            curl(&args).says(401, "secret");
        }
    }
    let good = "authorization: Bearer 0123456789abcdef0123456789abcdef";
    let args = [sending(DOORS[2], text(&image)), vec!["-H".into(), good.into(), server.url(DOORS[2])]].concat();
    got(begin(&args)).says(200, "complete");
    place.assert_disk(&disk);
}
