use std::os::unix::fs::{PermissionsExt, symlink};

use fixtures::devices::TinyTmpfs;
use proptest::prelude::*;
use tempfile::TempDir;

use super::super::model::Model;
use super::*;

fn sink(path: &Path) -> Box<FileSink> {
    Box::new(FileSink::create(path, Options::default()).unwrap())
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn refusal(result: Result<impl Sized>) -> String {
    let error = result.err().expect("it must be refused");
    assert_eq!(error.kind().exit_code(), 8, "{error}");
    error.to_string()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_file_is_what_was_written(
        seed in any::<u64>(),
        size in 0..3usize << 20,
        granule in prop::sample::select(vec![1, 512, 4096, 65536]),
        threads in 1..5usize,
        known in any::<bool>(),
        preallocate in any::<bool>(),
        solid in any::<bool>(),
        grow in prop::option::of(0..9000usize),
    ) {
        let model = Model::new(seed, size, granule, 1 + (1 << 18) / granule);
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("disk");
        let mut expected = model.disk.clone();
        expected.resize(size + grow.unwrap_or(0), 0);
        let options = Options { size: grow.map(|grow| (size + grow) as u64), preallocate, ..Options::default() };
        let mut sink = Box::new(FileSink::create(&path, options).unwrap());
        sink.solid = solid;
        sink.prepare(known.then_some(size as u64)).unwrap();
        model.apply(&*sink, threads).unwrap();
        let written = sink.finish(size as u64).unwrap();

        prop_assert_eq!(written.size, expected.len() as u64);
        prop_assert!(fs::read(&path).unwrap() == expected);
        prop_assert_eq!(names(dir.path()), ["disk"]);
        if preallocate || solid {
            prop_assert!(fs::metadata(&path).unwrap().blocks() * 512 >= expected.len() as u64);
        }
    }
}

#[test]
fn only_blocks_with_data_are_allocated() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("disk");
    let sink = sink(&path);
    let mut bytes = vec![0; 1 << 20];
    for block in [3, 4, 200] {
        bytes[block * 4096 + 17] = 1;
    }
    sink.prepare(Some(1 << 30)).unwrap();
    sink.write(5 << 20, &bytes).unwrap();
    sink.write(9 << 20, &vec![0; 1 << 20]).unwrap();
    sink.zero(100 << 20, 800 << 20).unwrap();
    assert_eq!(sink.finish(1 << 30).unwrap(), Written { data: 3 * 4096, size: 1 << 30 });
    let file = fs::metadata(&path).unwrap();
    assert_eq!(file.len(), 1 << 30);
    assert_eq!(file.blocks() * 512, 3 * 4096);
}

#[test]
fn an_older_target_stays_until_the_end_and_gives_its_mode() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("disk");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();

    let failed = sink(&path);
    failed.prepare(Some(3)).unwrap();
    failed.write(0, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(names(dir.path()).len(), 2);
    drop(failed);
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(names(dir.path()), ["disk"]);

    let sink = sink(&path);
    sink.write(0, b"new").unwrap();
    sink.finish(3).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
}

#[test]
fn a_dropped_sink_leaves_nothing() {
    let dir = TempDir::new().unwrap();
    let sink = sink(&dir.path().join("disk"));
    sink.write(0, b"data").unwrap();
    assert_eq!(names(dir.path()).len(), 1);
    drop(sink);
    assert!(names(dir.path()).is_empty());
}

#[test]
fn left_overs_of_the_dead_go_and_the_living_and_strangers_stay() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("disk");
    let dead = ".disk.0123456789abcdef.importing";
    let strangers =
        [".disk.0123456789abcdeg.importing", ".disk.importing", ".other.0123456789abcdef.importing", "disk.raw"];
    for name in strangers.iter().chain([&dead]) {
        fs::write(dir.path().join(name), "x").unwrap();
    }
    let living = sink(&path);
    let second = sink(&path);
    let left = names(dir.path());
    assert!(!left.iter().any(|name| name == dead), "{left:?}");
    assert!(strangers.iter().all(|name| left.iter().any(|left| left == name)), "{left:?}");

    living.write(0, b"first").unwrap();
    living.finish(5).unwrap();
    second.write(0, b"second").unwrap();
    second.finish(6).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"second");
    assert_eq!(names(dir.path()).len(), strangers.len() + 1);
}

