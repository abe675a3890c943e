//! Images of layers as a source: container disks and artifacts.

use fixtures::oci::{Entry, Image, Index, Layer, Manifest, Packing, Tar, write_archive, write_layout};
use serde_json::json;

use super::program::{Place, image, importer, reported, run};

/// A container disk with the image `name`, for this machine and for s390x.
fn container(place: &Place, name: &str, packing: Packing) -> (fixtures::images::Image, Manifest) {
    let made = image(name, place);
    let bytes = std::fs::read(&made.path).unwrap();
    let tar = Tar::new().with(Entry::dir("disk")).with(Entry::file("./disk/disk.img", &bytes)).end();
    let built = |platform| Image::new(platform).layer(Layer::new(&tar, packing)).build();
    let index =
        Index::new().with(&built("linux/amd64")).with(&built("linux/s390x")).with(&built("linux/arm64")).build();
    (made, index)
}

#[test]
fn disks_of_layouts_are_copied() {
    for (name, wrappers) in [("qcow2-64k-v1.1", json!([])), ("raw", json!([])), ("qcow2.gzip", json!(["gzip"]))] {
        for packing in [Packing::Plain, Packing::Gzip, Packing::Zstd] {
            let place = Place::new();
            let (made, manifest) = container(&place, name, packing);
            let layout = place.path().join("layout");
            write_layout(&layout, &[("v1", &manifest), ("other", &manifest)]);
            let archive = place.path().join("archive.tar");
            write_archive(&archive, &[("v1", &manifest)]);
            for source in [format!("oci:{}:v1", layout.display()), format!("oci-archive:{}", archive.display())] {
                let (ran, report) = reported(&mut place.copy(&source), &place);
                assert_eq!(ran.code, 0, "{source}: {}", ran.stderr);
                assert_eq!(report["image"]["wrappers"], wrappers);
                let layers: u64 = manifest.manifests[0].blobs.iter().map(|blob| blob.bytes.len() as u64).sum();
                let passes = if report["mode"] == "two-pass" { 2 } else { 1 };
                assert!(
                    report["source"]["bytes"].as_u64().unwrap() <= layers * passes,
                    "{source} {packing:?}: {report}"
                );
                let digest = report["source"]["digest"].as_str().unwrap();
                assert!(manifest.manifests.iter().any(|manifest| manifest.digest() == digest), "{digest}");
                place.assert_copied(&made.raw(), &format!("{source} {packing:?}"));
                let told = run(importer().args(["inspect", "--json", &source])).succeeded().json();
                assert_eq!((&told["wrappers"], &told["digest"]), (&wrappers, &digest.into()));
                assert!(told["platform"].as_str().is_some_and(|platform| platform.starts_with("linux/")), "{told}");
            }
        }
    }
}

/// Whatever a copy would refuse is not shown as if it were usable.
#[test]
fn several_disks_are_refused_alike() {
    let place = Place::new();
    let [one, other] = ["raw", "qcow2-64k-v1.1"].map(|name| std::fs::read(image(name, &place).path).unwrap());
    let file = |name: &str, bytes: &[u8]| Tar::new().with(Entry::file(name, bytes));
    let both = file("disk/a.img", &one).with(Entry::file("disk/b.qcow2", &other));
    for packing in [Packing::Plain, Packing::Gzip, Packing::Zstd] {
        let layer = |tar: &Tar| Layer::new(&tar.clone().end(), packing);
        let image = || Image::new("linux/amd64");
        for manifest in [
            image().layer(layer(&both)).build(),
            image().layer(layer(&file("disk/a.img", &one))).layer(layer(&file("disk/b.qcow2", &other))).build(),
        ] {
            let layout = place.path().join("layout");
            write_layout(&layout, &[("v1", &manifest)]);
            let source = format!("oci:{}", layout.display());
            let copied = run(&mut place.copy(&source)).failed(5);
            let told = run(importer().args(["inspect", &source])).failed(5);
            assert_eq!(copied, told, "{packing:?}");
            assert!(told.contains("disk/a.img") && told.contains("disk/b.qcow2") && told.contains("--disk"), "{told}");
            for (disk, format) in [("a.img", "raw"), ("disk/b.qcow2", "qcow2")] {
                let told = run(importer().args(["inspect", "--json", &source, "--disk", disk])).succeeded().json();
                assert_eq!(told["format"], format, "{packing:?} {disk}");
                run(place.copy(&source).args(["--disk", disk])).succeeded();
            }
            std::fs::remove_dir_all(&layout).unwrap();
        }
    }
}

/// An option that chooses is no option where there is no choice.
#[test]
fn a_disk_is_chosen_only_where_there_are_some() {
    let place = Place::new();
    for name in ["raw", "qcow2-64k-v1.1", "qcow2.gzip"] {
        let made = image(name, &place);
        let said = run(place.copy(&made.path).args(["--disk", "data.vmdk"])).failed(2);
        assert!(said.contains("--disk data.vmdk"), "{said}");
        run(importer().arg("inspect").arg(&made.path).args(["--disk", "data.vmdk"])).failed(2);
    }
    assert!(place.left().is_empty());
}

#[test]
fn what_is_asked_for_and_not_there_leaves_nothing() {
    let place = Place::new();
    let (_, manifest) = container(&place, "raw", Packing::Gzip);
    let other = Image::new("linux/amd64").layer(Layer::new(&Tar::disk("x", b"x").end(), Packing::Gzip)).build();
    let layout = place.path().join("layout");
    write_layout(&layout, &[("v1", &manifest), ("v2", &other)]);
    let source = format!("oci:{}", layout.display());
    for (args, code, says) in [
        (vec![format!("{source}:v1"), "--platform=linux/riscv64".into()], 4, "linux/s390x"),
        (vec![format!("{source}:v3")], 4, "v1, v2"),
        (vec![source.clone()], 2, "v1, v2"),
        (vec![format!("{source}:v1"), "--platform=amd64".into()], 2, "linux/amd64"),
        (vec![format!("{source}:v1"), "--disk=x.img".into()], 5, "x.img"),
        (vec![place.path().join("raw").display().to_string(), "--platform=linux/amd64".into()], 2, "--platform"),
        (vec![format!("oci:{}", place.path().join("nowhere").display())], 4, "no such file"),
    ] {
        let mut command = importer();
        let ran = run(command.arg("copy").args(&args).arg(place.target()));
        assert_eq!(ran.code, code, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(says) && ran.stderr.lines().count() == 1, "{args:?}: {}", ran.stderr);
        assert!(place.left().is_empty(), "{args:?}");
    }
}
