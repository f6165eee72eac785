//! Curves that cover one another: an earlier curve is drawn wider there, so that it shows on both sides of
//! later ones, and the legend says which curves are equal.

use super::{Series, Style};

/// Points nearer to one another than this, in pixels, are one to the eye.
const NEAR: f64 = 0.5;
/// Values that differ by less than this part are the same.
const SAME: f64 = 1e-4;

/// A place in the drawing.
pub(super) type Place = (f64, f64);

/// For each point of a curve, the later curves that pass through the same place.
pub(super) fn followers(curve: &[Place], later: &[Vec<Place>]) -> Vec<Vec<usize>> {
    let through = |(x, y): &Place| {
        let meets = |other: &&Vec<Place>| {
            other.iter().any(|(its_x, its_y)| (x - its_x).abs() < NEAR && (y - its_y).abs() < NEAR)
        };
        later.iter().enumerate().filter(|(_, other)| meets(other)).map(|(index, _)| index).collect()
    };
    curve.iter().map(through).collect()
}

/// How many curves follow this one from a point to the next.
pub(super) fn shared(from: &[usize], to: &[usize]) -> usize {
    from.iter().filter(|index| to.contains(index)).count()
}

/// The earlier curve that a series equals, at half of its points at least, in words.
pub(super) fn equal_to(series: &Series, before: &[Series]) -> Option<String> {
    let is_curve = |series: &Series| {
        !matches!(series.style, Style::Rings | Style::Stacked | Style::Beside) && series.points.len() > 1
    };
    let common = |other: &Series| series.points.iter().filter(|point| is_on(**point, other)).count();
    let curves = before.iter().filter(|other| is_curve(series) && is_curve(other));
    // The first of those with as many common points.
    let (at, other) = curves.map(|other| (common(other), other)).rev().max_by_key(|(at, _)| *at)?;
    let all = series.points.len();
    match at {
        at if at == all => Some(format!("= {}", other.name)),
        at if at > 1 && 2 * at >= all => Some(format!("= {} at {at} of {all}", other.name)),
        _ => None,
    }
}

fn is_on((x, y): Place, series: &Series) -> bool {
    let same = |a: f64, b: f64| (a - b).abs() <= SAME * a.abs().max(b.abs());
    series.points.iter().any(|(its_x, its_y)| same(x, *its_x) && same(y, *its_y))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str, values: &[f64]) -> Series {
        let points = values.iter().enumerate().map(|(x, y)| (x as f64, *y)).collect();
        Series::new(name, 0, Style::Marked, points)
    }

    #[test]
    fn the_legend_says_which_are_equal() {
        let before = [curve("a", &[1.0, 2.0, 3.0, 4.0]), curve("b", &[1.0, 2.0, 3.0, 5.0])];
        let told = |values: &[f64]| equal_to(&curve("c", values), &before);
        assert_eq!(told(&[1.0, 2.0, 3.0, 4.0]).as_deref(), Some("= a"));
        assert_eq!(told(&[1.0, 2.0, 3.0, 5.0]).as_deref(), Some("= b"));
        assert_eq!(told(&[1.0, 2.0, 3.0, 6.0]).as_deref(), Some("= a at 3 of 4"));
        assert_eq!(told(&[1.0, 7.0, 8.0, 9.0]), None, "they cross");
    }

    #[test]
    fn what_goes_on_together_is_shared() {
        let line = |y: f64| vec![(0.0, y), (10.0, y), (20.0, y)];
        let bent = vec![(0.0, 5.0), (10.0, 5.0), (20.0, 9.0)];
        let found = followers(&line(5.0), &[line(5.2), bent, line(8.0)]);
        assert_eq!(found, [vec![0, 1], vec![0, 1], vec![0]]);
        assert_eq!((shared(&found[0], &found[1]), shared(&found[1], &found[2])), (2, 1));
    }
}
