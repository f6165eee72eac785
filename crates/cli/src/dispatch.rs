//! Which function carries out which command.

use std::process::ExitCode;

#[cfg(feature = "lab")]
use crate::commands::lab;
use crate::{
    args::{Cli, Command},
    bench,
    commands::{
        assemble, cache, class, create, endurance, examine, exports, jobs, members, policy, rafs, show, stop,
        trace,
    },
    daemon, demo, explain, mounted, pages,
};

/// Runs one command.
pub(crate) fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let json = cli.json;
    match cli.command {
        Command::Create(args) => create::create(&args, json),
        Command::Assemble(args) => assemble::assemble(args, json),
        Command::Stop(args) => stop::stop(&args, json),
        Command::Status(args) => show::status(&args, json),
        Command::Detail(args) => show::detail(&args, json),
        Command::Examine(args) => examine::examine(&args, json),
        Command::Add(args) => members::add(&args, json),
        Command::Fail(args) => members::fail(&args, json),
        Command::Remove(args) => members::remove(&args, json),
        Command::Replace(args) => members::replace(args, json),
        Command::Scrub(args) => jobs::scrub(&args, json),
        Command::Speed(args) => jobs::speed(&args, json),
        Command::Wait(args) => jobs::wait(&args, json),
        Command::Policy(args) => policy::policy(&args, json),
        Command::Cache(args) => cache::cache(&args, json),
        Command::Explain(args) => explain::run(&args, json),
        Command::Trace(args) => trace::trace(&args, json),
        Command::Endurance(args) => endurance::endurance(&args, json),
        Command::Class(args) => class::class(&args, json),
        Command::Attach(args) => exports::attach(args, json),
        Command::Detach(args) => exports::detach(&args, json),
        Command::Serve(args) => exports::serve(args, json),
        Command::Mkfs(args) => rafs::mkfs::mkfs(&args, json),
        Command::Mount(args) => rafs::mount::mount(&args, json),
        Command::Umount(args) => rafs::umount::umount(&args, json),
        Command::Fsck(args) => Ok(rafs::fsck::fsck(&args, json)),
        Command::Dump(args) => rafs::dump::dump(&args, json),
        Command::Df(args) => rafs::df::df(&args, json),
        Command::Stat(args) => rafs::stat::stat(&args, json),
        Command::MountDaemon { .. } => mounted::run().map(|()| ExitCode::SUCCESS),
        Command::Demo(args) => demo::run(&args, json),
        Command::DemoWorker { folder } => demo::work(&folder).map(|()| ExitCode::SUCCESS),
        Command::Bench(command) => bench::run(command, json),
        #[cfg(feature = "lab")]
        Command::Lab(command) => lab::lab(&command, json),
        Command::Completions { shell } => pages::completions(shell),
        Command::Man { folder } => pages::man(&folder),
        Command::Daemon { .. } => daemon::run().map(|()| ExitCode::SUCCESS),
    }
}
