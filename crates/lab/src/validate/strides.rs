//! Contiguous against scattered access: msc-ct Fig. 1, 8 and 9.

use stripewise_sim::model::{
    ModelOp, SECTOR_BYTES,
    hdd::{HddParams, ReadAhead},
};

use super::{
    Effort,
    drives::{BLOCK, WRITE, place_of},
};
use crate::{
    parallel::{self, OnProgress},
    plot::{Series, Style},
    report::{Check, Expected, Section},
    strides::{DEPTH, Disk, Kind, contiguous, curve, disks, exponential, mean_stride, plot},
};

/// Fig. 1 limits strides to this.
const EXPONENTIAL_MAX: u64 = 32;

/// What the engine's benchmark finds of one operation.
struct Curve {
    times: Vec<(f64, f64)>,
    stride_max: u32,
}

pub(super) fn section(effort: Effort, on_progress: OnProgress<'_>) -> Section {
    let disks = disks();
    let found = parallel::map("strides", on_progress, &disks, Disk::strides);
    let curves = |is_read: bool| -> Vec<Curve> {
        let records = found.iter().map(|found| if is_read { &found.read } else { &found.write });
        records.map(|record| Curve { times: curve(record), stride_max: record.s_max }).collect()
    };
    let (reads, writes) = (curves(true), curves(false));
    let means: Vec<u64> = effort.pick(vec![2, 8], vec![2, 3, 4, 5, 6, 8, 10, 12, 16]);
    let scattered = parallel::map("exponential strides", on_progress, &disks, |disk| {
        let whole = disk.pass_ns(WRITE, &contiguous());
        let runs = means.iter().map(|mean| exponential(*mean, EXPONENTIAL_MAX));
        runs.map(|runs| (mean_stride(&runs), disk.pass_ns(WRITE, &runs) / whole)).collect::<Vec<_>>()
    });
    let cheetah = place_of(disks.iter().map(|disk| &*disk.name), "ST373454LC");
    let mut checks = fig_9_checks(&disks, &writes, WRITE);
    checks.extend(fig_9_checks(&disks, &reads, ModelOp::Read));
    checks.extend(fig_1_checks(&disks, &scattered));
    let times = |curves: &[Curve]| curves.iter().map(|curve| curve.times.clone()).collect::<Vec<_>>();
    let stride = "stride S, blocks";
    let mut write_plot =
        plot(("strides-write", "Writes of every S-th block (Fig. 9)"), stride, &disks, &times(&writes));
    if let Kind::Hdd(params) = &disks[cheetah].kind {
        checks.extend(equation_1_checks(&disks[cheetah].name, params, &writes[cheetah].times));
        let line = (2..=64).map(|stride| (stride as f64, equation_1(params, stride))).collect();
        write_plot.series.push(Series::new("msc-ct (1), ST373454LC", cheetah, Style::Dashed, line));
    }
    Section {
        name: "strides",
        title: "Scattered against contiguous access (msc-ct Fig. 1, 8, 9)".to_owned(),
        text: text(),
        checks,
        plots: vec![
            write_plot,
            plot(("strides-read", "Reads of every S-th block (Fig. 9)"), stride, &disks, &times(&reads)),
            plot(
                ("strides-exponential", "Writes with exponential strides up to 32 (Fig. 1)"),
                "mean stride, blocks",
                &disks,
                &scattered,
            ),
        ],
    }
}

fn text() -> Vec<String> {
    vec![
        format!(
            "Fig. 9 is measured by the benchmark that arrays use (crates/engine/src/members/strides.rs): blocks of 4 KiB over 8 MiB \
             in the middle of the drive, in ascending order, {DEPTH} under way, the median of three passes; all blocks in requests \
             of 128 KiB; writes with a flush at the end. Fig. 1 is measured on the drive's model alone: one pass over 64 MiB \
             from the middle on; neighbours go out merged up to 128 KiB, as the kernel's elevator merges them. The figures are turnaround \
             times over that of all blocks. Above 1, writing more would take less time: a sector that passes while the drive sets \
             up its access comes again one revolution later."
        ),
        "Equation (1) leaves open how many rotations are missed; the line drawn for it has the least number possible, on the \
         tracks in the middle. The drive takes what comes first under a head. At a track's end, the next block may be too near \
         to be set up for, while the next track's first comes sooner than another revolution: the drive goes there and comes \
         back later, which takes a head switch and part of a revolution, and breaks off another pass."
            .to_owned(),
        "The paper's figures are pictures without numbers in its text; what the text says of them is checked. Fig. 9(a) and \
         the simulation in Fig. 1 are of the ST373454LC; it does not read ahead after scattered reads. S_max is the smallest \
         stride from which on the turnaround stays below 1.2 (msc-ct III-D). The paper had no SSD."
            .to_owned(),
    ]
}

