//! What goes on by itself: write-outs when they are due, commits, checkpoints, and the freeing of what nobody uses.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{
    future::{Either, select},
    task::AtomicWaker,
};
use std::task::Poll;

use super::{FsError, Shared, write_out::Scope};
use crate::buffer::Due;

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
    let tick = (shared.options.age / 5).max(Duration::from_millis(1));
    let mut is_idle = true;
    let mut ticks = 0_u64;
    while !shared.is_ending.load(Ordering::Acquire) {
        let kicked = Box::pin(shared.kick.wait());
        if is_idle {
            kicked.await;
        } else {
            match select(kicked, shared.env.sleep(tick)).await {
                Either::Left(_) => {}
                Either::Right(_) => ticks += 1,
            }
        }
        if shared.is_ending.load(Ordering::Acquire) {
            break;
        }
        // What fails is told to the next fsync, which tries again; it is tried here again, too, after a while.
        is_idle = step(&shared, ticks).await.unwrap_or(false);
    }
    shared.has_ended.set(());
}

/// Does what is due. Returns whether nothing is left that will be.
async fn step(shared: &Shared, ticks: u64) -> Result<bool, FsError> {
    let (due, room, is_unused) = {
        let state = shared.state.lock().await;
        if state.check_writable().is_err() {
            return Ok(true);
        }
        let room = state.store.journal_room();
        (state.buffer.due(shared.env.now()), room, !state.unused.is_empty())
    };
    if is_unused {
        shared.state.lock().await.free_some().await?;
        shared.kick.want();
    }
    while shared.state.lock().await.gather_piece(shared.now()).await? {}
    match due {
        Some(Due::Room) => shared.write_out(Scope::All).await?,
        Some(Due::Age) => shared.sync().await?,
        None => {}
    }
    if room.0 * 2 < room.1 {
        shared.make_journal_room().await?;
    }
    let is_clean = {
        let state = shared.state.lock().await;
        state.buffer.blocks() == 0
            && state.unused.is_empty()
            && state.full.is_empty()
            && state.dirty.is_empty()
            && !state.store.has_changes()
    };
    // Names and attributes are committed every T_t.
    if !is_clean && ticks % 5 == 4 {
        shared.commit(None).await?;
    }
    Ok(is_clean)
}
