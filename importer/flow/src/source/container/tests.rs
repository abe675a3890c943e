use std::path::Path;

use dvcr_oci::Platform;
use fixtures::oci::{
    Blob, Entry, HOLES, Image, Index, Layer, Manifest, Packing, Style, Tar, write_archive, write_layout,
};

use super::{ContainerSource, Reading, layout};
use crate::import::append;
use crate::{Kind, Result, Source};

const PACKINGS: [Packing; 3] = [Packing::Plain, Packing::Gzip, Packing::Zstd];

fn disk(seed: u8) -> Vec<u8> {
    (0..200_000_u32).map(|at| (at.wrapping_mul(31).wrapping_add(u32::from(seed)) >> 3).to_le_bytes()[0]).collect()
}

/// The disk of the image at `place`, read twice.
fn read_from(
    place: &Path,
    reference: Option<&str>,
    platform: Option<&str>,
    want: Option<&str>,
    reading: Reading,
) -> Result<Vec<u8>> {
    let platform = platform.map(|platform| Platform::parse(platform).unwrap());
    let image = layout(place, reference, platform.as_ref())?;
    let mut source = ContainerSource::new(image, want.map(ToOwned::to_owned), reading)?;
    let mut passes = Vec::new();
    for _ in 0..2 {
        let mut bytes = Vec::new();
        let mut stream = source.open()?;
        assert!(source.len().is_some());
        while let Some(piece) = stream.next()? {
            append(piece, &mut bytes);
        }
        assert!(stream.next()?.is_none());
        assert_eq!(source.len(), Some(bytes.len() as u64));
        passes.push(bytes);
    }
    assert!(passes[0] == passes[1]);
    assert_eq!(source.ranges(), reading == Reading::Partial && source.glimpses());
    let len = passes[0].len();
    let third = len as u64 / 3..len as u64;
    if source.glimpses() {
        let mut part = Vec::new();
        crate::import::read_all(&mut *source.glimpse(vec![third.clone()])?, &mut part)?;
        assert!(part == passes[0][len / 3..]);
    }
    if !source.ranges() {
        // Nothing would prove it.
        assert_eq!(source.range(third).err().map(|error| error.kind()), Some(Kind::Ours));
    }
    Ok(passes.swap_remove(0))
}

/// The disk of an image, from a folder and from an archive, verified and in parts: all must be the same.
fn read(manifest: &Manifest, want: Option<&str>) -> Result<Vec<u8>> {
    let dir = tempfile::tempdir().unwrap();
    write_layout(dir.path(), &[("", manifest)]);
    let archive = dir.path().join("image.tar");
    write_archive(&archive, &[("", manifest)]);
    let bytes = read_from(dir.path(), None, None, want, Reading::Verified);
    for (place, reading) in
        [(dir.path(), Reading::Partial), (&archive, Reading::Verified), (&archive, Reading::Partial)]
    {
        let again = read_from(place, None, None, want, reading);
        match (&bytes, &again) {
            (Ok(bytes), Ok(again)) => assert!(bytes == again),
            (Err(error), Err(again)) => assert_eq!(error.kind(), again.kind(), "{error} / {again}"),
            (Ok(_), Err(error)) => panic!("{reading:?} {place:?}: {error}"),
            (Err(error), Ok(_)) => panic!("{reading:?} {place:?}: only once {error}"),
        }
    }
    bytes
}

fn image(layers: &[Tar]) -> Manifest {
    let layers = layers.iter().map(|tar| Layer::new(&tar.clone().end(), Packing::Plain));
    layers.fold(Image::new("linux/amd64"), Image::layer).build()
}

/// What is said when the image is refused.
fn refused(manifest: &Manifest, kind: Kind) -> String {
    let error = read(manifest, None).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    error.to_string()
}

