//! A claim beside what was measured.

use serde::Serialize;

/// A statement that a run shows to hold or not to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Claim {
    /// What is claimed, with the tolerance that is allowed.
    pub statement: String,
    /// The paper's figure; empty where the claim is ours.
    pub paper: String,
    /// What was measured.
    pub measured: String,
    /// Whether it holds.
    pub verdict: ClaimVerdict,
    /// Why, as far as that was found out by measuring.
    pub reason: String,
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
    /// Points are missing.
    Open,
}

/// What points say of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Whether it holds.
    pub holds: bool,
    /// The figures.
    pub measured: String,
    /// Why.
    pub reason: String,
}

impl Judged {
    /// Whether it holds, and the figures.
    pub fn new(holds: bool, measured: impl Into<String>) -> Self {
        Self { holds, measured: measured.into(), reason: String::new() }
    }

    /// With the reason, however it came out.
    pub fn because(self, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..self }
    }

    /// With the reason, if it does not hold.
    pub fn else_because(self, reason: impl Into<String>) -> Self {
        if self.holds { self } else { self.because(reason) }
    }
}

impl Claim {
    /// A claim and what points say of it; open if some are missing.
    pub fn new(statement: impl Into<String>, paper: impl Into<String>, judged: Option<Judged>) -> Self {
        let (statement, paper) = (statement.into(), paper.into());
        let Some(Judged { holds, measured, reason }) = judged else {
            let verdict = ClaimVerdict::Open;
            let reason = "points are missing".to_owned();
            return Self { statement, paper, measured: String::new(), verdict, reason, analytic: false };
        };
        let verdict = if holds { ClaimVerdict::Reproduced } else { ClaimVerdict::NotReproduced };
        Self { statement, paper, measured, verdict, reason, analytic: false }
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
}
