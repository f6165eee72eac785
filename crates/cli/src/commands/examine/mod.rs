//! `stripewise examine`: what is on a device.

mod kept;

use std::{path::Path, process::ExitCode, sync::Arc};

use clap::Args;
use serde::Serialize;
use stripewise::{
    Examination, Host, HostOptions,
    file::{FileDevice, FileOptions},
    internals::format::{
        extension::SuperblockOrigin,
        md::{LAYOUT_LEFT_SYMMETRIC, Level, Role, Superblock},
        media::SECTOR_BYTES,
    },
};

use self::kept::Kept;
use crate::{
    daemon::{LookedAt, holding},
    dates::utc,
    errors,
    printable::printable,
    reports::map_name,
    said::{note, print_json, say},
    sizes::format_size,
};

#[derive(Debug, Clone, Args)]
pub(crate) struct ExamineArgs {
    /// Block devices or files.
    #[arg(required = true)]
    devices: Vec<String>,
}

#[derive(Serialize)]
struct Examined {
    device: String,
    array_uuid: String,
    device_uuid: String,
    name: String,
    level: i32,
    layout: u32,
    layout_name: Option<&'static str>,
    /// None for level 0, whose members may differ.
    array_bytes: Option<u64>,
    updated_s: u64,
    raid_devices: u32,
    chunk_bytes: u64,
    member_bytes: u64,
    data_offset_bytes: u64,
    data_bytes: u64,
    role: String,
    number: u32,
    events: u64,
    clean: bool,
    features: Vec<&'static str>,
    roles: String,
    extension: String,
    last_writer: &'static str,
    bitmap: Option<String>,
    /// What else the extension area keeps; None without one.
    kept: Option<Kept>,
}

pub(crate) fn examine(args: &ExamineArgs, json: bool) -> anyhow::Result<ExitCode> {
    let host = Host::start(&HostOptions::default())?;
    let mut found = Vec::new();
    let mut failed = false;
    for path in &args.devices {
        match examine_one(&host, path) {
            Ok(examined) => found.push(examined),
            Err(error) => {
                failed = true;
                note!("stripewise: {}{}", errors::printable_line(&error), printable(&holds(path)));
            }
        }
    }
    if json {
        print_json(&found)?;
    } else {
        found.iter().for_each(print_one);
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What a device holds that is not a member.
fn holds(path: &str) -> String {
    match LookedAt::look(Path::new(path)) {
        Ok(Some(seen)) if !seen.found.is_empty() => format!(" ({})", holding(path, &seen.found)),
        _ => String::new(),
    }
}

fn examine_one(host: &Host, path: &str) -> anyhow::Result<Examined> {
    let device = Arc::new(FileDevice::open(path, FileOptions::default().read_only(true))?);
    let examination = host.block_on(async move { stripewise::examine(device).await })?;
    Ok(describe(path, &examination))
}

fn describe(path: &str, examination: &Examination) -> Examined {
    let s = &examination.superblock;
    Examined {
        device: path.to_owned(),
        array_uuid: s.array_uuid.to_string(),
        device_uuid: s.device_uuid.to_string(),
        name: s.name.to_string(),
        level: s.level.number(),
        layout: s.layout,
        layout_name: layout_name(s),
        array_bytes: s.array_size_sectors().map(|sectors| sectors.saturating_mul(SECTOR_BYTES)),
        updated_s: s.updated.seconds(),
        raid_devices: s.raid_disks,
        chunk_bytes: u64::from(s.chunk_sectors) * SECTOR_BYTES,
        member_bytes: s.member_size_sectors.saturating_mul(SECTOR_BYTES),
        data_offset_bytes: s.data_offset_sectors.saturating_mul(SECTOR_BYTES),
        data_bytes: s.data_size_sectors.saturating_mul(SECTOR_BYTES),
        role: role_name(s.role()),
        number: s.dev_number,
        events: s.events,
        clean: s.is_in_sync(),
        features: s.features.names().collect(),
        roles: roles_line(s),
        extension: match &examination.extension {
            Ok((header, copies)) => {
                let other =
                    if copies.to_rewrite().is_none() { "both copies good" } else { "one copy needs mending" };
                format!("present, generation {}, {other}", header.generation)
            }
            Err(error) => error.to_string(),
        },
        last_writer: match (&examination.extension, examination.origin) {
            (Err(_), _) => "unknown",
            (Ok(_), SuperblockOrigin::Foreign) => "another md implementation",
            (Ok(_), _) => "stripewise",
        },
        bitmap: examination.extension.as_ref().ok().filter(|(h, _)| h.bitmap.page_count > 0).map(|(h, _)| {
            let (count, map) = (h.bitmap.region_count, map_name(h.bitmap.map_kind));
            format!("{count} {map} regions of {}", format_size(h.bitmap.region_bytes))
        }),
        kept: examination.extension.as_ref().ok().map(|(header, _)| Kept::of(header, s.level)),
    }
}

/// The only layout of levels 5 and 6 that we have.
fn layout_name(s: &Superblock) -> Option<&'static str> {
    let rotates = matches!(s.level, Level::Raid5 | Level::Raid6);
    (rotates && s.layout == LAYOUT_LEFT_SYMMETRIC).then_some("left-symmetric")
}

/// A letter for each role, as mdadm prints them.
fn roles_line(s: &Superblock) -> String {
    let holders =
        |slot: u32| s.roles.as_slice().iter().filter(|role| **role == Role::Active(slot as u16)).count();
    let letter = |slot| match holders(slot) {
        0 => '.',
        1 => 'A',
        _ => 'R',
    };
    (0..s.raid_disks.min(u32::from(u16::MAX))).map(letter).collect()
}

fn role_name(role: Role) -> String {
    match role {
        Role::Active(slot) => format!("active device {slot}"),
        other => format!("{other:?}").to_lowercase(),
    }
}

fn print_one(e: &Examined) {
    say!("{}:", printable(&e.device));
    // A foreign device may hold any text.
    let line = |label: &str, value: &str| say!("{label:>16} : {}", printable(value));
    line("Array UUID", &e.array_uuid);
    line("Name", &e.name);
    line("Raid Level", &format!("raid{}", e.level));
    line("Raid Devices", &e.raid_devices.to_string());
    if let Some(bytes) = e.array_bytes {
        line("Array Size", &format_size(bytes));
    }
    line("Used Dev Size", &format_size(e.member_bytes));
    line(
        "Data Offset",
        &format!("{} ({} sectors)", format_size(e.data_offset_bytes), e.data_offset_bytes / 512),
    );
    if let Some(layout) = e.layout_name {
        line("Layout", layout);
    }
    if e.chunk_bytes > 0 {
        line("Chunk Size", &format_size(e.chunk_bytes));
    }
    line("Device UUID", &e.device_uuid);
    line("Device Role", &e.role);
    line("State", if e.clean { "clean" } else { "active" });
    line("Update Time", &utc(e.updated_s));
    line("Events", &e.events.to_string());
    line("Array State", &format!("{} ('A' == active, '.' == missing, 'R' == replacing)", e.roles));
    line("Features", &if e.features.is_empty() { "none".to_owned() } else { e.features.join(", ") });
    line("Extension Area", &e.extension);
    line("Last Writer", e.last_writer);
    if let Some(bitmap) = &e.bitmap {
        line("Bitmap", bitmap);
    }
    let kept = e.kept.as_ref().map(Kept::lines);
    kept.into_iter().flatten().for_each(|(label, text)| line(label, &text));
}