/// RG06, RG17: every spelling of the name, every packing, whatever the label says.
#[test]
fn a_container_disk_is_read_however_it_is_written() {
    let disk = disk(1);
    for name in ["disk/a.img", "./disk/a.img", "/disk/a.img", "disk//a.img", "disk/sub/a.qcow2"] {
        let tar = Tar::new().with(Entry::file(name, &disk)).end();
        assert!(read(&image(&[Tar::new().with(Entry::file(name, &disk))]), None).unwrap() == disk, "{name}");
        for packing in PACKINGS {
            for label in
                ["application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.oci.image.layer.v1.tar", "x/y"]
            {
                let layer = Layer::new(&tar, packing).called(label);
                let manifest = Image::new("linux/amd64").layer(layer).build();
                assert!(read(&manifest, None).unwrap() == disk, "{name} {packing:?} {label}");
            }
        }
    }
    for dir in ["disk", "./disk", "/disk", "disk/"] {
        let tar = Tar::new().with(Entry::dir(dir)).with(Entry::file("disk/a.img", &disk));
        assert!(read(&image(&[tar]), None).unwrap() == disk, "{dir}");
    }
    let layer = Layer::new(&Tar::disk("disk.img", &disk).end(), Packing::Gzip);
    assert!(read(&Image::new("linux/amd64").style(Style::Docker).layer(layer).build(), None).unwrap() == disk);
}

/// RG08: layers in any order, whiteouts, links.
#[test]
fn layers_have_their_full_meaning() {
    let (old, new) = (disk(1), disk(2));
    let base = || Tar::new().with(Entry::file("etc/os-release", b"ID=x")).with(Entry::dir("disk"));
    let has = |name: &str, bytes: &[u8]| Tar::new().with(Entry::file(name, bytes));
    let cases: Vec<(&str, Vec<Tar>, &[u8])> = vec![
        ("below", vec![has("disk/a.img", &old), base()], &old),
        ("above", vec![base(), has("disk/a.img", &old)], &old),
        ("replaced", vec![has("disk/a.img", &old), has("./disk/a.img", &new)], &new),
        (
            "deleted",
            vec![
                has("disk/a.img", &old),
                Tar::new().with(Entry::whiteout("disk/a.img")).with(Entry::file("disk/b.img", &new)),
            ],
            &new,
        ),
        (
            "folder deleted",
            vec![has("disk/a.img", &old), Tar::new().with(Entry::whiteout("disk")), has("disk/b.img", &new)],
            &new,
        ),
        (
            "emptied",
            vec![has("disk/a.img", &old), Tar::new().with(Entry::opaque("disk")).with(Entry::file("disk/b.img", &new))],
            &new,
        ),
        (
            "emptied, later in the layer",
            vec![has("disk/a.img", &old), has("disk/b.img", &new).with(Entry::opaque("disk"))],
            &new,
        ),
        (
            "hidden files are not counted",
            vec![
                has("disk/.DS_Store", &old)
                    .with(Entry::file("disk/a.img", &new))
                    .with(Entry::file("disk/.hidden/x", &old)),
            ],
            &new,
        ),
        ("empty files are not counted", vec![has("disk/lock", b"").with(Entry::file("disk/a.img", &new))], &new),
        (
            "hard link in the layer",
            vec![has("disk/a.img", &old).with(Entry::hardlink("disk/b.img", "disk/a.img"))],
            &old,
        ),
        (
            "hard link to elsewhere",
            vec![has("images/a.img", &old).with(Entry::hardlink("disk/b.img", "images/a.img"))],
            &old,
        ),
        (
            "hard link whose other name is deleted",
            vec![
                has("images/a.img", &old).with(Entry::hardlink("disk/b.img", "./images/a.img")),
                Tar::new().with(Entry::whiteout("images/a.img")),
            ],
            &old,
        ),
        (
            "hard link to a file whose name another takes later",
            vec![
                has("data/a.img", &old)
                    .with(Entry::hardlink("disk/b.img", "data/a.img"))
                    .with(Entry::file("data/a.img", &new)),
            ],
            &old,
        ),
        ("symbolic link beside", vec![has("disk/a.img", &old).with(Entry::symlink("disk/current.img", "a.img"))], &old),
        (
            "symbolic link to another layer",
            vec![has("images/a.img", &old), Tar::new().with(Entry::symlink("disk/current.img", "../images/a.img"))],
            &old,
        ),
        (
            "absolute symbolic link",
            vec![has("images/a.img", &old).with(Entry::symlink("disk/current.img", "/images/a.img"))],
            &old,
        ),
        (
            "link to a link",
            vec![
                has("images/a.img", &old)
                    .with(Entry::symlink("images/b.img", "a.img"))
                    .with(Entry::symlink("disk/c.img", "/images/b.img")),
            ],
            &old,
        ),
        (
            "a dangling link beside the disk",
            vec![has("disk/a.img", &old).with(Entry::symlink("disk/x", "/nowhere"))],
            &old,
        ),
        ("devices are no disks", vec![has("disk/a.img", &old).with(Entry::special("disk/null", b'3'))], &old),
    ];
    for (what, layers, expect) in cases {
        for packing in PACKINGS {
            let layers = layers.iter().map(|tar| Layer::new(&tar.clone().end(), packing));
            let manifest = layers.fold(Image::new("linux/amd64"), Image::layer).build();
            let found = read(&manifest, None).unwrap_or_else(|error| panic!("{what}, {packing:?}: {error}"));
            assert!(found == expect, "{what}, {packing:?}");
        }
    }
}

