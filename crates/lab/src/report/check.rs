//! A measured value beside the expected one.

use serde::Serialize;

/// One value of a model beside a published or analytic one.
#[derive(Debug, Clone, Serialize)]
#[serde(into = "Line")]
pub struct Check {
    /// The subject: a drive or a configuration.
    pub subject: String,
    /// The property.
    pub what: String,
    /// Unit of both values.
    pub unit: &'static str,
    /// The expected value.
    pub expected: Expected,
    /// Its source.
    pub source: String,
    /// Whether the model could miss it.
    pub basis: Basis,
    /// The model's value.
    pub measured: f64,
    /// Why they differ, if they do, as far as that is known.
    pub note: Option<&'static str>,
}

/// An expected value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Expected {
    /// This value, within a part of it.
    Near(f64, f64),
    /// More than this.
    Above(f64),
    /// Less than this.
    Below(f64),
}

/// Whether a check says anything about the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Nothing in the model was chosen for it.
    Predicted,
    /// A parameter follows from it: agreement shows only that nothing else is in the way.
    Given,
}

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The value is as expected.
    Agrees,
    /// The value is not as expected.
    Differs,
    /// The value is as expected, by construction.
    Given,
}

impl Verdict {
    /// A word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Differs => "differs",
            Self::Given => "given",
        }
    }
}

impl Check {
    /// A prediction of the model that should be within `tolerance` (a part) of a value.
    pub fn near(
        subject: impl Into<String>,
        what: impl Into<String>,
        unit: &'static str,
        (expected, tolerance): (f64, f64),
        source: impl Into<String>,
        measured: f64,
    ) -> Self {
        Self {
            subject: subject.into(),
            what: what.into(),
            unit,
            expected: Expected::Near(expected, tolerance),
            source: source.into(),
            basis: Basis::Predicted,
            measured,
            note: None,
        }
    }

    /// A parameter follows from the expected value.
    pub fn given(self) -> Self {
        Self { basis: Basis::Given, ..self }
    }

    /// With a note.
    pub fn note(self, note: &'static str) -> Self {
        Self { note: Some(note), ..self }
    }

    /// Expects something else.
    pub fn expects(self, expected: Expected) -> Self {
        Self { expected, ..self }
    }

    /// Measured against expected, as a part; None if only a bound is expected.
    pub fn deviation(&self) -> Option<f64> {
        match self.expected {
            Expected::Near(value, _) => Some(self.measured / value - 1.0),
            _ => None,
        }
    }

    /// The result of the check.
    pub fn verdict(&self) -> Verdict {
        let holds = match self.expected {
            Expected::Near(value, tolerance) => (self.measured / value - 1.0).abs() <= tolerance,
            Expected::Above(bound) => self.measured > bound,
            Expected::Below(bound) => self.measured < bound,
        };
        match (holds, self.basis) {
            (false, _) => Verdict::Differs,
            (true, Basis::Given) => Verdict::Given,
            (true, Basis::Predicted) => Verdict::Agrees,
        }
    }

    pub(super) fn expected_text(&self) -> String {
        match self.expected {
            Expected::Near(value, _) => number(value),
            Expected::Above(bound) => format!("> {}", number(bound)),
            Expected::Below(bound) => format!("< {}", number(bound)),
        }
    }

    pub(super) fn deviation_text(&self) -> String {
        // Avoid a negative zero.
        let percent = |part: f64| format!("{:+.1} %", (part * 1000.0).round() / 10.0 + 0.0);
        self.deviation().map_or_else(String::new, percent)
    }
}

/// A check as printed, with its derived values.
#[derive(Serialize)]
struct Line {
    subject: String,
    what: String,
    unit: &'static str,
    expected: f64,
    relation: &'static str,
    tolerance: Option<f64>,
    measured: f64,
    deviation: Option<f64>,
    basis: Basis,
    verdict: Verdict,
    source: String,
    note: Option<&'static str>,
}

impl From<Check> for Line {
    fn from(check: Check) -> Self {
        let (relation, expected, tolerance) = match check.expected {
            Expected::Near(value, tolerance) => ("near", value, Some(tolerance)),
            Expected::Above(bound) => ("above", bound, None),
            Expected::Below(bound) => ("below", bound, None),
        };
        Self {
            deviation: check.deviation(),
            verdict: check.verdict(),
            subject: check.subject,
            what: check.what,
            unit: check.unit,
            expected,
            relation,
            tolerance,
            measured: check.measured,
            basis: check.basis,
            source: check.source,
            note: check.note,
        }
    }
}

/// A number with the useful digits: four, or all before the point.
pub(super) fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    if digits == 0 { with_separators(&text) } else { text }
}

/// Commas between groups of three digits.
fn with_separators(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_from_values() {
        let check = Check::near("drive", "rate", "MB/s", (100.0, 0.05), "sheet", 104.0);
        assert_eq!((check.verdict(), check.deviation_text()), (Verdict::Agrees, "+4.0 %".to_owned()));
        assert_eq!(check.clone().given().verdict(), Verdict::Given);
        assert_eq!(Check { measured: 94.0, ..check.clone() }.given().verdict(), Verdict::Differs);
        let above = check.expects(Expected::Above(104.0));
        assert_eq!((above.verdict(), above.expected_text()), (Verdict::Differs, "> 104.0".to_owned()));
    }

    #[test]
    fn numbers_are_short() {
        let all = [0.1234, 3.456, 170.04, 35_000.0, 1_234_567.0].map(number);
        assert_eq!(all, ["0.123", "3.46", "170.0", "35,000", "1,234,567"]);
    }
}
