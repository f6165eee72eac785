//! `stripewise bench nbd`: our NBD server beside nbdkit and qemu-nbd, each a process of its own, over unix
//! sockets, under the same client.
//!
//! The servers take turns in one run, and a ratio is the median over the turns, so a noisy machine disturbs
//! all servers alike. The run fails if clients read anything but what they wrote.

mod blocks;
mod case;
mod client;
mod cpu;
mod figure;
mod serve;
mod servers;

use std::{thread, time::Duration};

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use stripewise::{Host, HostOptions, internals::uring::RuntimeOptions};
use stripewise_lab::engine_bench::own_processor_time;
use tempfile::TempDir;

use self::{
    case::Case,
    client::{End, Turn},
    figure::{Sample, Turns},
    servers::{Kind, Server},
};
pub(crate) use self::{figure::Figure, serve::NbdServer};
use crate::{
    interrupt::Interrupt,
    numbers::{THREADS_MAX, within},
    sizes::{format_size, parse_size},
    times::parse_time,
};

/// More would not make a median better.
const TURNS_MAX: usize = 1000;
/// Fewer than qemu-nbd is told to take, as one more connection holds it open.
const CONNECTIONS_MAX: usize = 1000;

/// What to measure.
#[derive(Debug, Clone, Args)]
pub(crate) struct NbdBench {
    /// Size of each export.
    #[arg(long, default_value = "1G", value_parser = parse_size)]
    size: u64,
    /// Connections; several counts run one after the other.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4", value_parser = within(1..=CONNECTIONS_MAX))]
    connections: Vec<usize>,
    /// Worker threads of our server; as many as there are cores, if left out.
    #[arg(long, value_parser = within(1..=THREADS_MAX))]
    threads: Option<usize>,
    /// Worker threads of the client; as many as there are cores, if left out. A connection lives on one.
    #[arg(long, value_parser = within(1..=THREADS_MAX))]
    client_threads: Option<usize>,
    /// How long each turn is: seconds, or a number with ms, s, m, h or d.
    #[arg(long, default_value = "0.5", value_parser = parse_time)]
    seconds: Duration,
    /// Turns of each server.
    #[arg(long, default_value_t = 7, value_parser = within(1..=TURNS_MAX))]
    turns: usize,
    /// This case, and those given besides; all, if left out.
    #[arg(long, value_enum)]
    case: Vec<Case>,
    /// This server, and those given besides; all, if left out.
    #[arg(long, value_enum)]
    server: Vec<Kind>,
}

impl NbdBench {
    fn cases(&self) -> &[Case] {
        if self.case.is_empty() { Case::value_variants() } else { &self.case }
    }

    fn kinds(&self) -> &[Kind] {
        if self.server.is_empty() { Kind::value_variants() } else { &self.server }
    }

    fn check(&self) -> anyhow::Result<()> {
        let least = self.connections.iter().max().copied().unwrap_or(0) as u64 * Case::BYTES_MAX as u64;
        ensure!(
            self.size >= least,
            "--size {}: give {} or more, so that each connection has its part",
            format_size(self.size),
            format_size(least)
        );
        ensure!(
            self.size.is_multiple_of(Case::BYTES_MAX as u64),
            "--size {}: not a multiple of {}",
            format_size(self.size),
            format_size(Case::BYTES_MAX as u64)
        );
        Ok(())
    }
}

/// Runs the cases and returns their figures, calling `tell` as each is done.
pub(crate) fn run_nbd(options: &NbdBench, mut tell: impl FnMut(&Figure)) -> anyhow::Result<Vec<Figure>> {
    options.check()?;
    let bench = Bench::start(options)?;
    let mut figures = Vec::new();
    for case in options.cases() {
        for connections in &options.connections {
            let figure = bench.measure(*case, *connections)?;
            tell(&figure);
            figures.push(figure);
        }
    }
    Ok(figures)
}

/// Everything that runs. Fields drop in this order, so what must end first comes first.
struct Bench<'a> {
    options: &'a NbdBench,
    servers: Vec<Server>,
    client: Host,
    interrupt: Interrupt,
    /// Where the sockets are.
    _folder: TempDir,
}

impl<'a> Bench<'a> {
    fn start(options: &'a NbdBench) -> anyhow::Result<Self> {
        let interrupt = Interrupt::watch().context("cannot watch for signals")?;
        let cores = thread::available_parallelism()?.get();
        let threads = options.client_threads.unwrap_or(cores);
        let runtime = RuntimeOptions::default().threads(threads);
        let client = Host::start(&HostOptions::default().runtime(runtime))?;
        let folder = tempfile::Builder::new().prefix("stripewise-bench-").tempdir()?;
        let threads = options.threads.unwrap_or(cores);
        let mut servers = Vec::new();
        for kind in options.kinds() {
            servers.extend(Server::start(*kind, options.size, threads, folder.path(), &client)?);
        }
        ensure!(!servers.is_empty(), "none of the servers asked for is installed");
        let bench = Self { options, servers, client, interrupt, _folder: folder };
        bench.fill()?;
        Ok(bench)
    }

    /// Writes everything once, so that reads find what they expect, and no turn measures the first touch of
    /// memory.
    fn fill(&self) -> anyhow::Result<()> {
        for server in &self.servers {
            self.turn(server, Case::SequentialWrite, 1, 0, End::Once)?;
        }
        Ok(())
    }

    /// Measures a case: each turn runs all servers, one after the other.
    fn measure(&self, case: Case, connections: usize) -> anyhow::Result<Figure> {
        let mut turns = Turns::new(self.servers.iter().map(|server| server.kind).collect());
        let end = End::After(self.options.seconds);
        for seed in 0..=self.options.turns as u64 {
            let samples = self.samples(case, connections, seed, end)?;
            if seed > 0 {
                // The first turn only warms up.
                turns.add(samples);
            }
        }
        Ok(turns.figure(case, connections))
    }

    /// One turn: the samples of all servers, in the servers' order. Which server goes first changes from turn
    /// to turn.
    fn samples(&self, case: Case, connections: usize, seed: u64, end: End) -> anyhow::Result<Vec<Sample>> {
        let first = seed as usize % self.servers.len();
        let (later, sooner) = self.servers.split_at(first);
        let turn = |server| self.turn(server, case, connections, seed, end);
        let mut samples = sooner.iter().chain(later).map(turn).collect::<anyhow::Result<Vec<_>>>()?;
        samples.rotate_right(first);
        Ok(samples)
    }

    fn turn(
        &self,
        server: &Server,
        case: Case,
        connections: usize,
        seed: u64,
        end: End,
    ) -> anyhow::Result<Sample> {
        ensure!(!self.interrupt.is_asked(), "interrupted");
        let turn = Turn { case, connections, size_bytes: self.options.size, seed, end };
        let (of_server, of_client) = (cpu::of(server.pid())?, own_processor_time());
        let done = client::run(&self.client, &server.address, &turn).with_context(|| server.kind.name())?;
        let requests = done.requests as f64;
        let per_request = |time: Duration| time.as_nanos() as f64 / requests;
        Ok(Sample {
            requests_per_s: requests / done.elapsed.as_secs_f64(),
            cpu_ns: per_request(cpu::of(server.pid())?.saturating_sub(of_server)),
            client_cpu_ns: per_request(own_processor_time() - of_client),
        })
    }
}
