use proptest::prelude::*;

use super::*;

const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[test]
fn is_read_as_docker_reads_it() {
    let cases = [
        ("ubuntu", "docker.io/library/ubuntu:latest"),
        ("ubuntu:24.04", "docker.io/library/ubuntu:24.04"),
        ("docker://ubuntu", "docker.io/library/ubuntu:latest"),
        ("team/image", "docker.io/team/image:latest"),
        ("docker.io/ubuntu", "docker.io/library/ubuntu:latest"),
        ("index.docker.io/ubuntu", "docker.io/library/ubuntu:latest"),
        ("docker.io/library/ubuntu", "docker.io/library/ubuntu:latest"),
        ("docker.io/team/image:v1", "docker.io/team/image:v1"),
        ("localhost/x", "localhost/x:latest"),
        ("localhost:5000/x", "localhost:5000/x:latest"),
        ("docker://127.0.0.1:5000/cvi/jammy:v1", "127.0.0.1:5000/cvi/jammy:v1"),
        ("docker://[::1]:5000/cvi/jammy:v1", "[::1]:5000/cvi/jammy:v1"),
        ("[2001:DB8:0:0::1]/a/b", "[2001:db8::1]/a/b:latest"),
        ("registry:5000/x", "registry:5000/x:latest"),
        ("quay.io/containerdisks/fedora:41", "quay.io/containerdisks/fedora:41"),
        ("Quay.IO/x", "quay.io/x:latest"),
        ("foo.com:tag", "docker.io/library/foo.com:tag"),
        ("xn--n3h.com/myimage:xn--n3h.com", "xn--n3h.com/myimage:xn--n3h.com"),
        ("b.gcr.io/test.example.com/my-app:test.example.com", "b.gcr.io/test.example.com/my-app:test.example.com"),
        ("host:5000/a:5000", "host:5000/a:5000"),
    ];
    for (text, full) in cases {
        let reference = Reference::parse(text).unwrap();
        assert_eq!(reference.to_string(), full, "{text}");
        assert_eq!(Reference::parse(full).unwrap(), reference, "{text}");
    }
}

#[test]
fn a_digest_says_which_image_it_is() {
    let bare = Reference::parse(&format!("docker://r.example/x@{EMPTY}")).unwrap();
    assert_eq!((bare.tag(), bare.digest().unwrap().to_string().as_str()), (None, EMPTY));
    assert_eq!(bare.to_string(), format!("r.example/x@{EMPTY}"));
    let both = Reference::parse(&format!("r.example/x:v1@{EMPTY}")).unwrap();
    assert_eq!(both.tag().unwrap().as_str(), "v1");
    assert_eq!(both.to_string(), format!("r.example/x:v1@{EMPTY}"));
    // Pinned again: in place of the digest, not behind it.
    let other = Digest::of(b"other");
    assert_eq!(both.with_digest(other).to_string(), format!("r.example/x:v1@{other}"));
    assert_eq!(both.with_tag(Tag::latest()).to_string(), "r.example/x:latest");
}

#[test]
fn what_is_wrong_is_said() {
    let digits = "a".repeat(64);
    let cases = [
        ("", Kind::Reference, "empty"),
        ("docker://", Kind::Reference, "empty"),
        ("https://r.example/x", Kind::Reference, "docker://host/repository:tag"),
        ("docker://docker://x", Kind::Reference, "docker://host/repository:tag"),
        ("r.example/", Kind::Name, "empty"),
        ("r.example//x", Kind::Name, "empty"),
        ("r.example/../x", Kind::Name, "begin"),
        ("r.example/a/../../etc/passwd", Kind::Name, "begin"),
        ("r.example/a%2f..%2fb", Kind::Name, "only letters"),
        ("Team/x", Kind::Name, "lower case"),
        ("r.example/Team/x", Kind::Name, "lower case"),
        ("r.example/x:", Kind::Tag, "no tag"),
        ("r.example/x:a/b", Kind::Tag, "no tag"),
        ("r.example/x:a:b", Kind::Tag, "no tag"),
        ("r.example:0/x", Kind::Reference, "port"),
        ("r.example:65536/x", Kind::Reference, "port"),
        ("r.example:+80/x", Kind::Reference, "port"),
        ("r.example:/x", Kind::Reference, "port"),
        ("[::g]:5000/x", Kind::Reference, "IPv6"),
        ("[::1]x/x", Kind::Reference, "registry"),
        ("-r.example/x", Kind::Reference, "host name"),
        ("r..example/x", Kind::Reference, "host name"),
        ("r_x.example/x", Kind::Reference, "host name"),
        ("user:password@r.example/x", Kind::Reference, "separately"),
        ("r.example/x@", Kind::Digest, "no digest"),
        ("r.example/x@latest", Kind::Digest, "no digest"),
        ("r.example/x?y=z", Kind::Reference, "no URL"),
        (&digits, Kind::Reference, "id of an image"),
        ("r.example/x y", Kind::Name, "only letters"),
        ("r.example/x\n", Kind::Name, "only letters"),
    ];
    for (text, kind, words) in cases {
        let error = Reference::parse(text).unwrap_err();
        assert_eq!(error.kind(), kind, "{text}: {error}");
        assert!(error.to_string().contains(words), "{text}: {error}");
        assert!(!error.to_string().contains('\n') && !error.to_string().contains("password@"), "{error}");
    }
    let twice = format!("r.example/x@{EMPTY}@{EMPTY}");
    assert_eq!(Reference::parse(&twice).unwrap_err().kind(), Kind::Digest);
    let long = format!("r.example/{}", "a/".repeat(100_000));
    assert!(Reference::parse(&long).unwrap_err().to_string().len() < 600);
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(text in "\\PC{0,40}") {
        drop(Reference::parse(&text));
    }

    #[test]
    fn what_it_takes_it_shows_and_takes_again(text in "([a-zA-Z.:0-9\\[\\]-]{1,12}/)?[a-z0-9._/-]{1,20}(:[a-zA-Z0-9._-]{1,8})?") {
        if let Ok(reference) = Reference::parse(&text) {
            prop_assert!(!reference.name().as_str().contains(".."));
            prop_assert_eq!(Reference::parse(&reference.to_string()).unwrap(), reference);
        }
    }
}