#[test]
fn a_name_of_any_length_works() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("d".repeat(255));
    let sink = sink(&path);
    sink.write(0, b"data").unwrap();
    sink.finish(4).unwrap();
    assert_eq!(fs::read(path).unwrap(), b"data");
}

#[test]
fn a_link_stays_a_link() {
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("volume")).unwrap();
    let link = dir.path().join("disk");
    symlink("volume/real", &link).unwrap();
    for content in [b"one", b"two"] {
        let sink = sink(&link);
        sink.write(0, content).unwrap();
        sink.finish(3).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(dir.path().join("volume/real")).unwrap(), content);
        assert_eq!(names(&dir.path().join("volume")), ["real"]);
    }
    symlink("loop", dir.path().join("loop")).unwrap();
    let message = refusal(FileSink::create(&dir.path().join("loop"), Options::default()));
    assert!(message.contains("symbolic links"), "{message}");
}

#[test]
fn what_is_no_file_is_refused_by_name() {
    let dir = TempDir::new().unwrap();
    let pipe = dir.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    for (path, what) in [
        (dir.path().to_path_buf(), "is a directory"),
        (dir.path().join("new/"), "is a directory"),
        (dir.path().join("no/where"), "create the directory first"),
        (pipe, "is a pipe"),
        (PathBuf::from("/dev/null"), "is a character device"),
    ] {
        let message = refusal(FileSink::create(&path, Options::default()));
        assert!(message.contains(what) && message.starts_with(&path.display().to_string()), "{message}");
    }
    assert_eq!(names(dir.path()), ["pipe"]);
}

#[test]
fn a_size_below_that_of_the_disk_is_refused_with_both() {
    let dir = TempDir::new().unwrap();
    let options = Options { size: Some(1000), preallocate: false, ..Options::default() };
    let sink = Box::new(FileSink::create(&dir.path().join("disk"), options).unwrap());
    let message = refusal(sink.prepare(Some(1001)));
    assert!(message.contains("1000") && message.contains("1001"), "{message}");
    // And at the end, where it was not known before.
    sink.prepare(None).unwrap();
    sink.write(0, &[1; 1001]).unwrap();
    refusal(sink.finish(1001));
    assert!(names(dir.path()).is_empty());
}

#[test]
fn the_limit_of_the_process_is_an_error_and_no_signal() {
    let dir = TempDir::new().unwrap();
    let mut sink = sink(&dir.path().join("disk"));
    sink.limit = 1 << 20;
    let message = refusal(sink.prepare(Some((1 << 20) + 1)));
    assert!(message.contains("1048577") && message.contains("1048576"), "{message}");
    sink.prepare(None).unwrap();
    sink.write((1 << 20) - 4, b"fits").unwrap();
    refusal(sink.write((1 << 20) - 3, b"does"));
    refusal(sink.write(u64::MAX, b"not"));
}

#[test]
fn a_full_file_system_is_named_with_its_numbers() {
    let Some(tmpfs) = TinyTmpfs::mount(1 << 20) else { return };
    let path = tmpfs.path().join("disk");
    fs::write(&path, "old").unwrap();
    let sink = sink(&path);
    sink.prepare(Some(8 << 20)).unwrap();
    let message = refusal((0..8u64).try_for_each(|part| sink.write(part << 20, &vec![1; 256 << 10])));
    assert!(message.contains("no space left after ") && message.contains("8388608"), "{message}");
    drop(sink);
    assert_eq!(names(tmpfs.path()), ["disk"]);
    assert_eq!(fs::read(&path).unwrap(), b"old");

    let options = Options { size: None, preallocate: true, ..Options::default() };
    let sink = FileSink::create(&path, options).unwrap();
    let message = refusal(sink.prepare(Some(8 << 20)));
    assert!(message.contains("bytes free, 8388608 are needed"), "{message}");
    sink.prepare(Some(512 << 10)).unwrap();
}

#[test]
fn space_is_reserved_where_the_file_system_can_not() {
    let Some(ramfs) = TinyTmpfs::mount_ramfs() else { return };
    let path = ramfs.path().join("disk");
    let sink = Box::new(
        FileSink::create(&path, Options { size: Some(300_000), preallocate: true, ..Options::default() }).unwrap(),
    );
    assert!(sink.solid);
    sink.prepare(Some(200_000)).unwrap();
    sink.write(0, &[1; 1000]).unwrap();
    sink.zero(1000, 199_000).unwrap();
    sink.finish(200_000).unwrap();
    let mut expected = vec![0; 300_000];
    expected[..1000].fill(1);
    assert!(fs::read(&path).unwrap() == expected);
}

