//! What breaks: connections, servers, and pages that are closed.

use fixtures::differ;

use crate::world::{SIZE, World, button, choose, complaints, sending, text, wait};

/// What a break may cost: what was on its way, in the buffers of two sockets and the gate.
const ON_ITS_WAY: u64 = (4 << 20) + SIZE / 100;
/// Requests without an image.
const TALK: u64 = 256 << 10;

#[test]
fn a_cut_costs_little() {
    let world = World::one();
    let (raw, image) = world.image("jammy.qcow2");
    let (gate, browser) = sending(&world, &image);
    gate.open();
    gate.cut();
    wait(&browser, "done");
    assert_eq!(differ(&world.disk("disk.raw"), &raw), None);
    let len = image.metadata().unwrap().len();
    assert!(gate.passed() < len + ON_ITS_WAY + TALK, "{} of {len}", gate.passed());
    assert_eq!(complaints(&browser), Vec::<String>::new());
}

#[test]
fn a_server_that_is_killed_and_starts_again_is_waited_for() {
    let mut world = World::one();
    let (raw, image) = world.image("jammy.qcow2");
    let (gate, browser) = sending(&world, &image);
    world.kill();
    gate.open();
    gate.cut();
    wait(&browser, "waiting");
    assert!(text(&browser).contains("The server can’t be reached. Trying again"), "{}", text(&browser));
    browser.screenshot("page-waiting");
    world.start_again();
    wait(&browser, "done");
    assert_eq!(differ(&world.disk("disk.raw"), &raw), None);
    assert_eq!(complaints(&browser), Vec::<String>::new());
}

#[test]
fn a_page_that_is_loaded_again_goes_on_with_the_same_file_and_asks_for_another() {
    let world = World::one();
    let (raw, image) = world.image("jammy.qcow2");
    let other = world.file("other.img", &[1; 5000]);
    let (gate, browser) = sending(&world, &image);
    browser.reload();
    wait(&browser, "stopped");
    let said = text(&browser);
    assert!(said.contains("To go on, choose jammy.qcow2 again") && said.contains(" MiB of 24."), "{said}");
    browser.screenshot("page-stopped");
    choose(&browser, &other);
    browser.until("!document.getElementById('question').hidden");
    let said = text(&browser);
    assert!(said.contains("other.img of 4.8 KiB is not the file that was being sent"), "{said}");
    browser.screenshot("page-another");
    button(&browser, "Keep the other").click();
    gate.open();
    choose(&browser, &image);
    wait(&browser, "done");
    assert_eq!(differ(&world.disk("disk.raw"), &raw), None);
    let len = image.metadata().unwrap().len();
    assert!(gate.passed() < len + ON_ITS_WAY + TALK, "{} of {len}", gate.passed());
    assert_eq!(complaints(&browser), Vec::<String>::new());
}

#[test]
fn a_page_that_is_loaded_again_sends_another_file_where_that_is_meant() {
    let world = World::one();
    let (raw, image) = world.image("jammy.qcow2");
    let (gate, browser) = sending(&world, &image);
    browser.reload();
    wait(&browser, "stopped");
    gate.open();
    choose(&browser, &raw);
    button(&browser, "Send this one").click();
    wait(&browser, "done");
    assert_eq!(differ(&world.disk("disk.raw"), &raw), None);
    assert_eq!(complaints(&browser), Vec::<String>::new());
}