/// RG05: two files are refused by name, and one can be chosen.
#[test]
fn more_than_one_disk_is_refused_by_name() {
    let (one, two) = (disk(1), disk(2));
    let together = image(&[Tar::new().with(Entry::file("disk/a.qcow2", &one)).with(Entry::file("disk/b.img", &two))]);
    let apart =
        image(&[Tar::new().with(Entry::file("disk/a.qcow2", &one)), Tar::new().with(Entry::file("disk/b.img", &two))]);
    let linked = image(&[
        Tar::new().with(Entry::file("images/a.qcow2", &one)),
        Tar::new().with(Entry::file("disk/b.img", &two)).with(Entry::symlink("disk/a.qcow2", "/images/a.qcow2")),
    ]);
    for manifest in [&together, &apart, &linked] {
        let said = refused(manifest, Kind::NotUsable);
        assert!(said.contains("disk/a.qcow2") && said.contains("disk/b.img") && said.contains("--disk"), "{said}");
    }
    for manifest in [&together, &apart] {
        assert!(read(manifest, Some("a.qcow2")).unwrap() == one);
        assert!(read(manifest, Some("disk/b.img")).unwrap() == two);
        let said = read(manifest, Some("c.img")).unwrap_err().to_string();
        assert!(said.contains("c.img"), "{said}");
    }
}

#[test]
fn every_way_to_have_holes_is_read() {
    let mut disk = vec![0; 1 << 20];
    disk[300_000..300_700].fill(7);
    disk[1_000_000..].fill(9);
    for holes in HOLES {
        let tar = Tar::new().with(Entry::sparse_of("disk/a.img", holes, &disk)).with(Entry::file("etc/x", b"x"));
        assert!(read(&image(&[tar]), None).unwrap() == disk, "{holes:?}");
    }
}

