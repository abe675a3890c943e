//! Running one command and asking the kernel what it took.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use wait4::Wait4;

/// What one run took.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// From start to end.
    pub wall: Duration,
    /// On all processors, user and system.
    pub cpu: Duration,
    /// The largest resident memory of any of its processes, in bytes.
    pub rss: u64,
    /// Bytes given to `write` and its relatives, by the process itself.
    pub written: u64,
}

/// Runs `command` to its end.
///
/// # Errors
/// When it can't be started or fails, with what it said.
pub fn measure(command: &mut Command) -> Result<Usage, String> {
    let name = format!("{command:?}");
    let start = Instant::now();
    let child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{name}: {error}; scripts/setup.sh installs what is missing"))?;
    let mut child = child;
    // What it says is little; it fits into the pipe.
    let errors = child.stderr.take();
    let pid = Pid::from_child(&child);
    // It has ended, but its counters are still there to be read.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        .map_err(|error| format!("waitid: {error}"))?;
    let wall = start.elapsed();
    let written = written(pid);
    let ended = child.wait4().map_err(|error| format!("{name}: {error}"))?;
    if !ended.status.success() {
        let said = errors.and_then(|errors| std::io::read_to_string(errors).ok()).unwrap_or_default();
        return Err(format!("{name}: {}: {said}", ended.status));
    }
    Ok(Usage { wall, cpu: ended.rusage.utime + ended.rusage.stime, rss: ended.rusage.maxrss, written })
}

fn written(pid: Pid) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", pid.as_raw_nonzero())).unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix("wchar: ")).and_then(|count| count.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_memory_and_writes_of_the_child() {
        let dir = std::env::temp_dir();
        let script = format!("head -c 5000000 /dev/zero > {}/benches-measure.tmp", dir.display());
        let plain = measure(Command::new("sh").args(["-c", &format!("exec {script}")])).unwrap();
        assert!((5_000_000..5_100_000).contains(&plain.written), "{plain:?}");
        let large =
            measure(Command::new("sh").args(["-c", "x=$(head -c 100000000 /dev/zero | tr '\\0' x); :"])).unwrap();
        assert!(large.rss > 100_000_000 && plain.rss < 50_000_000, "{plain:?} {large:?}");
        assert!(measure(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err().contains("why"));
        fs::remove_file(dir.join("benches-measure.tmp")).unwrap();
    }
}
