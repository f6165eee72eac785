//! Commands that export an array: attach, detach, serve.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::bail;
use clap::{Args, builder::TypedValueParser};
use serde_json::json;
use stripewise_wire::{AttachChoice, DiscardChoice, Reply, Request, ServeLimits};

use super::{done_when_emptied, said, tell};
use crate::{
    choices::{discard_parser, one_of},
    client,
    numbers::within,
    output,
    rundir::parse_name,
    said::{note, print_json, say},
    sizes::parse_size,
    times::parse_time,
    words::parse_sector,
};

#[derive(Debug, Clone, Args)]
pub(crate) struct AttachArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    name: String,
    /// How; the best there is, if left out.
    #[arg(long, value_parser = method_parser())]
    method: Option<AttachChoice>,
    /// The logical block size of the block device: 512, 1K, 2K or 4K, and no less than the members'; as
    /// theirs, if left out. With 4096 the kernel never asks for less than a block of 4 KiB, which is what
    /// members are written in.
    #[arg(long, value_name = "BYTES", value_parser = parse_sector)]
    sector_size: Option<u32>,
    /// Whether the block device takes discards (TRIM), as mkfs and fstrim send them.
    #[arg(long, value_parser = discard_parser(), default_value = "auto")]
    discard: DiscardChoice,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DetachArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    name: String,
    /// Even if it is in use: what its users have not written out is lost to them.
    #[arg(long, short)]
    force: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ServeArgs {
    /// The array.
    #[arg(value_parser = parse_name)]
    name: String,
    /// Listen on this unix socket.
    #[arg(long, short = 'U', conflicts_with = "bind")]
    unix: Option<PathBuf>,
    /// Listen on this address and port, such as 127.0.0.1:10809.
    #[arg(long, short)]
    bind: Option<String>,
    /// Refuse writes.
    #[arg(long, short)]
    read_only: bool,
    /// Whether clients may discard (TRIM).
    #[arg(long, value_parser = discard_parser(), default_value = "auto")]
    discard: DiscardChoice,
    /// Clients at a time; 128, if left out. Where all places are taken, a client that never asked anything
    /// makes room.
    #[arg(long, value_name = "COUNT", value_parser = within(1..=100_000usize))]
    connections: Option<usize>,
    /// Data that requests of all clients may hold together; 256M, if left out, or half of what limits of the
    /// daemon's memory leave it (control group, `ulimit -v`), and 40M at least. Each client has 1M besides,
    /// so that small requests never wait for large ones. A client that does not go on while others wait for
    /// its memory is cut off.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    in_flight: Option<u64>,
    /// Data that requests of one client may hold; 64M, or what all may, if left out, and 40M at least.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    connection_in_flight: Option<u64>,
    /// Close connections on which nothing was asked for this long: seconds, or a number with ms, s, m, h or d;
    /// never, if left out.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    idle_timeout: Option<Duration>,
    /// Stop serving there, or everywhere; fails if it is not served.
    #[arg(long)]
    stop: bool,
}

fn method_parser() -> impl TypedValueParser<Value = AttachChoice> {
    one_of(AttachChoice::ALL, AttachChoice::name, |method| match method {
        AttachChoice::Nbd => "The kernel's NBD client",
        AttachChoice::Fuse => "A FUSE file and a loop device",
    })
}

pub(crate) fn attach(args: AttachArgs, json: bool) -> anyhow::Result<ExitCode> {
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

pub(crate) fn detach(args: &DetachArgs, json: bool) -> anyhow::Result<ExitCode> {
    let request = Request::Detach { force: args.force };
    done_when_emptied(&args.name, &request, "it is detached, and what is cached is written all the same")?;
    tell(&args.name, json, "detached");
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn serve(args: ServeArgs, json: bool) -> anyhow::Result<ExitCode> {
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

/// Sends a request, and returns where the array is exported.
fn place(name: &str, request: &Request) -> anyhow::Result<String> {
    match client::ask(name, request)? {
        Reply::Export(place) => Ok(place),
        other => bail!("{name}: unexpected answer {other:?}"),
    }
}
