//! Write amplification in the steady state against the analytic curve.

use stripewise_sim::model::{
    ClosedLoop, DiskModel, ModelCounters,
    ssd::{Ssd, SsdParams},
};

use super::{
    Effort,
    drives::{WRITE, random, units},
};
use crate::{
    parallel::{self, OnProgress},
    plot::{Axis, Plot, Series, Style},
    report::{Check, Section},
};

/// Bytes programmed, and bytes that the host wrote.
pub(super) fn programmed_and_written(counters: &ModelCounters) -> (f64, f64) {
    let count = |name| counters.find(name).expect("SSDs count it") as f64;
    (count("programmed_bytes"), count("host_written_bytes"))
}

/// Write amplification of greedy collection under uniform random writes, for large blocks and many of them.
///
/// With a the ratio of flash to user capacity: a block's share of valid units when it is collected is u =
/// exp(-a (1 - u)), so A = 1 / (1 - u) = a / (a + W(-a e^-a)), W being Lambert's. Xiang and Kurkoski 2012
/// (arXiv 1110.4245, which has 2.36 for a = 1.3); Desnoyers, SYSTOR 2012.
pub(super) fn greedy(a: f64) -> f64 {
    let mut u = 0.0;
    for _ in 0..10_000 {
        u = (-a * (1.0_f64 - u)).exp();
    }
    1.0 / (1.0 - u)
}

/// Two dies with 512 blocks each: enough that the few open or free ones hardly matter. Only sizes matter
/// here; the times are an X25-E's.
fn flash(pages_per_block: u32, percent: u32) -> SsdParams {
    let params = SsdParams {
        name: "flash",
        channels: 2,
        blocks_per_die: 512,
        pages_per_block,
        page_units: 1,
        ..SsdParams::intel_x25e_64()
    };
    params.with_over_provisioning(percent)
}

/// The analytic value for the collectable part of the flash: two blocks of a die are open and two free.
fn expected(params: &SsdParams) -> f64 {
    let usable = f64::from(params.blocks_per_die - 4) / f64::from(params.blocks_per_die);
    greedy(params.raw_ratio() * usable)
}

pub(super) fn section(effort: Effort, on_progress: OnProgress<'_>) -> Section {
    let percents: &[u32] = effort.pick(&[28, 60], &[7, 10, 15, 20, 28, 40, 60, 80, 100]);
    let blocks: &[u32] = effort.pick(&[128], &[32, 128, 512]);
    let points: Vec<_> =
        blocks.iter().flat_map(|pages| percents.iter().map(move |percent| (*pages, *percent))).collect();
    let measured = parallel::map("write amplification", on_progress, &points, |(pages, percent)| {
        steady(&flash(*pages, *percent))
    });
    let largest = blocks[blocks.len() - 1];
    let of_largest = || points.iter().zip(&measured).filter(|((pages, _), _)| *pages == largest);
    let check = |percent: u32, measured: f64| {
        let params = flash(largest, percent);
        let what = format!("write amplification, {percent} % over-provisioning");
        let subject = format!("blocks of {largest} units");
        Check::near(subject, what, "", (expected(&params), 0.03), "a / (a + W(-a exp(-a)))", measured)
    };
    let mut series: Vec<_> = blocks
        .iter()
        .enumerate()
        .map(|(hue, pages)| {
            let own = points.iter().zip(&measured).filter(|((of, _), _)| of == pages);
            let line = own.map(|((_, percent), value)| (f64::from(*percent), *value)).collect();
            Series::new(format!("blocks of {pages} units"), hue, Style::Marked, line)
        })
        .collect();
    let analytic = percents.iter().map(|percent| (f64::from(*percent), expected(&flash(largest, *percent))));
    series.push(Series::new("analytic, large blocks", 6, Style::Dashed, analytic.collect()));
    Section {
        name: "amplification",
        title: "SSDs: write amplification against the analytic curve".to_owned(),
        text: vec![
            "Uniform random writes of 4 KiB to a drive that was filled and then written over twice; bytes programmed over \
             bytes written during a third time. The analysis is of infinitely large blocks; small ones differ more from one \
             another, of which greedy collection makes use, so they lie below the curve. a is the ratio of flash to user \
             capacity, less the four blocks of a die that are open or free."
                .to_owned(),
        ],
        checks: of_largest().map(|((_, percent), value)| check(*percent, *value)).collect(),
        plots: vec![Plot {
            name: "amplification".into(),
            title: "Write amplification under uniform random writes".to_owned(),
            x: Axis::from_zero("over-provisioning, % of the user's capacity"),
            y: Axis::from_zero("bytes programmed / written"),
            series,
        }],
    }
}

fn steady(params: &SsdParams) -> f64 {
    let blocks = units(params);
    let mut host = ClosedLoop::new(Ssd::new(params.clone()));
    host.model.fill(blocks);
    let mut asked = random(WRITE, u64::from(blocks), 6);
    host.run(32, asked.by_ref().take(blocks as usize * 2));
    let before = programmed_and_written(&host.model.counters());
    host.run(32, asked.take(blocks as usize));
    let after = programmed_and_written(&host.model.counters());
    (after.0 - before.0) / (after.1 - before.1)
}
