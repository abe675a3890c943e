//! The registry, and what people do with its store.

mod args;
mod named;
mod serve;
mod shown;
mod store;

use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use dvcr::{Error, Kind};

use crate::args::{Args, Command};

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) if !error.use_stderr() => {
            // Help and the version: a reader that has seen enough is no error.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
                let _ = error.print();
                return ExitCode::from(Kind::Usage.exit_code());
            }
            let text = error.to_string();
            let said = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
            complain(&format!("{said}; see {}", help()));
            return ExitCode::from(Kind::Usage.exit_code());
        }
    };
    let result = match args.command {
        Command::Serve(serve) => serve::run(*serve),
        Command::Gc(gc) => store::gc(&gc),
        Command::Check(check) => store::check(&check),
        Command::Ls(ls) => store::ls(&ls),
        Command::Rm(rm) => store::rm(&rm),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::from(error.kind().exit_code())
        }
    }
}

/// Where to read how it is called: of the command that was meant, if it is one.
fn help() -> String {
    let meant = std::env::args_os().nth(1);
    match meant.and_then(|meant| Args::command().find_subcommand(meant).map(|command| command.get_name().to_owned())) {
        Some(command) => format!("dvcr {command} --help"),
        None => "dvcr --help".to_owned(),
    }
}

/// Says why it ended, or what else is no part of the answer, as one line a person understands.
fn complain(why: &str) {
    let words = why.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = words.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    // A terminal that is gone is no reason to end in another way.
    let _ = writeln!(std::io::stderr(), "dvcr: {line}");
}

/// Writes a line of the answer. A reader that is gone ends the program quietly.
fn say(line: impl std::fmt::Display) -> Result<(), Error> {
    writeln!(std::io::stdout(), "{line}").map_err(|error| Error::new(Kind::Io, format!("standard output: {error}")))
}
