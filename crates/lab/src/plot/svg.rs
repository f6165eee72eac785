//! The drawing itself.

use std::fmt::Write;

use super::{
    Plot, Series, Style,
    axis::Range,
    bars::bars,
    overlap::{Place, equal_to, followers, shared},
};

/// Sizes in pixels. The legend stands on the right, so that it never covers points.
const WIDTH: f64 = 860.0;
const HEIGHT_MIN: f64 = 380.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 250.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 52.0;
/// From one line of the legend to the next.
const LEGEND_STEP: f64 = 20.0;
/// From a line of the legend to the note below it.
const NOTE_STEP: f64 = 14.0;
/// The widest bar.
const BAR_MAX: f64 = 90.0;
const STROKE: f64 = 1.8;
const MARK: f64 = 2.8;
/// How much wider a line is, and how much larger a mark, for each curve that covers it.
const STROKE_MORE: f64 = 2.6;
const MARK_MORE: f64 = 1.3;
/// Half of the width of a whisker's ends, and the shortest that is drawn.
const WHISKER: f64 = 3.5;
const WHISKER_MIN: f64 = 1.5;
/// Colours that people with colour blindness tell apart too (Okabe and Ito 2008), with a grey for the yellow.
pub(super) const HUES: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#999999", "#000000"];

/// Where things are drawn.
struct Canvas {
    x: Range,
    y: Range,
    height: f64,
    text: String,
}

pub(super) fn draw(plot: &Plot) -> String {
    let points = || plot.series.iter().flat_map(|series| series.points.iter());
    let notes: Vec<_> = plot
        .series
        .iter()
        .enumerate()
        .map(|(index, series)| equal_to(series, &plot.series[..index]))
        .collect();
    let more = plot.seeds().map_or(0.0, |_| LEGEND_STEP);
    let height = HEIGHT_MIN.max(TOP + legend_height(&notes) + more + BOTTOM);
    let tops = bars(&plot.series).into_iter().flatten().map(|bar| bar.to);
    let whiskers =
        plot.series.iter().filter(|series| series.has_whiskers()).flat_map(|series| &series.scatter);
    let ends = whiskers.flat_map(|scatter| [scatter.low, scatter.high]);
    let mut canvas = Canvas {
        x: Range::of(&plot.x, points().map(|(x, _)| *x)),
        y: Range::of(&plot.y, points().map(|(_, y)| *y).chain(tops).chain(ends)),
        height,
        text: String::new(),
    };
    let _ = writeln!(
        canvas.text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\">\n<title>{}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>",
        escaped(&plot.title)
    );
    canvas.label((LEFT, 20.0), "start", "font-weight=\"600\" font-size=\"14\"", &plot.title);
    canvas.axes(plot);
    canvas.bars(&plot.series);
    canvas.curves(&plot.series);
    canvas.whiskers(&plot.series);
    canvas.legends(&plot.series, &notes, plot.seeds());
    canvas.text + "</svg>\n"
}

fn legend_height(notes: &[Option<String>]) -> f64 {
    notes.len() as f64 * LEGEND_STEP + notes.iter().flatten().count() as f64 * NOTE_STEP
}

/// Text for XML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn colour(hue: usize) -> &'static str {
    HUES[hue % HUES.len()]
}

impl Canvas {
    fn label(&mut self, (x, y): Place, anchor: &str, more: &str, text: &str) {
        let text = escaped(text);
        let _ = writeln!(
            self.text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"#222\" {more}>{text}</text>"
        );
    }

