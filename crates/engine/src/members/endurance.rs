//! When a member will be worn out, at the rate at which it is written.

use stripewise_format::extension::Endurance;

const DAY_S: u64 = 86_400;

/// If this many bytes were written to a member and are not noted on it, they are noted within the second or
/// two that housekeeping takes to see them. A note is two copies of a header, 8 KiB: a 65,536th of this
/// amount. A hard disk that streams 200 MB/s spends about a hundredth of its time on notes.
pub const NOTE_BYTES_MAX: u64 = 512 << 20;
/// At this interval, smaller amounts are noted as well.
pub const NOTE_INTERVAL_S: u64 = 60;
/// The least amount that is noted every [`NOTE_INTERVAL_S`]. A note is a 128th of it, and an idle array
/// writes none.
pub const NOTE_BYTES_MIN: u64 = 1 << 20;

/// Before a day has been counted, the first rebuild or copy says little about the future, unless this part of
/// the rated life is used already.
const USED_THAT_TELLS: f64 = 0.01;

/// What to expect of a member with a rated life.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// Bytes per second written to it since counting began.
    pub bytes_per_s: f64,
    /// The part of its rated life that is used up; above 1 if the member is beyond its rated life.
    pub used: f64,
    /// When its writes will reach its rating, in seconds since 1970-01-01 UTC. None if the rate is too low,
    /// if it is too early to tell, or if its writes have reached the rating already.
    pub worn_out_s: Option<u64>,
    /// Whole days until then.
    pub left_days: Option<u64>,
    /// By how many days that is too early: before the end of the warranty and the margin after it.
    pub short_days: Option<u64>,
}

/// Why there is no forecast of when a member will be worn out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoForecast {
    /// Its rating is not known.
    Unrated,
    /// Too little was seen of how fast it is written. From a later time on it is enough.
    Early {
        /// That time, in seconds since 1970-01-01 UTC.
        from_s: u64,
    },
    /// At the rate of its writes so far, it lasts longer than the forecast covers.
    Idle,
}

/// Why there is no day on which a member will be worn out. None if there is such a day, or if the member is
/// worn out.
pub fn no_forecast(endurance: &Endurance, now_s: u64) -> Option<NoForecast> {
    let Some(forecast) = forecast(endurance, now_s) else { return Some(NoForecast::Unrated) };
    if forecast.worn_out_s.is_some() || forecast.used >= 1.0 {
        return None;
    }
    let from_s = endurance.written_since_s.saturating_add(DAY_S);
    Some(if from_s > now_s { NoForecast::Early { from_s } } else { NoForecast::Idle })
}

/// How long it takes to write this much at this rate, in seconds.
pub fn lifetime_s(rated_write_bytes: u64, bytes_per_s: f64) -> f64 {
    rated_write_bytes as f64 / bytes_per_s
}

/// The forecast for a member at a time; none if it has no rated life.
pub fn forecast(endurance: &Endurance, now_s: u64) -> Option<Forecast> {
    let Endurance { rated_write_bytes, written_bytes, written_since_s, warranty_end_s, warranty_margin_days } =
        *endurance;
    if rated_write_bytes == 0 {
        return None;
    }
    let counted_s = now_s.saturating_sub(written_since_s).max(1);
    let bytes_per_s = written_bytes as f64 / counted_s as f64;
    let left_s = lifetime_s(rated_write_bytes.saturating_sub(written_bytes), bytes_per_s);
    let used = written_bytes as f64 / rated_write_bytes as f64;
    let tells = counted_s >= DAY_S || used >= USED_THAT_TELLS;
    let worn_out_s = (tells && used < 1.0 && left_s < 1e12).then(|| now_s.saturating_add(left_s as u64));
    let left_days = worn_out_s.map(|worn_out_s| (worn_out_s - now_s) / DAY_S);
    let wanted_s = warranty_end_s.saturating_add(u64::from(warranty_margin_days) * DAY_S);
    let short_days = worn_out_s
        .filter(|worn_out_s| warranty_end_s > 0 && *worn_out_s < wanted_s)
        .map(|worn_out_s| (wanted_s - worn_out_s).div_ceil(DAY_S));
    Some(Forecast { bytes_per_s, used, worn_out_s, left_days, short_days })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slides' reckoning: 2 PB, months of 30 days.
    #[test]
    fn the_slides_lifetime_comes_out() {
        let months =
            |mb_per_s: f64| lifetime_s(2_000_000_000_000_000, mb_per_s * 1e6) / (30.0 * DAY_S as f64);
        assert!((months(100.0) - 7.7).abs() < 0.05, "{}", months(100.0));
        assert!((months(25.0) - 30.7).abs() < 0.2, "{}", months(25.0));
    }

    #[test]
    fn a_member_that_dies_before_it_should_is_told() {
        let year = 365 * DAY_S;
        let endurance = Endurance {
            rated_write_bytes: 600_000_000_000_000,
            written_bytes: 200_000_000_000_000,
            written_since_s: 10 * year,
            warranty_end_s: 12 * year,
            warranty_margin_days: 0,
        };
        let at = 11 * year;
        let found = forecast(&endurance, at).unwrap();
        assert_eq!(found.worn_out_s, Some(13 * year), "a third a year");
        assert_eq!((found.left_days, found.short_days), (Some(2 * 365), None));
        let wanted = Endurance { warranty_margin_days: 400, ..endurance };
        assert_eq!(forecast(&wanted, at).unwrap().short_days, Some(35));
        assert_eq!(forecast(&Endurance { rated_write_bytes: 0, ..endurance }, at), None);
        let young = Endurance { written_bytes: 1 << 40, written_since_s: at - 7200, ..endurance };
        assert_eq!(forecast(&young, at).unwrap().worn_out_s, None, "the first copy says nothing");
        assert!(forecast(&young, at + DAY_S).unwrap().worn_out_s.is_some());
        let beyond = Endurance { written_bytes: 700_000_000_000_000, warranty_margin_days: 400, ..endurance };
        let found = forecast(&beyond, at).unwrap();
        assert!(found.used > 1.0 && found.worn_out_s.is_none() && found.short_days.is_none(), "{found:?}");
        let idle = Endurance { written_bytes: 0, ..endurance };
        assert_eq!(forecast(&idle, at).unwrap().worn_out_s, None);
        let why = |endurance: &Endurance| no_forecast(endurance, at);
        assert_eq!(why(&Endurance { rated_write_bytes: 0, ..endurance }), Some(NoForecast::Unrated));
        assert_eq!(why(&young), Some(NoForecast::Early { from_s: at - 7200 + DAY_S }));
        assert_eq!((why(&idle), why(&endurance), why(&beyond)), (Some(NoForecast::Idle), None, None));
    }
}
