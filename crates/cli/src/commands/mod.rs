//! The commands, one by one.

mod class;
mod create;
mod endurance;
mod examine;
mod exports;
mod jobs;
mod lab;
mod mdadm;
mod members;
mod pages;
mod policy;
mod show;
mod trace;

pub(crate) use class::ClassArgs;
pub(crate) use endurance::EnduranceArgs;
pub(crate) use policy::PolicyArgs;
pub(crate) use trace::TraceArgs;

use std::{fmt::Display, io::Write, process::ExitCode};

use anyhow::Context;
use serde::Serialize;
use stripewise_wire::{ArrayStatus, MemberStatus, Request};

use crate::{
    args::{AssembleArgs, BenchCommand, Cli, Command, DetachArgs, StopArgs},
    bench, client, daemon,
    daemon::{DaemonSpec, Opening, WorkerSpec, start_daemon},
    demo, explain,
    given::{absolute_paths, check_given_once, is_same_device},
    printable::printable,
    rundir,
    said::{note, say},
};

/// Runs one command.
pub(crate) fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let json = cli.json;
    match cli.command {
        Command::Create(args) => create::create(&args, json),
        Command::Assemble(args) => assemble(args, json),
        Command::Stop(args) => stop(&args, json),
        Command::Status(args) => show::status(&args, json),
        Command::Detail(args) => show::detail(&args, json),
        Command::Examine(args) => examine::examine(&args, json),
        Command::Add(args) => members::add(&args, json),
        Command::Fail(args) => members::fail(&args, json),
        Command::Remove(args) => members::remove(&args, json),
        Command::Replace(args) => members::replace(args, json),
        Command::Scrub(args) => jobs::scrub(&args, json),
        Command::Speed(args) => jobs::speed(&args, json),
        Command::Wait(args) => jobs::wait(&args.name, json),
        Command::Policy(args) => policy::policy(&args, json),
        Command::Explain(args) => explain::run(&args, json),
        Command::Trace(args) => trace::trace(&args, json),
        Command::Endurance(args) => endurance::endurance(&args, json),
        Command::Class(args) => class::class(&args, json),
        Command::Attach(args) => exports::attach(args, json),
        Command::Detach(DetachArgs { name, force }) => {
            said(&name, &Request::Detach { force }, json, "detached")
        }
        Command::Serve(args) => exports::serve(args, json),
        Command::Demo(args) => demo::run(&args, json),
        Command::DemoWorker { folder } => demo::work(&folder).map(|()| ExitCode::SUCCESS),
        Command::Bench(command) => bench(command, json),
        Command::Lab(command) => lab::lab(&command, json),
        Command::Completions { shell } => pages::completions(shell),
        Command::Man { folder } => pages::man(&folder),
        Command::Daemon { .. } => daemon::run().map(|()| ExitCode::SUCCESS),
    }
}

/// Prints a value as JSON.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print_text(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Prints a text. Not by `print!`, which panics where nothing can be printed: programs go by the exit code.
fn print_text(text: &str) -> anyhow::Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("printing it")
}

/// A request whose answer is that it was done.
fn done(name: &str, request: &Request) -> anyhow::Result<ExitCode> {
    client::command(name, request).map(|()| ExitCode::SUCCESS)
}

/// The same, and people are told.
fn said(name: &str, request: &Request, json: bool, what: &str) -> anyhow::Result<ExitCode> {
    let code = done(name, request)?;
    tell(name, json, what);
    Ok(code)
}

/// Says what was done, to people.
fn tell(name: &str, json: bool, what: &str) {
    if !json {
        say!("{name}: {}", printable(what));
    }
}

/// All members, or the one that is named.
fn chosen<'a>(status: &'a ArrayStatus, device: Option<&str>) -> anyhow::Result<Vec<&'a MemberStatus>> {
    let Some(device) = device else { return Ok(status.members.iter().collect()) };
    let member = status.members.iter().find(|member| is_same_device(&member.device, device));
    let name = &status.name;
    Ok(vec![member.with_context(|| format!("{name}: {device} is not a member; `detail {name}` lists them"))?])
}

fn assemble(args: AssembleArgs, json: bool) -> anyhow::Result<ExitCode> {
    let AssembleArgs { name, run, force, readonly, workers, devices } = args;
    let devices = absolute_paths(&devices)?;
    client::check_name(&name)?;
    check_given_once(&devices)?;
    let workers = WorkerSpec::new(&workers);
    let opening = Opening::Assemble { devices, run, force, read_only: readonly };
    let status = start_daemon(&DaemonSpec { name, workers, opening })?;
    for device in &status.forced {
        let lost = "taken by force, what was written since it left is lost";
        note!("stripewise: {}: {lost}: {device}", status.name);
    }
    client::tell(&status.name, &status.warnings);
    client::tell(&status.name, &absent_roles(&status));
    show::opened(&status, json)?;
    Ok(ExitCode::SUCCESS)
}

/// Roles of which the array lacks the member, each with what takes its place.
fn absent_roles(status: &ArrayStatus) -> Vec<String> {
    let absent = status.in_sync.iter().enumerate().filter(|(_, in_sync)| !**in_sync).map(|(role, _)| role);
    let filled =
        |role| status.members.iter().find(|member| member.role == Some(role) && member.state != "faulty");
    let told = absent.map(|role| match filled(role) {
        Some(member) => format!("role {role} is being filled: {}", member.device),
        None if status.read_only => format!("the member of role {role} is absent"),
        None => format!(
            "the member of role {role} is absent: `stripewise add {} DEVICE` fills another",
            status.name
        ),
    });
    told.chain(in_doubt(status)).collect()
}

/// What of an array that is read-only is not read, as a crash may have left it half written. `--force` reads it.
fn in_doubt(status: &ArrayStatus) -> Option<String> {
    let lacks_member = status.in_sync.iter().any(|in_sync| !in_sync);
    let marked = status.bitmap.as_ref().map_or(0, |bitmap| bitmap.marked);
    let is_in_doubt = status.read_only && status.parity_devices > 0 && lacks_member && marked > 0;
    is_in_doubt.then(|| {
        format!(
            "it was not stopped cleanly, and members are absent: what they had in the bitmap's marked regions ({marked}) \
             may be half written, and is an error unless the array is assembled with --force"
        )
    })
}

fn stop(args: &StopArgs, json: bool) -> anyhow::Result<ExitCode> {
    let names = match &args.name {
        Some(name) => vec![name.clone()],
        None => rundir::names_to_stop()?,
    };
    client::stop_all(&names, args.force, |name| tell(name, json, "stopped")).map(|()| ExitCode::SUCCESS)
}

fn bench(command: BenchCommand, json: bool) -> anyhow::Result<ExitCode> {
    match command {
        BenchCommand::Engine(options) => figures(json, |tell| bench::run_engine(&options, tell)),
        BenchCommand::Nbd(options) => figures(json, |tell| bench::run_nbd(&options, tell)),
        BenchCommand::NbdServer(server) => server.run().map(|()| ExitCode::SUCCESS),
        BenchCommand::Run(args) => bench::run_load(&args, json),
    }
}

/// Prints figures as they come, or all of them as JSON.
fn figures<T: Serialize + Display>(
    json: bool,
    run: impl FnOnce(&mut dyn FnMut(&T)) -> anyhow::Result<Vec<T>>,
) -> anyhow::Result<ExitCode> {
    let all = run(&mut |figure| {
        if !json {
            say!("{figure}");
        }
    })?;
    if json {
        print_json(&all)?;
    }
    Ok(ExitCode::SUCCESS)
}
