//! Sizes as people write and read them: binary, `64K`, `1M`, `10G`.

pub(crate) use stripewise::internals::{format_compared_sizes, format_size};

/// Parses a size: a number with an optional suffix K, M, G, T, P (powers of 1024; `KiB` and `KB` mean the
/// same).
///
/// # Errors
/// A text for clap's usage error.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let factor = |suffix: &str| {
        let power = power(suffix.trim_end_matches("IB").trim_end_matches('B'))?;
        Some(1024_u64.pow(power))
    };
    parse(text, factor).map_err(|wrong| match wrong {
        NoSize::Unreadable => format!("'{text}' is not a size; write it as 64K, 1M or 10G"),
        NoSize::TooLarge => format!("'{text}' is too large: give 16383P or less"),
    })
}

/// Parses bytes per second. Refuses a bare number other than 0: md counts speeds in KiB, and most other
/// programs in bytes.
///
/// # Errors
/// A text for clap's usage error.
pub(crate) fn parse_speed(text: &str) -> Result<u64, String> {
    let text = text.trim().trim_end_matches("/s");
    let has_unit = text.ends_with(|c: char| !c.is_ascii_digit());
    match parse_size(text)? {
        speed if speed == 0 || has_unit => Ok(speed),
        _ => Err(format!(
            "'{text}' says no unit: md would take it for {text}K; write it so, or as 50M, or 0 for no limit"
        )),
    }
}

/// Why a text is no size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSize {
    /// It is something else.
    Unreadable,
    /// It does not fit 64 bits.
    TooLarge,
}

/// Parses a number with a suffix. `factor` says what the suffix, in capitals, multiplies it by.
fn parse(text: &str, factor: impl Fn(&str) -> Option<u64>) -> Result<u64, NoSize> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let factor = factor(&suffix.to_ascii_uppercase()).filter(|_| digits > 0).ok_or(NoSize::Unreadable)?;
    let number = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    number.ok_or(NoSize::TooLarge)
}

/// The power of 1000 or 1024 that a letter stands for.
fn power(letter: &str) -> Option<u32> {
    let power = ["", "K", "M", "G", "T", "P"].iter().position(|known| *known == letter)?;
    u32::try_from(power).ok()
}

/// Writes a size as makers of disks do: in powers of 1000.
pub(crate) fn format_decimal_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let unit = (0..UNITS.len()).rev().find(|unit| bytes >= 1000_u64.pow(*unit as u32)).unwrap_or(0);
    let value = bytes as f64 / 1000_u64.pow(unit as u32) as f64;
    if value.fract() == 0.0 {
        format!("{value} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// Parses a size as makers of disks mean it: K, M, G, T and P are powers of 1000, also as `TB`.
///
/// # Errors
/// [`NoSize`].
pub(crate) fn parse_decimal_size(text: &str) -> Result<u64, NoSize> {
    parse(text, |suffix| Some(1000_u64.pow(power(suffix.trim_end_matches('B'))?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_have_a_unit() {
        assert_eq!(parse_speed("50M"), Ok(50 << 20));
        assert_eq!(parse_speed("50MB/s"), Ok(50 << 20));
        assert_eq!(parse_speed("0"), Ok(0));
        assert_eq!(parse_speed("4096B"), Ok(4096));
        for bare in ["50000", "50/s"] {
            assert!(parse_speed(bare).unwrap_err().contains("says no unit"), "{bare}");
        }
        assert!(parse_speed("fast").is_err());
    }

    #[test]
    fn sizes_are_binary() {
        assert_eq!(parse_size("64K"), Ok(65_536));
        assert_eq!(parse_size("1MiB"), Ok(1 << 20));
        assert_eq!(parse_size("512"), Ok(512));
        assert_eq!(parse_size("3g"), Ok(3 << 30));
        for bad in ["", "K", "-1", "1.5M", "12X"] {
            assert!(parse_size(bad).unwrap_err().contains("is not a size; write it as"), "{bad}");
        }
        assert_eq!(parse_size("16383P"), Ok(16_383 << 50));
        for large in ["16384P", "99999999999999P", "99999999999999999999999"] {
            let told = format!("'{large}' is too large: give 16383P or less");
            assert_eq!(parse_size(large), Err(told));
        }
    }

    #[test]
    fn makers_sizes_are_decimal() {
        assert_eq!(parse_decimal_size("600T"), Ok(600_000_000_000_000));
        let shown = [0, 999, 12_300, 600_000_000_000_000].map(format_decimal_size);
        assert_eq!(shown, ["0 B", "999 B", "12.3 kB", "600 TB"]);
        assert_eq!(parse_decimal_size("2PB"), Ok(2_000_000_000_000_000));
        for bad in ["", "T", "600TiB", "1.5T"] {
            assert_eq!(parse_decimal_size(bad), Err(NoSize::Unreadable), "{bad}");
        }
        assert_eq!(parse_decimal_size("99999P"), Err(NoSize::TooLarge));
    }
}
