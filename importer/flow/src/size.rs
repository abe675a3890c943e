//! Sizes as people write them.

use std::fmt;
use std::str::FromStr;

/// A number of bytes: `512`, `64Mi`, `10GiB`, `20G`. Letters without an i count in thousands, as Kubernetes does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a size; write it as 512, 64Mi or 10G");
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, unit) = text.split_at_checked(digits).ok_or_else(wrong)?;
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let unit = unit.strip_suffix(['b', 'B']).unwrap_or(unit);
        let base: u64 = if unit.ends_with('i') { 1024 } else { 1000 };
        let power = match unit.trim_end_matches('i') {
            "" if unit.is_empty() => 0,
            "k" | "K" => 1,
            "M" => 2,
            "G" => 3,
            "T" => 4,
            "P" => 5,
            "E" => 6,
            _ => return Err(wrong()),
        };
        base.checked_pow(power).and_then(|unit| unit.checked_mul(number)).map(Self).ok_or_else(wrong)
    }
}

/// For people: `1.5 GiB`.
#[must_use]
pub fn human(bytes: u64) -> impl fmt::Display {
    struct Human(u64);
    impl fmt::Display for Human {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
            let mut tenths = u128::from(self.0) * 10;
            if self.0 < 1024 {
                return write!(f, "{} B", self.0);
            }
            for unit in UNITS {
                tenths /= 1024;
                if tenths < 10_240 {
                    return write!(f, "{}.{} {unit}", tenths / 10, tenths % 10);
                }
            }
            Ok(())
        }
    }
    Human(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("64Mi", 64 << 20),
            ("10GiB", 10 << 30),
            ("10Gi", 10 << 30),
            ("20G", 20_000_000_000),
            ("1k", 1000),
            ("1Ki", 1024),
            ("15Ei", 15 << 60),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "x", "-1", "1.5G", "16Ei", "1i", "G", "1 G", "99999999999999999999", "1Gx", "ä"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn shows_what_people_read() {
        for (bytes, text) in
            [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1 << 30, "1.0 GiB"), (u64::MAX, "15.9 EiB")]
        {
            assert_eq!(human(bytes).to_string(), text);
        }
    }
}
