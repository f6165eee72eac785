//! What I/O costs on a member, learned while it runs, for policies that weigh it.
//!
//! A member is treated as one server: a request occupies it from its submission, or from the end of the
//! request before, until the task that asked sees its end. Under a queue this is the request's share of the
//! member's throughput. It includes the effect of reordering, parallel dies and caches, and of a member that
//! has slowed down. For each class, a fixed part and a part by length are learned from recent requests.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use parking_lot::Mutex;
use stripewise_device::{EnvHandle, IoFuture, Timestamp, Waiting};
use stripewise_format::extension::MemberClass;

use super::stats::Cause;
use crate::{
    plan::costs::{MemberCost, ServiceTime},
    shape::rows::BLOCK_BYTES,
};

/// What a request asks of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IoClass {
    Read,
    Write,
    /// A write where the same plan has just read.
    Rewrite,
    /// I/O that says nothing about small writes: the long runs of background jobs. It still takes the
    /// member's time.
    Other,
}

/// Weight of the newest request among those that count, once there are enough. A change of the member shows
/// after some dozens of requests.
const WEIGHT: f32 = 1.0 / 64.0;

/// Weight of the newest look at the queue of a disk. A drive's write cache takes some hundred writes at once.
/// So no request waits while it has room, and many wait when it has none. A shorter average would swing with
/// that, and the choice with it.
const DISK_QUEUE_WEIGHT: f32 = 1.0 / 64.0;

/// The same for flash. Its queue changes within dozens of requests while it collects garbage; a longer
/// average would describe the past.
const FLASH_QUEUE_WEIGHT: f32 = 1.0 / 16.0;

/// Requests of other classes after which what was learned of a class no longer counts.
const UNSEEN_MAX: u32 = 64;

/// The least spread of lengths, in blocks squared, that shows the part by length.
const SPREAD_MIN: f32 = 4.0;

/// One member's meter. While it is off, it costs a look at a flag.
#[derive(Debug)]
pub(crate) struct Meter {
    on: AtomicBool,
    clock: OnceLock<Clock>,
    under_way: AtomicU32,
    /// How many requests a new one finds under way, on average. The bits of an `f32`, like all that is
    /// learned.
    queue: AtomicU32,
    /// The weight of the newest look at the queue.
    queue_weight: AtomicU32,
    /// When the last request ended.
    last_end_ns: AtomicU64,
    /// How long writes of parts of stripes, destages, and all else have occupied it.
    spent_ns: [AtomicU64; 3],
    classes: [Class; 3],
}

struct Clock(EnvHandle);

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

/// What is known of one class.
#[derive(Debug, Default)]
struct Class {
    now: SharedTime,
    /// What was believed before anything was seen.
    first: SharedTime,
    /// Requests of other classes since the last of this one.
    unseen: AtomicU32,
    moments: Mutex<Moments>,
}

/// A service time that one task sets and many read: a reader may see halves of different moments, which does
/// no harm.
#[derive(Debug, Default)]
struct SharedTime {
    fixed_ns: AtomicU32,
    block_ns: AtomicU32,
}

impl SharedTime {
    fn set(&self, time: ServiceTime) {
        store(&self.fixed_ns, time.fixed_ns);
        store(&self.block_ns, time.block_ns);
    }

    fn get(&self) -> ServiceTime {
        ServiceTime { fixed_ns: load(&self.fixed_ns), block_ns: load(&self.block_ns) }
    }
}

/// Means of recent requests: lengths in blocks, times in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    count: u32,
    blocks: f32,
    ns: f32,
    blocks_squared: f32,
    blocks_ns: f32,
}

impl Moments {
    fn add(&mut self, blocks: f32, ns: f32) {
        self.count = self.count.saturating_add(1);
        let weight = WEIGHT.max(1.0 / self.count as f32);
        let step = |mean: &mut f32, value: f32| *mean += weight * (value - *mean);
        step(&mut self.blocks, blocks);
        step(&mut self.ns, ns);
        step(&mut self.blocks_squared, blocks * blocks);
        step(&mut self.blocks_ns, blocks * ns);
    }

    /// The line through what was seen. Its slope is `slope_ns` while lengths are too similar to show one.
    fn line(&self, slope_ns: f32) -> ServiceTime {
        let spread = self.blocks_squared - self.blocks * self.blocks;
        let common = self.blocks_ns - self.blocks * self.ns;
        let steepest = self.ns / self.blocks.max(1.0);
        let seen = if spread > SPREAD_MIN && self.count > 16 { common / spread } else { slope_ns };
        let block_ns = seen.clamp(0.0, steepest);
        ServiceTime { fixed_ns: self.ns - block_ns * self.blocks, block_ns }
    }
}

