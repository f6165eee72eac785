//! Diagrams as SVG: lines, points and bars over linear or logarithmic axes, or over names.

use std::borrow::Cow;

mod axis;
mod bars;
mod overlap;
mod scatter;
mod svg;

pub use axis::{Axis, Scale};
pub use scatter::Scatter;
pub(crate) use svg::escaped;

/// A diagram.
#[derive(Debug, Clone)]
pub struct Plot {
    /// The name of its file, without ending.
    pub name: Cow<'static, str>,
    /// What it shows.
    pub title: String,
    /// Along the bottom.
    pub x: Axis,
    /// Along the left side.
    pub y: Axis,
    /// The series, in the order of the legend.
    pub series: Vec<Series>,
}

/// Points that belong together.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// x and y.
    pub points: Vec<(f64, f64)>,
    /// How far each of them scatters from seed to seed; empty where only one seed has the series.
    pub scatter: Vec<Scatter>,
    /// How it is drawn.
    pub style: Style,
    /// Series of one hue belong together, such as measured and published.
    pub hue: usize,
}

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A line.
    Line,
    /// A line with a mark at each point.
    Marked,
    /// A dashed line: expected values.
    Dashed,
    /// Open rings: single expected values.
    Rings,
    /// Bars, each on top of the previous series': parts of a whole.
    Stacked,
    /// Bars, beside those of the other series: values at names that have no order.
    Beside,
}

impl Style {
    /// Whether bars are drawn.
    fn is_bars(self) -> bool {
        matches!(self, Self::Stacked | Self::Beside)
    }
}

impl Series {
    /// A series.
    pub fn new(name: impl Into<String>, hue: usize, style: Style, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, scatter: Vec::new(), style, hue }
    }

    /// Whether its scatter is drawn. That of parts of a whole is not: they stand on one another.
    fn has_whiskers(&self) -> bool {
        self.style != Style::Stacked
    }

    /// How far a point scatters: not at all, if only one seed has the series.
    fn scatter_at(&self, index: usize) -> Scatter {
        let y = self.points[index].1;
        self.scatter.get(index).copied().unwrap_or(Scatter { low: y, high: y, seeds: 1 })
    }
}

impl Plot {
    /// All points as CSV, one a line.
    pub fn csv(&self) -> String {
        let more = if self.seeds().is_some() { ",lowest,highest,seeds" } else { "" };
        let mut text = format!("series,{},{}{more}\n", quoted(&self.x.label), quoted(&self.y.label));
        for series in &self.series {
            for (index, (x, y)) in series.points.iter().enumerate() {
                text += &format!("{},{},{y}", quoted(&series.name), quoted(&self.x.in_files(*x)));
                if !more.is_empty() {
                    let Scatter { low, high, seeds } = series.scatter_at(index);
                    text += &format!(",{low},{high},{seeds}");
                }
                text += "\n";
            }
        }
        text
    }

    /// Whether series of different hues look alike, because there are more hues than colours.
    #[cfg(test)]
    pub(crate) fn repeats_colours(&self) -> bool {
        self.series.iter().any(|series| series.hue >= svg::HUES.len())
    }

    /// The drawing.
    pub fn svg(&self) -> String {
        svg::draw(self)
    }
}

/// A CSV field.
pub(crate) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_are_quoted() {
        let plot = Plot {
            name: "test".into(),
            title: "A < B".to_owned(),
            x: Axis::linear("x, in \"units\""),
            y: Axis::linear("y"),
            series: vec![Series::new("a & b", 0, Style::Marked, vec![(0.5, 1.0), (2.0, f64::NAN)])],
        };
        assert_eq!(plot.csv(), "series,\"x, in \"\"units\"\"\",y\na & b,0.5,1\na & b,2,NaN\n");
        let svg = plot.svg();
        assert!(svg.contains("A &lt; B") && svg.contains("a &amp; b") && !svg.contains("NaN"), "{svg}");
    }
}
