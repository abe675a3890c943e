use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// All that comes out of a form that comes in such pieces; contents are put together.
fn events(boundary: &str, pieces: &[&[u8]]) -> Result<Vec<Event>, Malformed> {
    let mut form = Form::new(&format!("multipart/form-data; boundary=\"{boundary}\""))?;
    let mut events: Vec<Event> = Vec::new();
    for piece in pieces {
        form.feed(Bytes::copy_from_slice(piece));
        while let Some(event) = form.event()? {
            match (events.last_mut(), event) {
                (Some(Event::Content(before)), Event::Content(more)) => {
                    *before = [before.as_ref(), more.as_ref()].concat().into();
                }
                (_, event) => events.push(event),
            }
        }
    }
    Ok(events)
}

fn part(name: &str, content: &[u8]) -> Vec<Event> {
    let mut events = vec![Event::Head(Head { name: name.into(), encoded: false })];
    if !content.is_empty() {
        events.push(Event::Content(Bytes::copy_from_slice(content)));
    }
    events.push(Event::End);
    events
}

fn written(boundary: &str, parts: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut form = Vec::new();
    for (name, content) in parts {
        form.extend_from_slice(
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n").as_bytes(),
        );
        form.extend_from_slice(content);
        form.extend_from_slice(b"\r\n");
    }
    form.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    form
}

/// The form in pieces that end at these places.
fn cut<'a>(form: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|at| at % (form.len() + 1)).collect();
    cuts.extend([0, form.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|ends| &form[ends[0]..ends[1]]).collect()
}

const NEARLY: [&[u8]; 11] =
    [b"\r", b"\n", b"\r\n", b"\r\n-", b"\r\n--", b"\r\n--b", b"\r\n--bo", b"--", b"b", b"\0", b"\xff"];

/// What forms are made of.
const MARKS: [&[u8]; 10] = [
    b"\r",
    b"\n",
    b"\r\n",
    b"--b",
    b"\r\n--b",
    b"--",
    b":",
    b" ",
    b"x",
    b"--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n",
];

/// Contents in which much looks like the beginning of a delimiter.
fn content() -> impl Strategy<Value = Vec<u8>> {
    vec(prop::sample::select(&NEARLY[..]), 0..24).prop_map(|bits| bits.concat())
}

proptest! {
    #[test]
    fn what_went_in_comes_out_however_it_is_cut(
        contents in vec(content(), 1..4),
        cuts in vec(any::<usize>(), 0..40),
        preamble in content(),
        epilogue in content(),
    ) {
        let names = ["file", "a", "b"];
        let parts: Vec<_> = names.iter().copied().zip(contents).collect();
        let mut form = if preamble.is_empty() { Vec::new() } else { [&preamble[..], b"\r\n"].concat() };
        form.extend(written("bound", &parts));
        form.extend(epilogue);
        let mut expected: Vec<Event> = parts.iter().flat_map(|(name, content)| part(name, content)).collect();
        expected.push(Event::Over);
        prop_assert_eq!(events("bound", &cut(&form, &cuts)).unwrap(), expected);
    }

    #[test]
    fn anything_is_read_alike_however_it_is_cut(
        bits in vec(prop::sample::select(&MARKS[..]), 0..24),
        cuts in vec(any::<usize>(), 0..40),
    ) {
        let form = bits.concat();
        let whole = events("b", &[&form]);
        prop_assert_eq!(events("b", &cut(&form, &cuts)), whole);
    }
}

#[test]
fn contents_are_slices_of_what_came() {
    let form = written("b", &[("file", vec![7; 100_000])]);
    let bytes = Bytes::from(form);
    let mut parser = Form::new("multipart/form-data; boundary=b").unwrap();
    parser.feed(bytes.clone());
    let content = loop {
        if let Event::Content(content) = parser.event().unwrap().unwrap() {
            break content;
        }
    };
    assert_eq!(content.len(), 100_000);
    assert!(bytes.as_ptr_range().contains(&content.as_ptr()));
}

#[test]
fn forms_of_all_kinds_of_clients_are_read() {
    let file = b"--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n\x00\r\nabc\r\n--x";
    let content = part("file", b"\x00\r\nabc");
    for (what, form) in [
        ("no line end behind the last boundary", [&file[..], b"--"].concat()),
        (
            "spaces behind boundaries",
            [&b"preamble\r\n"[..], &file[..3], b" \t", &file[3..], b"--\r\nepilogue"].concat(),
        ),
        ("an empty line in front", [b"\r\n", &file[..], b"--\r\n"].concat()),
    ] {
        let expected: Vec<_> = content.iter().cloned().chain([Event::Over]).collect();
        assert_eq!(events("x", &[&form]), Ok(expected), "{what}");
    }
    let bare = b"--x\r\n\r\nabc\r\n--x--";
    assert_eq!(events("x", &[bare]).unwrap(), [part("", b"abc"), vec![Event::Over]].concat());
}

#[test]
fn what_is_no_form_is_told_as_such() {
    for (kind, why) in [
        ("text/plain", "not multipart"),
        ("", "not multipart"),
        ("multipart/form-data", "no boundary"),
        ("multipart/form-data; boundary=", "not one of"),
        ("multipart/form-data; boundary=\"a\r\nb\"", "not one of"),
        ("multipart/form-data; boundary=\"ends with a space \"", "not one of"),
    ] {
        let error = Form::new(kind).err().unwrap();
        assert!(error.to_string().contains(why), "{kind}: {error}");
    }
    let long = "x".repeat(71);
    Form::new(&format!("multipart/form-data; boundary={long}")).err().unwrap();
    Form::new(&format!("Multipart/Form-Data; charset=utf-8; BOUNDARY=\"{}\"", &long[1..])).ok().unwrap();
    for (form, why) in [
        (&b"--b?"[..], "behind a boundary"),
        (b"--b-\r\n", "behind a boundary"),
        (b"--b\rx", "behind a boundary"),
        (b"--b\r\r", "behind a boundary"),
        (b"--b\r\nno colon\r\n\r\n", "without a colon"),
    ] {
        let error = events("b", &[form]).unwrap_err();
        assert!(error.to_string().contains(why), "{form:?}: {error}");
    }
    let endless = [&b"--b\r\nA: "[..], &[b'x'; 10_000]].concat();
    assert!(events("b", &[&endless]).unwrap_err().0.contains("too long"));
    let endless = [&b"--b"[..], &[b' '; 1000]].concat();
    assert!(events("b", &[&endless]).unwrap_err().0.contains("behind a boundary"));
}
