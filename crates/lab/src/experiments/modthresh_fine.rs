//! raid4s-modthresh 4.1: medium writes, every 4 KiB.

use super::{
    Effort, Experiment, Points, Results,
    lines::{self, Line, Sizes, Titled},
    modthresh::LOAD_OF_THE_PAPER,
    modthresh_ablation,
    modthresh_fine_claims::{FIGURE_KIB_MAX, claims},
    modthresh_lines::{self, Lines},
    pick,
};
use crate::{findings::Findings, plot::Plot, point::Point};

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
        claims: claims(results, &sizes),
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
