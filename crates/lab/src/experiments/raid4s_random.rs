//! raid4s-slides, "Random Writes Setup", the first of its two ranges of sizes.

use super::{
    Effort, Experiment, Points, Results,
    lines::{self, Line, Sizes},
    modthresh::HALF_KIB,
    pick, policy,
    raid4s::{ARRAYS, OF_THE_SLIDES, SMALL_KIB_MAX, after, hue},
    results::{self, at_size, largest, rates_text, size_text, spread},
};
use crate::{
    arrays::{Shape, shapes},
    findings::{Claim, Findings, Judged},
    point::{Point, WriteLoad},
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "raid4s-random",
    title: "Random writes from 4 KiB to 1 GiB",
    source: "raid4s-slides, \"Random Writes Setup\" and \"RAID4S 1.6X Faster Than RAID5\"",
    setting: &[
        "The slides: XDD 6.5, all random writes, 4 KB to 1 GB in powers of two, 1 GB in all, three times; five 4+1 arrays. The \
         queue depth is not in the slides: 10, as in raid4s-modthresh 4 by the same group with the same tool. So is the seek \
         range of 49,153,835,008 bytes.",
        "Level 0 of four disks and RAID5S of SSDs only stand beside them. Offsets are multiples of the size, as XDD has it. Rows are written by the \
         classic policy, which is Linux md's.",
    ],
    points: Points::Modelled(points),
    findings,
};

/// How far the "times faster" over RAID4 may be off.
const A_FIFTH: (f64, &str) = (0.2, "a fifth");
/// Two figures of the papers over RAID5 are so close that with a wider tolerance one result would match both.
const A_TENTH: (f64, &str) = (0.1, "a tenth");

fn sizes_kib(effort: Effort) -> Vec<u64> {
    let powers = (2..=20).map(|power| 1 << power);
    let few = [4, 16, 32, 64, 128, 256, 1024, 16_384];
    powers.filter(|kib| pick(effort, few.contains(kib), true)).collect()
}

fn point(effort: Effort, shape: &'static Shape, kib: u64) -> Point {
    // Fewer large writes would scatter.
    let quick_bytes = if kib > HALF_KIB { 512 << 20 } else { 64 << 20 };
    let (pass_bytes, passes) = pick(effort, (quick_bytes, 2), (1 << 30, 3));
    Point::new(shape, policy("classic"), WriteLoad::random(kib << 10, 10, pass_bytes, passes))
}

fn points(effort: Effort) -> Vec<Point> {
    let of = |shape| sizes_kib(effort).into_iter().map(move |kib| point(effort, shape, kib));
    ARRAYS.into_iter().flat_map(of).collect()
}

fn findings(results: &Results) -> Findings {
    let sizes = sizes_kib(results.effort);
    let line = |shape: &'static Shape| {
        Line::new(shape.name, hue(shape), &sizes, |kib| point(results.effort, shape, kib))
    };
    let lines = ARRAYS.map(line);
    let over_raid4: Vec<_> = after(&shapes::RAID4).map(line).collect();
    let over_raid5 = [line(&shapes::RAID5), line(&shapes::RAID4S)];
    let (alike, by_powers) = ([line(&shapes::RAID4), line(&shapes::RAID4S)], Sizes::Powers);
    Findings {
        claims: vec![
            faster_than(results, &shapes::RAID4, (3.3, A_FIFTH, "3.3x")),
            faster_than(results, &shapes::RAID5, (1.6, A_TENTH, "1.6x")),
            faster_than(results, &shapes::RAID5, (1.75, A_TENTH, "nearly 1.75x (raid4s-modthresh 1)")),
            as_published(results, HALF_KIB, "the same (raid4s-modthresh 2.1)"),
            as_published(results, STRIPE_KIB, "the same or very close for most (raid4s-modthresh 2.1)"),
            alike_from_half_a_stripe_on(results),
            useless_as_data(results),
        ],
        plots: vec![
            lines::throughput(("raid4s-random-throughput", "Random writes"), by_powers, &lines, results),
            lines::speed_up(("raid4s-random-over-raid4", "Over RAID4"), by_powers, &over_raid4, results),
            lines::speed_up(("raid4s-random-over-raid5", "Over RAID5"), by_powers, &over_raid5, results),
            lines::latency(("raid4s-random-latency", "Latency of a write"), by_powers, &alike[1], results),
            lines::utilisation(("raid4s-random-utilisation", "Members at work"), by_powers, &alike, results),
        ],
        tables: vec![lines::table("MB/s, random writes", &lines, results)],
    }
}

