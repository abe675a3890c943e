//! Signals that ask the program to end.

use std::fs;
use std::process;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use importer_flow::{Error, Kind, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};

/// A signal that asked the program to end.
#[derive(Clone, Copy, Debug)]
pub struct Signal(i32);

/// Calls `tell` with the first signal that comes, on a thread of its own. The second one ends the program at once.
///
/// What was ignored when the program began stays so: `nohup` and the background jobs of a script rely on it.
pub fn listen(tell: impl FnOnce(Signal) + Send + 'static) -> Result<()> {
    let failed = |what: &str, error| Error::new(Kind::Ours, format!("can't {what}")).because(error);
    let ignored = ignored(&fs::read_to_string("/proc/self/status").unwrap_or_default());
    let wanted: Vec<i32> =
        [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0).collect();
    let come = Arc::new(AtomicBool::new(false));
    for &signal in &wanted {
        let second = if is_init() {
            flag::register_conditional_shutdown(signal, Signal(signal).exit_code().into(), Arc::clone(&come))
        } else {
            flag::register_conditional_default(signal, Arc::clone(&come))
        };
        // After it, for it looks whether this is the second.
        second
            .and_then(|_| flag::register(signal, Arc::clone(&come)))
            .map_err(|error| failed("listen to signals", error))?;
    }
    let mut signals = Signals::new(wanted).map_err(|error| failed("listen to signals", error))?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            tell(Signal(signal));
        }
    };
    let thread = std::thread::Builder::new().name("signals".into()).spawn(wait);
    thread.map(drop).map_err(|error| failed("start a thread", error))
}

impl Signal {
    /// `SIGTERM`.
    pub fn name(self) -> &'static str {
        low_level::signal_name(self.0).unwrap_or("a signal")
    }

    /// What a shell says of a program that died of it.
    pub fn exit_code(self) -> u8 {
        128 + u8::try_from(self.0).unwrap_or_default()
    }

    /// Dies of it, so that whoever waits for the program sees what it was.
    pub fn die(self) -> ! {
        if !is_init() {
            // Returns only where it fails.
            let _ = low_level::emulate_default_handler(self.0);
        }
        process::exit(self.exit_code().into())
    }
}

/// The first process of a container: what it does not handle itself it can't die of.
fn is_init() -> bool {
    process::id() == 1
}

/// The signals that are ignored, one bit each, from the text of `/proc/self/status`.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        let nohup = "SigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000440\n";
        assert_eq!(ignored(nohup), 1 << (SIGHUP - 1) | 1 << (13 - 1));
        assert_eq!(ignored(""), 0);
        assert_eq!(ignored("SigIgn:\tnonsense\n"), 0);
    }

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        assert_eq!((Signal(SIGINT).exit_code(), Signal(SIGTERM).exit_code()), (130, 143));
        assert_eq!(Signal(SIGTERM).name(), "SIGTERM");
    }
}
