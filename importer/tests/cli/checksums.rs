//! `--checksum` and `--checksum-url`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use fixtures::http::{Object, Reply, Server};
use fixtures::images::{Manifest, Ova, OvaDisk, SIZE};
use fixtures::nginx::Config;
use fixtures::store;
use fixtures::{sha256, sha256_file, tool};

use super::program::{Place, image, report, reported, run, run_piped};

const ALGORITHMS: [(&str, usize); 6] =
    [("md5", 32), ("sha1", 40), ("sha256", 64), ("sha512", 128), ("streebog256", 64), ("streebog512", 128)];

/// `ALG:HEX` of a file: as coreutils have it, and for Streebog as our own error does; its vectors are tested elsewhere.
fn checksum(algorithm: &str, digits: usize, path: &Path) -> String {
    let hex = if algorithm.starts_with("streebog") {
        let place = Place::new();
        let wrong = format!("{algorithm}:{}", "0".repeat(digits));
        let line = run(place.copy(path).args(["--progress", "none", "--checksum", &wrong])).failed(7);
        let found = line.split(&format!("the {algorithm} checksum is ")).nth(1).unwrap();
        found[..digits].to_owned()
    } else {
        let output = tool(&format!("{algorithm}sum")).arg(path).output().unwrap();
        String::from_utf8(output.stdout).unwrap()[..digits].to_owned()
    };
    format!("{algorithm}:{hex}")
}

/// Copies with these checksums, which are right, and fails with any of them wrong.
#[track_caller]
fn judged(place: &Place, make: impl Fn() -> Command, raw: &Path, path: &Path) -> String {
    let mut right = make();
    right.args(["--checksum", &format!("sha256:{}", sha256_file(path)), "--report"]);
    run(right.arg(place.path().join("right.json"))).succeeded();
    place.assert_copied(raw, "with a checksum");
    let written = report(&place.path().join("right.json"));
    assert_eq!(written["source"]["digest"], format!("sha256:{}", sha256_file(path)));
    let wrong = "1".repeat(64);
    let mut command = make();
    let line = run(command.args(["--progress", "none", "--checksum", &format!("sha256:{wrong}")])).failed(7);
    assert!(line.contains(&sha256_file(path)) && line.contains(&wrong) && line.contains("sha256"), "{line}");
    assert_eq!(place.left(), [""; 0]);
    written["mode"].as_str().unwrap().to_owned()
}

#[test]
fn all_that_are_given_must_match() {
    let place = Place::new();
    let made = image("raw.gzip", &place);
    let right: Vec<String> = ALGORITHMS.iter().map(|(name, len)| checksum(name, *len, &made.path)).collect();
    let with = |checksums: &[String]| {
        let mut command = place.copy(&made.path);
        for checksum in checksums {
            command.arg("--checksum").arg(checksum);
        }
        command
    };
    let (ran, report) = reported(&mut with(&right), &place);
    ran.succeeded();
    place.assert_copied(&made.raw(), "all six");
    assert_eq!(report["source"]["digest"], format!("sha256:{}", sha256_file(&made.path)));
    assert_eq!(report["source"]["bytes"], made.path.metadata().unwrap().len());
    for (at, (name, digits)) in ALGORITHMS.iter().enumerate() {
        let mut sums = right.clone();
        sums[at] = format!("{}:{}", name.to_uppercase(), "A".repeat(*digits));
        let (ran, report) = reported(with(&sums).args(["--progress", "none"]), &place);
        let line = ran.failed(7);
        let got = right[at].split(':').nth(1).unwrap();
        assert!(line.contains(&format!("the {name} checksum is {got}, not aaaaaaaa")), "{line}");
        assert_eq!(report["reason"], "VerificationFailed");
        assert_eq!(place.left(), [""; 0], "{name}");
    }
}

#[test]
fn the_whole_file_is_read_once_however_the_image_would_be_read_without() {
    let place = Place::new();
    let server = Config::new(place.path()).start();
    let plain = Config::new(place.path()).ranges(false).start();
    for (name, ranges, mode) in [
        ("qcow2-64k-v1.1", true, "streaming"),
        ("qcow2-64k-grown-written", false, "two-pass"),
        ("vmdk-stream", false, "streaming"),
        ("raw", true, "streaming"),
        ("raw.tar-gnu", true, "streaming"),
        ("raw.tar-sparse-pax-1.0", true, "streaming"),
        ("raw.tar-gnu.gzip", true, "streaming"),
        ("raw.gzip-padded", true, "streaming"),
        ("raw.xz-streams-padded", true, "streaming"),
        ("raw.bzip2", true, "streaming"),
        ("raw.lz4", true, "streaming"),
        ("qcow2.gzip-1", true, "streaming"),
        ("raw.zstd", true, "streaming"),
        ("raw.xz", true, "streaming"),
    ] {
        let made = image(name, &place);
        let file = made.path.file_name().unwrap().to_str().unwrap();
        let url = if ranges { server.url(file) } else { plain.url(file) };
        let make = || {
            let mut command = place.copy(&url);
            command.args(["--memory", "16Mi"]);
            command
        };
        assert_eq!(judged(&place, make, &made.raw(), &made.path), mode, "{name}");
        // The same from a path, where holes are not read.
        judged(&place, || place.copy(&made.path), &made.raw(), &made.path);
    }
    drop(server.finish());
}

