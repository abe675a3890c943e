//! Text where a disk should be.

use super::*;

fn said(text: &[u8]) -> String {
    let error = probe(text).unwrap_err();
    assert_eq!(error.kind(), Kind::NotADisk);
    error.to_string()
}

#[test]
fn pages_say_what_was_got() {
    let page = b"<!DOCTYPE html>\r\n<html><head>\n\n<title lang=x> 404 \x1b[31mNot\xc3\xa4 Found</TITLE></head><body>gone</body></html>";
    assert_eq!(
        said(page),
        "not a disk image: got HTML, '404 ?[31mNot?? Found', perhaps an error or login page; open the address in a \
         browser: '<!DOCTYPE html> <html><head> <title lang=x> 404 ?[31mNot?? F…'"
    );
    assert_eq!(
        said(b"<html>\n<body>Please sign in</body></html>"),
        "not a disk image: got HTML, perhaps an error or login page; open the address in a browser: '<html> \
         <body>Please sign in</body></html>'"
    );
    let starts = [
        "<HTML>",
        "\n\n  <html lang=en>",
        "\u{feff}<!doctype HTML>",
        "<!-- cached -->",
        "<head>",
        "<script>",
        "<?xml version=\"1.0\"?>\n<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Strict//EN\">\n<html xmlns=\"x\">",
        "<h1>Not Found</h1>",
        "<a href=\"/login\">Found</a>.\n",
        "<p>Redirecting to <a href='/'>here</a>",
        "<META http-equiv=refresh content='0; url=/login'>",
    ];
    for start in starts {
        assert!(said(start.as_bytes()).starts_with("not a disk image: got HTML, "), "{start}");
    }
    // Also with bytes that no text has, if it begins like nothing else.
    for (start, refused) in [("<html>", true), ("<title>x</title>", true), ("<p>", false), ("<body-2>", true)] {
        let mut page = start.as_bytes().to_vec();
        page.extend([0; 2000]);
        assert_eq!(probe(&page).is_err(), refused, "{start}");
    }
}

#[test]
fn error_documents_say_why() {
    let cases: [(&[u8], &str); 4] = [
        (
            b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>AccessDenied</Code><Message>Request has expired\
              </Message><X-Amz-Expires>900</X-Amz-Expires><StringToSign>secret</StringToSign></Error>",
            "XML, an error message of the server (AccessDenied: Request has expired): '<?xml",
        ),
        (b"<Error><Code>NoSuchKey</Code></Error>", "XML, an error message of the server (NoSuchKey): '<Error>"),
        (b"<Error/>", "XML: '<Error/>'"),
        (
            b"<?xml version='1.0'?><metalink xmlns='urn:x'><file/></metalink>",
            "a metalink; use an address that is in it: ",
        ),
    ];
    for (text, what) in cases {
        let said = said(text);
        assert!(said.starts_with(&format!("not a disk image: got {what}")), "{what}\n{said}");
        assert!(!said.contains("secret"), "{said}");
    }
}

#[test]
fn texts_are_named() {
    let json = "{\"line\": 1},\n".repeat(10_000);
    let message = "text, perhaps a message of the server: ";
    let cases: [(&[u8], &str); 15] = [
        (
            b"<?xml version=\"1.0\"?><Result><Status>1</Status></Result>",
            "XML: '<?xml version=\"1.0\"?><Result><Status>1",
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
        (b"404 page not found\n", &format!("{message}'404 page not found'")),
        (b"\xff\xfeN\0o\0t\0 \0f\0o\0u\0n\0d\0", "text: '??Not found'"),
        (b"\xfe\xff\0N\0o\0t\0 \0f\0o\0u\0n\0d", "text: '??Not found'"),
        ("Größe: 5 €".as_bytes(), &format!("{message}'Gr????e: 5 ???'")),
        (b"Gr\xf6\xdfe, latin 1, mostly ASCII", &format!("{message}'Gr??e, latin 1, mostly ASCII'")),
        (b"\n", &format!("{message}''")),
        (&json.as_bytes()[..HEAD_LEN], "JSON: '{\"line\": 1}, "),
    ];
    for (text, what) in cases {
        let said = said(text);
        assert!(said.starts_with(&format!("not a disk image: got {what}")), "{what}\n{said}");
    }
    // Cut inside a character.
    assert!(said("ä".repeat(400).as_bytes().strip_suffix(b"\xa4").unwrap()).contains("got text, "));
}

/// A disk that somebody filled with letters has the length of a disk, and a log has not.
#[test]
fn the_length_tells_of_a_long_text() {
    let log = "2026-01-02 line of a log\n".repeat(4000);
    let head = &log.as_bytes()[..HEAD_LEN];
    assert_eq!(probe(head), Ok(Verdict::Raw(RawSign::None)));
    assert_eq!(whole(head, 1 << 20), Ok(()));
    let error = whole(head, log.len() as u64).unwrap_err();
    assert_eq!(error.kind(), Kind::NotADisk);
    let words = "not a disk image: got text, and its 100000 bytes are no whole number of sectors: '2026-01-02 line";
    assert!(error.to_string().starts_with(words), "{error}");
    // What is no text is padded, as ever.
    let mut head = head.to_vec();
    head[60_000] = 0;
    assert_eq!(whole(&head, 100_000), Ok(()));
    // A shorter one was seen whole, whatever its length.
    assert!(said(&log.as_bytes()[..512]).contains("got text, "));
    assert!(said(&log.as_bytes()[..HEAD_LEN - 512]).contains("got text, "));
}

#[test]
fn text_followed_by_zeros_may_be_on_a_disk() {
    let mut head = vec![0; HEAD_LEN];
    head[..11].copy_from_slice(b"hello world");
    assert_eq!(probe(&head), Ok(Verdict::Raw(RawSign::None)));
    // A note, padded to the sector.
    assert_eq!(probe(&head[..1024]), Ok(Verdict::Raw(RawSign::None)));
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
