//! The commands, one by one.

mod create;
mod examine;
mod members;
mod pages;
mod show;

use std::process::ExitCode;

use anyhow::bail;
use serde::Serialize;

use crate::{
    args::{
        AssembleArgs, AttachArgs, BenchCommand, Cli, Command, DetachArgs, ServeArgs, SpeedArgs, StopArgs,
    },
    bench, client, daemon,
    daemon::{DaemonSpec, Opening, start_daemon},
    demo, output, progress,
    protocol::{Reply, Request},
    rundir, sizes,
};

/// Runs one command.
pub(crate) fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let json = cli.json;
    match cli.command {
        Command::Create(args) => create::create(&args, json),
        Command::Assemble(args) => assemble(args, json),
        Command::Stop(args) => stop(&args),
        Command::Status(args) => show::status(&args, json),
        Command::Detail(args) => show::detail(&args, json),
        Command::Examine(args) => examine::examine(&args, json),
        Command::Add(args) => members::add(&args),
        Command::Fail(args) => done(&args.name, &Request::Fail { member: absolute_path(&args.device)? }),
        Command::Remove(args) => done(&args.name, &Request::Remove { member: absolute_path(&args.device)? }),
        Command::Replace(args) => members::replace(args),
        Command::Scrub(args) => members::scrub(&args, json),
        Command::Speed(args) => speed(&args),
        Command::Wait(args) => progress::wait_for_jobs(&args.name).map(|_| ExitCode::SUCCESS),
        Command::Attach(args) => attach(args),
        Command::Detach(DetachArgs { name, force }) => done(&name, &Request::Detach { force }),
        Command::Serve(args) => serve(args),
        Command::Demo(args) => demo::run(&args),
        Command::Bench(BenchCommand::Engine(options)) => bench_engine(&options, json),
        Command::Completions { shell } => pages::completions(shell),
        Command::Man { folder } => pages::man(&folder),
        Command::Daemon => daemon::run().map(|()| ExitCode::SUCCESS),
    }
}

/// Prints a value as JSON.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string_pretty(value)?);
    Ok(())
}

/// A request whose answer is that it was done.
fn done(name: &str, request: &Request) -> anyhow::Result<ExitCode> {
    client::ask(name, request).map(|_| ExitCode::SUCCESS)
}

/// A request whose answer is the place of a new export, printed.
fn exported(name: &str, request: &Request) -> anyhow::Result<ExitCode> {
    match client::ask(name, request)? {
        Reply::Export(place) => println!("{place}"),
        other => bail!("{name}: unexpected answer {other:?}"),
    }
    Ok(ExitCode::SUCCESS)
}

fn assemble(args: AssembleArgs, json: bool) -> anyhow::Result<ExitCode> {
    let AssembleArgs { name, run, force, readonly, threads, devices } = args;
    let opening = Opening::Assemble { devices: absolute(&devices)?, run, force, read_only: readonly };
    let status = start_daemon(&DaemonSpec { name, threads, opening })?;
    if json {
        print_json(&status)?
    } else {
        print!("{}", output::mdstat(&status))
    }
    Ok(ExitCode::SUCCESS)
}

/// Paths that mean the same to a daemon in another directory.
fn absolute(devices: &[String]) -> anyhow::Result<Vec<String>> {
    devices.iter().map(|device| absolute_path(device)).collect()
}

fn absolute_path(device: &str) -> anyhow::Result<String> {
    Ok(std::path::absolute(device)?.display().to_string())
}

fn stop(args: &StopArgs) -> anyhow::Result<ExitCode> {
    let names = match &args.name {
        Some(name) => vec![name.clone()],
        None => rundir::array_names()?,
    };
    for name in names {
        client::stop(&name, args.force)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn speed(args: &SpeedArgs) -> anyhow::Result<ExitCode> {
    if let (Some(min), Some(max @ 1..)) = (args.min, args.max)
        && min > max
    {
        bail!("--min is above --max");
    }
    if args.min.is_none() && args.max.is_none() {
        let status = client::status(&args.name)?;
        let (min, max) = (status.speed_min_bytes_per_s, status.speed_max_bytes_per_s);
        let max =
            if max == u64::MAX { "no limit".to_owned() } else { format!("{}/s", sizes::format_size(max)) };
        println!("{}: min {}/s, max {max}", args.name, sizes::format_size(min));
        return Ok(ExitCode::SUCCESS);
    }
    let max_bytes_per_s = args.max.map(|max| if max == 0 { u64::MAX } else { max });
    done(&args.name, &Request::Speed { min_bytes_per_s: args.min, max_bytes_per_s })
}

fn attach(args: AttachArgs) -> anyhow::Result<ExitCode> {
    exported(&args.name, &Request::Attach { method: args.method })
}

fn serve(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let unix = args.unix.map(std::path::absolute).transpose()?.map(|path| path.display().to_string());
    let address = unix.or(args.bind);
    if args.stop {
        return done(&args.name, &Request::Unserve { address });
    }
    let Some(address) = address else { bail!("say where: --unix PATH or --bind HOST:PORT") };
    exported(&args.name, &Request::Serve { address, read_only: args.read_only })
}

fn bench_engine(options: &bench::EngineBench, json: bool) -> anyhow::Result<ExitCode> {
    let tell = |figure: &_| {
        if !json {
            println!("{figure}");
        }
    };
    let figures = bench::run_engine(options, tell)?;
    if json {
        print_json(&figures)?;
    }
    Ok(ExitCode::SUCCESS)
}
