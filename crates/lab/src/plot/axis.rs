//! Axes: from values to places, and the positions of ticks.

/// An axis.
#[derive(Debug, Clone)]
pub struct Axis {
    /// What it measures, with its unit.
    pub label: String,
    /// How values are laid out.
    pub scale: Scale,
    /// The axis covers this value, too.
    pub covers: Option<f64>,
    /// For [`Scale::Names`]: the names at 0, 1, 2 and so on.
    pub names: Vec<String>,
}

/// How values are laid out along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// Ticks at powers of two.
    Log2,
    /// As `Log2`, for bytes: 4K, 1M, 1G.
    Bytes,
    /// Ticks at powers of ten, and between them if there are few.
    Log10,
    /// Names, evenly, each at its number.
    Names,
    /// Percentiles, in steps of the rest to 100 %: 50, 90, 99, 99.9, 99.99 %.
    Percentiles,
}

impl Axis {
    /// An even axis.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear, covers: None, names: Vec::new() }
    }

    /// An even axis that begins at zero.
    pub fn from_zero(label: impl Into<String>) -> Self {
        Self { covers: Some(0.0), ..Self::linear(label) }
    }

    /// An axis by powers of two.
    pub fn log2(label: impl Into<String>) -> Self {
        Self { scale: Scale::Log2, ..Self::linear(label) }
    }

    /// An axis of bytes, by powers of two.
    pub fn bytes(label: impl Into<String>) -> Self {
        Self { scale: Scale::Bytes, ..Self::linear(label) }
    }

    /// An axis of names.
    pub fn names(label: impl Into<String>, names: Vec<String>) -> Self {
        Self { scale: Scale::Names, names, ..Self::linear(label) }
    }

    /// A value as written to files.
    pub(super) fn in_files(&self, value: f64) -> String {
        let name = self.names.get(value as usize).filter(|_| self.scale == Scale::Names);
        name.cloned().unwrap_or_else(|| value.to_string())
    }

    /// An axis of percentiles, from the median on.
    pub fn percentiles(label: impl Into<String>) -> Self {
        Self { scale: Scale::Percentiles, ..Self::linear(label) }
    }

    /// An axis by powers of ten.
    pub fn log10(label: impl Into<String>) -> Self {
        Self { scale: Scale::Log10, ..Self::linear(label) }
    }
}

/// How far a value may be above the last tick, in steps: rounded shares add up to a little more than 100 %.
const HARDLY: f64 = 1e-4;

/// Ticks of percentiles.
const PERCENTILES: [f64; 6] = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999];

/// Powers up to which each has a tick; beyond, every other.
const POWERS_MAX: i32 = 12;

/// An axis with its range.
pub(super) struct Range {
    scale: Scale,
    low: f64,
    high: f64,
    pub(super) ticks: Vec<f64>,
    names: Vec<String>,
}

impl Range {
    pub(super) fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let drawable = |value: &f64| {
            value.is_finite() && (matches!(axis.scale, Scale::Linear | Scale::Names) || *value > 0.0)
        };
        let values: Vec<f64> = values.chain(axis.covers).filter(drawable).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if low < high { (low, high) } else { around(low, axis.scale) };
        match axis.scale {
            Scale::Linear => Self::linear(low, high),
            Scale::Log2 | Scale::Bytes => Self::powers(axis.scale, low, high, 2.0),
            Scale::Log10 => Self::decades(low, high),
            Scale::Percentiles => Self::percentiles(high),
            Scale::Names => Self::names(&axis.names),
        }
    }

    /// Steps of 1, 2 or 5 times a power of ten, about six; the range ends at steps.
    fn linear(low: f64, high: f64) -> Self {
        let rough = (high - low) / 6.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let (first, last) = ((low / step + 1e-9).floor() as i64, (high / step - HARDLY).ceil() as i64);
        let ticks: Vec<_> = (first..=last).map(|index| index as f64 * step).collect();
        Self {
            scale: Scale::Linear,
            low: first as f64 * step,
            high: last as f64 * step,
            ticks,
            names: Vec::new(),
        }
    }

    /// From one power of the base to another; or by its powers from the lowest value on, where these lead to the highest one.
    fn powers(scale: Scale, low: f64, high: f64, base: f64) -> Self {
        let steps = (high / low).log(base);
        if (steps - steps.round()).abs() < HARDLY && steps < f64::from(POWERS_MAX) {
            let ticks = (0..=steps.round() as i32).map(|exponent| low * base.powi(exponent)).collect();
            return Self { scale, low, high, ticks, names: Vec::new() };
        }
        let (first, last) = (low.log(base).floor() as i32, high.log(base).ceil() as i32);
        let step = if last - first > POWERS_MAX { 2 } else { 1 };
        let ticks = (first..=last).step_by(step).map(|exponent| base.powi(exponent)).collect();
        Self { scale, low: base.powi(first), high: base.powi(last), ticks, names: Vec::new() }
    }

    /// From 1, 2 or 5 times a power of ten to another one, with ticks at all of them if that is not too many.
    fn decades(low: f64, high: f64) -> Self {
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        let times = |times: f64| (first..=last).map(move |exponent| times * 10_f64.powi(exponent));
        let mut all: Vec<f64> = [1.0, 2.0, 5.0].into_iter().flat_map(times).collect();
        all.sort_by(f64::total_cmp);
        let begin = all.iter().rposition(|tick| *tick <= low * 1.001).unwrap_or(0);
        let end = all.iter().position(|tick| *tick >= high * 0.999).unwrap_or(all.len() - 1);
        // Three for each decade from its 1 on.
        let is_power = |index: usize| index.is_multiple_of(3) || end - begin <= 10;
        let ticks = (begin..=end).filter(|index| is_power(*index)).map(|index| all[index]).collect();
        Self { scale: Scale::Log10, low: all[begin], high: all[end], ticks, names: Vec::new() }
    }

    /// Half a step before the first name and behind the last.
    fn names(names: &[String]) -> Self {
        let (count, scale) = (names.len().max(1), Scale::Names);
        let ticks = (0..count).map(|index| index as f64).collect();
        Self { scale, low: -0.5, high: count as f64 - 0.5, ticks, names: names.to_vec() }
    }

    /// From the median to a percentile.
    fn percentiles(high: f64) -> Self {
        let ticks: Vec<_> = PERCENTILES.into_iter().take_while(|tick| *tick <= high).collect();
        Self { scale: Scale::Percentiles, low: PERCENTILES[0], high, ticks, names: Vec::new() }
    }

    /// Where a value lies, 0 to 1; None if it cannot be drawn.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let place = match self.scale {
            Scale::Linear | Scale::Names => (value - self.low) / (self.high - self.low),
            Scale::Percentiles => {
                ((100.0 - self.low) / (100.0 - value)).ln() / ((100.0 - self.low) / (100.0 - self.high)).ln()
            }
            _ => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        place.is_finite().then_some(place)
    }
}