impl Class {
    fn set(&self, time: ServiceTime) {
        self.now.set(time);
    }

    fn get(&self) -> ServiceTime {
        self.now.get()
    }

    /// Takes note of a request, unless another thread is doing the same: one more or less does not matter.
    fn learn(&self, blocks: f32, ns: f32) {
        let Some(mut moments) = self.moments.try_lock() else { return };
        moments.add(blocks, ns);
        self.set(moments.line(self.first.get().block_ns));
        self.unseen.store(0, Relaxed);
    }

    /// Another class was seen in its place. Returns whether this has lasted so long that what was learned no
    /// longer counts.
    fn is_old(&self) -> bool {
        let unseen = self.unseen.load(Relaxed).saturating_add(1);
        self.unseen.store(unseen, Relaxed);
        if unseen == UNSEEN_MAX
            && let Some(mut moments) = self.moments.try_lock()
        {
            *moments = Moments::default();
        }
        unseen > UNSEEN_MAX
    }

    /// A class of its kind was seen in its place. An unused class is taken to have become faster or slower by
    /// as much as its sibling has since both were measured. A drive's write cache makes all writes fast, and
    /// a policy that never saw one kind would not try it.
    fn follow(&self, sibling: &Self) {
        if self.is_old() {
            let (now, first, own) = (sibling.get(), sibling.first.get(), self.first.get());
            let scaled = |own: f32, now: f32, first: f32| if first > 0.0 { own * now / first } else { now };
            self.set(ServiceTime {
                fixed_ns: scaled(own.fixed_ns, now.fixed_ns, first.fixed_ns),
                block_ns: scaled(own.block_ns, now.block_ns, first.block_ns),
            });
        }
    }

    /// The member got requests of another kind: what was learned fades to what was believed at first. So a
    /// member that was slow once is tried again.
    fn fade(&self) {
        if self.is_old() {
            let (now, first) = (self.get(), self.first.get());
            let step = |now: f32, first: f32| now + WEIGHT * (first - now);
            self.set(ServiceTime {
                fixed_ns: step(now.fixed_ns, first.fixed_ns),
                block_ns: step(now.block_ns, first.block_ns),
            });
        }
    }
}

fn load(bits: &AtomicU32) -> f32 {
    f32::from_bits(bits.load(Relaxed))
}

fn store(bits: &AtomicU32, value: f32) {
    bits.store(value.to_bits(), Relaxed);
}

impl Meter {
    /// A meter of a member of this class. It is off and believes this cost.
    pub(crate) fn new(class: MemberClass, cost: MemberCost) -> Arc<Self> {
        let meter = Self {
            on: AtomicBool::new(false),
            clock: OnceLock::new(),
            under_way: AtomicU32::new(0),
            queue: AtomicU32::new(0),
            queue_weight: AtomicU32::new(0),
            last_end_ns: AtomicU64::new(0),
            spent_ns: Default::default(),
            classes: Default::default(),
        };
        meter.set_class(class);
        meter.believe(cost);
        Arc::new(meter)
    }

    /// Sets what kind of member it is.
    pub(crate) fn set_class(&self, class: MemberClass) {
        let is_flash = class == MemberClass::Ssd;
        store(&self.queue_weight, if is_flash { FLASH_QUEUE_WEIGHT } else { DISK_QUEUE_WEIGHT });
    }

    /// Forgets what was learned and believes this cost.
    pub(crate) fn believe(&self, cost: MemberCost) {
        for (class, time) in self.classes.iter().zip([cost.read, cost.write, cost.rewrite]) {
            *class.moments.lock() = Moments::default();
            class.first.set(time);
            class.set(time);
        }
    }

