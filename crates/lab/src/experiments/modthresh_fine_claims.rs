//! The claims of modthresh-fine: around the threshold, beyond it, and beside RAID5.

use super::{
    Results,
    modthresh::{
        CHUNK_KIB, EQUAL, HALF_KIB, above_on_average, all_above, all_equal, beside_ssds_only, mean, point,
    },
    modthresh_ablation,
    modthresh_crossover::crosses_near,
    results::{at_size, largest, over_best, size_text},
};
use crate::{
    arrays::{Shape, shapes},
    findings::{Claim, Judged},
};

/// The end of Figures 1 and 12.
pub(super) const FIGURE_KIB_MAX: u64 = 168;
/// raid4s-modthresh 4.1: "still outperforms RAID4S up to about 144KB".
const OUTPERFORMS_KIB: u64 = 144;
/// raid4s-modthresh 4.1: "around 164KB".
const OVERTAKEN_KIB: u64 = 164;
/// raid4s-modthresh, abstract, 4.1 and 6: "+2 MB/s" at all sizes; and how far each size may be from it.
const GAIN_MB_PER_S: f64 = 2.0;
const GAIN_TOLERANCE: f64 = 1.0;

/// All claims, over the sizes that were run.
pub(super) fn claims(results: &Results, sizes_kib: &[u64]) -> Vec<Claim> {
    let ratios = Ratios { results, sizes_kib };
    let mut claims = around_the_threshold(&ratios);
    claims.extend(beyond_it(&ratios));
    claims.extend(beside_raid5(&ratios));
    claims.push(cost(&ratios));
    claims
}

/// Ratios of two lines over a range of sizes.
struct Ratios<'a> {
    results: &'a Results,
    sizes_kib: &'a [u64],
}

