//! A claim beside its measurement.

use std::cmp::Ordering;

use serde::Serialize;

use crate::experiments::Effort;

/// How far a figure at a single size is assumed to lie to either side of the mean of all seeds: a little more
/// than half of the largest difference found between runs of different seeds (docs/experiments.md). No other
/// seed moves a figure farther from where the verdict turns than this to the same distance on the other side.
const QUICK_SCATTER: f64 = 0.06;
const FULL_SCATTER: f64 = 0.03;

/// A statement that a run confirms or refutes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claim {
    /// The claim, with its tolerance.
    pub statement: String,
    /// The paper's figure; empty if the claim is ours.
    pub paper: String,
    /// The measurement.
    pub measured: String,
    /// Whether it holds.
    pub verdict: ClaimVerdict,
    /// Why, as far as measurements show it.
    pub reason: String,
    #[serde(skip)]
    margin: Option<Margin>,
    #[serde(skip)]
    analytic: bool,
}

/// Whether a claim holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimVerdict {
    /// It does.
    Reproduced,
    /// It does not.
    NotReproduced,
    /// Its figure is so near to where the verdict turns that another seed may turn it.
    Undecided,
    /// This machine lacks what the claim needs.
    NotDecidableHere,
    /// Points are missing.
    Open,
}

/// The points' answer to a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Whether it holds.
    pub holds: bool,
    /// The figures.
    pub measured: String,
    /// Why.
    pub reason: String,
    margin: Option<Margin>,
}

/// How far a figure is from where the verdict turns.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Margin {
    /// As a part of the figure.
    part: f64,
    /// The number of figures that it averages: it scatters less than each of them.
    averaged: usize,
    /// Its measured scatter, as a part of it; if that was measured.
    scatter: Option<f64>,
}

impl Margin {
    fn new(figure: f64, bound: f64) -> Option<Self> {
        Some(Self { part: (bound / figure - 1.0).abs(), averaged: 1, scatter: None })
    }
}

impl Judged {
    /// A verdict and figures that do not depend on the seed.
    pub fn new(holds: bool, measured: impl Into<String>) -> Self {
        Self { holds, measured: measured.into(), reason: String::new(), margin: None }
    }

    /// Holds if the figure is above a bound.
    pub fn above(figure: f64, bound: f64, measured: impl Into<String>) -> Self {
        Self { margin: Margin::new(figure, bound), ..Self::new(figure > bound, measured) }
    }

    /// Holds if the figure is not above a bound.
    pub fn at_most(figure: f64, bound: f64, measured: impl Into<String>) -> Self {
        Self { margin: Margin::new(figure, bound), ..Self::new(figure <= bound, measured) }
    }

    /// Holds if the figure is the expected one within a tolerance, given as a part of it.
    pub fn near(figure: f64, expected: f64, tolerance: f64, measured: impl Into<String>) -> Self {
        let (low, high) = (expected * (1.0 - tolerance), expected * (1.0 + tolerance));
        let bound = if figure < expected { low } else { high };
        Self { margin: Margin::new(figure, bound), ..Self::new((low..=high).contains(&figure), measured) }
    }

    /// With more figures.
    pub fn adding(self, more: &str) -> Self {
        Self { measured: format!("{}; {more}", self.measured), ..self }
    }

    /// The figure is the average of so many.
    pub fn averaged(self, count: usize) -> Self {
        Self { margin: self.margin.map(|margin| Margin { averaged: count, ..margin }), ..self }
    }

    /// The figure scatters by this part of it from turn to turn: no run decides a claim that is nearer.
    pub fn scattering(self, part: f64) -> Self {
        Self { margin: self.margin.map(|margin| Margin { scatter: Some(part), ..margin }), ..self }
    }

    /// Of points at each of which something must hold, the deciding one: a point at which it clearly fails,
    /// or else one at which it may, or else the one at which it holds by the least. None without points.
    pub fn of_all(points: impl IntoIterator<Item = Self>) -> Option<Self> {
        points.into_iter().min_by(|a, b| a.standing().partial_cmp(&b.standing()).unwrap_or(Ordering::Equal))
    }

    /// Whether it clearly fails (0), is too near (1) or holds (2), and by how much.
    fn standing(&self) -> (u8, f64) {
        let clear = self.margin.map_or(f64::MAX, |margin| margin.part - margin.scatter.unwrap_or(0.0));
        match (self.holds, clear >= 0.0) {
            (false, true) => (0, -clear),
            (_, false) => (1, clear),
            (true, true) => (2, clear),
        }
    }

    /// The figure is the same for all seeds.
    pub fn exact(self) -> Self {
        Self { margin: None, ..self }
    }

