//! `importer inspect`.

use std::io::Write;

use importer_flow::report::{self, Origin};
use importer_flow::source::container::Reading;
use importer_flow::{Error, Image, Kind, MAYBE, Result, inspect, size};

use crate::args::Inspect;
use crate::source;

/// Says what an image is.
pub fn run(args: &Inspect) -> Result<()> {
    let settings = source::settings(&args.source, &args.from)?;
    source::check_platform(&args.source, &args.from, false)?;
    let mut source = source::open(&args.source, &args.from, Reading::Partial)?;
    let image = inspect(&mut *source, &settings)?;
    let origin = Origin { digest: source.digest(), platform: source.platform() };
    let text = if args.json { json(&image, origin)? } else { lines(&image, &origin) };
    let mut out = std::io::stdout().lock();
    // A reader that has seen enough (head) is no error.
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::new(Kind::Target, "can't write to standard output").because(error))
        }
        _ => Ok(()),
    }
}

fn json(image: &Image, origin: Origin) -> Result<String> {
    let mut text = serde_json::to_string_pretty(&report::Inspected::new(image, origin))
        .map_err(|error| Error::new(Kind::Ours, "can't write JSON").because(error))?;
    text.push('\n');
    Ok(text)
}

fn lines(image: &Image, origin: &Origin) -> String {
    let bytes = |bytes: Option<u64>, unknown: &str| match bytes {
        Some(bytes) => format!("{bytes} ({})", size::human(bytes)),
        None => unknown.to_owned(),
    };
    // What only the end would tell.
    let maybe = image.features.iter().find(|feature| feature.name == MAYBE);
    let maybe = maybe.map(|_| " (or a fixed VHD: its footer is at the end)").unwrap_or_default();
    let mut text = format!("format: {}{maybe}\n", image.format);
    if !image.wrappers.is_empty() {
        text += &format!("wrappers: {}\n", image.wrappers.join(", "));
    }
    text += &format!("virtual size: {}\n", bytes(image.virtual_size, "known only at the end"));
    text += &format!("allocated: {}\n", bytes(image.allocated, "known only at the end"));
    if image.cdrom {
        text += "cdrom: yes\n";
    }
    for (name, value) in [("digest", &origin.digest), ("platform", &origin.platform)] {
        text.extend(value.iter().map(|value| format!("{name}: {value}\n")));
    }
    for feature in image.features.iter().filter(|feature| feature.name != MAYBE) {
        text += &format!("{}: {}\n", report::words(feature.name), report::value(&feature.value));
    }
    text
}