impl Ratios<'_> {
    fn of(
        &self,
        (shape, policy): (&'static Shape, &str),
        (base, base_policy): (&'static Shape, &str),
        within: impl Fn(u64) -> bool,
    ) -> Option<Vec<(u64, f64)>> {
        let effort = self.results.effort;
        let sizes: Vec<_> = self.sizes_kib.iter().copied().filter(|kib| within(*kib)).collect();
        let line = |shape, policy| move |kib| point(effort, shape, policy, kib);
        self.results.speed_ups(&sizes, line(shape, policy), line(base, base_policy))
    }

    fn of_raid4s(&self, policy: &str, base: &str, within: impl Fn(u64) -> bool) -> Option<Vec<(u64, f64)>> {
        self.of((&shapes::RAID4S, policy), (&shapes::RAID4S, base), within)
    }

    fn modthresh(&self, within: impl Fn(u64) -> bool) -> Option<Vec<(u64, f64)>> {
        self.of_raid4s("modthresh", "classic", within)
    }
}

fn is_past_half(kib: u64) -> bool {
    kib > HALF_KIB
}

fn is_medium(kib: u64) -> bool {
    (CHUNK_KIB + 1..HALF_KIB).contains(&kib)
}

fn around_the_threshold(ratios: &Ratios<'_>) -> Vec<Claim> {
    vec![
        Claim::new(
            "Up to 64 KiB modthresh and classic are equal (within 2 %).",
            "identical",
            ratios.modthresh(|kib| kib <= CHUNK_KIB).map(|ratios| all_equal(&ratios, EQUAL)),
        ),
        Claim::new(
            "Between 64 and 128 KiB modthresh is faster at every size.",
            "faster at all sizes",
            ratios.modthresh(is_medium).map(|found| all_above(&found, 1.0)),
        ),
        Claim::new(
            "Between 64 and 128 KiB modthresh gains 2 MB/s at every size (within 1 MB/s).",
            "+2 MB/s at all sizes",
            gains(ratios),
        ),
        Claim::new(
            "The most that modthresh gains there is 1.42x (within a fifth).",
            "1.42x",
            ratios.modthresh(is_medium).map(|ratios| {
                let best = largest(&ratios);
                Judged::near(best.1, 1.42, 0.2, at_size(best))
            }),
        ),
        Claim::new(
            "At 128 KiB, which is half a stripe, modthresh is faster (by more than 2 %).",
            "+2 MB/s",
            ratios.modthresh(|kib| kib == HALF_KIB).map(|found| {
                Judged::above(found[0].1, 1.0 + EQUAL, at_size(found[0]))
                    .because(modthresh_ablation::why_at_half(ratios.results).unwrap_or_default())
            }),
        ),
    ]
}

/// The gains at the sizes between a chunk and half a stripe, judged as rates: a difference of two rates
/// scatters by as much as they do, however small it is.
fn gains(ratios: &Ratios<'_>) -> Option<Judged> {
    let rate =
        |kib, policy| ratios.results.mb_per_s(&point(ratios.results.effort, &shapes::RAID4S, policy, kib));
    let sizes = ratios.sizes_kib.iter().copied().filter(|kib| is_medium(*kib));
    let rates = sizes.map(|kib| Some((kib, rate(kib, "classic")?, rate(kib, "modthresh")?)));
    let rates: Vec<_> = rates.collect::<Option<_>>()?;
    let gains: Vec<_> = rates.iter().map(|(kib, classic, modthresh)| (*kib, modthresh - classic)).collect();
    let by_size: Vec<_> =
        gains.iter().map(|(kib, gain)| format!("{gain:+.1} at {}", size_text(*kib))).collect();
    let judged = rates.iter().map(|(kib, classic, modthresh)| {
        let expected = classic + GAIN_MB_PER_S;
        let gain = format!("{:+.1} MB/s at {}", modthresh - classic, size_text(*kib));
        Judged::near(*modthresh, expected, GAIN_TOLERANCE / expected, gain)
    });
    let judged = Judged::of_all(judged)?.because(format!("In MB/s: {}.", by_size.join(", ")));
    Some(judged.adding(&format!("{:+.1} on average", mean(&gains))))
}

fn beyond_it(ratios: &Ratios<'_>) -> Vec<Claim> {
    let past = |kib| (HALF_KIB + 1..=OUTPERFORMS_KIB).contains(&kib);
    let not_yet_overtaken = |kib| (HALF_KIB + 1..OVERTAKEN_KIB).contains(&kib);
    vec![
        Claim::new(
            "From 132 to 144 KiB modthresh is still ahead of classic, on average.",
            "ahead up to about 144 KB",
            ratios.modthresh(past).map(|ratios| above_on_average(&ratios, 1.0)),
        ),
        Claim::new(
            "modthresh is ahead of classic up to 144 KiB (within a tenth).",
            "up to about 144 KB",
            ratios
                .of_raid4s("classic", "modthresh", is_past_half)
                .map(|ratios| crosses_near(&ratios, OUTPERFORMS_KIB)),
        ),
        Claim::new(
            "Above 144 KiB modthresh and classic are equal (within 5 %).",
            "identical: both reconstruct",
            ratios.modthresh(|kib| kib > OUTPERFORMS_KIB).map(|found| {
                all_equal(&found, 0.05)
                    .else_because(modthresh_ablation::why_not_equal(ratios.results).unwrap_or_default())
            }),
        ),
        Claim::new(
            "Just past 128 KiB (132 to 160) modified is ahead of modthresh, on average.",
            "ahead by a small margin",
            ratios.of_raid4s("modified", "modthresh", not_yet_overtaken).map(|found| {
                above_on_average(&found, 1.0).because(
                    modthresh_ablation::why_past_half(ratios.results, found[0].0).unwrap_or_default(),
                )
            }),
        ),
        Claim::new(
            "modthresh overtakes modified at 164 KiB (within a tenth).",
            "around 164 KB",
            ratios
                .of_raid4s("modthresh", "modified", is_past_half)
                .map(|ratios| crosses_near(&ratios, OVERTAKEN_KIB)),
        ),
        Claim::new(
            "From 164 KiB on modthresh is ahead of modified, on average.",
            "ahead",
            ratios
                .of_raid4s("modthresh", "modified", |kib| kib >= OVERTAKEN_KIB)
                .map(|ratios| above_on_average(&ratios, 1.0)),
        ),
    ]
}

fn beside_raid5(ratios: &Ratios<'_>) -> Vec<Claim> {
    let modthresh = (&shapes::RAID4S, "modthresh");
    let ahead = |base: &'static Shape| {
        let judged = ratios
            .of(modthresh, (base, "classic"), |kib| kib <= HALF_KIB)
            .map(|ratios| above_on_average(&ratios, 1.0));
        let judged = judged.map(|judged| match base.id == shapes::RAID5S_ALL.id {
            true => judged.else_because(beside_ssds_only(ratios.results).unwrap_or_default()),
            false => judged,
        });
        let statement = format!("Up to 128 KiB RAID4S-modthresh is ahead of {}, on average.", base.name);
        Claim::new(statement, "significant speedup", judged)
    };
    let at_half = |base: &'static Shape| {
        let ratios = ratios.of(modthresh, (base, "classic"), |kib| kib == HALF_KIB);
        let judged = ratios.map(|ratios| Judged::above(ratios[0].1, 1.0, at_size(ratios[0])));
        let statement = format!("At 128 KiB RAID4S-modthresh is ahead of {}.", base.name);
        Claim::new(statement, "even the 128KB write compares favorably", judged)
    };
    let overtaken = |base: &'static Shape| {
        let ratios = ratios.of((base, "classic"), modthresh, is_past_half);
        let statement = format!("Above 128 KiB {} is ahead of RAID4S-modthresh, on average.", base.name);
        let judged = ratios.map(|ratios| above_on_average(&ratios, 1.0));
        Claim::new(statement, "RAID5S overtakes after 128 KB", judged)
    };
    let stays_behind = ratios
        .of(modthresh, (&shapes::RAID5, "classic"), |kib| is_past_half(kib) && kib <= FIGURE_KIB_MAX)
        .map(|ratios| all_above(&ratios, 1.0));
    vec![
        ahead(&shapes::RAID5),
        ahead(&shapes::RAID5S),
        ahead(&shapes::RAID5S_ALL),
        at_half(&shapes::RAID5S),
        at_half(&shapes::RAID5S_ALL),
        overtaken(&shapes::RAID5S),
        overtaken(&shapes::RAID5S_ALL),
        Claim::new(
            "From 132 to 168 KiB RAID5 of disks stays behind RAID4S-modthresh at every size.",
            "only RAID5S overtakes (Figure 12)",
            stays_behind,
        ),
    ]
}