#[test]
fn what_comes_through_a_pipe_and_an_appliance_are_hashed_to_their_ends() {
    let place = Place::new();
    let made = image("qcow2-64k-grown-written", &place);
    let right = format!("sha256:{}", sha256_file(&made.path));
    let mut command = place.copy("-");
    run_piped(command.args(["--memory", "16Mi", "--checksum", &right]), &made.path).succeeded();
    place.assert_copied(&made.raw(), "spooled");
    let wrong = format!("sha256:{}", "0".repeat(64));
    let mut command = place.copy("-");
    run_piped(command.args(["--memory", "16Mi", "--progress", "none", "--checksum", &wrong]), &made.path).failed(7);
    assert_eq!(place.left(), [""; 0]);
    let disk = image("vmdk-stream", &place);
    let ova = place.path().join("appliance.ova");
    let disks = vec![OvaDisk::new(&disk.path, "disk.vmdk", SIZE)];
    Ova { disks, manifest: Manifest::First }.build(&ova);
    judged(&place, || place.copy(&ova), &disk.raw(), &ova);
}

/// A CRC is enough to notice an accident between two passes, and nothing to somebody who means it.
#[test]
fn bytes_that_come_in_a_second_pass_are_hashed_too() {
    let place = Place::new();
    let made = image("qcow2-64k-grown-written", &place);
    let bytes = fs::read(&made.path).unwrap();
    let mut forged = bytes.clone();
    // The generator of CRC-32 itself: whatever it is added to keeps its CRC.
    let at = 1 << 20;
    for (bit, one) in (0..33).map(|bit| (bit, 0x1_04c1_1db7_u64 >> (32 - bit) & 1)) {
        forged[at + bit / 8] ^= u8::try_from(one << (bit % 8)).unwrap();
    }
    let serve = |passes: [Vec<u8>; 2]| {
        let count = AtomicUsize::new(0);
        Server::start(move |_| Reply::ok(passes[count.fetch_add(1, Ordering::SeqCst).min(1)].clone()))
    };
    let right = format!("sha256:{}", sha256(&bytes));
    let with = |server: &Server| {
        let mut command = place.copy(server.url("/disk.qcow2"));
        command.args(["--memory", "16Mi", "--progress", "none", "--checksum", &right]);
        run(&mut command)
    };
    with(&serve([bytes.clone(), bytes.clone()])).succeeded();
    place.assert_copied(&made.raw(), "two honest passes");
    let line = with(&serve([bytes, forged.clone()])).failed(7);
    assert!(line.contains(&sha256(&forged)), "{line}");
    assert_eq!(place.left(), [""; 0]);
}

/// A server that compresses what it sends, or says of a compressed file that it did. The list may mean either.
#[test]
fn what_was_encoded_for_the_way_may_be_hashed_before_or_after() {
    let place = Place::new();
    let made = image("raw.gzip", &place);
    let (encoded, plain) = (fs::read(&made.path).unwrap(), fs::read(made.raw()).unwrap());
    let server = Server::start({
        let encoded = encoded.clone();
        move |_| Reply::ok(encoded.clone()).header("content-encoding", "gzip")
    });
    let with = |checksums: &[String]| {
        let mut command = place.copy(server.url("/disk.raw"));
        command.args(["--progress", "none"]);
        checksums.iter().for_each(|checksum| {
            command.args(["--checksum", checksum]);
        });
        reported(&mut command, &place)
    };
    let (before, after) = (format!("sha256:{}", sha256(&encoded)), format!("sha256:{}", sha256(&plain)));
    for checksums in [vec![before.clone()], vec![after.clone()], vec![before.clone(), after.clone()]] {
        let (ran, report) = with(&checksums);
        ran.succeeded();
        place.assert_copied(&made.raw(), &checksums.join(" "));
        assert_eq!(report["source"]["digest"], after);
    }
    let line = with(&[before, format!("sha256:{}", "0".repeat(64))]).0.failed(7);
    let both = format!("is {} ({} as the server encoded it), not 000", sha256(&plain), sha256(&encoded));
    assert!(line.contains(&both), "{line}");
    assert_eq!(place.left(), [""; 0]);
}

