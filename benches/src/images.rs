//! The images that are measured: one real disk and every form it is published in, made once into a cache folder.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use fixtures::content::{Random, text};
use fixtures::{allocated, run, sha256_file, tool};

/// A folder of images.
pub struct Images {
    dir: PathBuf,
    size: u64,
}

/// Changed whenever the images would be made differently.
const VERSION: u32 = 1;

/// How each form is made: its name, and a script in the folder to which the output's path is added. xz gets a third of
/// the disk, because it is slow.
const FORMS: &[(&str, &str)] = &[
    ("disk.zlib.qcow2", "qemu-img convert -f raw -O qcow2 -c disk.raw"),
    ("disk.zstd.qcow2", "qemu-img convert -f raw -O qcow2 -c -o compression_type=zstd disk.raw"),
    ("disk.plain.qcow2", "qemu-img convert -f raw -O qcow2 disk.raw"),
    ("disk.stream.vmdk", "qemu-img convert -f raw -O vmdk -o subformat=streamOptimized disk.raw"),
    ("disk.raw.gz", "pigz -p2 -c disk.raw >"),
    ("disk.plain.qcow2.gz", "pigz -p2 -c disk.plain.qcow2 >"),
    ("disk.raw.zst", "zstd -q -T2 disk.raw -o"),
    ("part.raw.xz", "xz -T2 -1 -c part.raw >"),
    ("empty-1g.qcow2", "sh -c 'qemu-img create -q -f qcow2 $0 1G'"),
    ("empty-64t.qcow2", "sh -c 'qemu-img create -q -f qcow2 $0 64T'"),
];

impl Images {
    /// The images of a disk of `size` bytes, a third of it files, below `cache`; made if they are not there.
    ///
    /// # Panics
    /// When a tool fails or the disk is full.
    #[must_use]
    pub fn make(cache: &Path, size: u64) -> Self {
        let images = Self { dir: cache.join(format!("bench-v{VERSION}-{}m", size >> 20)), size };
        fs::create_dir_all(&images.dir).expect("a folder for the images");
        images.once("disk.raw", |out| disk(&images.dir, size, out));
        images.once("part.raw", |out| {
            let script = format!("head -c {} disk.raw | cp --sparse=always /dev/stdin {}", size / 3, out.display());
            images.shell(&script);
        });
        for (name, script) in FORMS {
            images.once(name, |out| images.shell(&format!("{script} {}", out.display())));
        }
        images.once("disk.sha256", |out| {
            fs::write(out, sha256_file(&images.path("disk.raw"))).expect("writing a digest");
        });
        images
    }

    /// Where the image `name` lies.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The folder they are in.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What the disk is, for a table's heading.
    #[must_use]
    pub fn describe(&self) -> String {
        let digest = fs::read_to_string(self.path("disk.sha256")).unwrap_or_default();
        format!(
            "{} MiB ext4 disk, {} MiB of it data, sha256 {}",
            self.size >> 20,
            allocated(&self.path("disk.raw")) >> 20,
            digest.get(..16).unwrap_or_default()
        )
    }

    /// Makes the file `name` with `make`, which writes to a draft, unless it is there.
    fn once(&self, name: &str, make: impl FnOnce(&Path)) {
        let (path, draft) = (self.path(name), self.path("draft.tmp"));
        if path.exists() {
            return;
        }
        eprintln!("making {name}");
        let _ = fs::remove_file(&draft);
        make(&draft);
        fs::rename(draft, path).expect("naming an image");
    }

    fn shell(&self, script: &str) {
        run(tool("sh").args(["-euc", script]).current_dir(&self.dir));
    }
}

/// An ext4 disk that holds what a server's disk holds: programs, libraries and texts of this machine, and as much again
/// of generated text and of bytes that don't compress, until a third of it is full.
fn disk(dir: &Path, size: u64, out: &Path) {
    let files = dir.join("files.tmp");
    let _ = fs::remove_dir_all(&files);
    fs::create_dir_all(files.join("generated")).expect("a folder for the files");
    let (real, generated) = (size / 4, size / 12);
    let copied = copy_system(&files, real);
    let mut random = Random::new(size);
    let part = 64 << 20;
    for n in 0..(generated + real - copied) / part {
        let mut file = fs::File::create(files.join("generated").join(format!("part-{n}"))).expect("a file");
        for _ in 0..16 {
            if n % 2 == 0 {
                file.write_all(&text(&mut random, part / 16)).expect("a file");
            } else {
                let mut block = vec![0; part as usize / 16];
                random.fill(&mut block);
                file.write_all(&block).expect("a file");
            }
        }
    }
    let made = fixtures::content::ext4(dir, size, &files);
    fs::rename(made, out).expect("naming the disk");
    fs::remove_dir_all(&files).expect("removing the files");
}

/// Copies up to `limit` bytes of files of /usr in the order of their names, and returns how many bytes it copied.
fn copy_system(files: &Path, limit: u64) -> u64 {
    let script = r#"
        cd /usr
        find bin lib share -xdev -type f -size -65536k -printf '%s %p\n' | LC_ALL=C sort -k2 |
            awk -v limit="$2" '{ sum += $1 } sum > limit { exit } { $1 = ""; print substr($0, 2) }' |
            tar -cf - --no-recursion -T - | tar -xf - --no-same-owner -C "$1/usr"
        du -sb "$1/usr" | cut -f1"#;
    fs::create_dir_all(files.join("usr")).expect("a folder");
    let output = run(tool("sh").args(["-euc", script, "copy"]).arg(files).arg(limit.to_string()));
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("du prints a number")
}