    /// Switches measuring on or off.
    pub(crate) fn switch(&self, on: bool, env: &EnvHandle) {
        self.clock.get_or_init(|| Clock(env.clone()));
        self.on.store(on, Relaxed);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// What the member costs now.
    pub(crate) fn cost(&self) -> MemberCost {
        let [read, write, rewrite] = &self.classes;
        MemberCost { read: read.get(), write: write.get(), rewrite: rewrite.get(), queue: load(&self.queue) }
    }

    /// How long writes of parts of stripes have occupied it so far, how long destages have, and how long all else has, in
    /// nanoseconds.
    pub(crate) fn spent_ns(&self) -> [u64; 3] {
        self.spent_ns.each_ref().map(|spent| spent.load(Relaxed))
    }

    /// Watches a request that was just submitted.
    pub(crate) fn watch<T>(
        self: &Arc<Self>,
        (class, cause): (IoClass, Cause),
        bytes: usize,
        io: IoFuture<T>,
        is_ok: fn(&T) -> bool,
    ) -> IoFuture<T>
    where
        T: Send + Unpin + 'static,
    {
        if !self.is_on() {
            return io;
        }
        let Some(Clock(env)) = self.clock.get() else { return io };
        let found = self.under_way.load(Relaxed) as f32;
        let queue = load(&self.queue);
        store(&self.queue, queue + load(&self.queue_weight) * (found - queue));
        let begun = env.now();
        let io = match io.try_ready() {
            Ok(value) => {
                self.done((if is_ok(&value) { class } else { IoClass::Other }, cause), bytes, begun);
                return IoFuture::ready(value);
            }
            Err(io) => io,
        };
        self.under_way.fetch_add(1, Relaxed);
        IoFuture::boxed(Watched { io, entry: Entry(self.clone()), class, cause, bytes, begun, is_ok })
    }

    fn done(&self, (class, cause): (IoClass, Cause), bytes: usize, begun: Timestamp) {
        let Some(Clock(env)) = self.clock.get() else { return };
        let end = env.now().0;
        let before = self.last_end_ns.swap(end, Relaxed);
        let occupied_ns = end.saturating_sub(before.max(begun.0));
        let of = match cause {
            Cause::Part => 0,
            Cause::Destage => 1,
            Cause::Whole | Cause::Reader | Cause::Job => 2,
        };
        self.spent_ns[of].fetch_add(occupied_ns, Relaxed);
        let ns = occupied_ns as f32;
        let blocks = (bytes / BLOCK_BYTES).max(1) as f32;
        let [read, write, rewrite] = &self.classes;
        match class {
            IoClass::Read => read.learn(blocks, ns),
            IoClass::Write => {
                write.learn(blocks, ns);
                rewrite.follow(write);
                read.fade();
            }
            IoClass::Rewrite => {
                rewrite.learn(blocks, ns);
                write.follow(rewrite);
                read.fade();
            }
            IoClass::Other => {}
        }
    }
}

/// Counts a request out, however it ends.
struct Entry(Arc<Meter>);

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Relaxed);
    }
}

struct Watched<T> {
    io: Waiting<T>,
    entry: Entry,
    class: IoClass,
    cause: Cause,
    bytes: usize,
    begun: Timestamp,
    is_ok: fn(&T) -> bool,
}