/// RG-R7: an artifact has the disk itself as its layer.
#[test]
fn artifacts_are_read() {
    let disk = disk(3);
    let title = "org.opencontainers.image.title";
    let layer = |name: &str, bytes: &[u8]| Layer::bare("application/octet-stream", bytes).annotate(title, name);
    let one = Image::artifact("application/x.disk").layer(layer("disk.raw", &disk)).build();
    assert!(read(&one, None).unwrap() == disk);
    let two =
        Image::artifact("application/x.disk").layer(layer("disk.raw", &disk)).layer(layer("x.sig", b"sig")).build();
    let said = refused(&two, Kind::NotUsable);
    assert!(said.contains("disk.raw (200000 bytes), x.sig (3 bytes)"), "{said}");
    assert!(read(&two, Some("disk.raw")).unwrap() == disk);
    // With the configuration of an image, but a layer that is no archive.
    let labelled =
        Image::new("linux/amd64").layer(Layer::bare("application/vnd.oci.image.layer.v1.tar", &disk)).build();
    assert!(read(&labelled, None).unwrap() == disk);
}

/// RG-R7: what has no disk is named for what it is.
#[test]
fn what_has_no_disk_is_named() {
    let base = || Tar::new().with(Entry::file("etc/os-release", b"ID=x")).with(Entry::file("usr/bin/sh", b"x"));
    let layer = || Layer::new(&base().end(), Packing::Gzip);
    let said = refused(&Image::new("linux/amd64").layer(layer()).build(), Kind::NotUsable);
    assert!(
        said.contains("no container disk") && said.contains("2 files") && said.contains("etc/os-release"),
        "{said}"
    );
    let said =
        refused(&Image::new("linux/amd64").label("containers.bootc", "1").layer(layer()).build(), Kind::NotUsable);
    assert!(said.contains("bootc-image-builder"), "{said}");
    let chart = Blob::new("application/vnd.cncf.helm.config.v1+json", *b"{}");
    let said = refused(&Image::new("linux/amd64").config(chart).layer(layer()).build(), Kind::NotUsable);
    assert!(said.contains("Helm chart"), "{said}");
    assert!(refused(&Image::new("linux/amd64").build(), Kind::NotUsable).contains("no container disk"));
    assert!(refused(&Image::artifact("x/y").build(), Kind::NotUsable).contains("no layers"));
    assert!(
        refused(&image(&[Tar::new().with(Entry::file("disk/a", b""))]), Kind::NotUsable).contains("disk/a is empty")
    );
    let said = refused(&image(&[Tar::new().with(Entry::symlink("disk/a", "/etc/passwd"))]), Kind::NotUsable);
    assert!(said.contains("/etc/passwd"), "{said}");
    let said = refused(&image(&[Tar::new().with(Entry::symlink("disk/a", "../../etc/passwd"))]), Kind::NotUsable);
    assert!(said.contains("passwd"), "{said}");
    refused(
        &image(&[Tar::new().with(Entry::symlink("disk/a", "b")).with(Entry::symlink("disk/b", "a"))]),
        Kind::NotUsable,
    );
    let said = refused(&image(&[Tar::new().with(Entry::file("disk/../../a", b"x"))]), Kind::NotUsable);
    assert!(said.contains("leads out"), "{said}");
    let twice = Tar::new().with(Entry::file("disk/a", b"x")).with(Entry::file("./disk/a", b"y"));
    assert!(refused(&image(&[twice]), Kind::NotUsable).contains("disk/a"));
}

#[test]
fn bytes_that_are_not_those_of_the_digest_are_refused() {
    let disk = disk(4);
    for packing in PACKINGS {
        let layer = Layer::new(&Tar::disk("a.img", &disk).end(), packing);
        let manifest = Image::new("linux/amd64").layer(layer.clone()).build();
        let dir = tempfile::tempdir().unwrap();
        write_layout(dir.path(), &[("", &manifest)]);
        let blob = dir.path().join("blobs").join(layer.blob.digest().replace(':', "/"));
        let good = layer.blob.bytes.clone();
        let read = || read_from(dir.path(), None, None, None, Reading::Verified);
        assert!(read().unwrap() == disk);
        if packing == Packing::Plain {
            let mut bad = good.clone();
            bad[5000] ^= 1;
            std::fs::write(&blob, &bad).unwrap();
            assert_eq!(read().unwrap_err().kind(), Kind::Mismatch);
        }
        let mut longer = good.clone();
        longer.extend_from_slice(&[0; 512]);
        std::fs::write(&blob, &longer).unwrap();
        assert_eq!(read().unwrap_err().kind(), Kind::Mismatch, "{packing:?}");
        std::fs::write(&blob, &good[..good.len() - 1]).unwrap();
        assert_eq!(read().unwrap_err().kind(), Kind::Mismatch, "{packing:?}");
        std::fs::remove_file(&blob).unwrap();
        let error = read().unwrap_err();
        assert!(error.to_string().contains("not complete"), "{error}");
    }
}

