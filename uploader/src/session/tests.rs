use std::fs;
use std::path::Path;

use bytes::Bytes;
use importer_flow::sink::Options;

use super::*;

/// A disk of 4 MiB in which no block is like another.
fn disk() -> Vec<u8> {
    (0..4 << 20_u32).map(|at| u8::try_from((at / 7 + at / 4096) % 255 + 1).unwrap()).collect()
}

fn session(path: &Path, len: Option<u64>) -> Arc<Session> {
    let wish = Wish {
        name: "disk.img".into(),
        target: Target::path(path, Options::default()),
        len,
        checksums: Vec::new(),
        state: None,
    };
    Session::new(1, wish, Budget::new(64 << 20, 4), Instant::now())
}

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn send(writer: &mut Writer, bytes: &[u8]) -> Result<(), Refusal> {
    for part in bytes.chunks(100_000) {
        writer.push(Bytes::copy_from_slice(part)).await?;
    }
    Ok(())
}

#[test]
fn requests_come_and_go_and_the_import_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (path, disk) = (dir.path().join("disk.raw"), disk());
    let session = session(&path, Some(disk.len() as u64));
    assert_eq!(session.status().phase, Phase::Waiting);
    wait(async {
        for (from, to) in [(0, 1_000_000), (1_000_000, 1_000_001), (1_000_001, disk.len())] {
            let mut writer = session.writer(Claimed::Refuse).await.unwrap();
            assert_eq!(writer.offset().await, from as u64);
            assert_eq!(session.writer(Claimed::Refuse).await.unwrap_err().status, 409);
            send(&mut writer, &disk[from..to]).await.unwrap();
            assert_eq!(session.status().phase, Phase::Receiving);
            assert!(!path.exists());
            if to == disk.len() {
                writer.finish().unwrap();
            }
        }
        let end = session.decided(None).await;
        assert!(end.report.is_success() && end.refusal.is_none(), "{end:?}");
    });
    assert_eq!(session.status().phase, Phase::Succeeded);
    assert!(fs::read(&path).unwrap() == disk);
}

#[test]
fn who_is_newer_takes_over() {
    let dir = tempfile::tempdir().unwrap();
    let (path, disk) = (dir.path().join("disk.raw"), disk());
    let session = session(&path, None);
    wait(async {
        let mut hung = session.writer(Claimed::Refuse).await.unwrap();
        send(&mut hung, &disk[..500_000]).await.unwrap();
        let (hung, newer) = tokio::join!(
            async move {
                hung.superseded().await;
                hung.push(Bytes::from_static(b"too late")).await.unwrap_err()
            },
            session.writer(Claimed::TakeOver)
        );
        assert_eq!(hung.status, 409);
        let mut newer = newer.unwrap();
        assert_eq!(newer.offset().await, 500_000);
        send(&mut newer, &disk[500_000..]).await.unwrap();
        newer.finish().unwrap();
        assert!(session.ended().await.unwrap().report.is_success());
    });
    assert!(fs::read(&path).unwrap() == disk);
}

#[test]
fn what_is_no_disk_is_refused_while_it_comes_and_may_be_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let (path, disk) = (dir.path().join("disk.raw"), disk());
    let session = session(&path, None);
    wait(async {
        let mut writer = session.writer(Claimed::Refuse).await.unwrap();
        let page = b"<!DOCTYPE html><html><body>Sign in</body></html>".repeat(20_000);
        let refusal = send(&mut writer, &page).await.unwrap_err();
        assert_eq!((refusal.status.as_u16(), refusal.reason), (400, "NotADiskImage"), "{refusal}");
        assert_eq!(session.status().phase, Phase::Failed);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        writer.forget().await.unwrap();
        assert_eq!(session.status().phase, Phase::Waiting);
        send(&mut writer, &disk).await.unwrap();
        writer.finish().unwrap();
        assert!(session.decided(None).await.report.is_success());
    });
    assert!(fs::read(&path).unwrap() == disk);
}

#[test]
fn what_is_given_up_leaves_nothing_and_ends_whoever_sends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.raw");
    let session = session(&path, None);
    wait(async {
        let mut writer = session.writer(Claimed::Refuse).await.unwrap();
        send(&mut writer, &disk()).await.unwrap();
        session.cancel();
        writer.superseded().await;
        writer.push(Bytes::from_static(b"more")).await.unwrap_err();
        drop(writer);
        session.ended().await;
        assert_eq!(session.writer(Claimed::TakeOver).await.unwrap_err().status, 410);
    });
    assert_eq!(session.status().phase, Phase::Cancelled);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_raw_disk_goes_on_in_another_process() {
    let dir = tempfile::tempdir().unwrap();
    let (path, folder) = (dir.path().join("disk.raw"), dir.path().join("state"));
    // More than a checkpoint is made after, and all of it different.
    let disk = disk().repeat(40);
    let len = disk.len() as u64;
    let wish = Wish {
        name: "disk.img".into(),
        target: Target::path(&path, Options { resume: true, ..Options::default() }),
        len: None,
        checksums: Vec::new(),
        state: Some(State::only(&folder)),
    };
    let session = || Session::new(1, wish.clone(), Budget::new(64 << 20, 4), Instant::now());
    wait(async {
        let first = session();
        first.restore().unwrap();
        let mut writer = first.writer(Claimed::Refuse).await.unwrap();
        writer.begin(Some(len)).unwrap();
        send(&mut writer, &disk[..100 << 20]).await.unwrap();
        drop(writer);
        // As it is when a process ends in an orderly way; the tests of the program kill it.
        first.leave();
        first.ended().await.unwrap();
        drop(first);
        assert!(!path.exists());
        let second = session();
        second.restore().unwrap();
        let mut writer = second.writer(Claimed::Refuse).await.unwrap();
        let at = writer.offset().await;
        assert!((32 << 20..=100 << 20).contains(&at), "{at}");
        send(&mut writer, &disk[usize::try_from(at).unwrap()..]).await.unwrap();
        writer.finish().unwrap();
        let end = second.ended().await.unwrap();
        assert!(end.report.is_success(), "{end:?}");
    });
    assert!(fs::read(&path).unwrap() == disk);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn only_what_waits_is_idle() {
    let dir = tempfile::tempdir().unwrap();
    let session = session(&dir.path().join("disk.raw"), None);
    let later = Instant::now() + Duration::from_secs(100);
    assert!(session.idle(later) > Duration::from_secs(99));
    wait(async {
        let writer = session.writer(Claimed::Refuse).await.unwrap();
        assert_eq!(session.idle(later), Duration::ZERO);
        drop(writer);
    });
    assert!(session.idle(later) > Duration::from_secs(99));
}
