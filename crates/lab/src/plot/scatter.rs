//! How far values scatter from seed to seed: from the lowest to the highest that a point has with any of them.

use super::{Plot, Series};

/// The values of a point with all seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scatter {
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
    /// How many seeds have the point.
    pub seeds: usize,
}

impl Scatter {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let none = Self { low: f64::INFINITY, high: f64::NEG_INFINITY, seeds: 0 };
        values.fold(none, |found, value| Self {
            low: found.low.min(value),
            high: found.high.max(value),
            seeds: found.seeds + 1,
        })
    }
}

impl Plot {
    /// With how far its values scatter, as the plots of other seeds show it. Of those, the ones of other names are left alone.
    pub(crate) fn scattered(mut self, others: &[&Self]) -> Self {
        let others: Vec<_> = others.iter().filter(|other| other.name == self.name).collect();
        for series in &mut self.series {
            let all = others.iter().flat_map(|other| &other.series);
            let same: Vec<_> = all.filter(|other| other.name == series.name).collect();
            series.scatter = if same.is_empty() { Vec::new() } else { scatter(series, &same) };
        }
        self
    }

    /// The most seeds that one of its points has; none if it has a single one's values.
    pub(super) fn seeds(&self) -> Option<usize> {
        let all =
            self.series.iter().filter(|series| series.has_whiskers()).flat_map(|series| &series.scatter);
        all.map(|scatter| scatter.seeds).max().filter(|seeds| *seeds > 1)
    }
}

fn scatter(series: &Series, others: &[&Series]) -> Vec<Scatter> {
    let at = |(x, y): &(f64, f64)| {
        let same = |other: &&Series| other.points.iter().find(|point| point.0 == *x).map(|point| point.1);
        Scatter::of(others.iter().filter_map(same).chain([*y]))
    };
    series.points.iter().map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Style};

    fn plot(name: &'static str, values: &[(f64, f64)]) -> Plot {
        let (x, y) = (Axis::linear("x"), Axis::linear("y"));
        let series = vec![Series::new("a", 0, Style::Marked, values.to_vec())];
        Plot { name: name.into(), title: String::new(), x, y, series }
    }

    #[test]
    fn points_at_the_same_place_of_the_same_curve_show_how_far_it_scatters() {
        let own = || plot("p", &[(1.0, 5.0), (2.0, 7.0)]);
        let others =
            [plot("p", &[(1.0, 4.0)]), plot("p", &[(1.0, 6.5), (3.0, 9.0)]), plot("q", &[(1.0, 90.0)])];
        let found = own().scattered(&others.iter().collect::<Vec<_>>());
        let of = |low, high, seeds| Scatter { low, high, seeds };
        assert_eq!(found.series[0].scatter, [of(4.0, 6.5, 3), of(7.0, 7.0, 1)]);
        assert_eq!(found.csv(), "series,x,y,lowest,highest,seeds\na,1,5,4,6.5,3\na,2,7,7,7,1\n");
        assert_eq!((found.seeds(), own().scattered(&[]).seeds()), (Some(3), None));
        assert_eq!(own().scattered(&[&others[2]]).csv(), "series,x,y\na,1,5\na,2,7\n");
    }

    #[test]
    fn whiskers_are_drawn_where_seeds_differ_and_the_axis_has_room_for_them() {
        let own = plot("p", &[(1.0, 5.0), (2.0, 7.0)]);
        let without = own.svg();
        let svg = own.scattered(&[&plot("p", &[(1.0, 95.0), (2.0, 7.0)])]).svg();
        assert_eq!(
            (without.matches("<path").count(), svg.matches("<path").count()),
            (0, 1 + 1),
            "one, and the legend's"
        );
        assert!(svg.contains("lowest to highest of 2 seeds") && svg.contains(">100<"), "{svg}");
    }
}
