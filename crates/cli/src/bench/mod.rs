//! `stripewise bench`: the engine beside a limit measured in the same run, the NBD server beside others, and
//! load on arrays and devices.

#[cfg(feature = "lab")]
mod engine;
#[cfg(feature = "lab")]
mod figures;
mod load;
#[cfg(feature = "lab")]
mod nbd;

use std::process::ExitCode;

use clap::Subcommand;

use self::load::LoadArgs;
#[cfg(feature = "lab")]
use self::{
    engine::EngineBench,
    figures::figures,
    nbd::{NbdBench, NbdServer},
};

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// The engine over memory members, beside a bare loop with the same memory traffic.
    ///
    /// What is compared takes turns in one process, and figures are medians of the turns. With --out there is
    /// a page with plots.
    #[cfg(feature = "lab")]
    Engine(EngineBench),
    /// The NBD server beside nbdkit and qemu-nbd, over unix sockets, under the same client, in turns.
    ///
    /// Each server is a process of its own: ours with an array of four members of data and one of parity in
    /// memory, nbdkit with its memory plugin, qemu-nbd with a file in /dev/shm. Peers that are not installed
    /// are left out.
    #[cfg(feature = "lab")]
    Nbd(NbdBench),
    /// The server that `bench nbd` measures.
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    NbdServer(NbdServer),
    /// Load on a running array, a block device or a file, in fio's words.
    ///
    /// On an array it runs in the array's own daemon, so that neither socket nor kernel is measured.
    /// Interrupted, it prints how far it came, and exits with 1.
    Run(LoadArgs),
}

/// Runs one of the benchmarks.
pub(crate) fn run(command: BenchCommand, json: bool) -> anyhow::Result<ExitCode> {
    match command {
        #[cfg(feature = "lab")]
        BenchCommand::Engine(options) => figures(json, |tell| engine::run_engine(&options, tell)),
        #[cfg(feature = "lab")]
        BenchCommand::Nbd(options) => figures(json, |tell| nbd::run_nbd(&options, tell)),
        #[cfg(feature = "lab")]
        BenchCommand::NbdServer(server) => server.run().map(|()| ExitCode::SUCCESS),
        BenchCommand::Run(args) => load::run_load(&args, json),
    }
}
