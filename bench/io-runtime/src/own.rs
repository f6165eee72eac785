//! The own executor, in small: one thread, one ring, tasks and operations in slabs, one submission per turn.
//!
//! Honest where it costs: wakers are `Send`, counted, and deduplicated; a wake from another thread goes to an
//! inbox. Left out because it costs nothing here: timers, cancelling an operation whose future is dropped.

use crate::load::{BLOCK, Case, DEPTH, Walk, buffer};
use crate::raw::{self, Mode, Setup};
use io_uring::{IoUring, squeue};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

thread_local! {
    static WORKER: RefCell<Worker> = RefCell::new(Worker::new(raw::ring(Setup::Defer)));
    static READY: RefCell<VecDeque<usize>> = const { RefCell::new(VecDeque::new()) };
    static WORKER_ID: Cell<u64> = const { Cell::new(0) };
}

struct Worker {
    ring: IoUring,
    operations: Slab<Operation>,
}

enum Operation {
    Flying(Option<Waker>),
    Done(i32),
}

/// What a waker points to.
struct Handle {
    task: usize,
    worker: u64,
    queued: AtomicBool,
    inbox: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Handle {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        if WORKER_ID.get() == self.worker {
            READY.with_borrow_mut(|ready| ready.push_back(self.task));
        } else {
            self.inbox.lock().expect("not poisoned").push(self.task);
        }
    }
}

impl Worker {
    fn new(ring: IoUring) -> Worker {
        Worker { ring, operations: Slab::new() }
    }

    fn start(&mut self, entry: squeue::Entry, waker: Waker) -> usize {
        let key = self.operations.insert(Operation::Flying(Some(waker)));
        // SAFETY: the buffers of this bench are leaked.
        unsafe { self.ring.submission().push(&entry.user_data(key as u64)) }.expect("room for the depth");
        key
    }

    /// One system call for all that the turn asked for; then the completions wake their tasks.
    fn turn(&mut self) {
        self.ring.submit_and_wait(1).expect("submission");
        for completion in self.ring.completion() {
            let operation = &mut self.operations[completion.user_data() as usize];
            let before = std::mem::replace(operation, Operation::Done(completion.result()));
            if let Operation::Flying(Some(waker)) = before {
                waker.wake();
            }
        }
    }
}

/// An operation as a future.
enum Io {
    Asked(squeue::Entry),
    Flying(usize),
}

impl Future for Io {
    type Output = i32;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<i32> {
        WORKER.with_borrow_mut(|worker| match &*self {
            Io::Asked(entry) => {
                *self = Io::Flying(worker.start(entry.clone(), context.waker().clone()));
                Poll::Pending
            }
            Io::Flying(key) => match &mut worker.operations[*key] {
                Operation::Flying(waker) => {
                    *waker = Some(context.waker().clone());
                    Poll::Pending
                }
                Operation::Done(result) => {
                    let result = *result;
                    worker.operations.remove(*key);
                    Poll::Ready(result)
                }
            },
        })
    }
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    handle: Arc<Handle>,
    waker: Waker,
}

/// Runs until every task is done.
fn block_on_all(futures: Vec<Pin<Box<dyn Future<Output = ()>>>>) {
    WORKER_ID.set(1);
    let inbox = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Slab::new();
    for future in futures {
        let slot = tasks.vacant_entry();
        let queued = AtomicBool::new(false);
        let handle = Arc::new(Handle { task: slot.key(), worker: 1, queued, inbox: inbox.clone() });
        let waker = Waker::from(handle.clone());
        waker.wake_by_ref();
        slot.insert(Task { future, handle, waker });
    }
    while !tasks.is_empty() {
        while let Some(key) = READY.with_borrow_mut(VecDeque::pop_front) {
            let task: &mut Task = &mut tasks[key];
            task.handle.queued.store(false, Ordering::Release);
            if task.future.as_mut().poll(&mut Context::from_waker(&task.waker)).is_ready() {
                tasks.remove(key);
            }
        }
        READY.with_borrow_mut(|ready| ready.extend(inbox.lock().expect("not poisoned").drain(..)));
        if !tasks.is_empty() {
            WORKER.with_borrow_mut(Worker::turn);
        }
    }
}

pub fn run(case: Case, setup: Setup, mode: Mode, file: File, time: Duration) -> u64 {
    WORKER.set(Worker::new(raw::ring(setup)));
    let buffers: Vec<_> = (0..DEPTH).map(|_| buffer()).collect();
    if mode == Mode::Fixed {
        WORKER.with_borrow(|worker| raw::register(&worker.ring, &file, &buffers));
    }
    let (done, fd) = (Rc::new(Cell::new(0)), file.as_raw_fd());
    let tasks =
        Walk::all(case, time).into_iter().zip(buffers).enumerate().map(|(index, (mut walk, mut buffer))| {
            let done = done.clone();
            let task = async move {
                while let Some(offset) = walk.next() {
                    let entry = raw::entry(case, mode, fd, index as u16, buffer.as_mut_ptr(), offset);
                    case.expect(Io::Asked(entry).await);
                    done.set(done.get() + 1);
                }
                assert_eq!(buffer.len(), BLOCK);
                std::mem::forget(buffer);
            };
            Box::pin(task) as Pin<Box<dyn Future<Output = ()>>>
        });
    block_on_all(tasks.collect());
    done.get()
}