#[test]
fn zeros_of_a_continued_part_are_zeros_whatever_was_there() {
    for preallocate in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        let options = Options { resume: true, preallocate, ..Options::default() };
        let open = || Box::new(FileSink::create(&path, options).unwrap());
        let first = open();
        first.prepare(Some(8 << 20)).unwrap();
        first.write(0, &[1; 1 << 20]).unwrap();
        first.checkpoint("here").unwrap();
        // What came after the checkpoint, and what came from elsewhere; then it is killed.
        first.temp.file().write_all_at(&[7; 6 << 20], 1 << 20).unwrap();
        drop(first);
        let second = open();
        assert_eq!(second.resumed(), Earlier::Record("here".into()));
        second.prepare(Some(8 << 20)).unwrap();
        second.zero(1 << 20, 1 << 20).unwrap();
        second.write(2 << 20, &[0; 2 << 20]).unwrap();
        second.write(4 << 20, &[[2; 4096], [0; 4096], [3; 4096]].concat()).unwrap();
        second.zero((4 << 20) + 12288, (4 << 20) - 12288).unwrap();
        second.finish(8 << 20).unwrap();
        let mut expected = vec![0; 8 << 20];
        expected[..1 << 20].fill(1);
        expected[4 << 20..(4 << 20) + 4096].fill(2);
        expected[(4 << 20) + 8192..(4 << 20) + 12288].fill(3);
        assert!(fs::read(&path).unwrap() == expected, "{preallocate}");
    }
}

/// What takes the names that `--resume` uses is not removed, and told in one clear line.
#[test]
fn what_takes_the_place_of_a_part_is_named() {
    let options = Options { resume: true, ..Options::default() };
    for name in [".disk.part", ".disk.checkpoint", ".disk.checkpoint.new"] {
        for kind in ["a symbolic link", "a directory"] {
            // A link to nowhere may be one that was just being written, for what it matters.
            if (name, kind) == (".disk.checkpoint.new", "a symbolic link") {
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            let (path, place) = (dir.path().join("disk"), dir.path().join(name));
            match kind {
                "a directory" => fs::create_dir(&place).unwrap(),
                _ => symlink("elsewhere", &place).unwrap(),
            }
            let message = refusal(FileSink::create(&path, options).and_then(|sink| {
                sink.prepare(Some(8192))?;
                sink.write(0, &[7; 8192])?;
                sink.checkpoint("here")
            }));
            assert!(message.contains(&format!("{name} is {kind}, where --resume has a file of its own")), "{message}");
            assert!(message.contains("remove") && !message.contains("os error"), "{message}");
            assert!(place.symlink_metadata().is_ok() && !dir.path().join("elsewhere").exists(), "{message}");
        }
    }
}

#[test]
fn what_can_not_be_continued_says_why() {
    let options = Options { resume: true, ..Options::default() };
    let (part, checkpoint) = (".disk.part", ".disk.checkpoint");
    type Damage = fn(&Path, &Path);
    let damages: [(&str, Damage); 5] = [
        ("can't be read", |_, checkpoint| fs::write(checkpoint, "what?").unwrap()),
        ("can't be read", |_, checkpoint| fs::write(checkpoint, "").unwrap()),
        ("before its first checkpoint", |_, checkpoint| fs::remove_file(checkpoint).unwrap()),
        ("not what its checkpoint says", |part, _| fs::remove_file(part).unwrap()),
        ("not what its checkpoint says", |part, _| fs::write(part, "other").unwrap()),
    ];
    for preallocate in [false, true] {
        let options = Options { preallocate, ..options };
        for (words, damage) in damages {
            let dir = tempfile::tempdir().unwrap();
            let open = || FileSink::create(&dir.path().join("disk"), options).unwrap();
            let first = open();
            assert_eq!(first.resumed(), Earlier::Nothing);
            first.prepare(Some(8192)).unwrap();
            first.write(0, &[7; 8192]).unwrap();
            first.checkpoint("here").unwrap();
            drop(first);
            damage(&dir.path().join(part), &dir.path().join(checkpoint));
            let second = open();
            let Earlier::Spoiled(why) = second.resumed() else { panic!("{words}: {:?}", second.resumed()) };
            assert!(why.contains(words), "{why}");
            // One byte shows whether space can be reserved.
            assert_eq!(second.temp.file().metadata().unwrap().len(), u64::from(preallocate), "{words}");
        }
    }
}
