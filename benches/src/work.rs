//! What is measured, against whom, and what must come out.

use std::time::Duration;

/// One line of the table.
pub struct Work {
    /// What a person calls it.
    pub name: &'static str,
    /// The image that is imported from the web server.
    pub image: &'static str,
    /// The raw disk that must come out, or nothing where the output is thrown away.
    pub expect: Option<&'static str>,
    /// Who else does it.
    pub rivals: &'static [Rival],
    /// How much memory it may take, in MiB.
    pub memory: u64,
    /// How the image comes.
    pub way: Way,
}

/// How an image comes from the web server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Over loopback.
    Near,
    /// Over a link of this round trip.
    Far(Duration),
    /// Over connections that are cut after so many bytes.
    Cut(u64),
}

/// Somebody else who does the work, or a part of it.
pub struct Rival {
    /// What a person calls it.
    pub name: &'static str,
    /// A shell script. `$1` is the image as a file, `$2` its address, `$3` the output.
    pub script: &'static str,
    /// The share of its time that we may take.
    pub bar: f64,
}

const fn rival(name: &'static str, script: &'static str, bar: f64) -> Rival {
    Rival { name, script, bar }
}

const fn local_convert(bar: f64) -> Rival {
    rival("qemu-img convert, local", r#"exec qemu-img convert -O raw "$1" "$3""#, bar)
}

/// Memory of everything but xz.
const MEMORY: u64 = 64;

/// Connections of an import, as they are without an option.
const CONNECTIONS: u64 = 8;

/// All that is measured.
pub const WORK: &[Work] = &[
    Work {
        name: "qcow2 zlib",
        image: "disk.zlib.qcow2",
        expect: Some("disk.raw"),
        rivals: &[
            local_convert(0.40),
            rival(
                "curl, then qemu-img convert -m 4 -W",
                r#"curl -sS --noproxy '*' -o "$3.tmp" "$2"; qemu-img convert -m 4 -W -O raw "$3.tmp" "$3"; rm "$3.tmp""#,
                0.30,
            ),
        ],
        memory: MEMORY,
        way: Way::Near,
    },
    Work {
        name: "qcow2 zstd",
        image: "disk.zstd.qcow2",
        expect: Some("disk.raw"),
        rivals: &[local_convert(0.55)],
        memory: MEMORY,
        way: Way::Near,
    },
    Work {
        name: "qcow2 plain",
        image: "disk.plain.qcow2",
        expect: Some("disk.raw"),
        rivals: &[
            local_convert(1.0),
            // The importer ends when the disk has everything; qemu-img leaves it to the page cache.
            rival("the same, flushed", r#"qemu-img convert -O raw "$1" "$3"; sync "$3""#, 1.0),
        ],
        memory: MEMORY,
        way: Way::Near,
    },
    Work {
        name: "vmdk stream",
        image: "disk.stream.vmdk",
        expect: Some("disk.raw"),
        rivals: &[local_convert(0.40)],
        memory: MEMORY,
        way: Way::Near,
    },
    Work {
        name: "raw with holes",
        image: "disk.raw",
        expect: Some("disk.raw"),
        rivals: &[rival("curl", r#"exec curl -sS --noproxy '*' -o "$3" "$2""#, 0.6)],
        memory: MEMORY,
        way: Way::Near,
    },
    Work {
        name: "raw.gz",
        image: "disk.raw.gz",
        expect: Some("disk.raw"),
        rivals: &[rival("zcat > /dev/null", r#"exec gzip -dc < "$1" > /dev/null"#, 1.15)],
        memory: MEMORY,
        way: Way::Near,
    },
    Work {
        name: "qcow2.gz",
        image: "disk.plain.qcow2.gz",
        expect: Some("disk.raw"),
        rivals: &[rival("zcat > /dev/null", r#"exec gzip -dc < "$1" > /dev/null"#, 1.15)],
        memory: MEMORY,
        way: Way::Near,
    },
    Work {
        name: "raw.zst",
        image: "disk.raw.zst",
        expect: Some("disk.raw"),
        rivals: &[rival("zstd -dc > /dev/null", r#"exec zstd -q -dc < "$1" > /dev/null"#, 1.15)],
        memory: MEMORY,
        way: Way::Near,
    },
    Work {
        name: "raw.xz",
        image: "part.raw.xz",
        expect: Some("part.raw"),
        rivals: &[rival("xz -dc -T2 > /dev/null", r#"exec xz -dc -T2 < "$1" > /dev/null"#, 1.15)],
        // Two decoders, each with its dictionary, its input and a block of output.
        memory: MEMORY + 128,
        way: Way::Near,
    },
    Work {
        name: "raw over 50 ms",
        image: "part.raw",
        expect: Some("part.raw"),
        rivals: &[
            rival("curl", r#"exec curl -sS --noproxy '*' -o "$3" "$2""#, 0.33),
            rival(
                "aria2c -x8",
                r#"exec aria2c -q -x8 -s8 --file-allocation=none --no-proxy='*' -d "$(dirname "$3")" -o "$(basename "$3")" "$2""#,
                1.10,
            ),
        ],
        memory: MEMORY + 2 * CONNECTIONS,
        way: Way::Far(Duration::from_millis(50)),
    },
    Work {
        name: "raw, cut every 20 MB",
        image: "part.raw",
        expect: Some("part.raw"),
        rivals: &[],
        memory: MEMORY + 2 * CONNECTIONS,
        way: Way::Cut(20_000_000),
    },
    Work {
        name: "empty qcow2, 1 GiB",
        image: "empty-1g.qcow2",
        expect: None,
        rivals: &[],
        memory: MEMORY,
        way: Way::Near,
    },
    Work {
        name: "empty qcow2, 64 TiB",
        image: "empty-64t.qcow2",
        expect: None,
        rivals: &[],
        memory: MEMORY,
        way: Way::Near,
    },
];

/// How many seconds the work without a rival may take.
pub const EMPTY_SECONDS: f64 = 1.0;

/// How many bytes may come for each byte of an image whose connections are cut.
pub const CARRIED: f64 = 1.1;

/// How many bytes may be written for each byte of allocated data.
pub const WRITTEN: f64 = 1.05;
