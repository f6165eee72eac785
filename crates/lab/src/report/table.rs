//! A report as text for a terminal.

use std::fmt;

use super::{Check, Report, Verdict, check::number};

const HEADINGS: [&str; 6] = ["subject", "check", "expected", "measured", "deviation", "verdict"];

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<_> = self.checks().map(cells).collect();
        let widths: [usize; 6] = std::array::from_fn(|column| {
            let longest = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
            longest.max(HEADINGS[column].len())
        });
        for section in &self.sections {
            writeln!(f, "{}", section.title)?;
            write_row(f, &HEADINGS.map(str::to_owned), &widths)?;
            for check in &section.checks {
                write_row(f, &cells(check), &widths)?;
                if let (Verdict::Differs, Some(note)) = (check.verdict(), check.note) {
                    writeln!(f, "      {note}")?;
                }
            }
            writeln!(f)?;
        }
        let count = |verdict| self.checks().filter(|check| check.verdict() == verdict).count();
        writeln!(
            f,
            "{} agree, {} differ, {} given by construction",
            count(Verdict::Agrees),
            count(Verdict::Differs),
            count(Verdict::Given)
        )
    }
}

fn cells(check: &Check) -> [String; 6] {
    let with_unit = |value: String| format!("{value} {}", check.unit).trim_end().to_owned();
    [
        check.subject.clone(),
        check.what.clone(),
        with_unit(check.expected_text()),
        with_unit(number(check.measured)),
        check.deviation_text(),
        check.verdict().word().to_owned(),
    ]
}

/// Text on the left, numbers on the right.
fn write_row(f: &mut fmt::Formatter<'_>, cells: &[String; 6], widths: &[usize; 6]) -> fmt::Result {
    let [subject, what, expected, measured, deviation, verdict] = cells;
    let [a, b, c, d, e, _] = *widths;
    writeln!(f, "  {subject:<a$}  {what:<b$}  {expected:>c$}  {measured:>d$}  {deviation:>e$}  {verdict}")
}
