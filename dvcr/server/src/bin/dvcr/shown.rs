//! Sizes for people.

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
}