    /// With the reason, whatever the verdict.
    pub fn because(self, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..self }
    }

    /// With the reason, if it does not hold.
    pub fn else_because(self, reason: impl Into<String>) -> Self {
        if self.holds { self } else { self.because(reason) }
    }
}

impl Claim {
    /// A claim with the points' answer; open if some points are missing.
    pub fn new(statement: impl Into<String>, paper: impl Into<String>, judged: Option<Judged>) -> Self {
        let (statement, paper) = (statement.into(), paper.into());
        let Some(Judged { holds, measured, reason, margin }) = judged else {
            let (verdict, measured) = (ClaimVerdict::Open, String::new());
            let reason = "points are missing".to_owned();
            return Self { statement, paper, measured, verdict, reason, margin: None, analytic: false };
        };
        let verdict = if holds { ClaimVerdict::Reproduced } else { ClaimVerdict::NotReproduced };
        Self { statement, paper, measured, verdict, reason, margin, analytic: false }
    }

    /// Compares the margin with the scatter between seeds: a quick run does not decide a claim that is
    /// nearer, and a full run says so.
    pub fn weighed(self, effort: Effort) -> Self {
        let Some(Margin { part, averaged, scatter }) = self.margin else { return self };
        if let Some(scatter) = scatter {
            return self.weighed_by_turns(part, scatter);
        }
        let single = if effort == Effort::Quick { QUICK_SCATTER } else { FULL_SCATTER };
        let scatter = single / (averaged.max(1) as f64).sqrt();
        if part >= scatter {
            return self;
        }
        let (verdict, outlook) = match effort {
            Effort::Quick => (ClaimVerdict::Undecided, "A full run is more exact."),
            Effort::Full => (self.verdict, "Another seed may turn it."),
        };
        let near = format!(
            "The figure is {:.1} % from where the verdict turns, and scatters by {:.1} % from seed to seed. {outlook}",
            part * 100.0,
            scatter * 100.0
        );
        self.nearly(verdict, near)
    }

    /// A figure measured in real time: no seed repeats it, but its turns show how far it scatters.
    fn weighed_by_turns(self, part: f64, scatter: f64) -> Self {
        if part >= scatter {
            return self;
        }
        let near = format!(
            "The figure is {:.1} % from where the verdict turns, and scatters by {:.1} % within this run. A machine that \
             does nothing else is more exact.",
            part * 100.0,
            scatter * 100.0
        );
        self.nearly(ClaimVerdict::Undecided, near)
    }

    /// How far the figure is on the side where the claim holds, as a part of it; none if no seed changes it, or if it
    /// was measured in real time.
    pub(super) fn lead(&self) -> Option<f64> {
        let part = self.margin.filter(|margin| margin.scatter.is_none())?.part;
        Some(if self.verdict == ClaimVerdict::Reproduced { part } else { -part })
    }

    /// With another verdict, and the reason for that before its own.
    pub(super) fn nearly(self, verdict: ClaimVerdict, near: String) -> Self {
        let reason = if self.reason.is_empty() { near } else { format!("{near} {}", self.reason) };
        Self { verdict, reason, ..self }
    }

