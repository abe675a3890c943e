//! The importer: brings a disk image from where it is to where a virtual machine boots from, in one pass.

mod args;
mod container;
mod copy;
mod credentials;
mod inspect;
mod object_store;
mod places;
mod progress;
mod registry;
mod signals;
mod source;
mod waiting;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use importer_flow::Kind;
use importer_flow::report::line;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::{Args, Command};

fn main() -> ExitCode {
    importer_flow::tune_allocator();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if !error.use_stderr() => {
            // Help and the version: a reader that has seen enough is no error.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            complain(&usage(&error.to_string()));
            return ExitCode::from(Kind::Usage.exit_code());
        }
    };
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_filter(tracing_subscriber::EnvFilter::from_env("MILLRACE_LOG"));
    tracing_subscriber::registry().with(log).with(waiting::listener()).init();
    let result = match args.command {
        Command::Copy(copy) => copy::run(&copy),
        Command::Inspect(inspect) => inspect::run(&inspect),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::from(error.kind().exit_code())
        }
    }
}

/// Says why it ended, as one line a person understands.
fn complain(why: &str) {
    // A terminal that is gone is no reason to end in another way.
    let _ = writeln!(std::io::stderr(), "importer: {}", line(why));
}

/// What clap says, as one line: without its label, its usage and its hints.
fn usage(text: &str) -> String {
    let said = text.split("\n\n").next().unwrap_or_default();
    // Where it is about a command, clap shows how that is used.
    let command = ["copy", "inspect"].into_iter().find(|name| text.contains(&format!("Usage: importer {name} ")));
    let help = command.map_or("importer --help".to_owned(), |name| format!("importer {name} --help"));
    format!("{}; see {help}", said.trim_start_matches("error: "))
}
