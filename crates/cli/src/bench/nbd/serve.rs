//! Our own server in the benchmark: a process that serves an array over members in memory.

use std::{io, path::PathBuf, sync::Arc};

use clap::Args;
use stripewise::{
    Device, Host, HostOptions,
    export::nbd::{Endpoint, Export, Limits, Server},
    geometry::Level,
    internals::uring::RuntimeOptions,
    memory::MemoryDevice,
};
use stripewise_lab::engine_bench::{LockSetting, memory};

/// Members: four of data, one of parity.
const MEMBERS: u64 = 5;
const CHUNK_BYTES: u32 = 64 << 10;
/// More than the metadata of a member takes.
const METADATA_BYTES: u64 = 16 << 20;

/// What to serve, and where.
#[derive(Debug, Clone, Args)]
pub(crate) struct NbdServer {
    /// The socket.
    pub(super) socket: PathBuf,
    /// The least size of the export, in bytes.
    pub(super) size_bytes: u64,
    /// Worker threads.
    pub(super) threads: usize,
}

impl NbdServer {
    /// Serves until standard input ends: that happens when the process that started this one ends.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let runtime = RuntimeOptions::default().threads(self.threads);
        let host = Host::start(&HostOptions::default().runtime(runtime))?;
        let member_bytes = self.size_bytes.div_ceil(MEMBERS - 1) + METADATA_BYTES;
        let member =
            |i| -> Arc<dyn Device> { Arc::new(MemoryDevice::new(format!("memory{i}"), member_bytes)) };
        let members = (0..MEMBERS).map(member).collect();
        let locks = LockSetting::default();
        let array = memory::create(host.runtime(), Level::Raid5, CHUNK_BYTES, members, &locks, None)?;
        memory::touch_all(host.runtime(), &array)?;
        let export = Export::new("", Arc::new(array.device()));
        let endpoint = Endpoint::Unix(self.socket.clone());
        let server = Server::start(host.runtime(), &endpoint, vec![export], Limits::default())?;
        io::copy(&mut io::stdin().lock(), &mut io::sink())?;
        host.block_on(async move { server.stop().await });
        host.block_on(async move { array.stop().await })?;
        Ok(())
    }
}
