use fixtures::http::Authority;

use super::*;

fn count(bytes: &[u8]) -> Result<usize, String> {
    certificates(bytes).map(|found| found.len())
}

#[test]
fn certificates_are_found_in_any_file() {
    let (one, two) = (Authority::new("one").pem(), Authority::new("two").pem());
    assert_eq!(count(one.as_bytes()), Ok(1));
    assert_eq!(count(format!("# a comment\n{one}\nText: between\n{two}").as_bytes()), Ok(2));
    assert_eq!(count(one.replace('\n', "\r\n").as_bytes()), Ok(1));
    let der = CertificateDer::from_pem_slice(one.as_bytes()).unwrap();
    assert_eq!(count(&der), Ok(1));
    // One that nobody can read does not disable the others.
    let odd = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(count(format!("{odd}{one}").as_bytes()), Ok(1));
}

#[test]
fn a_file_without_certificates_is_named() {
    let odd = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let cut = &Authority::new("one").pem()[..200];
    for (content, words) in [
        ("", "no certificate"),
        ("<html>", "no certificate"),
        (key, "no certificate"),
        (odd, "none of the 1"),
        (cut, "PEM"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bundle.txt");
        std::fs::write(&file, content).unwrap();
        let error = Trust::new(std::slice::from_ref(&file), false, Side::Source).err().unwrap();
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().starts_with(&file.display().to_string()), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let error = Trust::new(&["/nowhere/ca.pem".into()], false, Side::Source).err().unwrap();
    assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
}

#[test]
fn presented_names_are_shown_plainly() {
    assert_eq!(plain("DnsName(\"a.example\")"), "a.example");
    assert_eq!(plain("IpAddress(10.0.0.1)"), "10.0.0.1");
    assert_eq!(plain("DirectoryName"), "DirectoryName");
    assert_eq!(plain("DnsName(\"a\nb\")"), "ab");
}
