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

/// Writes two sizes that are compared: in bytes where their texts would be the same.
pub fn format_compared_sizes(one: u64, other: u64) -> [String; 2] {
    let texts = [one, other].map(format_size);
    if one != other && texts[0] == texts[1] {
        [one, other].map(|bytes| format!("{bytes} bytes"))
    } else {
        texts
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
    #[test]
    fn compared_sizes_that_look_the_same_are_printed_in_bytes() {
        assert_eq!(format_compared_sizes(1 << 40, 2 << 40), ["1 TiB", "2 TiB"]);
        assert_eq!(format_compared_sizes(1 << 40, 1 << 40), ["1 TiB", "1 TiB"]);
        let sizes = [2_000_398_934_016, 2_000_394_706_944];
        assert_eq!(format_compared_sizes(sizes[0], sizes[1]), sizes.map(|bytes| format!("{bytes} bytes")));
    }
}
