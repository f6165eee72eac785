//! A write that finds no room in the cache makes some, or waits for it in its turn.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::select;

use super::Stripes;
use crate::{
    cache::{Cache, Changes, DestageReason, Place},
    destage::Candidate,
    error::ArrayError,
    shape::geometry::StripeSpan,
};

/// If nothing was destaged while it looked so often for memory, a writer destages everything, to learn what is wrong.
const LOOKS_MAX: u32 = 256;
/// After so many looks it does so in any case: perhaps only what others write again and again is destaged.
const LOOKS_EVER_MAX: u32 = 64 * LOOKS_MAX;
/// The longest that a writer waits for memory before it looks again by itself.
const MEMORY_WAIT: Duration = Duration::from_millis(1);
/// A writer destages to make room so many times at most.
const HELPS_MAX: u32 = 4;
/// The longest that it waits for its turn to get memory.
const TURN_WAIT: Duration = Duration::from_millis(10);

/// A writer that waits for room in a cache.
#[derive(Default)]
pub(super) struct RoomWait {
    place: Option<Place>,
    /// What had changed when it looked last.
    seen: Changes,
    /// It was its turn then.
    was_next: bool,
    /// How often it has looked in its turn.
    looks: u32,
    /// How often it has made room.
    helped: u32,
    /// Blocks that had been destaged when it last asked whether it is stuck.
    destaged: Option<u64>,
}

impl RoomWait {
    /// Notes how things are before the writer tries to put.
    pub(super) fn look(&mut self, cache: &Arc<Cache>) {
        self.seen = cache.changes();
        self.place = self.place.take().filter(|place| place.is_of(cache));
        self.was_next = self.place.as_ref().is_some_and(Place::is_next);
    }

    pub(super) fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    pub(super) fn leave_line(&mut self) {
        self.place = None;
    }

    /// Lets others go first until this work is done.
    pub(super) async fn aside<T>(&self, work: impl Future<Output = T>) -> T {
        match &self.place {
            Some(place) => place.aside(work).await,
            None => work.await,
        }
    }

    /// Whether it has looked in vain for so long that something may be wrong.
    fn is_stuck(&mut self, cache: &Cache) -> bool {
        if !self.was_next || !self.looks.is_multiple_of(LOOKS_MAX) {
            return false;
        }
        let destaged = Some(cache.destaged_blocks());
        let before = std::mem::replace(&mut self.destaged, destaged);
        before == destaged || self.looks >= LOOKS_EVER_MAX
    }

    /// Whether the writer, which has had its turn in vain, is to make room itself. Others might take for ever what it makes: after
    /// some times it waits for its turn instead.
    fn is_to_help(&self) -> bool {
        let is_oldest = || self.place.as_ref().is_some_and(Place::is_oldest);
        self.helped < HELPS_MAX && (self.helped == 0 || !is_oldest())
    }
}

impl Stripes {
    /// Makes room or waits for it, for a write that found none.
    pub(super) async fn get_room(
        &self,
        cache: &Arc<Cache>,
        wait: &mut RoomWait,
        span: &StripeSpan,
    ) -> Result<(), ArrayError> {
        wait.looks += u32::from(wait.was_next);
        // The destager has ended, or cannot write what would have to go. Then this tells why.
        if self.life.is_closing() || wait.is_stuck(cache) {
            wait.leave_line();
            let before = cache.destaged_blocks();
            let destaged = self.destage_written(DestageReason::Mark).await;
            // Another stripe may have failed. That fails this writer only if no room was made.
            if cache.destaged_blocks() == before || wait.looks >= LOOKS_EVER_MAX {
                destaged?;
            }
            self.wait_for_change(cache, wait).await;
            return Ok(());
        }
        let Some(place) = &wait.place else {
            let is_next = wait.place.insert(cache.line_up(cache.blocks_of(span))).is_next();
            if !is_next {
                self.wait_for_change(cache, wait).await;
            }
            return Ok(());
        };
        // Only a writer that has had its turn knows that there is no room.
        wait.was_next &= place.is_next();
        if wait.was_next {
            cache.want_room();
            if let Some(victim) = wait.is_to_help().then(|| cache.next_for_writer()).flatten() {
                wait.helped += 1;
                wait.aside(self.make_room(cache, victim)).await;
                return Ok(());
            }
        }
        self.wait_for_change(cache, wait).await;
        Ok(())
    }

    /// Waits until something has changed since the writer looked.
    pub(super) async fn wait_for_change(&self, cache: &Cache, wait: &RoomWait) {
        let RoomWait { place, seen, was_next, .. } = wait;
        // What wakes it is not always what it needs, and room may come without a word.
        let rest = if *was_next || place.is_none() { MEMORY_WAIT } else { TURN_WAIT };
        let changed = pin!(cache.changed(*seen, place.as_ref(), *was_next));
        select(changed, self.life.env().sleep(rest)).await;
    }

    /// Destages what goes next to make room. What fails is told by the destager, and by a flush.
    async fn make_room(&self, cache: &Arc<Cache>, victim: Candidate) {
        let _ = self.destage(cache, victim.stripe, victim.rows, DestageReason::Mark).await;
    }
}
