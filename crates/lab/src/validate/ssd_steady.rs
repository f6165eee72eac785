//! Random writes from a fresh drive to the steady state.

use stripewise_sim::model::{
    ClosedLoop, DiskModel,
    ssd::{Ssd, SsdParams},
};

use super::{
    Effort,
    amplification::{greedy, programmed_and_written},
    drives::{BLOCK, WRITE, random, smaller_ssds, units},
};
use crate::{
    parallel::{self, OnProgress},
    plot::{Axis, Plot, Series, Style},
    report::{Check, Expected, Section},
};

const DEPTH: usize = 32;
/// The total written. After n capacities a part exp(-n) of the drive was never written, which is spare space
/// as well: 0.03 % after eight.
const CAPACITIES: u64 = 8;

/// One window of a run.
struct Sample {
    /// Bytes written before it, over the drive's capacity.
    capacities: f64,
    writes_per_s: f64,
    amplification: f64,
}

pub(super) fn section(effort: Effort, on_progress: OnProgress<'_>) -> Section {
    let (halvings, windows) = effort.pick((8, 16), (6, 120));
    let drives = smaller_ssds(halvings);
    let runs = parallel::map("SSDs from fresh to steady", on_progress, &drives, |drive| run(drive, windows));
    let plot_of = |name: &'static str, title: &str, y, value: fn(&Sample) -> f64| {
        let lines = drives.iter().zip(&runs).enumerate();
        let series = lines.map(|(hue, (drive, samples))| {
            let points = samples.iter().map(|sample| (sample.capacities, value(sample))).collect();
            Series::new(drive.name, hue, Style::Line, points)
        });
        let x = Axis::from_zero("written, in capacities of the drive");
        Plot { name: name.into(), title: title.to_owned(), x, y, series: series.collect() }
    };
    Section {
        name: "ssd-steady",
        title: "SSDs: random writes from fresh to steady".to_owned(),
        text: vec![
            format!(
                "4 KiB anywhere on a drive that was never written, {DEPTH} under way, for {CAPACITIES} times its capacity. When the \
                 erased blocks are used up, each write pays for collecting blocks. The drives are smaller ones of the same \
                 ratios (see SsdParams::scaled), so that the capacity is written sooner; hours of the real drive are \
                 minutes of this one."
            ),
            "Expected in the steady state: the dies' time, with the write amplification that greedy collection has \
             analytically. A unit that the host writes costs A programs' shares, A - 1 reads and transfers out, A transfers \
             in, and A erases' shares."
                .to_owned(),
        ],
        checks: drives.iter().zip(&runs).flat_map(|(drive, samples)| checks(drive, samples)).collect(),
        plots: vec![
            plot_of("ssd-steady", "Random 4 KiB writes", Axis::log10("writes/s"), |sample| sample.writes_per_s),
            plot_of("ssd-steady-amplification", "Write amplification", Axis::from_zero("bytes programmed / written"), |sample| {
                sample.amplification
            }),
        ],
    }
}

fn run(params: &SsdParams, windows: u64) -> Vec<Sample> {
    let mut host = ClosedLoop::new(Ssd::new(params.clone()));
    let blocks = u64::from(units(params));
    let mut asked = random(WRITE, blocks, 5);
    let mut samples = Vec::new();
    let mut written = 0;
    for _ in 0..windows {
        let before = programmed_and_written(&host.model.counters());
        let window = host.run(DEPTH, asked.by_ref().take((blocks * CAPACITIES / windows) as usize));
        let after = programmed_and_written(&host.model.counters());
        written += window.bytes;
        samples.push(Sample {
            capacities: written as f64 / (blocks * BLOCK) as f64,
            writes_per_s: window.requests_per_s(),
            amplification: (after.0 - before.0) / (after.1 - before.1),
        });
    }
    samples
}

fn checks(params: &SsdParams, samples: &[Sample]) -> Vec<Check> {
    let fresh = samples[0].writes_per_s;
    let last = &samples[samples.len() * 3 / 4..];
    let steady = last.iter().map(|sample| sample.writes_per_s).sum::<f64>() / last.len() as f64;
    let mut checks = vec![
        Check::near(
            params.name,
            "steady rate over fresh rate",
            "",
            (1.0, 0.0),
            "collection costs",
            steady / fresh,
        )
        .expects(Expected::Below(0.7)),
        Check::near(
            params.name,
            "steady random writes",
            "/s",
            (dies_rate(params), 0.1),
            "the dies' time",
            steady,
        ),
    ];
    let published = match params.name {
        "X25-E" => Some((
            "random writes, depth 32",
            3300.0,
            steady,
            "The real drive's translation layer is not known; \
            one with a mapping grain above 4 KiB, or an older kind, would explain such a rate. A page-mapped one with 34 % spare \
            space is several times as fast. Nor is it known how the flash beyond 64 GB is used.",
        )),
        "Intel 535" => Some((
            "random writes, depth 32, out of the box",
            80e3,
            fresh,
            "The sheet's data is compressed by the \
            controller; the model programs all of it: eight dies times eight units in 1.7 ms.",
        )),
        "980 PRO" => Some((
            "random writes, depth 32 x 16, into the cache",
            1e6,
            fresh,
            "The TurboWrite cache is not \
            modelled, and 32 are under way here.",
        )),
        _ => None,
    };
    checks.extend(published.map(|(what, expected, measured, note)| {
        Check::near(params.name, what, "/s", (expected, 0.15), "sheet", measured).note(note)
    }));
    checks
}

/// Writes a second in the steady state, from the time of dies and channels alone: whichever is busy longer.
fn dies_rate(params: &SsdParams) -> f64 {
    let usable = f64::from(params.blocks_per_die - 4) / f64::from(params.blocks_per_die);
    let amplification = greedy(params.raw_ratio() * usable);
    let (dies, moved) = (f64::from(params.dies()), amplification - 1.0);
    let transfer_ns = BLOCK as f64 * 1e9 / params.channel_bytes_per_s as f64;
    let program_ns = f64::from(params.program_ns) / f64::from(params.page_units * params.pages_per_program);
    let erase_ns = f64::from(params.erase_ns) / f64::from(params.pages_per_block * params.page_units);
    // A page of a victim has its share of valid units, all of which one read returns; at least one.
    let valid = 1.0 - 1.0 / amplification;
    let per_page = (f64::from(params.page_units) * valid).max(1.0);
    let die_ns = amplification * (transfer_ns + program_ns + erase_ns)
        + moved * (transfer_ns + f64::from(params.read_ns) / per_page);
    let channel_ns = (amplification + moved) * transfer_ns;
    let firmware_rate = 1e9 / f64::from(params.command_ns);
    (dies * 1e9 / die_ns).min(f64::from(params.channels) * 1e9 / channel_ns).min(firmware_rate)
}