/// RG09…RG14: the platform that is asked for, or none.
#[test]
fn the_platform_is_chosen_and_never_guessed() {
    let image = |platform: &str, seed| {
        Image::new(platform).layer(Layer::new(&Tar::disk("a.img", &disk(seed)).end(), Packing::Zstd)).build()
    };
    let (amd64, arm64, arm) = (image("linux/amd64", 1), image("linux/arm64/v8", 2), image("linux/arm/v7", 3));
    let inner = Index::new().with(&arm64).attestation(&arm64).build();
    let index = Index::new().attestation(&amd64).with(&amd64).with(&inner).with(&arm).build();
    let dir = tempfile::tempdir().unwrap();
    write_layout(dir.path(), &[("v1", &index), ("plain", &arm64)]);
    let read = |reference, platform| read_from(dir.path(), Some(reference), Some(platform), None, Reading::Verified);
    for (platform, seed) in [("linux/amd64", 1), ("linux/arm64", 2), ("linux/aarch64/v8", 2), ("linux/arm", 3)] {
        assert!(read("v1", platform).unwrap() == disk(seed), "{platform}");
    }
    assert!(read("plain", "linux/arm64").unwrap() == disk(2));
    // An index that says of an image what its configuration denies.
    let lying = Index::new().with(&arm64.clone().said_for("linux/amd64")).build();
    let other = tempfile::tempdir().unwrap();
    write_layout(other.path(), &[("", &lying)]);
    let error = read_from(other.path(), None, Some("linux/amd64"), None, Reading::Verified).unwrap_err();
    assert_eq!(error.kind(), Kind::Refused, "{error}");
    for (reference, platform) in [("v1", "linux/s390x"), ("plain", "linux/amd64"), ("v1", "linux/arm/v6")] {
        let error = read(reference, platform).unwrap_err();
        assert_eq!(error.kind(), Kind::Refused, "{error}");
        assert!(error.to_string().contains("arm"), "{error}");
    }
    let error = read_from(dir.path(), None, None, None, Reading::Verified).unwrap_err();
    assert!(error.to_string().contains("v1, plain"), "{error}");
    let error = read("v2", "linux/amd64").unwrap_err();
    assert!(error.to_string().contains("v1, plain"), "{error}");
    let by_digest = format!("@{}", arm64.digest());
    assert!(read(&by_digest, "linux/arm64").unwrap() == disk(2));
}

#[test]
fn what_is_no_layout_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let said = |place: &Path| layout(place, None, None).err().unwrap().to_string();
    assert!(said(dir.path()).contains("no OCI layout"));
    std::fs::write(dir.path().join("manifest.json"), "[]").unwrap();
    assert!(said(dir.path()).contains("docker save"));
    assert!(said(&dir.path().join("absent")).contains("no such file"));
    let file = dir.path().join("file");
    std::fs::write(&file, "text").unwrap();
    assert!(said(&file).contains("no tar archive"));
    let archive = dir.path().join("cut.tar");
    write_archive(&archive, &[("", &image(&[Tar::disk("a", &disk(1))]))]);
    let bytes = std::fs::read(&archive).unwrap();
    std::fs::write(&archive, &bytes[..bytes.len() / 2]).unwrap();
    assert!(said(&archive).contains("cut"), "{}", said(&archive));
}
