//! Lists as people publish them.

use super::*;

const A: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const B: &str = "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752";

fn long() -> String {
    A.repeat(2)
}

fn find(text: &str, algorithm: Option<Algorithm>, name: &str) -> Result<Vec<String>, String> {
    find_in("SHA256SUMS", text, algorithm, name)
}

fn find_in(list: &str, text: &str, algorithm: Option<Algorithm>, name: &str) -> Result<Vec<String>, String> {
    let name = Some(name.as_bytes()).filter(|name| !name.is_empty());
    let list = List::read(text.as_bytes(), algorithm, Family::of(list.as_bytes()));
    Ok(list.find(algorithm, name)?.iter().map(ToString::to_string).collect())
}

#[track_caller]
fn has(text: &str, name: &str, expected: &[String]) {
    assert_eq!(find(text, None, name).as_deref(), Ok(expected), "{text}");
}

#[test]
fn every_way_to_write_a_line() {
    let sha256 = [format!("sha256:{A}")];
    for line in [
        format!("{A}  disk.img"),
        format!("{A} *disk.img"),
        format!("{A} disk.img"),
        format!("{A}\tdisk.img"),
        format!("{A}     disk.img  "),
        format!("{}  disk.img\r", A.to_uppercase()),
        format!("  {A}  disk.img"),
        format!("{A}  ./disk.img"),
        format!("{A}  /srv/www/disk.img"),
        format!("{A} *images\\disk.img"),
        format!("SHA256 (disk.img) = {A}"),
        format!("SHA256(disk.img)= {A}"),
        format!("SHA2-256(./disk.img)= {A}"),
        format!("SHA256  (images/disk.img) = {A}\r"),
        format!("sha256:{A}  disk.img"),
    ] {
        let text = format!("{B}  other.img\n{line}\n{B}  disk.img.sig\n");
        has(&text, "disk.img", &sha256);
        has(&format!("\u{feff}{line}"), "disk.img", &sha256);
    }
    for (name, hex, length) in [("md5", A, 32), ("sha1", A, 40), ("sha512", &*long(), 128)] {
        has(&format!("{}  disk.img", &hex[..length]), "disk.img", &[format!("{name}:{}", &hex[..length])]);
    }
}

#[test]
fn names_with_anything_in_them() {
    let sha256 = [format!("sha256:{A}")];
    has(&format!("{A}  a disk (1) = x.img\n"), "a disk (1) = x.img", &sha256);
    has(&format!("SHA256 (a disk (1) = x.img) = {A}\n"), "a disk (1) = x.img", &sha256);
    has(&format!("\\{A}  a\\nb\\\\c\\rd.img\n"), "a\nb\\c\rd.img", &sha256);
    has(&format!("\\SHA256 (a\\nb.img) = {A}\n"), "a\nb.img", &sha256);
    has(&format!("{A}  диск.img\n"), "диск.img", &sha256);
    has(&format!("{A}  *.img\n"), "*.img", &sha256);
}

#[test]
fn a_hash_alone_is_of_anything() {
    let sha256 = [format!("sha256:{A}")];
    for text in [A.to_owned(), format!("{A}  -\n"), format!("{A}\r\n\r\n"), format!("SHA2-256(stdin)= {A}\n")] {
        has(&text, "disk.img", &sha256);
        has(&text, "", &sha256);
    }
    has(&format!("{A}\n{}\n", long()), "disk.img", &[sha256[0].clone(), format!("sha512:{}", long())]);
    assert!(find(&format!("{A}\n{B}\n"), None, "disk.img").unwrap_err().contains("two different sha256"));
    // Beside names it is of nobody.
    assert!(find(&format!("{A}\n{B}  other.img"), None, "disk.img").unwrap_err().contains("nothing for disk.img"));
}

#[test]
fn signed_lists_are_read_without_their_signature() {
    let text = format!(
        "{B}  disk.img\n-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n# Fedora-Cloud.qcow2: 400 bytes\nSHA256 \
         (disk.img) = {A}\n- -----odd\n- {A}  dashed.img\n-----BEGIN PGP SIGNATURE-----\n\n{B}  disk.img\n-----END PGP \
         SIGNATURE-----\n{B}  disk.img\n"
    );
    has(&text, "disk.img", &[format!("sha256:{A}")]);
    has(&text.replace('\n', "\r\n"), "dashed.img", &[format!("sha256:{A}")]);
}

#[test]
fn sections_name_the_algorithm() {
    // Gentoo's DIGESTS: BLAKE2 and SHA-512 are as long as each other.
    let text = format!("# BLAKE2B HASH\n{}  disk.img\n# SHA512 HASH\n{}  disk.img\n", B.repeat(2), long());
    has(&text, "disk.img", &[format!("sha512:{}", long())]);
}

