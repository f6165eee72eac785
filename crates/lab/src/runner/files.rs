//! The files made from outcomes: the page, claims, points and plots.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

use super::{Order, RunError, at};
use crate::{
    experiments::{Experiment, Results},
    findings::LabReport,
    plot::{Plot, quoted},
    point::{Outcome, Point},
    realtime::{PresetOutcome, RealTimeOutcome, RealTimePoint},
};

pub(super) fn write(
    order: &Order,
    results: &Results,
    report: &LabReport,
    folder: &Path,
) -> Result<(), RunError> {
    let put = |name: String, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(at(path))
    };
    for (experiment, found) in order.experiments.iter().zip(&report.experiments) {
        put(points_file(experiment.id), points_of(experiment, order, results))?;
        for plot in &found.plots {
            put(plot_file(plot), plot.csv())?;
        }
    }
    put("claims.csv".to_owned(), claims_csv(report))?;
    put("report.html".to_owned(), report.html())
}

/// The file of an experiment's points.
pub(crate) fn points_file(id: &str) -> String {
    format!("{id}.csv")
}

/// The file of a plot's points.
pub(crate) fn plot_file(plot: &Plot) -> String {
    format!("{}.csv", plot.name)
}

/// Writes a file as a whole: a reader, also after an interruption, finds the old one or the new one.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), RunError> {
    let new = path.with_extension("new");
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&new, path)).map_err(at(path))
}

fn claims_csv(report: &LabReport) -> String {
    let mut text = "experiment,claim,paper,measured,verdict,reason\n".to_owned();
    for experiment in &report.experiments {
        for claim in &experiment.claims {
            let word = claim.word();
            let missing = experiment.missing_names();
            let reason = match claim.is_open() && !missing.is_empty() {
                true => format!("{}; the experiment lacks: {}", claim.reason, missing.join("; ")),
                false => claim.reason.clone(),
            };
            let fields = [&claim.statement, &claim.paper, &claim.measured, word, &reason].map(quoted);
            text += &format!("{},{}\n", experiment.id, fields.join(","));
        }
    }
    text
}

fn points_of(experiment: &Experiment, order: &Order, results: &Results) -> String {
    if experiment.is_real_time() {
        real_time_csv(&experiment.real_time(order.effort, &order.machine), results)
    } else {
        points_csv(&experiment.modelled(order.effort, order.loadfile), results, order.seed)
    }
}

const COLUMNS: &str = "array,policy,cache,chunk_bytes,s_max,measured,places,write_bytes,unit_bytes,span_bytes,depth,pass_bytes,passes,lead_writes,write_cache,ncq,seed,mb_per_s,requests,errors,\
                       latency_mean_ns,latency_p50_ns,latency_p99_ns,latency_p999_ns,latency_max_ns,rows_full,rows_rmw,rows_rcw,\
                       stripe_writes,stripe_writes_full,blocks_filled,requests_saved,pass_mb_per_s,members,utilisation,member_reads,member_read_bytes,\
                       member_writes,member_written_bytes\n";

fn points_csv(points: &[Point], results: &Results, seed: u64) -> String {
    let rows = points.iter().filter_map(|point| Some(row(point, results.of(point)?, seed)));
    rows.fold(COLUMNS.to_owned(), |text, row| text + &row + "\n")
}

