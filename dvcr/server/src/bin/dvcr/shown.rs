//! Sizes and times for people.

use std::time::Duration;

/// Bytes with a unit: `1.5 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut rest = bytes;
    let mut tenths = 0;
    let mut unit = 0;
    while rest >= 1024 && unit + 1 < units.len() {
        tenths = rest % 1024 * 10 / 1024;
        rest /= 1024;
        unit += 1;
    }
    let unit_name = units.get(unit).copied().unwrap_or_default();
    if unit == 0 || rest >= 100 { format!("{rest} {unit_name}") } else { format!("{rest}.{tenths} {unit_name}") }
}

/// A time with two units, not shorter than it is: `9m 20s`.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, 0) => format!("{minutes}m"),
        (0, minutes, seconds) => format!("{minutes}m {seconds}s"),
        (hours, 0, 0) => format!("{hours}h"),
        (hours, minutes, _) => format!("{hours}h {}m", minutes + u64::from(!seconds.is_multiple_of(60))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_units() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(300 << 20), "300 MiB");
        assert_eq!(bytes(u64::MAX), "15.9 EiB");
    }

    #[test]
    fn long_enough() {
        let cases =
            [(0, "0s"), (59, "59s"), (60, "1m"), (560, "9m 20s"), (3600, "1h"), (3601, "1h 1m"), (7320, "2h 2m")];
        for (seconds, text) in cases {
            assert_eq!(time(Duration::from_secs(seconds)), text);
        }
        assert_eq!(time(Duration::from_millis(1)), "1s");
    }
}
