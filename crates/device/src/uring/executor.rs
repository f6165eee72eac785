//! One worker: its task queue, its inbox from other threads, and its turn.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    io,
    os::fd::OwnedFd,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Waker,
    time::{Duration, Instant},
};

use async_task::Runnable;
use parking_lot::Mutex;
use slab::Slab;
use smallvec::smallvec;

use super::{
    RuntimeOptions,
    op::{Command, OpHandle, Payload},
    reactor, timer,
};
use crate::{BoxFuture, IoBuf, sync::Mailbox};

/// Tasks run in one turn before the worker looks at the ring again: enough to fill a batch, few enough to
/// keep latency low.
const TURN_TASKS_MAX: usize = 256;
/// The longest sleep without a timer; only a bound, wake-ups come through the eventfd.
const SLEEP_MAX: Duration = Duration::from_secs(60);

thread_local! {
    static LOCAL: RefCell<Option<Local>> = const { RefCell::new(None) };
    /// The runtime whose worker this thread is; 0: of none. Apart from the rest, as every request looks at
    /// it.
    static RUNTIME: Cell<usize> = const { Cell::new(0) };
}

/// Inboxes of workers by their ids, for requests that are awaited on other threads than they were made on.
static INBOXES: Mutex<BTreeMap<usize, Weak<Inbox>>> = Mutex::new(BTreeMap::new());

struct Local {
    id: usize,
    ready: VecDeque<Runnable>,
}

/// The part of a worker that other threads see.
pub(super) struct Inbox {
    /// Unique in the process, whatever the runtime.
    id: usize,
    /// The runtime's number, from 1.
    runtime: usize,
    runnables: Mailbox<Runnable>,
    eventfd: Arc<OwnedFd>,
    /// Wakers of the tasks that have not ended. As the worker ends it wakes all: a task that waits for
    /// another one, in a list that outlives the runtime, is found and dropped, too.
    live: Mutex<Slab<Waker>>,
    /// The worker has gone, and all tasks with it: what is spawned is dropped.
    ended: AtomicBool,
}

/// A task's place among the live ones.
struct Live {
    inbox: Arc<Inbox>,
    place: usize,
}

impl Drop for Live {
    fn drop(&mut self) {
        let waker = self.inbox.live.lock().try_remove(self.place);
        drop(waker);
    }
}

impl Inbox {
    pub(super) fn new(runtime: usize) -> io::Result<Arc<Self>> {
        static NEXT_ID: AtomicUsize = AtomicUsize::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let eventfd = Arc::new(rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?);
        let (runnables, live, ended) = (Mailbox::default(), Mutex::default(), AtomicBool::new(false));
        let inbox = Arc::new(Self { id, runtime, runnables, eventfd, live, ended });
        INBOXES.lock().insert(id, Arc::downgrade(&inbox));
        Ok(inbox)
    }

    /// The inbox of the worker with this id, while its runtime is there.
    pub(super) fn of_worker(id: usize) -> Option<Arc<Self>> {
        INBOXES.lock().get(&id)?.upgrade()
    }

    pub(super) fn id(&self) -> usize {
        self.id
    }

    /// Starts a task on this worker, from any thread. Once the worker has gone the task is dropped.
    pub(super) fn spawn(self: &Arc<Self>, task: BoxFuture<()>) {
        let mut live = self.live.lock();
        let entry = live.vacant_entry();
        let here = Live { inbox: self.clone(), place: entry.key() };
        let task = async move {
            let _here = here;
            task.await;
        };
        let inbox = self.clone();
        let (runnable, task) = async_task::spawn(task, move |runnable| inbox.schedule(runnable));
        entry.insert(runnable.waker());
        drop(live);
        task.detach();
        runnable.schedule();
    }

    fn schedule(&self, runnable: Runnable) {
        let foreign = LOCAL.with_borrow_mut(|local| match local {
            Some(local) if local.id == self.id => {
                local.ready.push_back(runnable);
                None
            }
            _ => Some(runnable),
        });
        let Some(runnable) = foreign else { return };
        if self.runnables.send(runnable) {
            self.wake();
        }
        if self.ended.load(Ordering::SeqCst) {
            drop(self.runnables.take());
        }
    }

    /// Ends a sleep. The counter cannot overflow: there is at most one write per sleep.
    fn wake(&self) {
        let _ = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
    }

