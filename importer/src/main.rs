//! The importer: brings a disk image from where it is to where a virtual machine boots from, in one pass.

mod args;
mod copy;
mod inspect;
mod progress;
mod report;
mod size;
mod source;

use std::process::ExitCode;

use clap::Parser;
use importer_flow::Error;

use crate::args::{Args, Command};

/// Frees memory to the system sooner, and is quicker when one thread frees what another has allocated.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Clap's own exit code for help is 0, for usage 2, which is the contract's too.
            let code = error.exit_code();
            let _ = error.print();
            return ExitCode::from(u8::try_from(code).unwrap_or(1));
        }
    };
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_env("MILLRACE_LOG"))
        .with_writer(std::io::stderr)
        .init();
    let result = match args.command {
        Command::Copy(copy) => copy::run(&copy),
        Command::Inspect(inspect) => inspect::run(&inspect),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("importer: {}", one_line(&error));
            ExitCode::from(error.kind().exit_code())
        }
    }
}

/// An error as one line a person understands.
fn one_line(error: &Error) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
