//! How far the disk models are from data sheets, papers and analysis.
//!
//! Each experiment is a file here with a function that returns a [`Section`]; adding one is a file and a line
//! in [`run`]. The models run alone, without engine or executor
//! ([`ClosedLoop`](stripewise_sim::model::ClosedLoop)).

mod amplification;
pub(crate) mod drives;
mod hdd_latency;
mod hdd_zones;
mod queue_depth;
mod ssd_rates;
mod ssd_steady;
mod strides;

use crate::{
    parallel::OnProgress,
    report::{Report, Section},
};

/// How much to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Seconds: fewer points and requests, for tests. The values are less exact.
    Quick,
    /// A minute or so.
    Full,
}

impl Effort {
    /// One of two amounts.
    fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// Runs all experiments, one after another, the points of each in parallel.
pub fn run(effort: Effort, on_progress: OnProgress<'_>) -> Report {
    let experiments: [fn(Effort, OnProgress<'_>) -> Section; 7] = [
        hdd_latency::section,
        hdd_zones::section,
        queue_depth::section,
        ssd_rates::section,
        strides::section,
        ssd_steady::section,
        amplification::section,
    ];
    Report {
        title: "Validation of the disk models".to_owned(),
        introduction: introduction(effort),
        sections: experiments.into_iter().map(|experiment| experiment(effort, on_progress)).collect(),
    }
}

fn introduction(effort: Effort) -> Vec<String> {
    let mut texts = vec![
        "Modelled disks, run alone in virtual time, beside what their makers publish, what papers measured, and what \
         analysis says. \"Agrees\" and \"differs\" are about figures that nothing in a model was chosen for, within the \
         tolerance of each check; \"given\" marks figures from which a parameter follows, so that they show only that \
         nothing else in the model is in the way. No parameter is changed because a figure differs here."
            .to_owned(),
        "Sources of parameters and of published figures: crates/sim/src/model/hdd/presets.rs and ssd/presets.rs, which \
         also say which of them were looked up and which are cited from knowledge."
            .to_owned(),
    ];
    if effort == Effort::Quick {
        texts.push("A quick run: few points and requests. Its values are less exact.".to_owned());
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;

    #[test]
    fn a_quick_run_is_the_same_twice_and_what_is_analytic_agrees() {
        let silent = |_: &str, _: usize, _: usize| ();
        let report = run(Effort::Quick, &silent);
        assert_eq!(report.html(), run(Effort::Quick, &silent).html());
        for section in report.sections.iter().filter(|section| section.name == "amplification") {
            let all = section.checks.iter().all(|check| check.verdict() == Verdict::Agrees);
            assert!(all, "{report}");
        }
        assert!(
            report.sections.iter().all(|section| !section.checks.is_empty() && !section.plots.is_empty())
        );
        let folder = tempfile::tempdir().unwrap();
        report.write_to(folder.path()).unwrap();
        let lines = std::fs::read_to_string(folder.path().join("checks.csv")).unwrap().lines().count();
        assert_eq!(lines, report.checks().count() + 1);
        serde_json::to_string(&report).unwrap();
    }
}
