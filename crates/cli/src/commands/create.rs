//! `stripewise create`.

use std::{
    io::{IsTerminal, Write},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, bail};

use serde_json::json;

use super::print_json;
use crate::{
    args::CreateArgs,
    client,
    daemon::{CreateSpec, DaemonSpec, Opening, start_daemon},
    given::{absolute_path, check_given_once},
    output,
    probe::probe,
};

/// The chunk where none is asked for.
const CHUNK_BYTES_DEFAULT: u32 = 64 << 10;

/// The word for a member that is to be added later.
const MISSING: &str = "missing";

pub(super) fn create(args: &CreateArgs, json: bool) -> anyhow::Result<ExitCode> {
    let spec = spec(args)?;
    let Opening::Create(create) = &spec.opening else { bail!("not a creation") };
    client::check_name(&args.name)?;
    check_given_once(devices(create))?;
    check_contents(args, create)?;
    if args.level == 1 && args.chunk.is_some() {
        eprintln!("stripewise: {}: --chunk is ignored: the copies of level 1 know no chunks", args.name);
    }
    if args.dry_run {
        return dry_run(args, create, json);
    }
    let status = start_daemon(&spec)?;
    if json {
        print_json(&status)?
    } else {
        print!("{}", output::mdstat(&status))
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what would be done.
fn dry_run(args: &CreateArgs, create: &CreateSpec, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        print_json(&json!({ "name": args.name, "would_create": create }))?;
    } else {
        println!("would make raid{} '{}' of {}", create.level, args.name, args.devices.join(" "));
    }
    Ok(ExitCode::SUCCESS)
}

fn devices(create: &CreateSpec) -> impl Iterator<Item = &String> {
    create.members.iter().flatten().chain(&create.spares)
}

fn spec(args: &CreateArgs) -> anyhow::Result<DaemonSpec> {
    let given = args.devices.len();
    let wanted = args.raid_devices.unwrap_or(given.saturating_sub(args.spare_devices));
    if wanted + args.spare_devices != given {
        let spare = args.spare_devices;
        bail!(
            "--raid-devices {wanted} and --spare-devices {spare} need {} devices; given: {given}",
            wanted + spare
        );
    }
    let (members, spares) = args.devices.split_at(wanted);
    if spares.iter().any(|spare| spare == MISSING) {
        bail!("a spare cannot be missing; leave it out");
    }
    let path = |device: &String| absolute_path(device);
    let member = |device: &String| if device == MISSING { Ok(None) } else { path(device).map(Some) };
    Ok(DaemonSpec {
        name: args.name.clone(),
        threads: args.threads,
        opening: Opening::Create(CreateSpec {
            level: args.level,
            chunk_bytes: args.chunk.filter(|_| args.level != 1).unwrap_or(CHUNK_BYTES_DEFAULT),
            members: members.iter().map(member).collect::<Result<_, _>>()?,
            spares: spares.iter().map(path).collect::<Result<_, _>>()?,
            assume_clean: args.assume_clean,
            member_bytes: args.size,
            region_bytes: args.bitmap_chunk,
            uuid: args.uuid.clone(),
        }),
    })
}

/// Refuses devices that hold something, unless told otherwise.
fn check_contents(args: &CreateArgs, spec: &CreateSpec) -> anyhow::Result<()> {
    let mut holding = Vec::new();
    for device in devices(spec) {
        let found = probe(Path::new(device)).with_context(|| format!("{device}: cannot be looked at"))?;
        if !found.is_empty() {
            holding.push(format!("{device} holds {}", found.join(" and ")));
        }
    }
    if holding.is_empty() {
        return Ok(());
    }
    let text = holding.join("; ");
    if args.force || args.yes {
        let begin = if args.dry_run { "to be overwritten" } else { "overwriting" };
        eprintln!("stripewise: {}: {begin}: {text}", args.name);
        return Ok(());
    }
    let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if terminal && confirm(&format!("{text}. Overwrite?"))? {
        return Ok(());
    }
    bail!("{text}; give --force to overwrite it")
}

fn confirm(question: &str) -> anyhow::Result<bool> {
    eprint!("{question} [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
