//! `stripewise df`: how full file systems are.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::bail;
use clap::Args;
use serde::Serialize;
use stripewise::RuntimeOptions;
use stripewise_mount::{
    fuse::{mount::is_dead_mount, own_mounts, owner_of_mount},
    report::Report,
};
use stripewise_wire::{Reply, Request, UsageStatus};

use super::{
    open,
    place::{Target, target_of},
    report_of, worked,
};
use crate::{
    client, daemon, errors,
    given::is_same_device,
    printable::printable,
    rafs::{report_of_unmounted, usage_status},
    said::{note, print_json, say},
    sizes::format_size,
};

#[derive(Debug, Clone, Args)]
pub(crate) struct DfArgs {
    /// Folders in mounted file systems, running arrays, block devices or files; all that are mounted, if left out.
    places: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    /// None if it is not mounted.
    pub(super) point: Option<PathBuf>,
    #[serde(flatten)]
    pub(super) report: Report,
}

pub(crate) fn df(args: &DfArgs, json: bool) -> anyhow::Result<ExitCode> {
    let (mut rows, failed) = mounted_rows(&args.places)?;
    for row in &mut rows {
        // `stat` tells these.
        (row.report.activity, row.report.stripes) = (None, None);
    }
    if json {
        print_json(&rows)?;
    } else if !(failed && rows.is_empty()) {
        print(&rows);
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The file systems in these places, or all that are mounted, and whether some of them do not tell.
pub(super) fn mounted_rows(places: &[String]) -> anyhow::Result<(Vec<Row>, bool)> {
    let (mounted, mut failed) = all_mounted(places.is_empty())?;
    let mut rows = Vec::new();
    if places.is_empty() {
        rows = mounted;
    } else {
        for place in places {
            match of_place(place, &mounted) {
                Ok(row) => rows.push(row),
                Err(error) => {
                    failed = true;
                    note!("stripewise: {}", errors::printable_line(&error));
                }
            }
        }
    }
    Ok((rows, failed))
}

/// All mounts, and whether some do not tell.
pub(super) fn all_mounted(are_wanted: bool) -> anyhow::Result<(Vec<Row>, bool)> {
    let (mut rows, mut failed) = (Vec::new(), false);
    for point in own_mounts()? {
        match report_of(&point) {
            Ok(report) => rows.extend(report.map(|report| Row { point: Some(point), report })),
            Err(error) if are_wanted => {
                failed = true;
                note!("stripewise: {}", errors::printable_line(&error));
            }
            Err(_) => {}
        }
    }
    Ok((rows, failed))
}

/// Where an array is mounted, as its daemon says, and the mount's report; none if it is not, or is detached.
pub(super) fn mounted_array(name: &str) -> anyhow::Result<Option<Row>> {
    let Some(mounted) = client::status(name)?.mounted else { return Ok(None) };
    let report = report_of(&mounted.point)?.filter(|report| report.identity.uuid == mounted.uuid);
    Ok(report.map(|report| Row { point: Some(mounted.point), report }))
}

/// Where a device or a file is mounted, by a process of this user or of root, and its report; none if it is not.
pub(super) fn mounted_path(path: &str) -> anyhow::Result<Option<Row>> {
    let own = rustix::process::geteuid().as_raw();
    let (rows, _) = all_mounted(false)?;
    let row = rows.into_iter().find(|row| is_of(row, path));
    Ok(row.filter(|row| {
        let owner = row.point.as_deref().and_then(|point| owner_of_mount(point).ok().flatten());
        owner.is_some_and(|owner| owner == 0 || owner == own)
    }))
}

/// Whether a mount is of a device or a file, as it says.
fn is_of(row: &Row, path: &str) -> bool {
    let identity = &row.report.identity;
    identity.array.is_none() && is_same_device(&identity.target, path)
}

/// That of a target among all that are mounted.
fn find<'rows>(target: &Target, mounted: &'rows [Row]) -> anyhow::Result<Option<&'rows Row>> {
    Ok(match target {
        Target::Array(name) => {
            // By its place: arrays of other run directories may have the same name.
            let point = client::status(name)?.mounted.map(|mounted| mounted.point);
            mounted.iter().find(|row| row.point.is_some() && row.point == point)
        }
        Target::Path(path) => mounted.iter().find(|row| is_of(row, path)),
    })
}

/// What lies at a place that a command was given.
pub(super) enum Place<'a> {
    Mounted(&'a Row),
    /// A running array, which is not mounted.
    Array(String),
    /// A device or a file, which is not mounted.
    Path(String),
}

/// What lies there, as these are mounted.
///
/// # Errors
/// If nothing does, as in a folder in which none of them is mounted.
pub(super) fn place_of<'a>(place: &str, mounted: &'a [Row]) -> anyhow::Result<Place<'a>> {
    let target = target_of(place)?;
    if let Some(row) = find(&target, mounted)? {
        return Ok(Place::Mounted(row));
    }
    let path = match target {
        Target::Array(name) => return Ok(Place::Array(name)),
        Target::Path(path) => path,
    };
    let path_of = |row: &&Row| row.point.as_deref().is_some_and(|point| is_under(Path::new(&path), point));
    let longest = |row: &&Row| row.point.as_ref().map_or(0, |point| point.as_os_str().len());
    if let Some(row) = mounted.iter().filter(path_of).max_by_key(longest) {
        return Ok(Place::Mounted(row));
    }
    if is_dead_mount(Path::new(&path)).unwrap_or(false) {
        report_of(Path::new(&path))?;
    }
    if Path::new(&path).is_dir() {
        bail!("{path}: no RAFS file system is mounted there; `stripewise df` lists those that are");
    }
    Ok(Place::Path(path))
}

fn of_place(place: &str, mounted: &[Row]) -> anyhow::Result<Row> {
    let path = match place_of(place, mounted)? {
        Place::Mounted(row) => return Ok(row.clone()),
        Place::Array(name) => return of_array(&name),
        Place::Path(path) => path,
    };
    let host = daemon::start_host(RuntimeOptions::default())?;
    let found = open(&host, &path)?;
    let (env, superblock) = (host.env(), found.superblock);
    let usage = host.block_on(async move { usage_status(env, found.volume, &superblock).await })?;
    Ok(unmounted(path, usage))
}

/// Has the array's daemon look.
fn of_array(name: &str) -> anyhow::Result<Row> {
    match worked(name, &Request::Usage, "df")? {
        Reply::Usage(usage) => Ok(unmounted(name.to_owned(), *usage)),
        other => bail!("{name}: unexpected answer {other:?}"),
    }
}

fn unmounted(target: String, usage: UsageStatus) -> Row {
    Row { point: None, report: report_of_unmounted(target, usage) }
}

fn is_under(path: &Path, point: &Path) -> bool {
    std::fs::canonicalize(path).is_ok_and(|path| path.starts_with(point))
}

fn print(rows: &[Row]) {
    if rows.is_empty() {
        note!("no RAFS file system is mounted");
        return;
    }
    say!("{:>12} {:>12} {:>12} {:>10}  target, mounted on", "size", "free", "buffered", "inodes");
    for Row { point, report } in rows {
        let point = point.as_ref().map_or("not mounted".to_owned(), |point| point.display().to_string());
        say!(
            "{:>12} {:>12} {:>12} {:>10}  {}, {}",
            format_size(report.size_bytes),
            format_size(report.free_bytes),
            format_size(report.buffered_bytes),
            report.inodes,
            printable(&report.identity.target),
            printable(&point)
        );
    }
}
