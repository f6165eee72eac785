//! The drawing itself.

use std::fmt::Write;

use super::{Plot, Series, Style, axis::Range};

/// Sizes in pixels. The legend stands on the right, so that it never covers points.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 250.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 52.0;
/// From one line of the legend to the next.
const LEGEND_STEP: f64 = 20.0;
/// Colours that people with colour blindness tell apart too (Okabe and Ito 2008), with a grey for the yellow.
pub(super) const HUES: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#999999"];

/// Where things are drawn.
struct Canvas {
    x: Range,
    y: Range,
    text: String,
}

pub(super) fn draw(plot: &Plot) -> String {
    let points = || plot.series.iter().flat_map(|series| series.points.iter());
    let mut canvas = Canvas {
        x: Range::of(&plot.x, points().map(|(x, _)| *x)),
        y: Range::of(&plot.y, points().map(|(_, y)| *y)),
        text: String::new(),
    };
    let _ = writeln!(
        canvas.text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\">\n<title>{}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>",
        escaped(&plot.title)
    );
    canvas.label(LEFT, 20.0, "start", "font-weight=\"600\" font-size=\"14\"", &plot.title);
    canvas.axes(plot);
    for (index, series) in plot.series.iter().enumerate() {
        canvas.series(series);
        canvas.legend(index, series);
    }
    canvas.text + "</svg>\n"
}

/// Text for XML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn colour(hue: usize) -> &'static str {
    HUES[hue % HUES.len()]
}

impl Canvas {
    fn label(&mut self, x: f64, y: f64, anchor: &str, more: &str, text: &str) {
        let text = escaped(text);
        let _ = writeln!(
            self.text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"#222\" {more}>{text}</text>"
        );
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), more: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ =
            writeln!(self.text, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {more}/>");
    }

    fn place(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        let (x, y) = (self.x.place(x)?, self.y.place(y)?);
        Some((LEFT + x * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - y * (HEIGHT - TOP - BOTTOM)))
    }

    fn axes(&mut self, plot: &Plot) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in self.x.ticks.clone() {
            let at = LEFT + self.x.place(tick).unwrap_or(0.0) * (right - LEFT);
            self.line((at, TOP), (at, bottom), "stroke=\"#e4e4e4\"");
            self.label(at, bottom + 17.0, "middle", "", &self.x.label(tick));
        }
        for tick in self.y.ticks.clone() {
            let at = bottom - self.y.place(tick).unwrap_or(0.0) * (bottom - TOP);
            self.line((LEFT, at), (right, at), "stroke=\"#e4e4e4\"");
            self.label(LEFT - 7.0, at + 4.0, "end", "", &self.y.label(tick));
        }
        self.line((LEFT, TOP), (LEFT, bottom), "stroke=\"#666\"");
        self.line((LEFT, bottom), (right, bottom), "stroke=\"#666\"");
        self.label((LEFT + right) / 2.0, HEIGHT - 12.0, "middle", "", &plot.x.label);
        let middle = (TOP + bottom) / 2.0;
        let turned = format!("transform=\"rotate(-90 16 {middle:.1})\"");
        self.label(16.0, middle, "middle", &turned, &plot.y.label);
    }

    fn series(&mut self, series: &Series) {
        let points: Vec<_> = series.points.iter().filter_map(|(x, y)| self.place(*x, *y)).collect();
        if series.style != Style::Rings {
            let path: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let dash = if series.style == Style::Dashed { " stroke-dasharray=\"6 4\"" } else { "" };
            let _ = writeln!(
                self.text,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"{dash}/>",
                path.join(" "),
                colour(series.hue)
            );
        }
        if matches!(series.style, Style::Marked | Style::Rings) {
            points.into_iter().for_each(|at| self.mark(at, series));
        }
    }

    fn mark(&mut self, (x, y): (f64, f64), series: &Series) {
        let colour = colour(series.hue);
        let _ = match series.style {
            Style::Rings => writeln!(
                self.text,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
            ),
            _ => writeln!(self.text, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.8\" fill=\"{colour}\"/>"),
        };
    }

    fn legend(&mut self, index: usize, series: &Series) {
        let (x, y) = (WIDTH - RIGHT + 16.0, TOP + 8.0 + index as f64 * LEGEND_STEP);
        let dash = if series.style == Style::Dashed { " stroke-dasharray=\"6 4\"" } else { "" };
        if series.style != Style::Rings {
            let stroke = format!("stroke=\"{}\" stroke-width=\"1.8\"{dash}", colour(series.hue));
            self.line((x, y), (x + 26.0, y), &stroke);
        }
        if matches!(series.style, Style::Marked | Style::Rings) {
            self.mark((x + 13.0, y), series);
        }
        self.label(x + 34.0, y + 4.0, "start", "", &series.name);
    }
}