fn cost(ratios: &Ratios<'_>) -> Claim {
    let results = ratios.results;
    let rate = |name: &str, kib| results.mb_per_s(&point(results.effort, &shapes::RAID4S, name, kib));
    let others = ["classic", "modthresh", "modified"];
    let judged = over_best(ratios.sizes_kib, "cost", &others, rate)
        .map(|ratios| all_above(&ratios, 0.97).adding(&format!("most {}", at_size(largest(&ratios)))));
    Claim::new(
        "The paper's future work, selection by exact size and cost, is never more than 3 % behind the best of the three.",
        "",
        judged,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        experiments::{Effort, modthresh_fine::EXPERIMENT},
        findings::ClaimVerdict,
        point::Point,
    };

    /// The claim that begins with this text, if points have the given rates.
    fn claim(begins: &str, mb_per_s: impl Fn(&Point) -> f64) -> Claim {
        let results = Results::made_up(&EXPERIMENT, Effort::Full, mb_per_s);
        (EXPERIMENT.findings)(&results)
            .claims
            .into_iter()
            .find(|claim| claim.statement.starts_with(begins))
            .unwrap()
    }

    #[test]
    fn who_is_claimed_to_be_ahead_is_above_the_line() {
        // Far ahead at one size, behind at all others: the mean of the inverse ratios is above 1, too.
        let modthresh = |point: &Point| match (point.policy.name, point.load.write_bytes >> 10) {
            ("modthresh", 164) => 1000.0,
            ("modthresh", _) => 9.0,
            _ => 10.0,
        };
        let found = claim("From 164 KiB on modthresh is ahead of modified", modthresh);
        assert_eq!(found.verdict, ClaimVerdict::Reproduced);
        assert!(found.measured.contains("least 0.90x"), "{found}");
        let found = claim("From 164 KiB on modthresh is ahead of modified", |point| {
            if point.policy.name == "modified" { 20.0 } else { 10.0 }
        });
        assert!(
            found.verdict == ClaimVerdict::NotReproduced && found.measured.starts_with("0.50x"),
            "{found}"
        );

        let found =
            claim("Above 128 KiB RAID5S", |point| if point.shape.id == "raid5s" { 15.0 } else { 10.0 });
        assert!(found.verdict == ClaimVerdict::Reproduced && found.measured.starts_with("1.50x"), "{found}");
    }

    #[test]
    fn faster_is_one_claim_and_by_how_much_another() {
        let gaining = |gain: f64| {
            move |point: &Point| if point.policy.name == "modthresh" { 30.0 + gain } else { 30.0 }
        };
        let verdicts = |gain| {
            ["Between 64 and 128 KiB modthresh is faster", "Between 64 and 128 KiB modthresh gains 2 MB/s"]
                .map(|begins| claim(begins, gaining(gain)).verdict)
        };
        use ClaimVerdict::{NotReproduced, Reproduced};
        assert_eq!(verdicts(2.0), [Reproduced; 2]);
        assert_eq!(verdicts(6.0), [Reproduced, NotReproduced]);
        assert_eq!(verdicts(-1.0), [NotReproduced; 2]);
        let found = claim("Between 64 and 128 KiB modthresh gains", gaining(6.0));
        assert!(found.measured.ends_with("+6.0 on average"), "{found}");
    }

    #[test]
    fn crossings_are_judged_as_sizes() {
        // Behind classic from the first size beyond `last` on, behind modified up to it.
        let until = |last: u64| {
            move |point: &Point| match (point.policy.name, point.load.write_bytes >> 10 <= last) {
                ("classic", true) | ("modthresh", false) => 9.0,
                ("classic", false) | ("modthresh", true) => 10.0,
                (_, at_first) => {
                    if at_first {
                        11.0
                    } else {
                        8.0
                    }
                }
            }
        };
        let verdict = |begins, last| claim(begins, until(last)).verdict;
        let (ahead, overtakes) = ("modthresh is ahead of classic up to", "modthresh overtakes modified");
        assert_eq!(
            [144, 192].map(|last| verdict(ahead, last)),
            [ClaimVerdict::Reproduced, ClaimVerdict::NotReproduced]
        );
        assert_eq!(
            [164, 192].map(|last| verdict(overtakes, last)),
            [ClaimVerdict::Reproduced, ClaimVerdict::NotReproduced]
        );
    }

    #[test]
    fn raid5_of_disks_may_not_overtake_and_both_arrays_called_raid5s_must() {
        let raid5 = |point: &Point| if point.shape.id.starts_with("raid5") { 11.0 } else { 10.0 };
        let verdict = |begins: &str| claim(begins, raid5).verdict;
        assert_eq!(verdict("From 132 to 168 KiB RAID5 of disks stays behind"), ClaimVerdict::NotReproduced);
        for shape in [&shapes::RAID5S, &shapes::RAID5S_ALL] {
            let overtakes = format!("Above 128 KiB {} is ahead", shape.name);
            assert_eq!(verdict(&overtakes), ClaimVerdict::Reproduced);
            let at_half = format!("At 128 KiB RAID4S-modthresh is ahead of {}", shape.name);
            assert_eq!(verdict(&at_half), ClaimVerdict::NotReproduced);
        }
    }

    #[test]
    fn reasons_say_what_was_measured() {
        let found = claim("Just past 128 KiB", |_| 10.0);
        // Made-up writes take four disks each, and half of the rows either way.
        assert!(found.reason.contains("4.00 reads and 4.00 writes of disks with modified"), "{found}");
        assert!(found.reason.contains("50 % of rows with modthresh"), "{found}");
        let ssds = |ours: f64| move |point: &Point| if point.shape.id == "raid4s" { 10.0 } else { ours };
        let reason =
            |ours| claim("Up to 128 KiB RAID4S-modthresh is ahead of RAID5S (all SSD)", ssds(ours)).reason;
        assert!(reason(20.0).contains("at this size neither of ours is."), "{}", reason(20.0));
    }
}