#[test]
fn an_object_in_a_bucket_has_a_name_too() {
    let place = Place::new();
    let made = image("raw-one-sector", &place);
    let (key, right) = ("images/f 41+.img", sha256_file(&made.path));
    let store = store::Config::new().bucket("bucket", "us-east-1").object("bucket", key, &made.path).start();
    let list = place.file("list", format!("{right}  f 41+.img\n"));
    let wrong = place.file("wrong", format!("{}  f 41+.img\n", "0".repeat(64)));
    let with = |list: &Path| {
        let mut command = place.copy(format!("s3://bucket/{key}"));
        command.env("AWS_ACCESS_KEY_ID", store::KEY_ID).env("AWS_SECRET_ACCESS_KEY", store::SECRET);
        run(command.args(["--progress", "none", "--endpoint", &store.url(), "--checksum-url"]).arg(list))
    };
    with(&list).succeeded();
    place.assert_copied(&made.raw(), "from a bucket");
    with(&wrong).failed(7);
    // Headers and keys are for the image; another place has its own.
    let lists = Server::start(move |_| Reply::ok(right.clone()));
    let mut command = place.copy(&made.path);
    command.env("AWS_ENDPOINT_URL", lists.url("")).args(["--header", "X-Auth-Token: token"]);
    command.env("AWS_ACCESS_KEY_ID", store::KEY_ID).env("AWS_SECRET_ACCESS_KEY", store::SECRET);
    run(command.args(["--checksum-url", "s3://bucket/SUMS"])).succeeded();
    assert!(lists.seen().iter().all(|seen| seen.header("x-auth-token").is_none()), "{:?}", lists.seen());
    assert!(!lists.seen().is_empty());
    place.assert_copied(&made.raw(), "by a list in a bucket");
    let secret = place.file("secret", "sesame");
    let mut command = place.copy(&made.path);
    command.args(["--progress", "none", "--user", "ali", "--checksum-url", "s3://bucket/SUMS", "--password-file"]);
    let line = run(command.arg(secret)).failed(2);
    assert!(line.contains("--user is for the image"), "{line}");
}

/// A folder of a mirror: an image and lists of it, and what was asked for.
fn mirror(bytes: Vec<u8>, lists: &[(&str, String)]) -> Server {
    let object = Object::new(bytes);
    let lists: Vec<(String, String)> = lists.iter().map(|(path, text)| ((*path).to_owned(), text.clone())).collect();
    Server::start(move |seen| {
        let path = seen.target.split('?').next().unwrap();
        match lists.iter().find(|(list, _)| list == path) {
            Some((_, text)) => Reply::ok(text.clone()),
            None if path == "/moved" => Reply::redirect(302, "/f41/disk%201.img?sig=a%2Fb"),
            None if path.ends_with(".img") => object.answer(seen),
            None => Reply::new(404),
        }
    })
}

#[test]
fn a_list_has_the_checksum() {
    let place = Place::new();
    let made = image("raw-one-sector", &place);
    let bytes = fs::read(&made.path).unwrap();
    let (right, wrong) = (sha256(&bytes), "0".repeat(64));
    let streebog = checksum("streebog256", 64, &made.path);
    let streebog = streebog.split(':').nth(1).unwrap();
    let lists = [
        ("/SHA256SUMS", format!("{wrong} *other.img\n{right} *disk 1.img\n")),
        ("/CHECKSUM", format!("# disk 1.img: 512 bytes\nSHA256 (disk 1.img) = {right}\nMD5 (other) = {wrong}\n")),
        (
            "/signed",
            format!(
                "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n{right}  ./disk 1.img\r\n-----BEGIN PGP SIGNATURE-----\n\niQ\n-----END PGP SIGNATURE-----\n"
            ),
        ),
        ("/one", format!("{right}\n")),
        ("/gost", format!("{streebog}  disk 1.img\n")),
        ("/wrong", format!("{wrong}  disk 1.img\n")),
        ("/others", format!("{wrong}  disk1.img\n{wrong}  disk2.img\n")),
        ("/page", "<html><body>No such list</body></html>".to_owned()),
        ("/large", "x".repeat((1 << 20) + 1)),
    ];
    let server = mirror(bytes, &lists);
    let with = |list: &str| {
        let mut command = place.copy(server.url("/f41/disk%201.img?token=x"));
        command.args(["--progress", "none", "--checksum-url", list]);
        command
    };
    for list in ["/SHA256SUMS", "/CHECKSUM", "/signed", "/one", "/gost"] {
        run(&mut with(&server.url(list))).succeeded();
        place.assert_copied(&made.raw(), list);
    }
    // A path; the algorithm by name; together with a checksum and another list.
    let path = place.file("sums.txt", &lists[0].1);
    let (mut command, gost) = (with(path.to_str().unwrap()), place.file("sums", format!("{streebog}  disk 1.img\n")));
    command.args(["--checksum-url", &format!("Streebog256:{}", gost.display())]);
    run(command.args(["--checksum", &format!("sha256:{right}")])).succeeded();
    place.assert_copied(&made.raw(), "all of them");

    let line = run(&mut with(&server.url("/wrong"))).failed(7);
    assert!(line.contains(&right) && line.contains(&wrong), "{line}");
    run(with(&server.url("/one")).args(["--checksum", &format!("sha256:{wrong}")])).failed(7);
    let images = || server.seen().iter().filter(|seen| seen.target.contains(".img")).count();
    let before = images();
    for (list, words) in [
        ("/others", &["/others", "nothing for disk 1.img", "disk1.img, disk2.img", "--checksum"][..]),
        ("/page", &["/page", "no checksum in it", "No such list"]),
        ("/large", &["/large", "larger than 1024 KiB"]),
        ("/missing", &["/missing", "404"]),
    ] {
        let line = run(&mut with(&server.url(list))).failed(4);
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
        assert_eq!(place.left(), [""; 0], "{list}");
    }
    let line = run(&mut with("/no/such/SHA256SUMS")).failed(4);
    assert!(line.contains("/no/such/SHA256SUMS"), "{line}");
    let line =
        run(with(&server.url("/one")).args(["--checksum-url", &format!("md5:{}", server.url("/one"))])).failed(4);
    assert!(line.contains("none of md5"), "{line}");
    assert_eq!(images(), before, "the list comes first, and without it nothing");
    run(&mut with("-")).failed(2);
    run(&mut with("ftp://host/SHA256SUMS")).failed(2);
}

