//! One turn of the client: connections on workers of this process, each with requests in flight all the time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use fastrand::Rng;
use smallvec::smallvec;
use stripewise::{
    Device, Host, IoBuf, WriteFlags,
    export::nbd::{NbdAddress, NbdClient},
};

use super::{blocks, case::Case};

/// What a turn does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub(super) case: Case,
    pub(super) connections: usize,
    /// How much of the export is used.
    pub(super) size_bytes: u64,
    pub(super) seed: u64,
    pub(super) end: End,
}

/// When a turn ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    After(Duration),
    /// After one request to each place.
    Once,
}

/// The result of a turn.
pub(super) struct Done {
    pub(super) requests: u64,
    pub(super) elapsed: Duration,
}

/// Opens a connection on one of the client's workers.
pub(super) fn connect(host: &Host, address: &NbdAddress, worker: usize) -> anyhow::Result<Arc<NbdClient>> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let (env, to) = (host.env(), address.clone());
    let task = async move { drop(sender.send(NbdClient::connect(&env, &to).await)) };
    host.runtime().spawn_on(worker, Box::pin(task));
    let client = receiver.recv().context("the client's worker has ended")?;
    Ok(Arc::new(client.with_context(|| format!("cannot connect to {address}"))?))
}

/// Opens the connections and keeps them busy.
pub(super) fn run(host: &Host, address: &NbdAddress, turn: &Turn) -> anyhow::Result<Done> {
    let clients: Vec<_> = (0..turn.connections)
        .map(|connection| connect(host, address, connection))
        .collect::<anyhow::Result<_>>()?;
    let (sender, receiver) = mpsc::channel();
    let begun = Instant::now();
    for (connection, client) in clients.iter().enumerate() {
        let places = Arc::new(Places::new(turn, connection));
        for lane in 0..turn.case.depth() {
            let seed = turn.seed << 32 | (connection << 16 | lane) as u64;
            let lane = Lane { client: client.clone(), turn: *turn, places: places.clone(), seed };
            let sender = sender.clone();
            host.runtime()
                .spawn_on(connection, Box::pin(async move { drop(sender.send(lane.run(begun).await)) }));
        }
    }
    drop(sender);
    let requests = receiver.into_iter().sum::<anyhow::Result<u64>>()?;
    Ok(Done { requests, elapsed: begun.elapsed() })
}

/// A connection's part of the export for sequential requests, counted in requests.
struct Places {
    first: u64,
    count: u64,
    next: AtomicU64,
}

impl Places {
    fn new(turn: &Turn, connection: usize) -> Self {
        let count = turn.size_bytes / turn.case.bytes() as u64 / turn.connections as u64;
        Self { first: count * connection as u64, count, next: AtomicU64::new(0) }
    }
}

/// Sends one request after the other.
struct Lane {
    client: Arc<NbdClient>,
    turn: Turn,
    places: Arc<Places>,
    seed: u64,
}

impl Lane {
    /// Runs to the end of the turn, and returns how many requests were done.
    async fn run(self, begun: Instant) -> anyhow::Result<u64> {
        let (mut buf, mut rng, mut done) =
            (blocks::new(self.turn.case.bytes()), Rng::with_seed(self.seed), 0);
        while let Some(offset_bytes) = self.next_place(begun, &mut rng) {
            buf = self.request(offset_bytes, buf).await?;
            done += 1;
        }
        Ok(done)
    }

    /// Where the next request goes, if there is one.
    fn next_place(&self, begun: Instant, rng: &mut Rng) -> Option<u64> {
        let bytes = self.turn.case.bytes() as u64;
        let next = || self.places.next.fetch_add(1, Ordering::Relaxed);
        let place = match self.turn.end {
            End::After(length) if begun.elapsed() >= length => return None,
            End::After(_) if !self.turn.case.is_sequential() => {
                return Some(rng.u64(..self.turn.size_bytes / bytes) * bytes);
            }
            End::After(_) => next() % self.places.count,
            End::Once => Some(next()).filter(|next| *next < self.places.count)?,
        };
        Some((self.places.first + place) * bytes)
    }

    async fn request(&self, offset_bytes: u64, buf: IoBuf) -> anyhow::Result<IoBuf> {
        if self.turn.case.is_write() {
            let data = blocks::stamped(buf, offset_bytes);
            self.client.write(offset_bytes, smallvec![data.clone()], WriteFlags::default()).await?;
            return Ok(blocks::reused(data));
        }
        let buf = self.client.read(offset_bytes, smallvec![buf]).await.into_one()?;
        let wrong = blocks::first_wrong(&buf, offset_bytes);
        ensure!(wrong.is_none(), "the block at {} is not what was written there", wrong.unwrap_or_default());
        Ok(buf)
    }
}