impl<T> Future for Watched<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let output = std::task::ready!(Pin::new(&mut self.io).poll(cx));
        let class = if (self.is_ok)(&output) { self.class } else { IoClass::Other };
        self.entry.0.done((class, self.cause), self.bytes, self.begun);
        Poll::Ready(output)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::join_all;
    use stripewise_sim::World;

    use super::*;

    /// Watches rounds of requests. Each round begins `at_a_time` requests together, of one block and of eight
    /// in turns. A request takes `fixed` plus 10 us a block.
    fn learn(world: &World, meter: &Arc<Meter>, rounds: usize, at_a_time: usize, fixed: Duration) {
        let (env, meter) = (world.env(), meter.clone());
        meter.switch(true, &env);
        world.run(async move {
            for round in 0..rounds {
                let blocks = if round % 2 == 0 { 1 } else { 8 };
                let took = fixed + Duration::from_micros(10) * blocks;
                let requests = (0..at_a_time).map(|_| {
                    meter.watch(
                        (IoClass::Read, Cause::Reader),
                        blocks as usize * BLOCK_BYTES,
                        env.sleep(took),
                        |()| true,
                    )
                });
                join_all(requests).await;
            }
            assert_eq!(meter.under_way.load(Relaxed), 0);
        });
    }

    fn assert_near(value: f32, expected: f32) {
        assert!((value - expected).abs() < 0.05 * expected, "{value} instead of {expected}");
    }

    #[test]
    fn the_fixed_part_and_the_part_by_length_are_told_apart() {
        let (world, meter) = (World::new(1), Meter::new(MemberClass::Hdd, MemberCost::HDD));
        learn(&world, &meter, 300, 1, Duration::from_micros(500));
        let cost = meter.cost();
        assert_near(cost.read.fixed_ns, 500_000.0);
        assert_near(cost.read.block_ns, 10_000.0);
        assert_eq!(cost.write, MemberCost::HDD.write, "nothing was written");
        assert_eq!(cost.queue, 0.0);
    }

    #[test]
    fn requests_served_side_by_side_share_their_time() {
        let (world, meter) = (World::new(1), Meter::new(MemberClass::Hdd, MemberCost::HDD));
        learn(&world, &meter, 300, 4, Duration::from_micros(400));
        let cost = meter.cost();
        assert_near(cost.read.fixed_ns, 100_000.0);
        assert_near(cost.read.block_ns, 2_500.0);
        assert_near(cost.queue, 1.5);
    }

    /// Half of the requests find no other request, and half find 3.5 on average, 64 of each in turns.
    #[test]
    fn a_queue_that_comes_and_goes_is_seen_as_its_average() {
        let (world, meter) = (World::new(1), Meter::new(MemberClass::Hdd, MemberCost::HDD));
        for _ in 0..10 {
            learn(&world, &meter, 64, 1, Duration::from_micros(100));
            learn(&world, &meter, 8, 8, Duration::from_micros(100));
            let queue = meter.cost().queue;
            assert!(queue < 2.8, "{queue} is the burst's, not the average");
        }
    }

    #[test]
    fn the_queue_of_flash_is_that_of_dozens_of_requests() {
        let (world, meter) = (World::new(1), Meter::new(MemberClass::Ssd, MemberCost::SSD));
        learn(&world, &meter, 300, 1, Duration::from_micros(100));
        learn(&world, &meter, 8, 8, Duration::from_micros(100));
        assert!(meter.cost().queue > 3.0, "{} is what was, not what is", meter.cost().queue);
    }

    #[test]
    fn a_member_that_slows_down_is_believed() {
        let (world, meter) = (World::new(1), Meter::new(MemberClass::Ssd, MemberCost::SSD));
        learn(&world, &meter, 300, 1, Duration::from_micros(100));
        learn(&world, &meter, 300, 1, Duration::from_millis(5));
        assert_near(meter.cost().read.fixed_ns, 5_000_000.0);
    }

    /// Requests of one length, which teach only the fixed part.
    fn ask(world: &World, meter: &Arc<Meter>, class: IoClass, rounds: usize, took: Duration) {
        let (env, meter) = (world.env(), meter.clone());
        meter.switch(true, &env);
        world.run(async move {
            for _ in 0..rounds {
                meter.watch((class, Cause::Part), BLOCK_BYTES, env.sleep(took), |()| true).await;
            }
        });
    }

    #[test]
    fn a_kind_of_writes_that_nobody_asks_for_goes_with_the_other() {
        let (world, meter) = (World::new(1), Meter::new(MemberClass::Hdd, MemberCost::HDD));
        ask(&world, &meter, IoClass::Rewrite, 200, Duration::from_millis(8));
        ask(&world, &meter, IoClass::Write, 300, Duration::from_micros(125));
        let MemberCost { write, rewrite, .. } = meter.cost();
        let ratio = MemberCost::HDD.rewrite.fixed_ns / MemberCost::HDD.write.fixed_ns;
        assert_near(rewrite.fixed_ns, ratio * write.fixed_ns);
        ask(&world, &meter, IoClass::Rewrite, 1, Duration::from_micros(500));
        assert!(meter.cost().rewrite.fixed_ns < 1e6, "what was learned long ago does not come back");
    }

    #[test]
    fn a_member_that_was_slow_once_is_believed_in_again() {
        let (world, meter) = (World::new(1), Meter::new(MemberClass::Ssd, MemberCost::SSD));
        ask(&world, &meter, IoClass::Read, 200, Duration::from_millis(50));
        assert!(meter.cost().read.fixed_ns > 4e7);
        ask(&world, &meter, IoClass::Write, 1000, Duration::from_micros(100));
        assert!(meter.cost().read.fixed_ns < 2e5, "{:?}", meter.cost().read);
    }

    #[test]
    fn requests_that_fail_and_those_of_jobs_teach_nothing() {
        let (world, meter) = (World::new(1), Meter::new(MemberClass::Ssd, MemberCost::SSD));
        ask(&world, &meter, IoClass::Other, 200, Duration::from_millis(50));
        let (env, watched) = (world.env(), meter.clone());
        world.run(async move {
            watched.watch((IoClass::Read, Cause::Reader), 4096, env.sleep(Duration::ZERO), |()| false).await
        });
        assert_eq!(MemberCost { queue: 0.0, ..meter.cost() }, MemberCost::SSD);
    }

    #[test]
    fn a_meter_that_is_off_sees_nothing() {
        let (world, meter) = (World::new(1), Meter::new(MemberClass::Ssd, MemberCost::SSD));
        let env = world.env();
        let watched = meter.clone();
        world.run(async move {
            watched
                .watch((IoClass::Read, Cause::Reader), 4096, env.sleep(Duration::from_secs(1)), |()| true)
                .await
        });
        assert_eq!(meter.cost(), MemberCost::SSD);
    }
}
