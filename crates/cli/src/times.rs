//! Times as people read and write them.

use std::time::Duration;

/// Writes a time in the unit that it has at least one of.
pub(crate) fn format_nanoseconds(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", value / 1e6),
        _ => format!("{:.2} s", value / 1e9),
    }
}

/// A time in seconds.
///
/// # Errors
/// A text for the usage error.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|time| !time.is_zero()).ok_or_else(|| format!("'{text}' is not a time in seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_in_their_unit() {
        let all = [17, 8_400, 8_412_000, 2_000_000_000].map(format_nanoseconds);
        assert_eq!(all, ["17 ns", "8.4 us", "8.41 ms", "2.00 s"]);
    }

    #[test]
    fn times_are_seconds() {
        assert_eq!(parse_seconds("1.5"), Ok(Duration::from_millis(1500)));
        for bad in ["", "0", "-1", "1s", "inf", "1e30", "NaN"] {
            assert!(parse_seconds(bad).is_err(), "{bad}");
        }
    }
}