    /// Asks the worker to end after its current turn.
    pub(super) fn stop(&self) {
        if self.runnables.stop() {
            self.wake();
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.runnables.is_stopping()
    }

    /// Moves the tasks that other threads sent into this worker's queue.
    fn receive(&self) {
        let received = self.runnables.take();
        with_local(|local| local.ready.extend(received));
    }
}

fn with_local<R>(f: impl FnOnce(&mut Local) -> R) -> R {
    LOCAL.with_borrow_mut(|local| f(local.as_mut().expect("called on a worker")))
}

impl Drop for Inbox {
    fn drop(&mut self) {
        INBOXES.lock().remove(&self.id);
    }
}

/// The number of the runtime whose worker this thread is; 0 if it is none.
#[inline]
pub(super) fn current_runtime() -> usize {
    RUNTIME.get()
}

/// The worker this thread is, if it is one of any runtime.
pub(super) fn current_worker() -> Option<usize> {
    LOCAL.with_borrow(|local| local.as_ref().map(|local| local.id))
}

/// Waits in the ring for other threads' wake-ups.
async fn watch_eventfd(inbox: Arc<Inbox>) {
    while !inbox.is_stopping() {
        let buf = smallvec![IoBuf::zeroed(8)];
        let command = Command::Read { offset_bytes: u64::MAX };
        let mut op = OpHandle::submit(&inbox.eventfd, command, Payload::Read(buf));
        std::future::poll_fn(|cx| op.poll(cx)).await;
    }
}

/// Runs a worker on this thread until it is stopped.
pub(super) fn run(inbox: &Arc<Inbox>, options: &RuntimeOptions) -> io::Result<()> {
    reactor::install(inbox, options)?;
    LOCAL.set(Some(Local { id: inbox.id, ready: VecDeque::new() }));
    RUNTIME.set(inbox.runtime);
    inbox.spawn(Box::pin(watch_eventfd(inbox.clone())));
    let mut wakers = Vec::new();
    let result = loop {
        run_ready_tasks();
        inbox.receive();
        if inbox.is_stopping() {
            break Ok(());
        }
        if let Err(error) = turn_ring(inbox, &mut wakers) {
            break Err(error);
        }
    };
    let unfinished = LOCAL.take();
    RUNTIME.set(0);
    reactor::remove();
    drop(unfinished);
    drop(timer::take_all());
    drop_tasks(inbox);
    result
}

/// Wakes all tasks into the inbox, and drops them there. Dropping one may wake others, and spawn some. None is dropped where it is woken:
/// what wakes it may hold a lock that the task takes as it is dropped.
fn drop_tasks(inbox: &Inbox) {
    loop {
        let live: Vec<Waker> = inbox.live.lock().iter().map(|(_, waker)| waker.clone()).collect();
        live.into_iter().for_each(Waker::wake);
        if !inbox.runnables.take().is_empty() || !inbox.live.lock().is_empty() {
            continue;
        }
        // A task that is spawned from now on is dropped by the thread that spawns it. One that was spawned just before is found once more.
        if inbox.ended.swap(true, Ordering::SeqCst) {
            return;
        }
    }
}

/// Runs the tasks that are ready now. Tasks that these make ready run only after the ring: a task that keeps
/// waking itself must not hold up the others' I/O.
fn run_ready_tasks() {
    let ready = with_local(|local| local.ready.len()).min(TURN_TASKS_MAX);
    for _ in 0..ready {
        let Some(runnable) = with_local(|local| local.ready.pop_front()) else { break };
        runnable.run();
    }
}

/// Submits, waits if there is nothing else to do, and wakes the tasks whose I/O is done or whose time has
/// come.
fn turn_ring(inbox: &Inbox, wakers: &mut Vec<Waker>) -> io::Result<()> {
    let polling = reactor::with(|reactor| reactor.is_polling());
    let idle = !polling
        && with_local(|local| local.ready.is_empty() && inbox.runnables.fall_asleep(&mut local.ready));
    let wait = idle.then(|| {
        timer::next_deadline()
            .map_or(SLEEP_MAX, |d| d.saturating_duration_since(Instant::now()).min(SLEEP_MAX))
    });
    if idle || polling || reactor::with(|reactor| reactor.needs_call()) {
        reactor::with(|reactor| reactor.submit_and_wait(wait))?;
    }
    inbox.runnables.wake_up();
    reactor::with(|reactor| reactor.reap(wakers));
    if timer::next_deadline().is_some() {
        timer::expire(Instant::now(), wakers);
    }
    wakers.drain(..).for_each(Waker::wake);
    Ok(())
}
