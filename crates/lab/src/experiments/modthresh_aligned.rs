//! raid4s-modthresh 4.2: powers of two.

use super::{
    Effort, Experiment, Points, Results,
    lines::{self, Line, Sizes, Titled},
    modthresh::{EQUAL, HALF_KIB, LOAD_OF_THE_PAPER, all_above, all_equal, beside_ssds_only, point},
    modthresh_ablation,
    modthresh_lines::{self, Lines},
    results::at_size,
};
use crate::{
    arrays::{Shape, shapes},
    findings::{Claim, Findings, Judged},
    plot::Plot,
    point::Point,
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "modthresh-aligned",
    title: "The moved threshold at powers of two",
    source: "raid4s-modthresh 4.2 (Figures 14 and 15)",
    setting: &[
        LOAD_OF_THE_PAPER,
        "The sizes are 2 to 256 KiB. RAID5S stands for both arrays of that name: the slides' with one SSD, and that of Fig. 10 \
         with SSDs only. The arrays that the paper does not test stand beside its own: with md's selection and, where there is \
         parity, with the moved threshold.",
    ],
    points: Points::Modelled(points),
    findings,
};

const SIZES_KIB: [u64; 8] = [2, 4, 8, 16, 32, 64, 128, 256];

fn points(effort: Effort) -> Vec<Point> {
    modthresh_lines::points(effort, &SIZES_KIB)
}

fn findings(results: &Results) -> Findings {
    let of = Lines { effort: results.effort, sizes_kib: &SIZES_KIB };
    let (on_raid4s, by_powers) = (of.on_raid4s(), Sizes::Powers);
    let line = |name, draw: fn(Titled, Sizes, &[Line], &Results) -> Plot, lines: &[Line]| {
        draw(name, by_powers, lines, results)
    };
    Findings {
        claims: claims(results),
        plots: vec![
            line(
                ("modthresh-aligned-throughput", "Random writes, powers of two (Figures 14 and 15)"),
                lines::throughput,
                &of.side_by_side(),
            ),
            line(("modthresh-aligned-policies", "The policies on RAID4S"), lines::throughput, &on_raid4s),
            line(("modthresh-aligned-speed-up", "Over RAID4S, classic"), lines::speed_up, &on_raid4s),
            lines::gains(
                ("modthresh-aligned-gains", "modthresh over classic, every array"),
                by_powers,
                &of.moved(),
                results,
            ),
            lines::latency(
                ("modthresh-aligned-latency", "Latency of a write"),
                by_powers,
                &on_raid4s[1],
                results,
            ),
            line(("modthresh-aligned-utilisation", "Members at work"), lines::utilisation, &on_raid4s[..2]),
        ],
        tables: of.tables(results).to_vec(),
    }
}

fn claims(results: &Results) -> Vec<Claim> {
    let of = |shape: &'static Shape, policy: &'static str| {
        let effort = results.effort;
        move |kib| point(effort, shape, policy, kib)
    };
    let modthresh = || of(&shapes::RAID4S, "modthresh");
    let others: Vec<_> = SIZES_KIB.into_iter().filter(|kib| *kib != HALF_KIB).collect();
    let unchanged = results.speed_ups(&others, modthresh(), of(&shapes::RAID4S, "classic"));
    let changed = results.speed_up(&modthresh()(HALF_KIB), &of(&shapes::RAID4S, "classic")(HALF_KIB));
    let small: Vec<_> = SIZES_KIB.into_iter().filter(|kib| *kib <= HALF_KIB).collect();
    let ahead = |base: &'static Shape| {
        let ratios = results.speed_ups(&small, modthresh(), of(base, "classic"));
        let judged = ratios.map(|ratios| {
            all_above(&ratios, 1.0).else_because(why_not(results, base, &ratios).unwrap_or_default())
        });
        let statement =
            format!("Up to {HALF_KIB} KiB RAID4S-modthresh is ahead of {} at every size.", base.name);
        Claim::new(statement, "ahead (Figure 14)", judged)
    };
    vec![
        Claim::new(
            "At all sizes but 128 KiB modthresh and classic are equal (within 2 %): nothing degrades.",
            "equal",
            unchanged.map(|ratios| all_equal(&ratios, EQUAL)),
        ),
        Claim::new(
            "At 128 KiB modthresh is faster than classic (by more than 2 %).",
            "faster, by less than expected",
            changed.map(|ratio| {
                let why = modthresh_ablation::what_disks_did(results, HALF_KIB, ["classic", "modthresh"]);
                Judged::above(ratio, 1.0 + EQUAL, format!("{ratio:.2}x")).because(
                    why.map_or_else(String::new, |why| {
                        format!("{why} The experiment modthresh-fine has the same size in other settings.")
                    }),
                )
            }),
        ),
        ahead(&shapes::RAID5),
        ahead(&shapes::RAID5S),
        ahead(&shapes::RAID5S_ALL),
    ]
}

/// The sizes at which it is not ahead, and the throughput there.
fn why_not(results: &Results, base: &'static Shape, ratios: &[(u64, f64)]) -> Option<String> {
    if base.id == shapes::RAID5S_ALL.id {
        return beside_ssds_only(results);
    }
    let rate = |shape, policy, kib| results.mb_per_s(&point(results.effort, shape, policy, kib));
    let at = |(kib, ratio): &(u64, f64)| {
        Some(format!(
            "{} (RAID4S {:.1} MB/s with modthresh, {:.1} with classic; {} {:.1})",
            at_size((*kib, *ratio)),
            rate(&shapes::RAID4S, "modthresh", *kib)?,
            rate(&shapes::RAID4S, "classic", *kib)?,
            base.name,
            rate(base, "classic", *kib)?
        ))
    };
    let behind: Vec<_> = ratios.iter().filter(|(_, ratio)| *ratio <= 1.0).map(at).collect::<Option<_>>()?;
    Some(format!("Not ahead: {}.", behind.join(", ")))
}
