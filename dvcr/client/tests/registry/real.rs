//! Against the distribution registry, and ours.

use bytes::Bytes;
use dvcr_client::{Config, Keyring, Kind, Login, Pushed, Target};
use dvcr_oci::{Descriptor, Digest, Host, ImageConfig, ImageManifest, Name, Platform, Reference, Tag, media};
use fixtures::registry::{Config as Registry, Grant, Tokens, dvcr_program};

use super::{client, quick, sample};

/// An image of two layers, pushed in both ways and pulled again.
async fn there_and_back(config: Config, host: &str) {
    let client = client(config);
    let name = Name::parse("team/x").unwrap();
    let repository = client.repository(&Host::parse(host).unwrap(), &name);
    let (first, second) = (sample(5_000_000), sample(3_000_001));
    let blob = Descriptor::of(media::OCI_LAYER, &first);
    let content = Bytes::from(first.clone());
    assert_eq!(repository.push(&blob, &content).await.unwrap(), Pushed::Sent);
    assert_eq!(repository.push(&blob, &content).await.unwrap(), Pushed::Existed);
    let mut upload = repository.upload();
    for piece in second.chunks(70_000) {
        upload.write(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    upload.finish(&Digest::of(&second)).await.unwrap();
    let platform = Platform::parse("linux/amd64").unwrap();
    let config = ImageConfig::new(&platform, vec![Digest::of(&first), Digest::of(&second)]).to_bytes();
    let entry = Descriptor::of(media::OCI_CONFIG, &config);
    repository.push(&entry, &Bytes::from(config)).await.unwrap();
    let layers = vec![blob.clone(), Descriptor::of(media::OCI_LAYER, &second)];
    let manifest = ImageManifest::new(entry, layers);
    let tag = Target::Tag(Tag::parse("v1").unwrap());
    let digest = repository.put_manifest(&tag, &manifest.media_type, manifest.to_bytes()).await.unwrap();
    assert_eq!(repository.tags().await.unwrap(), [Tag::parse("v1").unwrap()]);
    assert_eq!(repository.digest(&Tag::parse("v1").unwrap()).await.unwrap(), digest);
    for rest in ["team/x:v1".to_owned(), format!("team/x@{digest}"), format!("team/x:other@{digest}")] {
        let reference = Reference::parse(&format!("docker://{host}/{rest}")).unwrap();
        let image = client.resolve(&reference, Some(&platform)).await.unwrap();
        assert_eq!(image.digest, digest);
        for (layer, bytes) in image.manifest.layers.iter().zip([&first, &second]) {
            assert!(image.blob(layer).bytes(10_000_000).await.unwrap() == bytes);
        }
    }
    let other = client.repository(&Host::parse(host).unwrap(), &Name::parse("team/y").unwrap());
    assert!(other.mount(&blob.digest, &name).await.unwrap());
    assert!(other.exists(&blob).await.unwrap());
    let none = Reference::parse(&format!("docker://{host}/team/x:none")).unwrap();
    assert_eq!(client.resolve(&none, None).await.unwrap_err().kind(), Kind::NotFound);
}

fn both() -> [Registry; 2] {
    [Registry::distribution(), Registry::dvcr(dvcr_program())]
}

#[tokio::test]
async fn an_open_one() {
    for registry in both() {
        let registry = registry.start();
        there_and_back(quick(), &registry.host()).await;
    }
}

#[tokio::test]
async fn one_with_tls_and_a_password() {
    for registry in both() {
        secret(registry).await;
    }
}

async fn secret(registry: Registry) {
    let registry = registry.tls().login("user", "s3cret").start();
    let keyring = Keyring::only(Login::Basic { user: "user".into(), password: "s3cret".into() });
    let mut config = Config { keyring, ..quick() };
    config.transport.ca_files = vec![registry.ca_file()];
    there_and_back(config.clone(), &registry.host()).await;
    // Without the authority nobody is trusted, but for the host that is named.
    config.transport.ca_files.clear();
    let reference = Reference::parse(&format!("docker://{}/team/x:v1", registry.host())).unwrap();
    let error = client(config.clone()).resolve(&reference, None).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Refused);
    assert!(error.to_string().contains("not trusted"), "{error}");
    let named = Config { insecure: vec![Host::parse(&registry.host()).unwrap()], ..config.clone() };
    client(named).resolve(&reference, None).await.unwrap();
    let other =
        Config { insecure: vec![Host::parse("127.0.0.1:1").unwrap(), Host::parse("127.0.0.1").unwrap()], ..config };
    client(other).resolve(&reference, None).await.unwrap_err();
}

#[tokio::test]
async fn one_with_tokens() {
    let tokens =
        Tokens::start(vec![Grant::to("user", "s3cret", "team/", &["pull", "push"]), Grant::to_all("open/", &["pull"])]);
    for registry in both() {
        issued(&tokens, registry).await;
    }
}

async fn issued(tokens: &Tokens, registry: Registry) {
    let registry = registry.tokens(tokens).start();
    let keyring = Keyring::only(Login::Basic { user: "user".into(), password: "s3cret".into() });
    let config = Config { keyring, ..quick() };
    there_and_back(config.clone(), &registry.host()).await;
    // What is expired when it comes is of no use, and nobody asks for it without end.
    tokens.lasting(-120);
    let reference = Reference::parse(&format!("docker://{}/team/x:v1", registry.host())).unwrap();
    let error = client(config).resolve(&reference, None).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Denied, "{error}");
    tokens.lasting(300);
    let error = client(quick()).resolve(&reference, None).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Denied, "{error}");
}
