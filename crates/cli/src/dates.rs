//! Dates as people read them.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY_S: u64 = 24 * 3600;

/// Now, in seconds since 1970.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Seconds since 1970 as a date in UTC.
pub(crate) fn utc(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / DAY_S);
    let (hour, minute, second) = (seconds % DAY_S / 3600, seconds % 3600 / 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Seconds since 1970 as a day in UTC.
pub(crate) fn day(seconds: u64) -> String {
    let (year, month, day) = civil(seconds / DAY_S);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The start of a day in UTC, given as YYYY-MM-DD, in seconds since 1970.
pub(crate) fn parse_day(text: &str) -> Option<u64> {
    let mut parts = text.splitn(3, '-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let days = days_from_civil(year, month, day);
    // A day that its month does not have comes out as another day.
    (civil(days) == (year, month, day)).then_some(days * DAY_S)
}

/// The inverse of [`civil`].
fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let year = if month > 2 { year } else { year - 1 };
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    let (era, year_of_era) = (year / 400, year % 400);
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The year, month and day of a day counted from 1970, in the Gregorian calendar. Years start in March here,
/// so that the leap day is their last: Howard Hinnant's `civil_from_days`.
fn civil(days: u64) -> (u64, u64, u64) {
    // From the first of March in the year 0; 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_read_as_they_are_written() {
        for seconds in (0..200 * 365).map(|day| day * DAY_S) {
            assert_eq!(parse_day(&day(seconds)), Some(seconds));
        }
        for bad in ["", "2027", "2027-02-29", "2027-13-01", "2027-1-1-1", "x-1-1", "1969-12-31"] {
            assert_eq!(parse_day(bad), None, "{bad}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_200, "2024-03-01 00:00:00 UTC"),
            (4_107_542_399, "2100-02-28 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds), date);
        }
    }
}
