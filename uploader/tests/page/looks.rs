//! What is seen and heard.

use fixtures::browser::Browser;
use fixtures::http::{Call, Wire};
use serde_json::Value;

use crate::gate::Gate;
use crate::world::{SECRET, World, choose, open, wait};

/// The least contrast of a text with what is behind it, and that text.
const CONTRAST: &str = "
const light = (color) => {
  const [r, g, b] = color.match(/[\\d.]+/g).map((n) => n / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  return 0.2126 * r + 0.7152 * g + 0.0722 * b
}
const behind = (element) => {
  const color = getComputedStyle(element).backgroundColor
  return color.startsWith('rgba') && element.parentElement ? behind(element.parentElement) : color
}
const own = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())
return [...document.body.querySelectorAll('*')].filter((it) => it.checkVisibility() && own(it)).map((it) => {
  const [a, b] = [light(getComputedStyle(it).color), light(behind(it))]
  return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), it.textContent]
}).sort(([a], [b]) => a - b)[0]";

/// Looks at a page in both schemes and two widths.
fn look(browser: &Browser, name: &str) {
    for control in browser.elements("button, input, progress, section, form") {
        // A file is chosen by the label that is in front of its input.
        if control.is_shown() && control.role() != "generic" && control.role() != "Section" {
            assert!(!control.label().is_empty(), "{name}: {} without a name: {}", control.role(), control.text());
        }
    }
    for scheme in ["light", "dark"] {
        // Colours that flow into others are no colours yet.
        browser.media(&[("prefers-color-scheme", scheme), ("prefers-reduced-motion", "reduce")]);
        let worst = browser.run(CONTRAST);
        assert!(worst[0].as_f64().unwrap() >= 4.5, "{name}, {scheme}: {worst}");
        for (width, height) in [(1000, 760), (320, 640)] {
            browser.resize(width, height);
            let wide =
                browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth");
            assert_eq!(wide, 0, "{name} at {width}");
            browser.screenshot(&format!("page-{name}-{scheme}-{width}"));
        }
    }
}

#[test]
fn every_step_is_readable_and_has_names() {
    let world = World::one();
    let (_, image) = world.image("jammy-server-cloudimg-amd64-with-a-name-that-is-rather-long.qcow2");
    let gate = Gate::to(world.address, 8 << 20);
    let browser = Browser::start();
    open(&browser, gate.address);
    assert_eq!(browser.run("return document.documentElement.lang"), "en");
    assert_eq!(browser.elements("h1").len(), 1);
    let file = browser.element("#file").label();
    assert!(file.contains("Choose a file"), "{file}");
    assert_eq!(browser.element("#said").role(), "status");
    look(&browser, "idle");
    choose(&browser, &image);
    gate.wait_until_it_holds();
    browser.until("document.getElementById('bar').value > 0.2");
    let bar = browser.element("progress");
    assert_eq!((bar.role().as_str(), bar.label()), ("progressbar", browser.element("#name").text()));
    look(&browser, "sending");
    // What is seen between the last byte and the end, which here is too short to be looked at.
    let _ = browser.run("finishing()");
    look(&browser, "finishing");
    let _ = browser.run("sending()");
    gate.open();
    wait(&browser, "done");
    look(&browser, "done");
    assert_eq!(browser.log(), Vec::<String>::new());
}

#[test]
fn the_keyboard_is_enough() {
    let world = World::one();
    let browser = Browser::start();
    open(&browser, world.address);
    browser.devtools(
        "Input.dispatchKeyEvent",
        serde_json::json!({"type": "keyDown", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}),
    );
    assert_eq!(browser.run("return document.activeElement.id"), "file");
    let outline = "return getComputedStyle(document.getElementById('drop')).outlineStyle";
    assert_eq!(browser.run(outline), "solid");
    browser.screenshot("page-focus");
}

#[test]
fn nothing_but_its_own_script_runs() {
    let world = World::one();
    let browser = Browser::start();
    open(&browser, world.address);
    let markup = "try { document.body.innerHTML = '<b>x</b>'; return 'set' } catch (error) { return error.name }";
    assert_eq!(browser.run(markup), "TypeError");
    // By a way that no policy of types is asked for.
    let element =
        "const it = document.createElement('script'); it.append('window.ran = true'); document.body.append(it)";
    let handler = "document.body.append(new Image()); document.images[0].src = '/x.png'";
    for attempt in [element, handler] {
        let _ = browser.run(&format!("try {{ {attempt} }} catch {{}}"));
    }
    assert_eq!(browser.run("return window.ran ?? null"), Value::Null);
    let log = browser.log();
    for part in ["TrustedHTML", "TrustedScript", "img-src data:"] {
        assert!(log.iter().any(|line| line.contains(part)), "{part}: {log:?}");
    }
}

#[test]
fn only_browsers_get_the_page_and_it_is_locked_up() {
    let world = World::one();
    let wire = Wire::new(world.address);
    let get = |path: &str, accept: &str| wire.send(&Call::new("GET", path).header("Accept", accept)).unwrap();
    let upload = format!("/upload/{SECRET}");
    let page = get(&upload, "text/html,application/xhtml+xml,*/*;q=0.8");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    for (name, value) in [
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("vary", "Accept"),
    ] {
        assert_eq!(page.header(name), Some(value), "{name}");
    }
    let policy = page.header("content-security-policy").unwrap();
    for part in ["default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!String::from_utf8_lossy(&page.body).contains(SECRET));
    for accept in ["*/*", "application/json", "text/plain"] {
        assert!(!get(&upload, accept).body.starts_with(b"<!DOCTYPE"), "{accept}");
    }
    // Whoever does not know the address learns nothing of it.
    assert_eq!(get("/upload/wrong", "text/html").status, 404);
    assert_eq!(get("/", "text/html").status, 404);
    let folder = World::folder();
    let wire = Wire::new(folder.address);
    let get = |path: &str| wire.send(&Call::new("GET", path).header("Accept", "text/html")).unwrap();
    assert_eq!((get("/").status, get("/upload").status, get("/files/x").status), (200, 404, 404));
}