fn fig_9_checks(disks: &[Disk], curves: &[Curve], op: ModelOp) -> Vec<Check> {
    let is_read = op == ModelOp::Read;
    let what = if is_read { "S_max of reads" } else { "S_max of writes" };
    let check = |(disk, curve): (&Disk, &Curve)| {
        let check = Check::near(&*disk.name, what, "blocks", (1.0, 0.0), "", f64::from(curve.stride_max));
        match &disk.kind {
            Kind::Ssd(_) => {
                let check = check.expects(Expected::Below(1.5)).note(
                    "32 reads of 4 KiB at a time take longer here than all blocks in reads of 128 KiB. Members that are known \
                     as flash are not measured when an array is created, and nothing is filled there.",
                );
                Check { source: "no rotation to miss".to_owned(), ..check }
            }
            Kind::Hdd(params) if is_read && params.read_ahead == ReadAhead::Always => {
                Check { source: "msc-ct III-D: some disks have 1 for reads".to_owned(), ..check }
                    .expects(Expected::Below(1.5))
            }
            Kind::Hdd(_) => Check { source: "msc-ct III-D: a threshold in all disks".to_owned(), ..check }
                .expects(Expected::Above(2.0)),
        }
    };
    disks.iter().zip(curves).map(check).collect()
}

fn fig_1_checks(disks: &[Disk], lines: &[Vec<(f64, f64)>]) -> Vec<Check> {
    let check = |(disk, line): (&Disk, &Vec<(f64, f64)>)| {
        let least = line.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
        let what = "least turnaround of writes, exponential strides";
        Check::near(&*disk.name, what, "", (1.0, 0.0), "msc-ct I-C: always higher than 1", least)
            .expects(Expected::Above(1.0))
    };
    disks.iter().zip(lines).filter(|(disk, _)| disk.rotates()).map(check).collect()
}

/// The time that msc-ct (1) gives for a stride: the contiguous pass's time, and a revolution for each missed
/// rotation. The paper does not say how many those are; this takes the least possible number. The drive needs
/// its set-up time before the next access; sectors that pass meanwhile wait for another revolution. If set-up
/// and block take as long as k strides, each track takes k revolutions instead of one, and there is one skew
/// for each.
fn equation_1(params: &HddParams, stride: u64) -> f64 {
    let (revolution_ns, skew_ns) = (f64::from(params.revolution_ns), f64::from(params.track_skew_ns));
    let track_sectors = f64::from(params.track_sectors_at(params.sectors / 2));
    let block_ns = revolution_ns * (BLOCK / SECTOR_BYTES) as f64 / track_sectors;
    let revolutions = ((f64::from(params.setup_ns) + block_ns) / (stride as f64 * block_ns)).ceil();
    1.0 + (revolutions - 1.0) * revolution_ns / (revolution_ns + skew_ns)
}

fn equation_1_checks(name: &str, params: &HddParams, line: &[(f64, f64)]) -> Vec<Check> {
    let check = |stride: u64| {
        let measured = line.iter().find(|(at, _)| *at == stride as f64).map_or(f64::NAN, |(_, time)| *time);
        let what = format!("turnaround of writes at stride {stride}");
        let source = "msc-ct (1): t_c + t_r N_r, N_r from the set-up time";
        Check::near(name, what, "", (equation_1(params, stride), 0.15), source, measured).note(
            "The equation's count is the least possible: passes over a track that leave no block behind. The drive leaves some \
             at tracks' ends and comes back for them.",
        )
    };
    [2, 3, 4, 8].map(check).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cheetah(outer_track_sectors: u32) -> HddParams {
        HddParams {
            outer_track_sectors,
            inner_track_sectors: outer_track_sectors,
            ..HddParams::seagate_cheetah_15k4_73()
        }
    }

    #[test]
    fn the_equation_is_met_where_no_block_is_left_behind_at_a_tracks_end() {
        let over_equation = |sectors: u32| {
            let params = cheetah(sectors);
            let disk = Disk { name: String::new(), kind: Kind::Hdd(params.clone()) };
            let third: Vec<_> = (0..crate::strides::SPAN_BLOCKS).step_by(3).map(|block| (block, 1)).collect();
            let measured = disk.pass_ns(WRITE, &third) / disk.pass_ns(WRITE, &contiguous());
            measured / equation_1(&params, 3)
        };
        assert!([808, 856, 904].map(over_equation).iter().all(|ratio| (ratio - 1.0).abs() < 0.02));
        assert!(over_equation(844) > 1.1, "the outermost tracks' own length leaves some");
    }
}
