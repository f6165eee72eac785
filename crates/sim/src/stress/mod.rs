//! Arrays under load by real threads: many clients on many workers, an operator beside them, everything
//! verified. It shows what the simulator with its one thread cannot: that no two threads get in each other's
//! way.
//!
//! A round is one array of a random shape. Clients on all workers write, read, zero, discard and flush within
//! a few rows of each other, and check what they read. An operator fails, adds and replaces members, scrubs,
//! and changes policies and the cache; in every other round there is one from the start. Then everything is
//! read, checkers that share no code with the engine compare the members, and the array is opened and read
//! once more.

mod member;
mod operator;

use std::{
    future::Future,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use fastrand::Rng;
pub use member::StressMember;
use stripewise_device::{
    Device, EnvHandle, IoBuf,
    uring::{Runtime, RuntimeOptions},
};
use stripewise_engine::{
    Array, AssembleOptions, CacheKind, CacheSettings, CreateOptions, assemble,
    geometry::Level,
    locking::{CounterLocks, Locking, PRESETS},
    plan::selection::POLICIES,
};

use self::operator::Operator;
use crate::{
    check::{Checker, Violation, image::Image},
    client::{Client, Desk},
    story::{Shape, draw_settings},
};

/// A request, command or job that takes this long counts as hanging.
const HANGS: Duration = Duration::from_secs(120);
/// Bytes of one read when everything is read.
const READ_BYTES: usize = 64 << 10;
/// Clients for each worker.
const CLIENTS_PER_WORKER: usize = 3;

/// The work done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests of clients.
    pub requests: u64,
    /// Commands of operators.
    pub commands: u64,
}

/// The work of a round.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    /// Determines the array's shape and all actions, but not the order of threads.
    pub seed: u64,
    /// Workers.
    pub threads: usize,
    /// Requests of each client.
    pub requests: usize,
}

/// Runs a round.
///
/// # Errors
/// The violation found.
///
/// # Panics
/// If io_uring is not available.
pub fn round(round: &Round) -> Result<Tally, Violation> {
    let options = RuntimeOptions::default().threads(round.threads);
    let runtime = Runtime::start(&options).expect("io_uring");
    Stress::new(*round, &runtime)?.run()
}

struct Stress<'a> {
    round: Round,
    runtime: &'a Runtime,
    rng: Rng,
    shape: Shape,
    members: Vec<Arc<StressMember>>,
    array: Array,
    desk: Arc<Desk>,
}

impl<'a> Stress<'a> {
    fn new(round: Round, runtime: &'a Runtime) -> Result<Self, Violation> {
        let mut rng = Rng::with_seed(round.seed ^ 0x57e5);
        let mut shape = Shape::draw(&mut rng, None);
        while shape.is_vast || shape.level == Level::Raid0 {
            shape = Shape::draw(&mut rng, None);
        }
        shape.data_bytes *= 4;
        let env = runtime.env();
        let members: Vec<_> = (0..shape.members).map(|i| new_member(&shape, i, &env)).collect();
        let mut options = CreateOptions::new("sim:stress", shape.level, devices(&members));
        options.chunk_bytes = shape.chunk_bytes;
        options.assume_clean = true;
        options.region_bytes = Some(shape.region_bytes);
        options.map = Some(shape.map);
        options.tuning = shape.tuning;
        options.preset = &PRESETS[rng.usize(..PRESETS.len())];
        if round.seed.is_multiple_of(2) && shape.level.has_parity() {
            options.cache = Some(any_cache(&shape, &mut rng));
        }
        options.policy = shape.level.has_parity().then(|| POLICIES[rng.usize(..POLICIES.len())]);
        let created = within(runtime, async move { Array::create(env, options).await }, "creating")?;
        let array = created.map_err(|error| Checker::Service.violation(format!("creating: {error}")))?;
        let desk = Desk::new(array.geometry().capacity_bytes());
        Ok(Self { round, runtime, rng, shape, members, array, desk })
    }

    fn run(mut self) -> Result<Tally, Violation> {
        let clients = self.round.threads * CLIENTS_PER_WORKER;
        let done = self.start_clients(clients);
        let seed = self.rng.u64(..);
        let mut operator =
            Operator::new(self.runtime, self.array.clone(), self.shape, seed, self.members.len());
        let served = || {
            let stats = self.array.stats().report();
            stats.reads + stats.writes + stats.flushes
        };
        let (mut left, mut last) = (clients, (served(), Instant::now()));
        while left > 0 {
            operator.act()?;
            left -= done.try_iter().count();
            if served() != last.0 {
                last = (served(), Instant::now());
            }
            if last.1.elapsed() > HANGS {
                return Err(Checker::Engine.violation("clients' requests do not come to an end"));
            }
        }
        operator.settle()?;
        self.members.append(&mut operator.spares);
        let attached = operator.attached()?;
        self.members.retain(|member| attached.contains(&member.info().name));
        self.desk.check()?;
        self.read_all()?;
        let commands = operator.commands;
        self.check_redundancy()?;
        self.reopen()?;
        Ok(Tally { requests: (clients * self.round.requests) as u64, commands })
    }

