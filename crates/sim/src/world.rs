//! The world: executor, clock, randomness, and the members in it.

use std::{
    cell::Cell,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;
use stripewise_device::{BoxFuture, DeviceInfo, Env, EnvHandle, IoFuture, MediaKind, Timestamp};

use crate::{
    events::{Event, EventCounts, EventLog, Sight},
    executor::Executor,
    member::{Manners, MemberImage, SimMember, Zeroes},
    model::{
        DiskModel, DiskOptions, ModelledDisk,
        hdd::{Hdd, HddParams, Spindle},
    },
};

/// Civil time at the start of every world: 2026-01-01.
const EPOCH_US: u64 = 1_767_225_600_000_000;

/// The end of time.
const FOREVER: Timestamp = Timestamp(u64::MAX);

/// A simulated world.
pub struct World {
    executor: Arc<Executor>,
    members: Vec<Arc<SimMember>>,
    disks: Vec<Arc<ModelledDisk>>,
    events: Arc<EventLog>,
    counts: Arc<EventCounts>,
    /// The medium that members added from now on report.
    media: MediaKind,
}

impl World {
    /// A world whose every choice follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            executor: Executor::new(seed),
            members: Vec::new(),
            disks: Vec::new(),
            events: Arc::default(),
            counts: Arc::default(),
            media: MediaKind::Ssd,
        }
    }

    /// Members added from now on report this medium (flash by default). Their latencies do not change.
    pub fn set_media(&mut self, media: MediaKind) {
        self.media = media;
    }

    /// The environment for an engine in this world.
    pub fn env(&self) -> EnvHandle {
        Arc::new(SimEnv { executor: self.executor.clone() })
    }

    /// Adds a zeroed member with 512-byte logical blocks.
    pub fn add_member(&mut self, name: impl Into<String>, size_bytes: u64) -> Arc<SimMember> {
        self.add_member_with(name, size_bytes, Manners::default())
    }

    /// Adds a zeroed member with its own traits.
    pub fn add_member_with(
        &mut self,
        name: impl Into<String>,
        size_bytes: u64,
        manners: Manners,
    ) -> Arc<SimMember> {
        let info = self.member_info(name, size_bytes, manners);
        self.keep_member(|number, executor, noted| SimMember::new(info, manners, number, executor, noted))
    }

    /// Adds a member with these bytes.
    pub fn add_member_holding(&mut self, name: impl Into<String>, bytes: &MemberImage) -> Arc<SimMember> {
        let info = self.member_info(name, bytes.size_bytes(), Manners::default());
        self.keep_member(|number, executor, noted| SimMember::holding(info, number, executor, noted, bytes))
    }

    /// How many members were added, without modelled disks.
    pub fn member_count(&self) -> usize {
        self.members.len()
    }

    fn member_info(&self, name: impl Into<String>, size_bytes: u64, manners: Manners) -> DeviceInfo {
        let (name, media, logical_block_bytes) = (name.into(), self.media, manners.block_bytes);
        let unmaps = manners.tells.then_some(manners.zeroes == Zeroes::Unmap);
        DeviceInfo { name, size_bytes, logical_block_bytes, media, unmaps }
    }

    fn keep_member(
        &mut self,
        make: impl FnOnce(usize, Arc<Executor>, (Arc<EventLog>, Arc<EventCounts>)) -> SimMember,
    ) -> Arc<SimMember> {
        let noted = (self.events.clone(), self.counts.clone());
        let member = Arc::new(make(self.members.len(), self.executor.clone(), noted));
        self.members.push(member.clone());
        member
    }

    /// Adds a disk that takes as long as its model says.
    ///
    /// # Panics
    /// At the 65,537th.
    pub fn add_disk(
        &mut self,
        name: impl Into<String>,
        model: impl DiskModel,
        options: DiskOptions,
    ) -> Arc<ModelledDisk> {
        let disk = ModelledDisk::add(name.into(), model, options, &self.executor);
        self.disks.push(disk.clone());
        disk
    }

    /// Adds a hard disk. Its discs turn independently: angle and speed are the next numbers from the world's
    /// seed, so they also depend on earlier draws.
    ///
    /// # Panics
    /// If the parameters contradict one another; at the 65,537th disk.
    pub fn add_hdd(
        &mut self,
        name: impl Into<String>,
        params: HddParams,
        options: DiskOptions,
    ) -> Arc<ModelledDisk> {
        let spindle = Spindle::draw(|below| self.random(below));
        self.add_disk(name, Hdd::new(params, spindle), options)
    }

    /// The members, in the order they were added.
    pub fn members(&self) -> &[Arc<SimMember>] {
        &self.members
    }

    /// Runs until `future` is done; other started futures continue only meanwhile.
    ///
    /// # Panics
    /// If everything waits and nothing can happen any more.
    pub fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let slot = self.start(future);
        let ended = self.executor.run(FOREVER, || is_awaited(&slot));
        assert!(ended, "deadlock: every task waits and no timer is set");
        let result = slot.lock().take();
        result.expect("a task that ends leaves its result")
    }

    /// As [`World::run`], with a bound: None if the steps were not enough, or everything waits.
    pub fn run_within<T: Send + 'static>(
        &self,
        steps: u64,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let slot = self.start(future);
        let mut steps = 0..steps;
        self.executor.run(FOREVER, || is_awaited(&slot) && steps.next().is_some());
        slot.lock().take()
    }

    /// Starts a future; its result will be in the slot.
    pub fn start<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Arc<Mutex<Option<T>>> {
        let slot = Arc::new(Mutex::new(None));
        let result = slot.clone();
        self.executor.spawn(Box::pin(async move {
            let value = future.await;
            *result.lock() = Some(value);
        }));
        slot
    }

    /// Lets time pass, and everything happen that is due.
    pub fn run_for(&self, duration: Duration) {
        let until = self.executor.after(duration);
        self.executor.run(until, || true);
        self.executor.advance_to(until);
    }

    /// Runs a number of steps of the scheduler: the way to a crash in the middle of anything.
    pub fn run_steps(&self, steps: u64) {
        let mut steps = 0..steps;
        self.executor.run(FOREVER, || steps.next().is_some());
    }

    /// As [`World::run_steps`], but ends early once `has_come` holds, which is checked before each step.
    /// False: it never held.
    pub fn run_steps_until(&self, steps: u64, mut has_come: impl FnMut() -> bool) -> bool {
        let (mut steps, mut came) = (0..steps, false);
        self.executor.run(FOREVER, || {
            came = has_come();
            !came && steps.next().is_some()
        });
        came
    }

    /// How often that event happened since the world began.
    pub fn seen(&self, sight: Sight) -> u64 {
        self.counts.of(sight)
    }

    /// Power fails: every task ends where it is; each member keeps its certain content, and chance decides
    /// about the rest of its unflushed writes.
    pub fn crash(&self) {
        // Members first: requests that tasks drop must not count as completed.
        self.members.iter().for_each(|member| member.lose_power());
        self.disks.iter().for_each(|disk| disk.lose_power());
        self.executor.drop_all();
    }

    /// The program is killed: every task ends where it is; members keep what they have in their caches, and chance decides
    /// about writes under way. Of models of disks there may be none.
    ///
    /// # Panics
    /// If there is one.
    pub fn kill(&self) {
        assert!(self.disks.is_empty(), "models of disks do not outlive programs");
        self.members.iter().for_each(|member| member.lose_program());
        self.executor.drop_all();
    }

    /// How many steps of the scheduler a run may take before it counts as endless. Half a billion unless
    /// changed: an I/O takes a few.
    pub fn set_steps_max(&self, steps_max: u64) {
        self.executor.set_steps_max(steps_max);
    }

    /// A number from the world's seed, for the test's own choices.
    pub fn random(&self, below: u64) -> u64 {
        self.executor.with_rng(|rng| rng.u64(..below))
    }

    /// A hash of all requests to members so far, their times, and a sample of each sector of the written
    /// data: equal for equal seeds. For modelled disks' writes, only offset and length.
    pub fn trace_hash(&self) -> u64 {
        self.executor.trace()
    }

    /// From now on keeps the last requests to members, for [`World::events`].
    pub fn keep_events(&self) {
        self.events.turn_on();
    }

    /// The last requests to members, oldest first.
    pub fn events(&self) -> Vec<Event> {
        self.events.all()
    }

    /// The virtual clock.
    pub fn now(&self) -> Timestamp {
        self.executor.now()
    }
}

