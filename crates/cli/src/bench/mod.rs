//! `stripewise bench`: the engine beside a limit measured in the same run, the NBD server beside others, and load on
//! arrays and devices.

mod engine;
mod load;
mod nbd;

use std::{fmt::Display, process::ExitCode};

use clap::Subcommand;
use serde::Serialize;

use self::{
    engine::EngineBench,
    load::LoadArgs,
    nbd::{NbdBench, NbdServer},
};
use crate::said::{print_json, say};

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// The engine over memory members, beside a bare loop with the same memory traffic.
    ///
    /// What is compared takes turns in one process, and figures are medians of the turns. With --out there is a page with plots.
    Engine(EngineBench),
    /// The NBD server beside nbdkit and qemu-nbd, over unix sockets, under the same client, in turns.
    ///
    /// Each server is a process of its own: ours with an array of four members of data and one of parity in memory, nbdkit
    /// with its memory plugin, qemu-nbd with a file in /dev/shm. Peers that are not installed are left out.
    Nbd(NbdBench),
    /// The server that `bench nbd` measures.
    #[command(hide = true)]
    NbdServer(NbdServer),
    /// Load on a running array, a block device or a file, in fio's words.
    ///
    /// On an array it runs in the array's own daemon, so that neither socket nor kernel is measured. Interrupted, it prints
    /// how far it came, and exits with 1.
    Run(LoadArgs),
}

/// Runs one of them.
pub(crate) fn run(command: BenchCommand, json: bool) -> anyhow::Result<ExitCode> {
    match command {
        BenchCommand::Engine(options) => figures(json, |tell| engine::run_engine(&options, tell)),
        BenchCommand::Nbd(options) => figures(json, |tell| nbd::run_nbd(&options, tell)),
        BenchCommand::NbdServer(server) => server.run().map(|()| ExitCode::SUCCESS),
        BenchCommand::Run(args) => load::run_load(&args, json),
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