fn small_kib(effort: Effort) -> Vec<u64> {
    sizes_kib(effort).into_iter().filter(|kib| *kib <= SMALL_KIB_MAX).collect()
}

fn faster_than(
    results: &Results,
    base: &'static Shape,
    (times, (tolerance, within), paper): (f64, (f64, &str), &'static str),
) -> Claim {
    let effort = results.effort;
    let of = |shape: &'static Shape| move |kib| point(effort, shape, kib);
    let ratios = results.speed_ups(&small_kib(effort), of(&shapes::RAID4S), of(base));
    let judged = ratios.map(|ratios| {
        let best = largest(&ratios);
        let all: Vec<_> =
            ratios.iter().map(|(kib, ratio)| format!("{ratio:.2}x at {}", size_text(*kib))).collect();
        let judged = Judged::near(best.1, times, tolerance, format!("up to {}", at_size(best)));
        judged.because(format!("{}. {}", all.join(", "), at_work(results, [base, &shapes::RAID4S], best.0)))
    });
    let statement =
        format!("RAID4S is up to {times}x as fast as {} on small writes (within {within}).", base.name);
    Claim::new(statement, paper, judged)
}

/// How busy the members of both arrays are, by role: where the time goes.
fn at_work(results: &Results, both: [&'static Shape; 2], kib: u64) -> String {
    let of = |shape: &'static Shape| {
        let outcome = results.of(&point(results.effort, shape, kib))?;
        let shares = outcome.members.iter().map(|member| 100.0 * outcome.utilisation(member));
        let shares: Vec<_> = shares.map(|share| format!("{share:.0}")).collect();
        Some(format!("{} {} %", shape.name, shares.join(" ")))
    };
    let both: Vec<_> = both.into_iter().filter_map(of).collect();
    format!("Members at work at {}, level 4's parity last: {}.", size_text(kib), both.join("; "))
}

/// The tolerance of "the same throughput", from the slowest to the fastest.
const ALIKE: f64 = 1.15;
/// raid4s-modthresh 2.1 goes from 4 KB to this.
const STRIPE_KIB: u64 = 256;
/// The arrays of raid4s-modthresh 2.1, Figure 3.
const PUBLISHED: [&Shape; 3] = [&shapes::RAID4S, &shapes::RAID5, &shapes::RAID5S];

fn as_published(results: &Results, kib: u64, paper: &'static str) -> Claim {
    let rates = results::rates(results, &PUBLISHED, |shape| point(results.effort, shape, kib));
    let judged = rates.map(|rates| {
        let spread = spread(&rates);
        Judged::at_most(spread, ALIKE, format!("{} MB/s: {spread:.2}x between them", rates_text(&rates)))
    });
    let statement = format!("At {kib} KiB RAID4S, RAID5 and RAID5S are alike (within 15 %).");
    Claim::new(statement, paper, judged)
}

/// The slides plot all of them, without numbers.
fn alike_from_half_a_stripe_on(results: &Results) -> Claim {
    let sizes = sizes_kib(results.effort).into_iter().filter(|kib| *kib >= HALF_KIB);
    let all = |kib| results::rates(results, &OF_THE_SLIDES, |shape| point(results.effort, shape, kib));
    let spreads = sizes.map(|kib| Some((kib, spread(&all(kib)?))));
    let judged = spreads.collect::<Option<Vec<_>>>().and_then(|spreads| {
        let widest = largest(&spreads);
        let measured =
            format!("at most {} between them: {} MB/s", at_size(widest), rates_text(&all(widest.0)?));
        Some(Judged::at_most(widest.1, ALIKE, measured))
    });
    Claim::new("From 128 KiB on the slides' five arrays are alike (within 15 %).", "in a plot only", judged)
}

fn useless_as_data(results: &Results) -> Claim {
    let effort = results.effort;
    let of = |shape: &'static Shape| move |kib| point(effort, shape, kib);
    let ratios = results.speed_ups(&small_kib(effort), of(&shapes::RAID4STUPID), of(&shapes::RAID4));
    let judged = ratios.map(|ratios| {
        let best = largest(&ratios);
        Judged::at_most(best.1, 1.1, format!("at most {}", at_size(best))).because(at_work(
            results,
            [&shapes::RAID4, &shapes::RAID4STUPID],
            best.0,
        ))
    });
    Claim::new(
        "The same SSD as a data member (RAID4STUPID) gains nothing over RAID4 on small writes (within 10 %).",
        "in a plot only",
        judged,
    )
}
