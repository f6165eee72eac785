//! Bars for each name along the bottom: stacked, the parts of a whole, or side by side.

use std::collections::BTreeMap;

use super::{Series, Style, overlap::Place};

/// A bar, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bar {
    /// Its middle.
    pub(super) x: f64,
    /// As a part of the distance between names.
    pub(super) width: f64,
    /// The heights between which it lies.
    pub(super) from: f64,
    pub(super) to: f64,
}

/// Stacked bars leave a third of the distance between them free, and groups of bars a fifth.
const STACKED_WIDTH: f64 = 2.0 / 3.0;
const GROUP_WIDTH: f64 = 0.8;

/// The bars of each series, in the order of the series; none for series drawn in another style.
pub(super) fn bars(all: &[Series]) -> Vec<Vec<Bar>> {
    // By a bar's place, in thousandths: its height so far.
    let mut heights: BTreeMap<i64, f64> = BTreeMap::new();
    let (count, mut before) = (beside(all), 0);
    let mut of = |series: &Series| -> Vec<Bar> {
        match series.style {
            Style::Stacked => series.points.iter().map(|place| stacked(&mut heights, *place)).collect(),
            Style::Beside => {
                before += 1;
                series.points.iter().map(|place| in_group(*place, before - 1, count)).collect()
            }
            _ => Vec::new(),
        }
    };
    all.iter().map(&mut of).collect()
}

/// How many bars a group has.
fn beside(all: &[Series]) -> usize {
    all.iter().filter(|series| series.style == Style::Beside).count()
}

fn stacked(heights: &mut BTreeMap<i64, f64>, (x, value): Place) -> Bar {
    let height = heights.entry((x * 1e3) as i64).or_default();
    let from = *height;
    *height += value;
    Bar { x, width: STACKED_WIDTH, from, to: *height }
}

fn in_group((x, value): Place, index: usize, count: usize) -> Bar {
    let width = GROUP_WIDTH / count as f64;
    Bar { x: x + (index as f64 - (count - 1) as f64 / 2.0) * width, width, from: 0.0, to: value }
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
        let found = bars(&all);
        let ends =
            |index: usize| found[index].iter().map(|bar| (bar.x, bar.from, bar.to)).collect::<Vec<_>>();
        assert_eq!(ends(0), [(0.0, 0.0, 1.0), (1.0, 0.0, 2.0)]);
        assert_eq!((ends(1).len(), ends(2)), (0, vec![(0.0, 1.0, 4.0), (1.0, 2.0, 6.0)]));
    }

    #[test]
    fn bars_of_a_group_stand_side_by_side_around_their_name() {
        let series = |style| Series::new("", 0, style, vec![(3.0, 7.0)]);
        let all = [series(Style::Beside), series(Style::Rings), series(Style::Beside)];
        let found = bars(&all);
        let middles = [&found[0], &found[2]].map(|bars| bars[0].x);
        assert_eq!((middles, found[0][0].width, found[1].len()), ([2.8, 3.2], 0.4, 0));
        assert_eq!((found[2][0].from, found[2][0].to), (0.0, 7.0));
    }
}