/// Whether the task of this slot is still running: when it ends it drops the slot.
fn is_awaited<T>(slot: &Arc<Mutex<Option<T>>>) -> bool {
    Arc::strong_count(slot) > 1
}

impl Drop for World {
    fn drop(&mut self) {
        self.members.iter().for_each(|member| member.end());
        self.disks.iter().for_each(|disk| disk.lose_power());
        self.executor.drop_all();
        self.executor.drop_sources();
    }
}

thread_local! {
    /// The thread is no worker of its world just now.
    static ELSEWHERE: Cell<bool> = const { Cell::new(false) };
}

/// Calls, perhaps as a thread that is no worker of the world: a request that is made in the call then becomes
/// a task of the world's.
pub(crate) fn elsewhere<T>(is_so: bool, call: impl FnOnce() -> T) -> T {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            ELSEWHERE.set(self.0);
        }
    }
    let _back = Back(ELSEWHERE.replace(is_so));
    call()
}

struct SimEnv {
    executor: Arc<Executor>,
}

impl Env for SimEnv {
    fn now(&self) -> Timestamp {
        self.executor.now()
    }

    fn wall_clock_us(&self) -> u64 {
        EPOCH_US + self.executor.now().0 / 1000
    }

    fn sleep(&self, duration: Duration) -> IoFuture<()> {
        IoFuture::boxed(SimSleep::new(self.executor.clone(), duration))
    }

    fn spawn(&self, task: BoxFuture<()>) {
        self.executor.spawn(task);
    }

    /// The world has one thread, which is its worker but for what it does [`elsewhere`].
    fn is_here(&self) -> bool {
        !ELSEWHERE.get()
    }

    /// The story catches the panic, and ends with it.
    fn engine_panicked(&self) {}

    fn threads(&self) -> usize {
        1
    }

    fn random_u64(&self) -> u64 {
        self.executor.with_rng(|rng| rng.u64(..))
    }
}

/// Waits in virtual time.
pub(crate) struct SimSleep {
    executor: Arc<Executor>,
    deadline: Timestamp,
    timer: Option<usize>,
}

impl SimSleep {
    pub(crate) fn new(executor: Arc<Executor>, duration: Duration) -> Self {
        let deadline = executor.after(duration);
        Self { executor, deadline, timer: None }
    }
}

impl Future for SimSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.executor.now() >= self.deadline {
            return Poll::Ready(());
        }
        let waker = cx.waker().clone();
        match self.timer {
            Some(timer) => self.executor.change_timer(timer, Some(waker)),
            None => self.timer = Some(self.executor.add_timer(self.deadline, waker)),
        }
        Poll::Pending
    }
}

impl Drop for SimSleep {
    fn drop(&mut self) {
        // A timer that has come due has given up its slot.
        if let Some(timer) = self.timer
            && self.executor.now() < self.deadline
        {
            self.executor.change_timer(timer, None);
        }
    }
}
