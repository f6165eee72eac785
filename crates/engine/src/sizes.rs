//! Sizes as people read them, in errors of the engine and of the programs over it.

/// Writes a size in IEC units with at most two decimals.
pub fn format_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = (0..UNITS.len()).rev().find(|unit| bytes >= 1 << (10 * unit)).unwrap_or(0);
    let value = bytes as f64 / (1u64 << (10 * unit)) as f64;
    if value.fract() == 0.0 {
        format!("{value} {}", UNITS[unit])
    } else {
        format!("{value:.2} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_printed_in_iec_units() {
        assert_eq!(format_size(65_536), "64 KiB");
        assert_eq!(format_size(1536), "1.50 KiB");
        assert_eq!(format_size(0), "0 B");
    }
}
