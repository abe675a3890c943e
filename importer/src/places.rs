//! Whether two names on a command line mean the same file.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use importer_flow::{Error, Kind, Result};

use crate::args::Copy;
use crate::container;

/// Refuses a copy that would write over what it reads, or a report over either. The file that was there would be gone,
/// and nothing would have failed.
pub fn check(args: &Copy) -> Result<()> {
    if args.source.is_empty() || args.target.is_empty() {
        return Err(Error::new(Kind::Usage, "the source or the target has no name"));
    }
    let source = container::path(&args.source).unwrap_or(Path::new(&args.source));
    let target = Path::new(&args.target);
    let mut pairs = vec![("the source", source, "the target", target)];
    if let Some(report) = &args.report {
        pairs
            .extend([("the report", &**report, "the source", source), ("the report", &**report, "the target", target)]);
        if report.is_dir() || !parent(report).is_dir() {
            let message = format!("--report {}: there is no such directory, or it is one itself", report.display());
            return Err(Error::new(Kind::Usage, message));
        }
    }
    for list in &args.checksum_url {
        if list.place == "-" {
            let message = "--checksum-url -: standard input can't be a list of checksums: give a path or a URL";
            return Err(Error::new(Kind::Usage, message));
        }
        let list = Path::new(&list.place);
        pairs.push(("the list of checksums", list, "the target", target));
        pairs.extend(args.report.as_deref().map(|report| ("the list of checksums", list, "the report", report)));
    }
    for (one, first, other, second) in pairs {
        if same(first, second) {
            let message = format!("{one} and {other} are the same file, {}: give another name", first.display());
            return Err(Error::new(Kind::Usage, message));
        }
    }
    Ok(())
}

/// Whether both names lead to one regular file, or would once it is there. Devices and pipes may be named twice.
fn same(a: &Path, b: &Path) -> bool {
    match (fs::metadata(a), fs::metadata(b)) {
        (Ok(a), Ok(b)) => a.is_file() && a.dev() == b.dev() && a.ino() == b.ino(),
        (Err(_), Err(_)) => place(a).is_some_and(|place_a| place(b) == Some(place_a)),
        _ => false,
    }
}

/// Where a file that is not there yet would be.
fn place(path: &Path) -> Option<PathBuf> {
    Some(fs::canonicalize(parent(path)).ok()?.join(path.file_name()?))
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_by_two_names_is_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("a"), "a").unwrap();
        fs::write(path("b"), "a").unwrap();
        fs::hard_link(path("a"), path("hard")).unwrap();
        std::os::unix::fs::symlink("a", path("soft")).unwrap();
        for name in ["a", "hard", "soft", "./a"] {
            assert!(same(&path("a"), &path(name)), "{name}");
        }
        assert!(!same(&path("a"), &path("b")));
        assert!(!same(&path("a"), &path("new")));
        assert!(same(&path("new"), &path("./new")));
        assert!(!same(&path("new"), &path("newer")));
        assert!(!same(Path::new("/dev/null"), Path::new("/dev/null")));
    }
}
