//! Commands that export an array: attach, serve.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::json;

use super::{done, print_json};
use crate::{
    args::{AttachArgs, ServeArgs},
    client,
    protocol::{Reply, Request},
};

pub(super) fn attach(args: AttachArgs, json: bool) -> anyhow::Result<ExitCode> {
    let device = place(&args.name, &Request::Attach { method: args.method })?;
    if json {
        print_json(&json!({ "name": args.name, "device": device }))?;
    } else {
        println!("{device}");
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn serve(args: ServeArgs, json: bool) -> anyhow::Result<ExitCode> {
    let unix = args.unix.map(std::path::absolute).transpose()?.map(|path| path.display().to_string());
    let address = unix.or(args.bind);
    if args.stop {
        return done(&args.name, &Request::Unserve { address });
    }
    let Some(address) = address else { bail!("say where: --unix PATH or --bind HOST:PORT") };
    let uri = place(&args.name, &Request::Serve { address, read_only: args.read_only })?;
    if json {
        print_json(&json!({ "name": args.name, "uri": uri }))?;
    } else {
        println!("{uri}");
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
