//! Times as people read and write them.

use std::time::Duration;

use thiserror::Error;

/// Writes a time in the largest unit of which it has at least one.
pub(crate) fn format_nanoseconds(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", value / 1e6),
        _ => format!("{:.2} s", value / 1e9),
    }
}

/// The shortest time that is told apart from none.
const RESOLUTION: Duration = Duration::from_millis(1);

/// Why a text is no time.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum TimeError {
    /// It cannot be read, or is 0.
    #[error(
        "'{0}' is not a time: give 1ms or more, in seconds, or as a number with ms, s, m, h or d (days), as 500ms"
    )]
    NoTime(String),
    /// It would be taken for another time.
    #[error("'{0}' is too short to be told apart from none: give 1ms or more")]
    TooShort(String),
    /// The same where `off` can be given.
    #[error("{0}; or `off`")]
    NorOff(Box<Self>),
}

/// A time: a number of seconds, or one with a unit, as 500ms, 10s, 5m, 1h or 2d.
///
/// # Errors
/// [`TimeError`], for the usage error.
pub(crate) fn parse_time(text: &str) -> Result<Duration, TimeError> {
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0), ("", 1.0)];
    let number = units.iter().find_map(|(unit, unit_s)| Some((text.strip_suffix(unit)?, unit_s)));
    let seconds = number.and_then(|(number, unit_s)| Some(unit_s * number.parse::<f64>().ok()?));
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match time.filter(|_| seconds != Some(0.0)) {
        None => Err(TimeError::NoTime(text.to_owned())),
        Some(time) if time < RESOLUTION => Err(TimeError::TooShort(text.to_owned())),
        Some(time) => Ok(time),
    }
}

/// As [`parse_time`]; `off` is no time at all.
///
/// # Errors
/// [`TimeError`], for the usage error.
pub(crate) fn parse_time_or_off(text: &str) -> Result<Duration, TimeError> {
    match text {
        "off" => Ok(Duration::ZERO),
        text => parse_time(text).map_err(|wrong| TimeError::NorOff(Box::new(wrong))),
    }
}

/// Writes a time as [`parse_time`] reads it.
pub(crate) fn format_time(time: Duration) -> String {
    match time.as_millis() {
        ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_may_be_switched_off() {
        assert_eq!(parse_time_or_off("off"), Ok(Duration::ZERO));
        assert_eq!(parse_time_or_off("2m"), Ok(Duration::from_secs(120)));
        assert!(parse_time_or_off("0").unwrap_err().to_string().ends_with("as 500ms; or `off`"));
        for text in ["1500ms", "30s"] {
            assert_eq!(format_time(parse_time(text).unwrap()), text);
        }
    }

    #[test]
    fn times_are_printed_in_their_unit() {
        let all = [17, 8_400, 8_412_000, 2_000_000_000].map(format_nanoseconds);
        assert_eq!(all, ["17 ns", "8.4 us", "8.41 ms", "2.00 s"]);
    }

    #[test]
    fn times_are_seconds_or_have_a_unit() {
        for (text, ms) in [
            ("1.5", 1500),
            ("1s", 1000),
            ("0.05", 50),
            ("500ms", 500),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("1.5d", 129_600_000),
        ] {
            assert_eq!(parse_time(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "0", "0s", "-1", "1w", "d", "s", "ms", "inf", "1e30", "NaN", "1 s x"] {
            assert_eq!(parse_time(bad), Err(TimeError::NoTime(bad.to_owned())));
        }
        for short in ["0.0001ms", "0.9ms", "0.0009", "1e-30"] {
            assert_eq!(parse_time(short), Err(TimeError::TooShort(short.to_owned())));
        }
        assert_eq!(parse_time("0.001"), Ok(RESOLUTION));
    }
}
