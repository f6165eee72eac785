//! Where one line of a plot goes past another, from sizes that scatter.

use super::results::size_text;
use crate::findings::Judged;

/// How far a crossing may be from the paper's, which reads it off a plot ("around").
const TOLERANCE: f64 = 0.1;

/// The size, in KiB, at which ratios go from below 1 to above: the one that leaves the least of what is above before it, and of
/// what is below behind it, summed up in logarithms. Between two sizes, the middle. None if all are on one side.
fn crossing_kib(ratios: &[(u64, f64)]) -> Option<f64> {
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
    Some((before + ratios.get(after)?.0) as f64 / 2.0)
}

/// Whether the ratios cross 1 from below about where the paper says so.
pub(super) fn crosses_near(ratios: &[(u64, f64)], paper_kib: u64) -> Judged {
    let steps: Vec<_> =
        ratios.iter().map(|(kib, ratio)| format!("{ratio:.2}x at {}", size_text(*kib))).collect();
    let judged = match crossing_kib(ratios) {
        Some(kib) => Judged::near(kib, paper_kib as f64, TOLERANCE, format!("at {kib:.0} KiB")),
        None => Judged::new(false, "nowhere among these sizes"),
    };
    judged.because(format!("{}.", steps.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crossing_is_between_the_sizes_that_it_parts() {
        assert_eq!(crossing_kib(&[(132, 0.9), (144, 0.95), (160, 1.1), (192, 1.2)]), Some(152.0));
        // One that scatters to the other side does not move it.
        assert_eq!(
            crossing_kib(&[(132, 0.9), (136, 1.01), (140, 0.9), (144, 1.2), (148, 0.99), (152, 1.1)]),
            Some(142.0)
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
    fn about_means_a_tenth() {
        let at = |middle: u64| crosses_near(&[(middle - 2, 0.9), (middle + 2, 1.1)], 164).holds;
        assert_eq!([140, 148, 180, 190].map(at), [false, true, true, false]);
    }
}