#[test]
fn the_name_in_a_list_is_that_of_the_address_not_of_where_it_leads() {
    let place = Place::new();
    let made = image("raw-one-sector", &place);
    let bytes = fs::read(&made.path).unwrap();
    let right = sha256(&bytes);
    let lists = [("/moved.sums", format!("{right}  moved\n")), ("/target.sums", format!("{right}  disk 1.img\n"))];
    let server = mirror(bytes, &lists);
    run(place.copy(server.url("/moved")).args(["--checksum-url", &server.url("/moved.sums")])).succeeded();
    place.assert_copied(&made.raw(), "by the name in the address");
    let mut command = place.copy(server.url("/moved"));
    run(command.args(["--progress", "none", "--checksum-url", &server.url("/target.sums")])).failed(4);
    // A path has a name, and standard input none.
    let list = place.file("list", format!("{right}  {}\n", made.path.file_name().unwrap().to_str().unwrap()));
    run(place.copy(&made.path).arg("--checksum-url").arg(&list)).succeeded();
    place.assert_copied(&made.raw(), "by the name of the file");
    let mut command = place.copy("-");
    let line = run_piped(command.args(["--progress", "none", "--checksum-url"]).arg(&list), &made.path).failed(4);
    assert!(line.contains("name is not known"), "{line}");
    let list = place.file("list", right);
    run_piped(place.copy("-").arg("--checksum-url").arg(list), &made.path).succeeded();
}

#[test]
fn what_identifies_us_goes_to_the_list_only_if_it_is_at_the_source() {
    let place = Place::new();
    let made = image("raw-one-sector", &place);
    let bytes = fs::read(&made.path).unwrap();
    let list = [("/SUMS", format!("{}  disk.img\n", sha256(&bytes)))];
    let (server, other) = (mirror(bytes.clone(), &list), mirror(bytes, &list));
    let password = place.file("password", "sesame");
    for origin in [&server, &other] {
        let mut command = place.copy(server.url("/disk.img"));
        command.args(["--header", "X-Auth-Token: token", "--user", "ali", "--password-file"]).arg(&password);
        run(command.args(["--checksum-url", &origin.url("/SUMS")])).succeeded();
        place.assert_copied(&made.raw(), "with a list");
    }
    let lists = |server: &Server| {
        let seen = server.seen().into_iter().filter(|seen| seen.target == "/SUMS");
        seen.map(|seen| (seen.header("authorization").is_some(), seen.header("x-auth-token").is_some()))
            .collect::<Vec<_>>()
    };
    assert_eq!(lists(&server), [(true, true)]);
    assert_eq!(lists(&other), [(false, false)]);
}

#[test]
fn nothing_is_written_over_a_list() {
    let place = Place::new();
    let made = image("raw-one-sector", &place);
    let list = place.file("SHA256SUMS", format!("{}\n", sha256_file(&made.path)));
    let before = fs::read(&list).unwrap();
    let mut command = super::program::copy(&made.path, &list);
    run(command.arg("--checksum-url").arg(&list)).failed(2);
    run(place.copy(&made.path).arg("--checksum-url").arg(&list).arg("--report").arg(&list)).failed(2);
    assert_eq!(fs::read(&list).unwrap(), before);
}