    /// A claim that this machine cannot decide, with its measurement all the same.
    pub fn not_here(
        statement: impl Into<String>,
        paper: impl Into<String>,
        measured: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            measured: measured.into(),
            verdict: ClaimVerdict::NotDecidableHere,
            reason: reason.into(),
            ..Self::new(statement, paper, None)
        }
    }

    /// A claim that needs no points.
    pub fn analytic(statement: impl Into<String>, paper: impl Into<String>, judged: Judged) -> Self {
        Self { analytic: true, ..Self::new(statement, paper, Some(judged)) }
    }

    /// The verdict in words; a claim of ours has no paper to reproduce.
    pub fn word(&self) -> &'static str {
        match (self.verdict, self.paper.is_empty()) {
            (ClaimVerdict::Reproduced, false) => "reproduced",
            (ClaimVerdict::Reproduced, true) => "holds",
            (ClaimVerdict::NotReproduced, false) => "not reproduced",
            (ClaimVerdict::NotReproduced, true) => "does not hold",
            (ClaimVerdict::Undecided, _) => "undecided",
            (ClaimVerdict::NotDecidableHere, _) => "not decidable here",
            (ClaimVerdict::Open, _) => "open",
        }
    }

    /// Whether points are missing.
    pub fn is_open(&self) -> bool {
        self.verdict == ClaimVerdict::Open
    }

    /// Whether it needs no points.
    pub fn is_analytic(&self) -> bool {
        self.analytic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_all_points_the_one_that_decides_is_told() {
        let at = |figure, scatter| Judged::at_most(figure, 1.0, format!("{figure}")).scattering(scatter);
        let told = |points: &[(f64, f64)]| {
            let points: Vec<_> = points.iter().map(|(figure, scatter)| at(*figure, *scatter)).collect();
            let claim = Claim::new("", "", Judged::of_all(points)).weighed(Effort::Full);
            (claim.verdict, claim.measured)
        };
        let noise = (0.2, 8.0);
        assert_eq!(told(&[(0.5, 0.1), (1.5, 0.1), (0.9, 0.5)]), (ClaimVerdict::NotReproduced, "1.5".into()));
        assert_eq!(told(&[(0.5, 0.1), (0.9, 0.5)]), (ClaimVerdict::Undecided, "0.9".into()));
        assert_eq!(told(&[(0.5, 0.1), (0.8, 0.1)]), (ClaimVerdict::Reproduced, "0.8".into()));
        assert_eq!(told(&[(1.5, 0.1), noise]).0, ClaimVerdict::NotReproduced);
        assert_eq!(told(&[]).0, ClaimVerdict::Open);
    }

    #[test]
    fn verdicts_follow_from_points() {
        let reason = |holds| Judged::new(holds, "2").else_because("too slow");
        let claim = |judged| Claim::new("faster", "3", judged);
        assert_eq!(claim(Some(reason(true))).verdict, ClaimVerdict::Reproduced);
        assert_eq!(claim(Some(reason(true))).reason, "");
        assert_eq!(claim(Some(reason(true))).word(), "reproduced");
        assert_eq!(Claim::new("ours", "", Some(reason(false))).word(), "does not hold");
        assert_eq!(claim(Some(reason(false))).reason, "too slow");
        assert!(claim(None).is_open() && !claim(None).reason.is_empty());
    }

    #[test]
    fn a_quick_run_does_not_decide_what_seeds_do() {
        use ClaimVerdict::{NotReproduced, Reproduced, Undecided};
        let verdicts = |judged: Judged| {
            let claim = Claim::new("", "3", Some(judged));
            [Effort::Quick, Effort::Full].map(|effort| claim.clone().weighed(effort).verdict)
        };
        assert_eq!(verdicts(Judged::above(1.04, 1.0, "")), [Undecided, Reproduced]);
        assert_eq!(verdicts(Judged::above(0.96, 1.0, "")), [Undecided, NotReproduced]);
        assert_eq!(verdicts(Judged::above(1.1, 1.0, "")), [Reproduced; 2]);
        assert_eq!(verdicts(Judged::at_most(1.3, 1.15, "")), [NotReproduced; 2]);
        assert_eq!(verdicts(Judged::above(1.04, 1.0, "").averaged(4)), [Reproduced; 2], "scatters by half");
        assert_eq!(verdicts(Judged::above(1.04, 1.0, "").exact()), [Reproduced; 2]);
        // Between 2.64 and 3.96.
        let near = |figure| verdicts(Judged::near(figure, 3.3, 0.2, ""));
        assert_eq!(
            [2.0, 2.6, 2.7, 3.3].map(|figure| near(figure)[0]),
            [NotReproduced, Undecided, Undecided, Reproduced]
        );
        assert_eq!(near(3.9)[0], Undecided);
    }

    #[test]
    fn what_turns_do_not_decide_no_run_does() {
        let weighed = |scatter, effort| {
            Claim::new("", "3", Some(Judged::above(1.2, 1.0, "").scattering(scatter))).weighed(effort)
        };
        for effort in [Effort::Quick, Effort::Full] {
            assert_eq!(weighed(0.1, effort).verdict, ClaimVerdict::Reproduced);
            let undecided = weighed(0.3, effort);
            assert_eq!(undecided.verdict, ClaimVerdict::Undecided);
            assert!(undecided.reason.contains("scatters by 30.0 % within this run"), "{undecided}");
        }
        let not_here =
            Claim::not_here("faster", "3x", "1.0x with 2 threads", "2 cores").weighed(Effort::Full);
        assert_eq!((not_here.word(), not_here.is_open()), ("not decidable here", false));
    }

    #[test]
    fn a_narrow_margin_is_told() {
        let reason = |effort| Claim::new("", "", Some(Judged::above(1.02, 1.0, ""))).weighed(effort).reason;
        assert!(reason(Effort::Quick).contains("2.0 % from where the verdict turns"));
        assert!(reason(Effort::Full).contains("scatters by 3.0 % from seed to seed"));
        assert_eq!(Claim::new("", "", None).weighed(Effort::Quick).verdict, ClaimVerdict::Open);
    }
}
