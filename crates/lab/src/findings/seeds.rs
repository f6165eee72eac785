//! How far figures scatter from seed to seed, where a folder has the points of several seeds.

use super::{Claim, ClaimVerdict, Findings};
use crate::{
    experiments::{Effort, Experiment, Results},
    plot::Plot,
};

/// Other seeds without which nothing is known of the scatter.
const OTHERS_MIN: usize = 2;

/// What is found of an experiment with each other seed.
pub(super) struct Seeds(Vec<(u64, Findings)>);

impl Seeds {
    /// With the other seeds of these results.
    pub(super) fn new(experiment: &Experiment, results: &Results) -> Self {
        let others = results.of_other_seeds();
        Self(others.map(|(seed, results)| (seed, (experiment.findings)(&results))).collect())
    }

    /// A plot with how far its values scatter.
    pub(super) fn scattered(&self, plot: Plot) -> Plot {
        let others: Vec<_> = self.0.iter().flat_map(|(_, found)| &found.plots).collect();
        plot.scattered(&others)
    }

    /// Compares a claim's margin with its scatter: as measured with other seeds, if there are enough, and else as assumed.
    pub(super) fn weighed(&self, claim: Claim, effort: Effort) -> Claim {
        let others: Vec<_> = self.leads(&claim).collect();
        match claim.lead() {
            Some(lead) if others.len() >= OTHERS_MIN => weighed_among(claim, lead, &others, effort),
            _ => claim.weighed(effort),
        }
    }

    /// Other seeds, and how far the figure is on the side where the claim holds with each.
    fn leads(&self, claim: &Claim) -> impl Iterator<Item = (u64, f64)> {
        let of = |claims: &[Claim]| claims.iter().find(|other| other.statement == claim.statement)?.lead();
        self.0.iter().filter_map(move |(seed, found)| Some((*seed, of(&found.claims)?)))
    }
}

fn weighed_among(claim: Claim, lead: f64, others: &[(u64, f64)], effort: Effort) -> Claim {
    let all = || others.iter().map(|(_, other)| *other).chain([lead]);
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    let scatter = (most - least) / 2.0;
    let holds = claim.verdict == ClaimVerdict::Reproduced;
    let turning =
        others.iter().filter(|(_, other)| (*other >= 0.0) != holds).map(|(seed, _)| seed.to_string());
    let turning: Vec<_> = turning.collect();
    if turning.is_empty() && lead.abs() >= scatter {
        return claim;
    }
    let seeds = others.len() + 1;
    let figure = format!(
        "The figure is {:.1} % from where the verdict turns, and scatters by {:.1} % over {seeds} seeds.",
        lead.abs() * 100.0,
        scatter * 100.0
    );
    let (verdict, outlook) = match (turning.is_empty(), effort) {
        (false, _) => (ClaimVerdict::Undecided, format!("It turns with seed {}.", turning.join(", "))),
        (true, Effort::Quick) => (ClaimVerdict::Undecided, "A full run is more exact.".to_owned()),
        (true, Effort::Full) => (claim.verdict, "Another seed may turn it.".to_owned()),
    };
    claim.nearly(verdict, format!("{figure} {outlook}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Judged;

    fn claim(figure: f64) -> Claim {
        Claim::new("faster", "2", Some(Judged::above(figure, 1.0, format!("{figure}"))))
    }

    fn found(claim: Claim) -> Findings {
        Findings { claims: vec![claim], ..Findings::default() }
    }

    fn weighed(figure: f64, others: &[f64], effort: Effort) -> Claim {
        let others = others.iter().zip(2..).map(|(figure, seed)| (seed, found(claim(*figure))));
        Seeds(others.collect()).weighed(claim(figure), effort)
    }

    #[test]
    fn what_seeds_agree_on_is_decided_by_their_own_scatter() {
        use ClaimVerdict::{Reproduced, Undecided};
        assert_eq!(weighed(1.04, &[1.05, 1.04], Effort::Quick).verdict, Reproduced, "not the 6 % assumed");
        assert_eq!(weighed(1.04, &[1.05], Effort::Quick).verdict, Undecided, "two seeds say little");
        let near = weighed(1.05, &[1.3, 1.2], Effort::Full);
        assert!(
            near.verdict == Reproduced && near.reason.contains("over 3 seeds. Another seed may"),
            "{near}"
        );
        assert_eq!(weighed(1.05, &[1.3, 1.2], Effort::Quick).verdict, Undecided);
    }

    #[test]
    fn what_another_seed_turns_no_run_decides() {
        for (figure, others) in [(1.2, [1.3, 0.9]), (0.8, [0.7, 1.1])] {
            let turned = weighed(figure, &others, Effort::Full);
            assert_eq!(turned.verdict, ClaimVerdict::Undecided);
            assert!(turned.reason.ends_with("It turns with seed 3."), "{turned}");
        }
    }

    #[test]
    fn a_figure_that_no_seed_changes_is_left_alone() {
        let exact = || Claim::new("faster", "2", Some(Judged::above(1.2, 1.0, "").exact()));
        let seeds = Seeds((2..5).map(|seed| (seed, found(exact()))).collect());
        assert_eq!(seeds.weighed(exact(), Effort::Full), exact());
    }
}