    fn line(&mut self, from: Place, to: Place, more: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ =
            writeln!(self.text, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {more}/>");
    }

    fn place(&self, x: f64, y: f64) -> Option<Place> {
        let (x, y) = (self.x.place(x)?, self.y.place(y)?);
        Some((LEFT + x * (WIDTH - LEFT - RIGHT), self.height - BOTTOM - y * (self.height - TOP - BOTTOM)))
    }

    fn axes(&mut self, plot: &Plot) {
        let (right, bottom) = (WIDTH - RIGHT, self.height - BOTTOM);
        for tick in self.x.ticks.clone() {
            let at = LEFT + self.x.place(tick).unwrap_or(0.0) * (right - LEFT);
            self.line((at, TOP), (at, bottom), "stroke=\"#e4e4e4\"");
            self.label((at, bottom + 17.0), "middle", "", &self.x.label(tick));
        }
        for tick in self.y.ticks.clone() {
            let at = bottom - self.y.place(tick).unwrap_or(0.0) * (bottom - TOP);
            self.line((LEFT, at), (right, at), "stroke=\"#e4e4e4\"");
            self.label((LEFT - 7.0, at + 4.0), "end", "", &self.y.label(tick));
        }
        self.line((LEFT, TOP), (LEFT, bottom), "stroke=\"#666\"");
        self.line((LEFT, bottom), (right, bottom), "stroke=\"#666\"");
        self.label(((LEFT + right) / 2.0, self.height - 12.0), "middle", "", &plot.x.label);
        let middle = (TOP + bottom) / 2.0;
        let turned = format!("transform=\"rotate(-90 16 {middle:.1})\"");
        self.label((16.0, middle), "middle", &turned, &plot.y.label);
    }

    fn bars(&mut self, all: &[Series]) {
        let step =
            (self.x.place(1.0).unwrap_or(1.0) - self.x.place(0.0).unwrap_or(0.0)) * (WIDTH - LEFT - RIGHT);
        for (series, bars) in all.iter().zip(bars(all)) {
            for bar in bars {
                let (Some((middle, bottom)), Some((_, top))) =
                    (self.place(bar.x, bar.from), self.place(bar.x, bar.to))
                else {
                    continue;
                };
                let width = (step * bar.width).min(BAR_MAX);
                let _ = writeln!(
                    self.text,
                    "<rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
                    middle - width / 2.0,
                    bottom - top,
                    colour(series.hue)
                );
            }
        }
    }

    fn curves(&mut self, all: &[Series]) {
        let points = |series: &Series| if series.style.is_bars() { vec![] } else { series.points.clone() };
        let place = |series: &Series| points(series).iter().filter_map(|(x, y)| self.place(*x, *y)).collect();
        let places: Vec<Vec<Place>> = all.iter().map(place).collect();
        for (index, (series, points)) in all.iter().zip(&places).enumerate() {
            self.curve(series, points, &followers(points, &places[index + 1..]));
        }
    }

    /// A curve is wider where others cover it.
    fn curve(&mut self, series: &Series, points: &[Place], followers: &[Vec<usize>]) {
        if series.style != Style::Rings {
            let followed = |at: usize| shared(&followers[at], &followers[at + 1]);
            let mut from = 0;
            for to in 1..points.len() {
                if to + 1 == points.len() || followed(to) != followed(from) {
                    self.run(series, &points[from..=to], followed(from));
                    from = to;
                }
            }
        }
        if matches!(series.style, Style::Marked | Style::Rings) {
            points.iter().zip(followers).for_each(|(at, after)| self.mark(*at, series, after.len()));
        }
    }

    fn run(&mut self, series: &Series, points: &[Place], followed: usize) {
        let path: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            self.text,
            "<polyline points=\"{}\" fill=\"none\" {}/>",
            path.join(" "),
            stroke(series, followed)
        );
    }

    fn mark(&mut self, (x, y): Place, series: &Series, followed: usize) {
        let colour = colour(series.hue);
        let radius = MARK + MARK_MORE * followed as f64;
        let _ = match series.style {
            Style::Rings => writeln!(
                self.text,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
            ),
            _ => {
                writeln!(
                    self.text,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{colour}\"/>"
                )
            }
        };
    }

    /// From the lowest to the highest value of each point, with any seed.
    fn whiskers(&mut self, all: &[Series]) {
        for (series, bars) in all.iter().zip(bars(all)) {
            if !series.has_whiskers() {
                continue;
            }
            for (index, scatter) in series.scatter.iter().enumerate() {
                let x = bars.get(index).map_or(series.points[index].0, |bar| bar.x);
                let (Some(low), Some(high)) = (self.place(x, scatter.low), self.place(x, scatter.high))
                else {
                    continue;
                };
                // On its own bar a whisker would not show.
                let colour = if series.style.is_bars() { "#222" } else { colour(series.hue) };
                if low.1 - high.1 >= WHISKER_MIN {
                    self.whisker(low, high, colour);
                }
            }
        }
    }

