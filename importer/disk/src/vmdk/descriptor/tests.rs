use super::*;

fn parse(text: &str) -> Descriptor {
    Descriptor::parse(text.as_bytes()).unwrap().unwrap()
}

fn refused(text: &str) -> (Kind, String) {
    let error = refuse(text.as_bytes());
    (error.kind(), error.to_string())
}

#[test]
fn reads_what_vmware_writes() {
    let text = "# Disk DescriptorFile\r\nversion=1 \r\nencoding=\"windows-1252\"\r\nCID=a454774a \r\nparentCID=FFFFFFFF \r\n\
        createType = \"streamOptimized\" \r\n\r\n# Extent description\r\nRDONLY 33554432 SPARSE \"a name.vmdk\"\r\n\
        ddb.adapterType = \"lsilogic\"\r\n\0\0garbage=1";
    let descriptor = parse(text);
    assert_eq!(descriptor.create_type, "streamOptimized");
    assert_eq!(descriptor.adapter.as_deref(), Some("lsilogic"));
    assert!(!descriptor.parent && !descriptor.encrypted);
    assert_eq!(descriptor.count, 1);
    let part = &descriptor.extents[0];
    assert_eq!((part.accessible, part.sectors, part.kind.as_str(), part.offset), (true, 33_554_432, "SPARSE", 0));
    assert_eq!(part.name.as_deref(), Some("a name.vmdk"));
}

#[test]
fn blank_is_no_descriptor() {
    for blank in [&b""[..], &[0; 512], b" \r\n\0createType=\"custom\""] {
        assert!(Descriptor::parse(blank).unwrap().is_none(), "{blank:?}");
    }
}

#[test]
fn refuses_what_is_no_descriptor() {
    for text in
        ["hello", "RW 5 SPARSE \"x\"", "createType=\"a\"\ncreateType=\"b\"", "createType=\"a\"\nRW x FLAT \"y\" 0"]
    {
        assert_eq!(Descriptor::parse(text.as_bytes()).unwrap_err().kind(), Kind::Corrupt, "{text:?}");
    }
    for line in ["RW 5", "RW 5 SPARSE", "RW 5 SPARSE x", "RW 5 SPARSE \"x", "RW 5 FLAT \"x\" y", "RW -5 FLAT \"x\" 0"] {
        let text = format!("createType=\"custom\"\n{line}");
        let error = Descriptor::parse(text.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{line}: {error}");
    }
}

#[test]
fn names_the_missing_file() {
    let (kind, message) =
        refused("createType=\"monolithicFlat\"\nparentCID=ffffffff\nRW 20480 FLAT \"disk-flat.vmdk\" 0");
    assert_eq!(kind, Kind::Incomplete);
    assert_eq!(
        message,
        "vmdk: this monolithicFlat is in another file, \"disk-flat.vmdk\", which is missing; \
         import that file instead, it is the raw disk"
    );

    let parts: String = (1..=6).map(|part| format!("RW 4192256 SPARSE \"disk-s00{part}.vmdk\"\n")).collect();
    let (kind, message) = refused(&format!("createType=\"twoGbMaxExtentSparse\"\n{parts}"));
    assert_eq!(kind, Kind::Incomplete);
    assert!(message.contains("6 other files") && message.contains("disk-s004.vmdk\" and 2 more"), "{message}");
}

#[test]
fn names_what_leads_elsewhere() {
    for name in [
        "/etc/passwd",
        "../../secret.vmdk",
        "a/../../b",
        "\\\\host\\share\\x",
        "C:\\x.vmdk",
        "http://host/x",
        "json:{\"driver\":\"file\"}",
        "/dev/sda",
    ] {
        let name = name.split('"').next().unwrap();
        let (kind, message) = refused(&format!("createType=\"monolithicFlat\"\nRW 1 FLAT \"{name}\" 0"));
        assert_eq!(kind, Kind::External, "{name}: {message}");
    }
    for create_type in ["fullDevice", "vmfsRDM", "vmfsPassthroughRawDeviceMap"] {
        let (kind, _) = refused(&format!("createType=\"{create_type}\"\nRW 1 VMFSRDM \"x-rdm.vmdk\""));
        assert_eq!(kind, Kind::External, "{create_type}");
    }
}

#[test]
fn names_a_parent_and_encryption() {
    let sparse = "createType=\"monolithicSparse\"\nRW 1 SPARSE \"x\"\n";
    for (line, kind) in [
        ("parentCID=0172e8a4", Kind::External),
        ("PARENTCID=fffffffe", Kind::External),
        ("parentFileNameHint=\"base.vmdk\"", Kind::External),
        ("ddb.iofilters = \"vmwarevmcrypt\"", Kind::Encrypted),
        ("encryptionKeys=\"vmware:key\"", Kind::Encrypted),
        ("parentCID=ffffffff", Kind::Incomplete),
        ("# parentFileNameHint=\"base.vmdk\"", Kind::Incomplete),
    ] {
        let (found, message) = refused(&format!("{sparse}{line}"));
        assert_eq!(found, kind, "{line}: {message}");
    }
}

#[test]
fn shows_nothing_that_moves_the_cursor() {
    let evil = "\u{1b}[2Jx\u{85}y\u{7}";
    let (_, message) = refused(&format!("createType=\"{evil}\"\nRW 1 FLAT \"{evil}{}\" 0", "n".repeat(5000)));
    assert!(!message.chars().any(char::is_control), "{message:?}");
    assert!(message.chars().count() < 600, "{message}");
}

proptest::proptest! {
    #[test]
    fn any_text_is_answered(text in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
        let message = refuse(&text).to_string();
        proptest::prop_assert!(!message.is_empty() && message.chars().count() < 1200);
    }

    #[test]
    fn any_line_is_answered(text in "(createType=\"[a-z]{0,9}\"\n|RW |[0-9]{1,22} |FLAT |\"|x|/|\\.\\.|\n| |=|\0){0,40}") {
        proptest::prop_assert!(!refuse(text.as_bytes()).to_string().is_empty());
    }
}