/// A range with one value in it.
fn around(value: f64, scale: Scale) -> (f64, f64) {
    match scale {
        _ if !value.is_finite() => (1.0, 10.0),
        Scale::Linear | Scale::Names => (value - 1.0, value + 1.0),
        _ => (value / 2.0, value * 2.0),
    }
}

impl Range {
    /// A tick in words.
    pub(super) fn label(&self, tick: f64) -> String {
        match self.scale {
            Scale::Bytes => bytes_label(tick),
            Scale::Percentiles => format!("{tick} %"),
            Scale::Names => self.names.get(tick as usize).cloned().unwrap_or_default(),
            _ => tick_label(tick),
        }
    }
}

/// 512, 4K, 1M, 1G.
fn bytes_label(value: f64) -> String {
    let units = [("G", 30), ("M", 20), ("K", 10), ("", 0)];
    let (suffix, power) = units.into_iter().find(|(_, power)| value >= 2_f64.powi(*power)).unwrap_or(("", 0));
    tick_label(value / 2_f64.powi(power)) + suffix
}

/// A number, short: 12, 0.25, 35k, 1.2M.
fn tick_label(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        size if size >= 999_999.0 => (value / 1e6, "M"),
        size if size >= 9_999.0 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{scaled:.3}");
    format!("{}{suffix}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(axis: &Axis, values: &[f64]) -> Vec<String> {
        let range = Range::of(axis, values.iter().copied());
        range.ticks.iter().map(|tick| range.label(*tick)).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(&Axis::from_zero(""), &[3.0, 23.0]), ["0", "5", "10", "15", "20", "25"]);
        assert_eq!(ticks(&Axis::from_zero(""), &[100.0001]).last().unwrap(), "100");
        assert_eq!(ticks(&Axis::log2(""), &[1.0, 32.0]), ["1", "2", "4", "8", "16", "32"]);
        assert_eq!(ticks(&Axis::log2(""), &[40_000.0, 320_000.0]), ["40k", "80k", "160k", "320k"]);
        assert_eq!(ticks(&Axis::log2(""), &[3.0, 20.0]), ["2", "4", "8", "16", "32"]);
        assert_eq!(ticks(&Axis::bytes(""), &[512.0, 4096.0]), ["512", "1K", "2K", "4K"]);
        assert_eq!(ticks(&Axis::bytes(""), &[4096.0, f64::from(1 << 30)])[8..], ["256M", "1G"]);
        assert_eq!(
            ticks(&Axis::log10(""), &[300.0, 30_000.0]),
            ["200", "500", "1000", "2000", "5000", "10k", "20k", "50k"]
        );
        assert_eq!(ticks(&Axis::log10(""), &[10.0, 1e7]), ["10", "100", "1000", "10k", "100k", "1M", "10M"]);
        assert_eq!(ticks(&Axis::linear(""), &[7.0]), ["6", "6.5", "7", "7.5", "8"]);
        assert!(!ticks(&Axis::log10(""), &[f64::NAN, 0.0]).is_empty());
        let named = Axis::names("", vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(
            (ticks(&named, &[0.0, 1.0]), named.in_files(1.0)),
            (vec!["a".to_owned(), "b".to_owned()], "b".to_owned())
        );
        assert_eq!(ticks(&Axis::percentiles(""), &[50.0, 99.9]), ["50 %", "90 %", "99 %", "99.9 %"]);
    }

    #[test]
    fn places_go_from_0_to_1() {
        let range = Range::of(&Axis::log2(""), [1.0, 16.0].into_iter());
        assert_eq!(
            (range.place(1.0), range.place(4.0), range.place(16.0)),
            (Some(0.0), Some(0.5), Some(1.0))
        );
        assert_eq!(range.place(0.0), None);
        let range = Range::of(&Axis::percentiles(""), [50.0, 99.5].into_iter());
        assert_eq!((range.place(50.0), range.place(99.5), range.place(100.0)), (Some(0.0), Some(1.0), None));
        assert!(
            range.place(95.0).is_some_and(|place| (place - 0.5).abs() < 1e-9),
            "half of the way in nines"
        );
    }
}
