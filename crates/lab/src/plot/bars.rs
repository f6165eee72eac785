//! Stacked bars: the parts of a whole, for each name along the bottom.

use std::collections::BTreeMap;

use super::{Series, Style, overlap::Place};

/// A part of a bar: its place, and the heights between which it lies.
pub(super) type Segment = (f64, f64, f64);

/// The segments of each series, in the order of the series; none for series drawn in another style.
pub(super) fn segments(all: &[Series]) -> Vec<Vec<Segment>> {
    // By a bar's place, in thousandths: its height so far.
    let mut heights: BTreeMap<i64, f64> = BTreeMap::new();
    let mut of = |series: &Series| -> Vec<Segment> {
        let stack = |(x, value): &Place| {
            let height = heights.entry((x * 1e3) as i64).or_default();
            let from = *height;
            *height += value;
            (*x, from, *height)
        };
        series.points.iter().filter(|_| series.style == Style::Stacked).map(stack).collect()
    };
    all.iter().map(&mut of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_on_those_before_them() {
        let series = |style, values: &[f64]| {
            Series::new("", 0, style, values.iter().enumerate().map(|(x, y)| (x as f64, *y)).collect())
        };
        let all = [
            series(Style::Stacked, &[1.0, 2.0]),
            series(Style::Line, &[9.0, 9.0]),
            series(Style::Stacked, &[3.0, 4.0]),
        ];
        let found = segments(&all);
        assert_eq!(found[0], [(0.0, 0.0, 1.0), (1.0, 0.0, 2.0)]);
        assert_eq!((found[1].len(), &found[2][..]), (0, &[(0.0, 1.0, 4.0), (1.0, 2.0, 6.0)][..]));
    }
}