#[test]
fn all_that_is_known_must_match_and_the_rest_is_passed_over() {
    let text = format!("MD5 (d) = {}\nSHA384 (d) = {}\nSIZE (d) = 7\nSHA256 (d) = {A}\n", &A[..32], &long()[..96]);
    has(&text, "d", &[format!("md5:{}", &A[..32]), format!("sha256:{A}")]);
    assert_eq!(find(&text, Some(Algorithm::Sha256), "d").unwrap(), [format!("sha256:{A}")]);
    let said = find(&text, Some(Algorithm::Sha512), "d").unwrap_err();
    assert_eq!(said, "it has only md5, SHA384, sha256 for the image, none of sha512");
    let said = find(&format!("{}  d", &A[..56]), None, "d").unwrap_err();
    assert!(said.starts_with("it has only a hash of 56 digits for the image, none of md5, sha1, "), "{said}");
    // The same twice is no contradiction; something else is.
    has(&format!("{A}  d\n{A} *./d\n"), "d", &[format!("sha256:{A}")]);
    assert!(find(&format!("{A}  d\n{B}  d\n"), None, "d").unwrap_err().contains("two different sha256 hashes"));
}

#[test]
fn streebog_is_as_long_as_sha2() {
    let gost = format!("GOST12-256 (d) = {A}\nmd_gost12_512(d)= {}\n", long());
    has(&gost, "d", &[format!("streebog256:{A}"), format!("streebog512:{}", long())]);
    let plain = format!("{A}  d\n{}  d\n", long());
    let streebog = [format!("streebog256:{A}"), format!("streebog512:{}", long())];
    for list in ["GOST12SUMS", "disk.streebog256"] {
        assert_eq!(find_in(list, &plain, None, "d").as_deref(), Ok(&streebog[..]), "{list}");
    }
    for list in ["SHA256SUMS", "gostly-1.0.sha256", ""] {
        assert_eq!(find_in(list, &plain, None, "d").unwrap()[0], format!("sha256:{A}"), "{list}");
    }
    assert_eq!(find(&plain, Some(Algorithm::Streebog256), "d").unwrap(), streebog[..1]);
    assert_eq!(find_in("GOST12SUMS", &plain, Some(Algorithm::Sha256), "d").unwrap(), [format!("sha256:{A}")]);
    for list in ["B2SUMS", "disk.sha3-256"] {
        assert!(find_in(list, &plain, None, "d").unwrap_err().contains("a hash of 64 digits"), "{list}");
    }
    assert!(find_in("SHA384SUMS", &format!("{A}  d"), None, "d").is_ok());
}

#[test]
fn the_name_must_be_plain() {
    let text = format!("{A}  old/disk.img\n{B}  new/disk.img\n");
    let said = find(&text, None, "disk.img").unwrap_err();
    assert_eq!(said, "several entries have that name (new/disk.img, old/disk.img): give one with --checksum");
    has(&format!("{text}{A}  disk.img\n"), "disk.img", &[format!("sha256:{A}")]);
    let many: String = (0..9).map(|n| format!("{A}  disk{n}.img\n")).collect();
    assert_eq!(
        find(&many, None, "disk.img").unwrap_err(),
        "it has nothing for disk.img, only for disk0.img, disk1.img, disk2.img, disk3.img, disk4.img and 4 more: give \
         another list, or the hash with --checksum"
    );
    assert!(find(&many, None, "").unwrap_err().contains("whose name is not known"));
    assert!(find(&many, None, "isk0.img").is_err());
    assert!(find(&many, None, "DISK0.img").is_err());
}

proptest::proptest! {
    /// A list is whatever a server sends.
    #[test]
    fn any_bytes_are_read(parts in proptest::collection::vec(0..PARTS.len(), 0..40), noise: Vec<u8>) {
        let mut bytes: Vec<u8> = parts.iter().flat_map(|part| PARTS[*part].bytes()).collect();
        for name in [Some(&b"d"[..]), None] {
            drop(List::read(&bytes, None, Family::Sha2).find(None, name));
        }
        bytes.extend(noise);
        drop(List::read(&bytes, Some(Algorithm::Md5), Family::Unknown).find(Some(Algorithm::Md5), Some(b"d")));
    }
}

const PARTS: [&str; 19] = [
    A,
    B,
    "\n",
    "\r\n",
    " ",
    "  ",
    " *",
    "d",
    "./",
    "\\",
    "(",
    ")",
    " = ",
    "SHA256",
    "# ",
    " HASH",
    ":",
    "- ",
    "-----BEGIN PGP SIGNED MESSAGE-----\n",
];

#[test]
fn what_is_no_list_says_so() {
    let page = "<!DOCTYPE html>\n<html><body>Not here</body></html>\n";
    assert_eq!(
        find(page, None, "d").unwrap_err(),
        "there is no checksum in it; it begins with '<!DOCTYPE html> <html><body>Not here</body></html>'"
    );
    assert_eq!(find(" \n\n", None, "d").unwrap_err(), "it is empty");
    for text in
        [format!("{}  d", &A[..63]), format!("{A}0  d"), format!("sha256 {A}"), format!("x{A}  d"), "\0\n".into()]
    {
        assert!(find(&text, None, "d").is_err(), "{text}");
    }
}