    /// Starts clients, spread over the workers; each reports its end.
    fn start_clients(&mut self, clients: usize) -> mpsc::Receiver<()> {
        let (sender, done) = mpsc::channel();
        let sectors = self.desk.sectors.lock().count();
        let home = self.rng.usize(..sectors);
        for worker in 0..clients {
            let client = Client {
                array: self.array.clone(),
                desk: self.desk.clone(),
                rng: Rng::with_seed(self.rng.u64(..)),
                home,
                fua_one_in: 5,
            };
            let (sender, requests) = (sender.clone(), self.round.requests);
            self.runtime.spawn_on(
                worker,
                Box::pin(async move {
                    client.run(requests).await;
                    let _ = sender.send(());
                }),
            );
        }
        done
    }

    /// Every sector holds what it may.
    fn read_all(&self) -> Result<(), Violation> {
        let (array, desk) = (self.array.clone(), self.desk.clone());
        let read = async move {
            let capacity = array.geometry().capacity_bytes() as usize;
            for at in (0..capacity).step_by(READ_BYTES) {
                let ticket = desk.sectors.lock().begin_read();
                let buf = IoBuf::with_len(READ_BYTES.min(capacity - at));
                let content = array.read(at as u64, buf).await;
                let content =
                    content.map_err(|error| Checker::Service.violation(format!("reading all: {error}")))?;
                desk.sectors.lock().end_read(ticket, at / crate::check::SECTOR_BYTES, &content)?;
            }
            Ok(())
        };
        within(self.runtime, read, "reading all")?
    }

    /// The engine finds nothing wrong and stops cleanly, and independent arithmetic agrees with its result.
    fn check_redundancy(&self) -> Result<(), Violation> {
        let array = self.array.clone();
        let stopped = async move {
            array.start_scrub(false)?;
            array.wait_for_jobs().await;
            let scrub = array.last_scrub();
            array.stop().await?;
            Ok::<_, stripewise_engine::ArrayError>(scrub)
        };
        let scrub = within(self.runtime, stopped, "a check and stopping")?
            .map_err(|error| Checker::Service.violation(format!("a check and stopping: {error}")))?;
        let wrong = scrub.map_or(u64::MAX, |report| report.mismatched_rows);
        if wrong != 0 {
            return Err(Checker::Scrub.violation(format!("{wrong} rows disagree")));
        }
        let bytes: Vec<_> = self.members.iter().map(|member| member.snapshot()).collect();
        let bytes: Vec<&[u8]> = bytes.iter().map(|bytes| &bytes[..]).collect();
        let image = Image::of(&bytes).ok_or_else(|| Checker::Metadata.violation("no superblock is left"))?;
        if !image.freshest().clean {
            return Err(Checker::Metadata.violation("the array was stopped and whole, and is not clean"));
        }
        image.check()?;
        image.check_bitmap()
    }

    /// Opened again, with other locks, it holds the same.
    fn reopen(&mut self) -> Result<(), Violation> {
        let preset = PRESETS[self.rng.usize(..PRESETS.len())].locking;
        let uncounted = Locking { counter_locks: CounterLocks::Uncounted, ..preset };
        let locking = Some(if self.rng.u8(..4) == 0 { uncounted } else { preset });
        let options = AssembleOptions::default().locking(locking);
        let (env, devices) = (self.runtime.env(), devices(&self.members));
        let opened =
            within(self.runtime, async move { assemble(env, devices, &options).await }, "assembling")?;
        self.array = opened.map_err(|error| Checker::Service.violation(format!("assembling: {error}")))?;
        self.read_all()?;
        let array = self.array.clone();
        let stopped = within(self.runtime, async move { array.stop().await }, "stopping")?;
        stopped.map_err(|error| Checker::Service.violation(format!("stopping: {error}")))
    }
}

/// Any cache that is one.
fn any_cache(shape: &Shape, rng: &mut Rng) -> CacheSettings {
    let settings = draw_settings(shape, rng);
    let kind = if settings.kind == CacheKind::None { CacheKind::Stripe } else { settings.kind };
    CacheSettings { kind, ..settings }
}

fn new_member(shape: &Shape, number: usize, env: &EnvHandle) -> Arc<StressMember> {
    StressMember::new(format!("m{number}"), shape.member_bytes(), env.clone())
}

fn devices(members: &[Arc<StressMember>]) -> Vec<Arc<dyn Device>> {
    members.iter().map(|member| member.clone() as Arc<dyn Device>).collect()
}

/// Runs a future on a worker and waits for its end, up to a limit.
fn within<T: Send + 'static>(
    runtime: &Runtime,
    future: impl Future<Output = T> + Send + 'static,
    what: &str,
) -> Result<T, Violation> {
    let (sender, done) = mpsc::sync_channel(1);
    runtime.spawn_on(
        fastrand::usize(..runtime.workers()),
        Box::pin(async move {
            let _ = sender.send(future.await);
        }),
    );
    let hangs = || Checker::Engine.violation(format!("{what} does not come to an end"));
    done.recv_timeout(HANGS).map_err(|_| hangs())
}
