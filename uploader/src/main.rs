//! The uploader: takes disk images that people send, and imports them while they come.

mod args;
mod guard;
mod serve;
mod to;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use importer_flow::Kind;
use importer_flow::report::line;

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
            let said = error.to_string();
            let said = said.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ").to_owned();
            complain(&format!("{said}; see uploader --help"));
            return ExitCode::from(Kind::Usage.exit_code());
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::try_from_env("MILLRACE_LOG").unwrap_or_else(|_| "info".into()))
        .with_writer(std::io::stderr)
        .init();
    let result = match args.command {
        Command::Serve(serve) => serve::run(&serve),
        Command::Proxy(proxy) => guard::run(&proxy).map(|()| 0),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            complain(&error.to_string());
            ExitCode::from(error.kind().exit_code())
        }
    }
}

/// Says why it ended, as one line a person understands.
fn complain(why: &str) {
    // A terminal that is gone is no reason to end in another way.
    let _ = writeln!(std::io::stderr(), "uploader: {}", line(why));
}
