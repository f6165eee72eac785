//! Where one line of a plot crosses another, given sizes that scatter.

use super::results::size_text;
use crate::findings::Judged;

/// How far a crossing may be from the paper's, which reads it off a plot ("around").
const TOLERANCE: f64 = 0.1;

/// The two sizes, in KiB, between which ratios go from below 1 to above. They minimise the ratios above 1
/// before them and those below 1 behind them, summed as logarithms. None if all ratios are on one side.
fn crossing_kib(ratios: &[(u64, f64)]) -> Option<(f64, f64)> {
    let mut below = 0.0;
    let mut deepest = (0.0, 0);
    for (index, (_, ratio)) in ratios.iter().enumerate() {
        below += ratio.ln();
        if below < deepest.0 {
            deepest = (below, index + 1);
        }
    }
    let (_, after) = deepest;
    let before = ratios.get(after.checked_sub(1)?)?.0;
    Some((before as f64, ratios.get(after)?.0 as f64))
}

/// Whether the ratios cross 1 from below about where the paper says so.
pub(super) fn crosses_near(ratios: &[(u64, f64)], paper_kib: u64) -> Judged {
    let steps: Vec<_> =
        ratios.iter().map(|(kib, ratio)| format!("{ratio:.2}x at {}", size_text(*kib))).collect();
    let judged = match crossing_kib(ratios) {
        Some(sizes) => between(sizes, paper_kib as f64),
        None => Judged::new(false, "nowhere among these sizes"),
    };
    judged.because(format!("{}.", steps.join(", ")))
}

/// Judged by the middle between the two sizes. Nothing is known about the sizes between them, so the margin
/// is that of the place between them nearest to where the verdict turns.
fn between((before, after): (f64, f64), paper_kib: f64) -> Judged {
    let middle = (before + after) / 2.0;
    let side = if middle < paper_kib { -TOLERANCE } else { TOLERANCE };
    let nearest = (paper_kib * (1.0 + side)).clamp(before, after);
    let measured = format!("at {middle:.0} KiB, between {before} and {after}");
    let holds = (middle - paper_kib).abs() <= TOLERANCE * paper_kib;
    let mut judged = Judged::near(nearest, paper_kib, TOLERANCE, measured);
    judged.holds = holds;
    judged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        experiments::Effort,
        findings::{Claim, ClaimVerdict},
    };

    #[test]
    fn a_crossing_is_between_the_sizes_that_it_parts() {
        assert_eq!(crossing_kib(&[(132, 0.9), (144, 0.95), (160, 1.1), (192, 1.2)]), Some((144.0, 160.0)));
        // A single value that scatters to the other side does not move the crossing.
        assert_eq!(
            crossing_kib(&[(132, 0.9), (136, 1.01), (140, 0.9), (144, 1.2), (148, 0.99), (152, 1.1)]),
            Some((140.0, 144.0))
        );
    }

    #[test]
    fn lines_that_do_not_cross_have_no_crossing() {
        assert_eq!(crossing_kib(&[(132, 1.1), (144, 1.2)]), None, "above all along");
        assert_eq!(crossing_kib(&[(132, 0.9), (144, 0.8)]), None, "below all along");
        assert_eq!(crossing_kib(&[]), None);
        assert!(!crosses_near(&[(132, 1.1)], 132).holds);
    }

    #[test]
    fn sizes_far_apart_leave_a_quick_run_undecided() {
        let verdict = |before, after| {
            let judged = crosses_near(&[(before, 0.9), (after, 1.1)], 144);
            Claim::new("", "around 144 KB", Some(judged)).weighed(Effort::Quick).verdict
        };
        assert_eq!(verdict(160, 192), ClaimVerdict::Undecided, "160 would be about 144");
        assert_eq!(verdict(188, 192), ClaimVerdict::NotReproduced);
        assert_eq!(verdict(142, 146), ClaimVerdict::Reproduced);
        assert_eq!(verdict(132, 160), ClaimVerdict::Undecided);
    }

    #[test]
    fn about_means_a_tenth() {
        let at = |middle: u64| crosses_near(&[(middle - 2, 0.9), (middle + 2, 1.1)], 164).holds;
        assert_eq!([140, 148, 180, 190].map(at), [false, true, true, false]);
    }
}
