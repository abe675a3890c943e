//! What people do.

use fixtures::browser::Browser;
use fixtures::differ;

use crate::world::{SECRET, World, button, choose, complaints, open, sending, text, wait};

#[test]
fn an_image_is_sent_and_its_disk_is_complete() {
    let world = World::one();
    let (raw, image) = world.image("jammy.qcow2");
    let browser = Browser::start();
    open(&browser, world.address);
    choose(&browser, &image);
    wait(&browser, "done");
    let said = text(&browser);
    for part in ["The disk is complete", "jammy.qcow2", "qcow2", "24.0 MiB", "disk.raw"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(differ(&world.disk("disk.raw"), &raw), None);
    assert_eq!(browser.run("return localStorage.length"), 0);
    assert_eq!(browser.log(), Vec::<String>::new());
}

#[test]
fn what_is_no_disk_is_refused_with_its_reason_and_another_file_is_taken() {
    let world = World::one();
    let (raw, image) = world.image("jammy.qcow2");
    let page = "<!DOCTYPE html><html><body>Sign in</body></html>".repeat(200_000);
    let page = world.file("sign-in.img", page.as_bytes());
    let browser = Browser::start();
    open(&browser, world.address);
    choose(&browser, &page);
    wait(&browser, "failed");
    let said = text(&browser);
    assert!(said.contains("The upload failed") && said.contains("HTML") && said.contains("sign-in.img"), "{said}");
    assert_eq!(browser.element("#said").label(), "");
    browser.screenshot("page-failed");
    // What an empty file is, is known without a server.
    button(&browser, "Choose another file").click();
    choose(&browser, &world.file("empty.img", b""));
    assert!(text(&browser).contains("empty file"), "{}", text(&browser));
    choose(&browser, &image);
    wait(&browser, "done");
    assert_eq!(differ(&world.disk("disk.raw"), &raw), None);
    assert_eq!(complaints(&browser), Vec::<String>::new());
}

#[test]
fn an_upload_is_paused_and_goes_on() {
    let world = World::one();
    let (raw, image) = world.image("jammy.qcow2");
    let (gate, browser) = sending(&world, &image);
    button(&browser, "Pause").click();
    wait(&browser, "paused");
    assert!(browser.run("return document.title").as_str().unwrap().contains("Paused"));
    browser.screenshot("page-paused");
    gate.open();
    button(&browser, "Resume").click();
    wait(&browser, "done");
    assert_eq!(differ(&world.disk("disk.raw"), &raw), None);
    assert_eq!(complaints(&browser), Vec::<String>::new());
}

#[test]
fn an_upload_is_cancelled_when_that_is_meant() {
    let world = World::one();
    let (_, image) = world.image("jammy.qcow2");
    let (_gate, browser) = sending(&world, &image);
    button(&browser, "Cancel").click();
    browser.screenshot("page-question");
    button(&browser, "Keep it").click();
    wait(&browser, "sending");
    // Who works by keyboard is where they were.
    assert_eq!(browser.run("return document.activeElement.id"), "cancel");
    assert!(world.left() > 0);
    button(&browser, "Cancel").click();
    button(&browser, "Cancel the upload").click();
    wait(&browser, "idle");
    assert!(text(&browser).contains("was cancelled"), "{}", text(&browser));
    assert_eq!(world.left(), 0);
    assert_eq!(browser.run("return localStorage.length"), 0);
}

#[test]
fn names_are_text_and_a_folder_wants_its_token() {
    let world = World::folder();
    let name = "<img src=x onerror=\"document.title='owned'\">.img";
    let (raw, image) = world.image(name);
    let browser = Browser::start();
    browser.open(&format!("http://{}/", world.address));
    wait(&browser, "idle");
    assert_eq!(browser.element("#token").label(), "Access token of this server");
    choose(&browser, &image);
    browser.element("#token").type_in("wrong\u{E007}");
    browser.until("document.getElementById('note').textContent.includes('does not know this token')");
    browser.screenshot("page-token");
    browser.element("#token").type_in(&format!("{SECRET}\u{E007}"));
    wait(&browser, "done");
    let said = text(&browser);
    assert!(said.contains(name), "{said}");
    assert_eq!(browser.elements("img").len(), 0);
    assert!(!browser.run("return document.title").as_str().unwrap().starts_with("owned"));
    browser.screenshot("page-names");
    assert_eq!(differ(&world.disk("<img src=x onerror=\"document.title='owned'\">.raw"), &raw), None);
    // It is known for as long as the tab is there, and for the next upload.
    assert_eq!(browser.run("return [localStorage.length, sessionStorage.length]"), serde_json::json!([0, 1]));
    button(&browser, "Upload another").click();
    choose(&browser, &image);
    wait(&browser, "failed");
    assert!(text(&browser).contains("There is a disk of that name already"), "{}", text(&browser));
    assert_eq!(complaints(&browser), Vec::<String>::new());
}
