//! Commands that export an array: attach, serve.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::json;
use stripewise_wire::{Reply, Request, ServeLimits};

use super::{print_json, said};
use crate::{
    args::{AttachArgs, ServeArgs},
    client, output,
    said::{note, say},
};

pub(super) fn attach(args: AttachArgs, json: bool) -> anyhow::Result<ExitCode> {
    let device = place(
        &args.name,
        &Request::Attach { method: args.method, sector_bytes: args.sector_size, discard: args.discard },
    )?;
    if json {
        print_json(&json!({ "name": args.name, "device": device }))?;
    } else {
        say!("{device}");
        // On standard error: scripts take the path from standard output.
        let lines = client::status(&args.name).map(|status| output::mkfs_lines(&status, &device));
        if let Ok([ext4, xfs]) = lines.as_deref() {
            note!("stripewise: {}: for file systems that suit its stripes: `{ext4}` or `{xfs}`", args.name);
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn serve(args: ServeArgs, json: bool) -> anyhow::Result<ExitCode> {
    let unix = args.unix.map(std::path::absolute).transpose()?.map(|path| path.display().to_string());
    let address = unix.or(args.bind);
    if args.stop {
        return said(&args.name, &Request::Unserve { address }, json, "served no more");
    }
    let Some(address) = address else { bail!("say where: --unix PATH or --bind HOST:PORT") };
    let limits = ServeLimits {
        connections: args.connections,
        in_flight_bytes: args.in_flight,
        connection_in_flight_bytes: args.connection_in_flight,
        idle_ms: args.idle_timeout.map(|time| time.as_millis() as u64),
    };
    let uri = place(
        &args.name,
        &Request::Serve { address, read_only: args.read_only, discard: args.discard, limits },
    )?;
    if json {
        print_json(&json!({ "name": args.name, "uri": uri }))?;
    } else {
        say!("{uri}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the array is after a request.
fn place(name: &str, request: &Request) -> anyhow::Result<String> {
    match client::ask(name, request)? {
        Reply::Export(place) => Ok(place),
        other => bail!("{name}: unexpected answer {other:?}"),
    }
}
