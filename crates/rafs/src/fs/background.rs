//! What goes on by itself: write-outs when they are due, commits, checkpoints, and the freeing of what nobody uses.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_util::{future::select, task::AtomicWaker};
use stripewise_device::Timestamp;

use super::{FsError, Shared, cleaning::Pass, write_out::Scope};
use crate::buffer::Due;

/// Full pieces that are read into the buffer in one step.
const PIECES_AT_ONCE: usize = 8;
/// Leaves of the tree that cleaning looks at in one step.
const CLEANED_AT_ONCE: usize = 32;

/// A wish that the background looks at what is to be done.
#[derive(Default)]
pub(super) struct Kick {
    is_wanted: AtomicBool,
    waker: AtomicWaker,
}

impl Kick {
    pub(super) fn want(&self) {
        if !self.is_wanted.swap(true, Ordering::AcqRel) {
            self.waker.wake();
        }
    }

    async fn wait(&self) {
        std::future::poll_fn(|context| {
            self.waker.register(context.waker());
            if self.is_wanted.swap(false, Ordering::AcqRel) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Looks at what is due until the file system ends.
pub(super) async fn run(shared: Arc<Shared>) {
    let (mut is_idle, mut committed) = (true, shared.env.now());
    while !shared.is_ending.load(Ordering::Acquire) {
        let tick = (shared.pace.lock().age / 5).max(Duration::from_millis(1));
        let kicked = Box::pin(shared.kick.wait());
        if is_idle {
            kicked.await;
            committed = shared.env.now();
        } else {
            select(kicked, shared.env.sleep(tick)).await;
        }
        if shared.is_ending.load(Ordering::Acquire) {
            break;
        }
        // What fails here is tried again, here and by the next fsync.
        is_idle = step(&shared, &mut committed).await.unwrap_or(false);
    }
    shared.has_ended.set(());
}

/// Does what is due. Returns whether nothing is left that will become due.
async fn step(shared: &Shared, committed: &mut Timestamp) -> Result<bool, FsError> {
    let (due, room, is_unused) = {
        let state = shared.state.lock().await;
        if state.check_writable().is_err() {
            return Ok(true);
        }
        let room = state.store.journal_room();
        (state.buffer.due(shared.env.now()), room, state.next_unused().is_some())
    };
    if is_unused {
        shared.state.lock().await.free_some().await?;
        shared.kick.want();
    }
    for _ in 0..PIECES_AT_ONCE {
        if !shared.state.lock().await.gather_piece(shared.now()).await? {
            break;
        }
    }
    let written = match due {
        Some(Due::Room) => shared.write_out(Scope::All).await,
        Some(Due::Age) => shared.sync().await,
        None => Ok(()),
    };
    let needs_checkpoint = shared.state.lock().await.needs_checkpoint();
    if needs_checkpoint || written == Err(FsError::NoSpace) {
        shared.make_space().await?;
    } else if room.0 * 2 < room.1 {
        shared.make_journal_room().await?;
    }
    let is_clean = {
        let state = shared.state.lock().await;
        state.buffer.blocks() == 0 && state.next_unused().is_none() && state.is_committed()
    };
    // Names and attributes are committed every T_t.
    let age = shared.pace.lock().age;
    if !is_clean && shared.env.now().since(*committed) >= age {
        *committed = shared.env.now();
        shared.commit(None).await?;
    }
    if shared.discard_some().await {
        shared.kick.want();
    }
    let cleans = clean(shared, is_clean).await?;
    written?;
    Ok(is_clean && !cleans)
}

/// Cleans for a while, if it is time for that. Returns whether there is more to clean.
async fn clean(shared: &Shared, is_idle: bool) -> Result<bool, FsError> {
    match shared.state.lock().await.begin_cleaning(is_idle, shared.env.now()) {
        Pass::No => return Ok(false),
        Pass::Later => return Ok(true),
        Pass::UnderWay => {}
    }
    let (mut stepped, mut left) = (Ok(true), CLEANED_AT_ONCE);
    while stepped == Ok(true) && left > 0 {
        // Others come between two steps.
        stepped = shared.state.lock().await.clean_some(shared.now()).await;
        left -= 1;
    }
    let has_ended = stepped.is_err() || shared.state.lock().await.cleaning.is_walked();
    if has_ended {
        let mut written = shared.write_out(Scope::All).await;
        if shared.state.lock().await.empties_stripes_of_tree() {
            written = written.and(shared.make_journal_room().await);
        }
        shared.state.lock().await.end_cleaning();
        stepped.and(written)?;
    }
    if is_idle {
        shared.kick.want();
    }
    Ok(true)
}