    fn whisker(&mut self, (x, low): Place, (_, high): Place, colour: &str) {
        let (left, right) = (x - WHISKER, x + WHISKER);
        let _ = writeln!(
            self.text,
            "<path d=\"M{left:.1} {low:.1}H{right:.1}M{x:.1} {low:.1}V{high:.1}M{left:.1} {high:.1}H{right:.1}\" \
             fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.2\"/>"
        );
    }

    fn legends(&mut self, all: &[Series], notes: &[Option<String>], seeds: Option<usize>) {
        let (x, mut y) = (WIDTH - RIGHT + 16.0, TOP + 8.0);
        for (series, note) in all.iter().zip(notes) {
            self.legend((x, y), series);
            y += LEGEND_STEP;
            if let Some(note) = note {
                self.label((x + 34.0, y - 2.0), "start", "font-size=\"11\" opacity=\"0.7\"", note);
                y += NOTE_STEP;
            }
        }
        if let Some(seeds) = seeds {
            self.whisker((x + 13.0, y + 6.0), (x + 13.0, y - 6.0), "#222");
            self.label((x + 34.0, y + 4.0), "start", "", &format!("lowest to highest of {seeds} seeds"));
        }
    }

    fn legend(&mut self, (x, y): Place, series: &Series) {
        if series.style.is_bars() {
            let (top, colour) = (y - 6.0, colour(series.hue));
            let _ = writeln!(
                self.text,
                "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"26\" height=\"12\" fill=\"{colour}\"/>"
            );
        } else if series.style != Style::Rings {
            self.line((x, y), (x + 26.0, y), &stroke(series, 0));
        }
        if matches!(series.style, Style::Marked | Style::Rings) {
            self.mark((x + 13.0, y), series, 0);
        }
        self.label((x + 34.0, y + 4.0), "start", "", &series.name);
    }
}

/// The stroke of a series that so many others cover.
fn stroke(series: &Series, followed: usize) -> String {
    let dash = if series.style == Style::Dashed { " stroke-dasharray=\"6 4\"" } else { "" };
    let width = STROKE + STROKE_MORE * followed as f64;
    format!("stroke=\"{}\" stroke-width=\"{width:.1}\"{dash}", colour(series.hue))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::Axis;

    #[test]
    fn parts_of_a_whole_are_bars() {
        let part = |hue, values: [f64; 2]| {
            let points = values.into_iter().enumerate().map(|(x, y)| (x as f64, y)).collect();
            Series::new(format!("part {hue}"), hue, Style::Stacked, points)
        };
        let series = vec![part(0, [60.0, 50.0]), part(1, [40.0, 50.0])];
        let (x, y) = (Axis::names("x", vec!["one".to_owned(), "two".to_owned()]), Axis::from_zero("y"));
        let plot = Plot { name: "p".into(), title: String::new(), x, y, series };
        let svg = draw(&plot);
        // The background, four segments, two in the legend.
        assert_eq!((svg.matches("<rect").count(), svg.matches("<polyline").count()), (1 + 4 + 2, 0), "{svg}");
        assert!(svg.contains(">one<") && svg.contains(">100<") && !svg.contains(">120<"), "{svg}");
        assert!(plot.csv().contains("part 1,two,50\n"));
    }

    #[test]
    fn what_lies_under_another_curve_is_wider_and_the_legend_tells() {
        let curve = |name: &str, hue, last| {
            let points = vec![(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, last)];
            Series::new(name, hue, Style::Marked, points)
        };
        let series = vec![curve("classic", 0, 4.0), curve("modthresh", 1, 4.0), curve("modified", 2, 9.0)];
        let (x, y) = (Axis::linear("x"), Axis::linear("y"));
        let svg = draw(&Plot { name: "p".into(), title: String::new(), x, y, series });
        let widths = |hue: usize| -> Vec<_> {
            let lines = svg.lines().filter(|line| line.starts_with("<polyline") && line.contains(HUES[hue]));
            lines.filter_map(|line| line.split("stroke-width=").nth(1)?.split('"').nth(1)).collect()
        };
        assert_eq!(widths(0), ["7.0", "4.4"], "two follow it, then one");
        assert_eq!(widths(1), ["4.4", "1.8"]);
        assert_eq!(widths(2), ["1.8"]);
        assert!(svg.contains(">= classic<") && svg.contains(">= classic at 3 of 4<"), "{svg}");
    }
}
