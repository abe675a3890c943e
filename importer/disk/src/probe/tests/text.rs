//! Text where a disk should be.

use super::*;

fn said(text: &[u8]) -> String {
    let error = probe(text).unwrap_err();
    assert_eq!(error.kind(), Kind::NotADisk);
    error.to_string()
}

#[test]
fn pages_say_what_was_got() {
    let page = b"<!DOCTYPE html>\r\n<html><head>\n\n<title>404 \x1b[31mNot\xc3\xa4 Found</title></head><body>gone</body></html>";
    assert_eq!(
        said(page),
        "not a disk image: got HTML, perhaps an error or login page; open the address in a browser: \
         '<!DOCTYPE html> <html><head> <title>404 ?[31mNot?? Found</ti…'"
    );
    for start in ["<HTML>", "\n\n  <html lang=en>", "\u{feff}<!doctype HTML>", "<!-- cached -->", "<head>", "<script>"]
    {
        assert!(said(start.as_bytes()).starts_with("not a disk image: got HTML, "), "{start}");
    }
    // Also with bytes that no text has.
    let mut page = b"<html>".to_vec();
    page.extend([0; 2000]);
    assert!(said(&page).starts_with("not a disk image: got HTML, "));
}

#[test]
fn texts_are_named() {
    let long = "2026-01-02 line of a log\n".repeat(4000);
    let cases: [(&[u8], &str); 14] = [
        (
            b"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>",
            "XML: '<?xml version=\"1.0\"?><Error><Code>Ac",
        ),
        (
            b"<?xml version='1.0'?>\n<ovf:Envelope x='y'/>",
            "an OVF descriptor; import the OVA, or the disk that it names: ",
        ),
        (b"<Envelope/>", "an OVF descriptor; "),
        (b"{\"message\": \"Not Found\"}", "JSON: '{\"message\": \"Not Found\"}'"),
        (b"[1, 2]\n", "JSON: '[1, 2]'"),
        (b"<svg/>", "XML: '<svg/>'"),
        (b"#!/usr/bin/env python3\n", "a script: '#!/usr/bin/env python3'"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
            "a git-lfs pointer, not the file itself; ",
        ),
        (b"404 page not found\n", "text: '404 page not found'"),
        (b"\xff\xfeN\0o\0t\0 \0f\0o\0u\0n\0d\0", "text: '??Not found'"),
        (b"\xfe\xff\0N\0o\0t\0 \0f\0o\0u\0n\0d", "text: '??Not found'"),
        ("Größe: 5 €".as_bytes(), "text: 'Gr????e: 5 ???'"),
        (b"Gr\xf6\xdfe, latin 1, mostly ASCII", "text: 'Gr??e, latin 1, mostly ASCII'"),
        (&long.as_bytes()[..HEAD_LEN], "text: '2026-01-02 line of a log 2026-01-02 line"),
    ];
    for (text, what) in cases {
        let said = said(text);
        assert!(said.starts_with(&format!("not a disk image: got {what}")), "{what}\n{said}");
    }
    // Cut inside a character.
    assert!(said(&"ä".repeat(HEAD_LEN).as_bytes()[..HEAD_LEN - 1]).starts_with("not a disk image: got text: "));
}

#[test]
fn text_followed_by_zeros_may_be_on_a_disk() {
    let mut head = vec![0; HEAD_LEN];
    head[..11].copy_from_slice(b"hello world");
    assert_eq!(probe(&head), Ok(Verdict::Raw(RawSign::None)));
}

#[test]
fn a_descriptor_is_no_text() {
    let descriptors: [&[u8]; 5] = [
        b"# Disk DescriptorFile\nversion=1\nCID=1\ncreateType=\"vmfs\"\n",
        b"\xef\xbb\xbf# disk descriptorfile\r\n",
        b"\n\n# Disk DescriptorFile",
        b"version=1\nCID=123\ncreateType=\"twoGbMaxExtentSparse\"\n",
        b"# made by hand\n\nversion = 1\nCID=123\ncreateType=\"monolithicFlat\"\n",
    ];
    for text in descriptors {
        assert_eq!(probe(text), Ok(Verdict::VmdkDescriptor), "{}", String::from_utf8_lossy(text));
    }
    assert!(said(b"version=1\nname=x\n").starts_with("not a disk image: got text"));
    assert!(said(b"# a shell script?\necho createType\n").starts_with("not a disk image: got text"));
}
