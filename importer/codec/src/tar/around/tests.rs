use super::*;
use crate::tar::{EntryKind, Event, Tar};
use crate::testing::{Folder, sha256, tool};
use std::process::Command;

fn archive(disk: &[u8]) -> Vec<u8> {
    let around = Around::disk(disk.len() as u64);
    let mut archive = around.head.to_vec();
    archive.extend_from_slice(disk);
    archive.resize(archive.len() + usize::try_from(around.tail).unwrap(), 0);
    assert_eq!(archive.len() as u64, around.total(disk.len() as u64));
    archive
}

/// Equal disks are to share one blob for ever, so not a bit of it may change.
#[test]
fn every_byte_of_it_is_settled() {
    let heads = [0, 10 << 20, OCTAL_MAX, OCTAL_MAX + 1, 64 << 40].map(|size| sha256(&Around::disk(size).head));
    assert_eq!(
        heads,
        [
            "5fa0d0444758b5f375765e5edcd157bbcda227c62449b589bb08b4b4f9fb1247",
            "425588e87ebbbf2d7eba98482109a2eb1a26bab75f639bfe9967a02823be5f5c",
            "2e2b24cd6a04ac2951488a096d3234526c57985da40cb6df3855b034cdbe1719",
            "6042727918338ee63120411e808976aa8711b3588c761cf2b03d96ccd7429891",
            "4ee4a9cd81027179b5621c6b362187aeebf9bba55a9907923fb150697b189e18",
        ]
    );
    assert_eq!(Around::disk(0).tail, 1024);
    assert_eq!(Around::disk(1).tail, 511 + 1024);
    assert_eq!(Around::disk(512).tail, 1024);
}

#[test]
fn gnu_tar_lists_and_unpacks_it() {
    let disk = crate::testing::disk_like(70_001);
    let archive = archive(&disk);
    let listed = String::from_utf8(tool("tar", &["--utc", "--full-time", "-tvf", "-"], &archive)).unwrap();
    assert_eq!(
        listed,
        "drwxr-xr-x 107/107           0 1970-01-01 00:00:00 disk/\n\
         -rw-r--r-- 107/107       70001 1970-01-01 00:00:00 disk/disk.img\n"
    );
    let folder = Folder::new("around");
    tool("tar", &["-xf", "-", "--no-same-owner", "-C", folder.0.to_str().unwrap()], &archive);
    assert!(std::fs::read(folder.0.join("disk/disk.img")).unwrap() == disk);
}

/// The sizes around what a ustar header holds, in our reader, in GNU tar and in Python's, which knows PAX by itself.
#[test]
fn large_disks_keep_their_size() {
    for size in [OCTAL_MAX - 512, OCTAL_MAX, OCTAL_MAX + 1, 70 << 30, 64 << 40, i64::MAX.unsigned_abs() - 4096] {
        let around = Around::disk(size);
        assert_eq!(around.head.len(), if size > OCTAL_MAX { 2048 } else { 1024 });
        let (mut tar, mut input, mut seen) = (Tar::new(), around.head.clone(), Vec::new());
        while let Some(event) = tar.next(&mut input, false).unwrap() {
            let Event::Entry(entry) = event else { panic!("{event:?}") };
            seen.push((entry.name(), entry.kind, entry.size, entry.mode));
        }
        let want = [
            ("disk/".to_owned(), EntryKind::Directory, 0, 0o755),
            ("disk/disk.img".to_owned(), EntryKind::Regular, size, 0o644),
        ];
        assert_eq!(seen, want);
        // Both look at headers before they miss the data.
        let folder = Folder::new(&format!("large-{size}"));
        let file = folder.0.join("head.tar");
        std::fs::write(&file, &around.head).unwrap();
        let listed = Command::new("tar").args(["--numeric-owner", "-tvf"]).arg(&file).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        assert!(listed.lines().nth(1).is_some_and(|line| line.contains(&format!(" {size} "))), "{listed}");
        let script = "import tarfile,sys; t=tarfile.open(sys.argv[1]); t.next(); i=t.next(); \
                      print(i.name,i.size,i.mode,i.uid,i.gid,i.mtime,repr(i.uname+i.gname))";
        let told = Command::new("python3").args(["-c", script]).arg(&file).output().unwrap();
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        assert_eq!(told, format!("disk/disk.img {size} 420 107 107 0 ''\n"));
    }
}
