//! The help, word for word: a change of the command line is seen in the change of these files.

use super::program::{importer, run};

const PAGES: [(&[&str], &str); 3] = [
    (&["--help"], include_str!("help/importer.txt")),
    (&["copy", "--help"], include_str!("help/copy.txt")),
    (&["inspect", "--help"], include_str!("help/inspect.txt")),
];

#[test]
fn help_is_as_written() {
    for (args, expected) in PAGES {
        let ran = run(importer().args(args)).succeeded();
        let command = args.join(" ");
        assert_eq!(ran.stdout, expected, "importer {command}: if it is meant so, write it to importer/tests/cli/help");
        assert_eq!(ran.stderr, "");
    }
}

#[test]
fn help_fits_a_terminal() {
    for (args, page) in PAGES {
        for line in page.lines() {
            assert!(line.chars().count() <= 100, "{args:?}: {line}");
        }
    }
}

#[test]
fn help_has_every_option_of_the_contract() {
    // Of the source, which both have.
    let source = [
        "--disk",
        "--platform",
        "--ca",
        "--insecure",
        "--header",
        "--header-file",
        "--proxy",
        "--no-proxy",
        "--user",
        "--password-file",
        "--connections",
        "--attempts",
        "--memory",
        "--endpoint",
        "--region",
        "--path-style",
        "--anonymous",
        "--auth-file",
        "--registries-conf",
    ];
    let copy = [
        "--size",
        "--preallocate",
        "--resume",
        "--checksum",
        "--checksum-url",
        "--spool-limit",
        "--report",
        "--progress",
    ];
    for (args, options) in [(["copy", "--help"], &copy[..]), (["inspect", "--help"], &["--json"])] {
        let page = run(importer().args(args)).succeeded().stdout;
        let listed: Vec<&str> = page.split_whitespace().filter(|word| word.starts_with("--")).collect();
        for option in source.iter().chain(options) {
            assert!(listed.contains(option), "{args:?} does not list {option}");
        }
    }
}