fn row(point: &Point, outcome: &Outcome, seed: u64) -> String {
    let Point { shape, policy, load, hdd, chunk_bytes, cache, stride_max, measured } = point;
    let mut fields = vec![shape.id.to_owned(), policy.name.to_owned()];
    fields.push(cache.map_or_else(|| "none".to_owned(), |cache| cache.key().replace("cache=", "")));
    fields.push(chunk_bytes.map_or_else(|| "default".to_owned(), |bytes| bytes.to_string()));
    fields.push(stride_max.map_or_else(|| "measured".to_owned(), |blocks| blocks.to_string()));
    fields.extend([measured.word().to_owned(), load.places.word().to_owned()]);
    fields.extend([load.write_bytes, load.unit_bytes].map(|bytes| bytes.to_string()));
    fields.push(load.span_bytes.map_or_else(|| "all".to_owned(), |bytes| bytes.to_string()));
    let amounts = [load.depth.into(), load.pass_bytes, load.passes.into(), point.lead_requests()];
    fields.extend(amounts.map(|amount| amount.to_string()));
    fields.extend([hdd.write_cache.to_string(), hdd.queue_depth.to_string(), seed.to_string()]);
    fields.push(format!("{:.4}", outcome.mb_per_s()));
    let numbers = [
        outcome.requests,
        outcome.errors,
        outcome.latency_mean_ns,
        outcome.latency_p50_ns,
        outcome.latency_p99_ns,
        outcome.latency_p999_ns,
        outcome.latency_max_ns,
        outcome.rows_full,
        outcome.rows_rmw,
        outcome.rows_rcw,
        outcome.stripe_writes,
        outcome.stripe_writes_full,
        outcome.blocks_filled,
        outcome.requests_saved,
    ];
    fields.extend(numbers.map(|number| number.to_string()));
    let passes = outcome.pass_mb_per_s();
    fields.push(list(passes.iter().map(|rate| format!("{rate:.4}"))));
    let members = || outcome.members.iter();
    fields.push(list(members().map(|member| member.drive.clone())));
    fields.push(list(members().map(|member| format!("{:.4}", outcome.utilisation(member)))));
    fields.push(list(members().map(|member| member.reads.to_string())));
    fields.push(list(members().map(|member| member.read_bytes.to_string())));
    fields.push(list(members().map(|member| member.writes.to_string())));
    fields.push(list(members().map(|member| member.written_bytes.to_string())));
    fields.join(",")
}

const REAL_TIME_COLUMNS: &str = "raid_devices,chunk_bytes,member_bytes,threads,queue,locking,gb_per_s,limit_gb_per_s,cpu_ns,\
                                 latency_p50_ns,latency_p90_ns,latency_p99_ns,latency_p99_9_ns,latency_p99_99_ns,\
                                 latency_max_ns,operations_timed,looks,parts,turns_bytes_per_s,turns_p99_99_ns,machine\n";

/// A line for each array of each point.
fn real_time_csv(points: &[RealTimePoint], results: &Results) -> String {
    let mut text = REAL_TIME_COLUMNS.to_owned();
    for point in points {
        let Some(outcome) = results.of_real_time(point) else { continue };
        for preset in &outcome.presets {
            text +=
                &(real_time_row(point, outcome, preset) + "," + &quoted(&results.machine.to_string()) + "\n");
        }
    }
    text
}

fn real_time_row(point: &RealTimePoint, outcome: &RealTimeOutcome, preset: &PresetOutcome) -> String {
    let mut fields = vec![point.raid_devices.to_string(), point.chunk_bytes.to_string()];
    fields.extend([point.member_bytes.to_string(), point.threads.to_string(), point.queue.to_string()]);
    fields.push(preset.name.clone());
    fields.extend(
        [preset.bytes_per_s(), outcome.limit_bytes_per_s as f64].map(|rate| format!("{:.4}", rate / 1e9)),
    );
    fields.push(preset.cpu_ns.to_string());
    fields.extend(preset.percentiles_ns.map(|ns| ns.to_string()));
    fields.extend([preset.max_ns, preset.operations, preset.looks].map(|count| count.to_string()));
    let share = |(part, ppm): (&String, &u64)| format!("{}={:.4}", part.replace(' ', "_"), *ppm as f64 / 1e6);
    fields.push(list(preset.parts_ppm.iter().map(share)));
    fields.push(list(preset.turn_bytes_per_s.iter().map(u64::to_string)));
    fields.push(list(preset.turn_p99_99_ns.iter().map(u64::to_string)));
    fields.join(",")
}

/// Values of the passes, turns or members in one field.
fn list(values: impl Iterator<Item = String>) -> String {
    values.collect::<Vec<_>>().join(" ")
}
