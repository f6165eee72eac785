//! `stripewise stat`: what mounted file systems have done, and how they wrote stripes.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use serde::Serialize;
use stripewise_mount::report::{Activity, StripesReport, WrittenReport};

use super::df::{Row, mounted_rows};
use crate::{
    printable::printable,
    said::{note, print_json, say},
};

/// The longest bar of the histogram.
const BAR: u64 = 40;

#[derive(Debug, Clone, Args)]
pub(crate) struct StatArgs {
    /// Folders in mounted file systems, running arrays, block devices or files; all that are mounted, if left out.
    places: Vec<String>,
    /// Show how stripes were written, and how full they are.
    #[arg(long)]
    stripes: bool,
}

/// A mount, and what it did since.
#[derive(Debug, Serialize)]
struct Told {
    point: Option<PathBuf>,
    target: String,
    #[serde(flatten)]
    activity: Activity,
    #[serde(skip_serializing_if = "Option::is_none")]
    stripes: Option<StripesReport>,
}

pub(crate) fn stat(args: &StatArgs, json: bool) -> anyhow::Result<ExitCode> {
    let (rows, mut failed) = mounted_rows(&args.places)?;
    let mut all = Vec::new();
    for Row { point, report } in rows {
        let Some(activity) = report.activity else {
            failed = true;
            note!(
                "stripewise: {}: it is not mounted, so nothing is counted",
                printable(&report.identity.target)
            );
            continue;
        };
        let stripes = report.stripes.filter(|_| args.stripes);
        all.push(Told { point, target: report.identity.target, activity, stripes });
    }
    if json {
        print_json(&all)?;
    } else if all.is_empty() && !failed {
        note!("no RAFS file system is mounted");
    } else {
        all.iter().for_each(print);
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(told: &Told) {
    let point = told.point.as_ref().map(|point| point.display().to_string()).unwrap_or_default();
    say!("{} on {}, since it was mounted:", printable(&told.target), printable(&point));
    for (what, count) in told.activity.lines() {
        say!("  {what:46} {count:>12}");
    }
    if let Some(stripes) = &told.stripes {
        print_stripes(stripes, told.activity.client_writes);
    }
}

fn print_stripes(told: &StripesReport, client_writes: u64) {
    say!(
        "{:10} {:>10} {:>10} {:>8} {:>10} {:>10} {:>8}",
        "writes of",
        "stripes",
        "full",
        "share",
        "full rows",
        "rows with",
        "share"
    );
    say!("{:10} {:>10} {:>10} {:>8} {:>10} {:>10} {:>8}", "", "", "stripes", "", "", "a read", "full");
    for (class, written) in [("files", told.data), ("the tree", told.metadata), ("journal", told.journal)] {
        let WrittenReport { stripes, full_stripes, full_rows, partial_rows, .. } = written;
        say!(
            "{class:10} {stripes:>10} {full_stripes:>10} {:>8} {full_rows:>10} {partial_rows:>10} {:>8}",
            percent(full_stripes, stripes),
            percent(full_rows, full_rows + partial_rows)
        );
    }
    say!(
        "writes of clients that shared a write of a stripe: {}",
        percent(told.coalesced_writes, client_writes)
    );
    if let Some(parity) = told.parity {
        say!("rows by read-modify-write: {}, by reconstruct-write: {}", parity.rmw_rows, parity.rcw_rows);
    }
    say!("stripes by how much of them is in use:");
    let most = told.fill.iter().copied().max().unwrap_or(0).max(1);
    for (class, count) in told.fill.iter().enumerate() {
        let name = match class {
            0 => "none".to_owned(),
            full if full + 1 == told.fill.len() => "all".to_owned(),
            tenth => format!("to {} %", tenth * 10),
        };
        let bar = "#".repeat((count * BAR).div_ceil(most) as usize);
        say!("{}", format!("  {name:>8} {count:>10} {bar}").trim_end());
    }
}

fn percent(part: u64, all: u64) -> String {
    if all == 0 { "-".to_owned() } else { format!("{:.1} %", part as f64 / all as f64 * 100.0) }
}
