//! raid4s-modthresh 4.1: medium writes, every 4 KiB.

use super::{
    Effort, Experiment, Points, Results,
    lines::{self, Line, Sizes, Titled},
    modthresh::{
        CHUNK_KIB, EQUAL, HALF_KIB, LOAD_OF_THE_PAPER, above_on_average, all_above, all_equal,
        beside_ssds_only, mean, point,
    },
    modthresh_ablation,
    modthresh_lines::{self, Lines},
    pick,
    results::{at_size, largest, over_best},
};
use crate::{
    arrays::{Shape, shapes},
    findings::{Claim, Findings, Judged},
    plot::Plot,
    point::Point,
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "modthresh-fine",
    title: "Medium writes and the write selection threshold",
    source: "raid4s-modthresh 4.1 (Figures 1, 11, 12 and 13)",
    setting: &[
        LOAD_OF_THE_PAPER,
        "The sizes are 40 to 256 KiB every 4 KiB, or some of them; beside the paper's policies there is `cost`. \"RAID5S\" is both \
         the array of the slides, with one SSD, and that of Fig. 10, with SSDs only. The arrays that the paper does not test stand \
         beside its own: with md's selection and, where there is parity, with the moved threshold.",
        "Writes start at multiples of their size, not of the stripe's, so most that are not powers of two begin within a chunk, \
         and many reach over the end of a stripe: rows of one write then differ in how many blocks they change.",
    ],
    points: Points::Modelled(points),
    findings,
};

/// The end of Figures 1 and 12.
const FIGURE_KIB_MAX: u64 = 168;
/// raid4s-modthresh 4.1: "still outperforms RAID4S up to about 144KB".
const OUTPERFORMS_KIB: u64 = 144;
/// raid4s-modthresh 4.1: "around 164KB".
const OVERTAKEN_KIB: u64 = 164;

fn sizes_kib(effort: Effort) -> Vec<u64> {
    let few = [40, 64, 80, 96, 112, 128, 132, 144, 160, 192, 256];
    (40..=256).step_by(4).filter(|kib| pick(effort, few.contains(kib), true)).collect()
}

fn points(effort: Effort) -> Vec<Point> {
    let mut points = modthresh_lines::points(effort, &sizes_kib(effort));
    points.extend(modthresh_ablation::points(effort));
    points
}

fn findings(results: &Results) -> Findings {
    let sizes = sizes_kib(results.effort);
    let medium: Vec<_> = sizes.iter().copied().filter(|kib| *kib <= FIGURE_KIB_MAX).collect();
    let of = Lines { effort: results.effort, sizes_kib: &sizes };
    let medium = Lines { sizes_kib: &medium, ..of };
    let (on_raid4s, evenly) = (of.on_raid4s(), Sizes::Even);
    let line = |name, draw: fn(Titled, Sizes, &[Line], &Results) -> Plot, lines: &[Line]| {
        draw(name, evenly, lines, results)
    };
    Findings {
        claims: claims(results),
        plots: vec![
            line(
                ("modthresh-fine-throughput", "Random writes (Figures 1 and 12)"),
                lines::throughput,
                &medium.side_by_side(),
            ),
            line(
                ("modthresh-fine-policies", "The policies on RAID4S (Figures 11 and 13)"),
                lines::throughput,
                &on_raid4s,
            ),
            line(
                ("modthresh-fine-speed-up", "Over RAID4S, classic (Figures 11 and 13)"),
                lines::speed_up,
                &on_raid4s,
            ),
            line(("modthresh-fine-arrays", "The whole range"), lines::throughput, &of.side_by_side()),
            lines::gains(
                ("modthresh-fine-gains", "modthresh over classic, every array"),
                evenly,
                &of.moved(),
                results,
            ),
            lines::latency(("modthresh-fine-latency", "Latency of a write"), evenly, &on_raid4s[1], results),
            line(("modthresh-fine-utilisation", "Members at work"), lines::utilisation, &on_raid4s[..2]),
        ],
        tables: std::iter::once(modthresh_ablation::table(results)).chain(of.tables(results)).collect(),
    }
}

/// Ratios of two lines over a range of sizes.
struct Ratios<'a> {
    results: &'a Results,
    sizes_kib: Vec<u64>,
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

fn is_medium(kib: u64) -> bool {
    (CHUNK_KIB + 1..HALF_KIB).contains(&kib)
}

fn claims(results: &Results) -> Vec<Claim> {
    let ratios = Ratios { results, sizes_kib: sizes_kib(results.effort) };
    let mut claims = around_the_threshold(results, &ratios);
    claims.extend(beyond_it(&ratios));
    claims.extend(beside_raid5(&ratios));
    claims.push(cost(results));
    claims
}

fn around_the_threshold(results: &Results, ratios: &Ratios<'_>) -> Vec<Claim> {
    vec![
        Claim::new(
            "Up to 64 KiB modthresh and classic are equal (within 2 %).",
            "identical",
            ratios.modthresh(|kib| kib <= CHUNK_KIB).map(|ratios| all_equal(&ratios, EQUAL)),
        ),
        Claim::new(
            "Between 64 and 128 KiB modthresh is faster at every size.",
            "+2 MB/s at all sizes",
            ratios.modthresh(is_medium).map(|found| all_above(&found, 1.0).adding(&gain(results, &found))),
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
            ratios.modthresh(|kib| kib == HALF_KIB).map(|ratios| {
                Judged::above(ratios[0].1, 1.0 + EQUAL, at_size(ratios[0]))
                    .because(modthresh_ablation::why_at_half(results).unwrap_or_default())
            }),
        ),
    ]
}

fn gain(results: &Results, found: &[(u64, f64)]) -> String {
    let rate = |kib, policy| {
        results.mb_per_s(&point(results.effort, &shapes::RAID4S, policy, kib)).unwrap_or(f64::NAN)
    };
    let gains: Vec<_> =
        found.iter().map(|(kib, _)| (*kib, rate(*kib, "modthresh") - rate(*kib, "classic"))).collect();
    format!("{:+.1} MB/s on average", mean(&gains))
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
            "From 164 KiB on modthresh is ahead of modified, on average.",
            "ahead from around 164 KB",
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
    let overtaken = ratios.of((&shapes::RAID5S, "classic"), modthresh, |kib| kib > HALF_KIB);
    vec![
        ahead(&shapes::RAID5),
        ahead(&shapes::RAID5S),
        ahead(&shapes::RAID5S_ALL),
        Claim::new(
            "Above 128 KiB RAID5S (1 SSD) is ahead of RAID4S-modthresh, on average.",
            "RAID5S overtakes after 128 KB",
            overtaken.map(|ratios| above_on_average(&ratios, 1.0)),
        ),
    ]
}

fn cost(results: &Results) -> Claim {
    let rate = |name: &str, kib| results.mb_per_s(&point(results.effort, &shapes::RAID4S, name, kib));
    let others = ["classic", "modthresh", "modified"];
    let judged = over_best(&sizes_kib(results.effort), "cost", &others, rate)
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
    use crate::findings::ClaimVerdict;

    /// The claim that begins so, where some point is as fast as the rates say.
    fn claim(begins: &str, mb_per_s: impl Fn(&Point) -> f64) -> Claim {
        let results = Results::made_up(&EXPERIMENT, Effort::Full, mb_per_s);
        claims(&results).into_iter().find(|claim| claim.statement.starts_with(begins)).unwrap()
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
