//! The options of `create` and `assemble` for the workers of an array's daemon.

use std::{num::NonZero, thread, time::Duration};

use clap::Args;

use crate::{
    daemon::WorkerSpec,
    numbers::{THREADS_MAX, within},
    times::parse_time,
};

/// The workers of an array's daemon, while it runs.
#[derive(Debug, Clone, Args)]
pub(crate) struct WorkerArgs {
    /// Worker threads of the array's daemon, while it runs; as many as there are cores, if left out.
    #[arg(long, value_parser = within(1..=THREADS_MAX))]
    threads: Option<usize>,
    /// Has a thread of the kernel's take what each worker asks of members, without system calls. It takes a
    /// core for itself, until there was no work for IDLE: seconds, or a number with ms or s; 100ms, if left
    /// out.
    #[arg(
        long,
        value_name = "IDLE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "100ms",
        value_parser = parse_time
    )]
    sq_poll: Option<Duration>,
    /// Asks members for their completions instead of being interrupted, where their queues can be polled
    /// (NVMe with `nvme.poll_queues`; /sys/block/DEVICE/queue/io_poll says so). A worker with I/O under way
    /// takes its core for itself.
    #[arg(long)]
    io_poll: bool,
}

impl WorkerArgs {
    /// What the daemon is told.
    pub(super) fn spec(&self) -> WorkerSpec {
        let cores = || thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
        let threads = self.threads.unwrap_or_else(cores);
        WorkerSpec { threads, sq_poll_idle: self.sq_poll, io_poll: self.io_poll }
    }
}
