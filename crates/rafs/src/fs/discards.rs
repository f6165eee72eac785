//! Discards: the volume is told of stripes that nobody needs any more.
//!
//! They go out in batches, in the background, and the last ones at the end of an unmount. A batch is kept from writers while it is under
//! way, so it takes few of the stripes that are free; where these are few, none is discarded, since it will be written again soon.

use std::{ops::Range, time::Duration};

use super::{Shared, state::State};
use crate::shape::StripeNo;

/// Stripes that are discarded at the same time.
const AT_ONCE: usize = 64;
/// How long an unmount discards.
const REST_MAX: Duration = Duration::from_secs(20);
/// The part of the free stripes that may be under way: one in four.
const FREE_PARTS: u64 = 4;

impl Shared {
    /// Discards a batch of what waits. Returns whether more does.
    pub(super) async fn discard_some(&self) -> bool {
        let _batch = self.discarding.lock().await;
        let runs = self.state.lock().await.begin_discards();
        self.discard(&runs).await;
        self.state.lock().await.store.has_discards()
    }

    /// Discards what waits once the file system is closed, when nobody fills stripes any more. An unmount does not wait long for that.
    pub(super) async fn discard_rest(&self) {
        let _batch = self.discarding.lock().await;
        let began = self.env.now();
        while self.env.now().since(began) < REST_MAX {
            let runs = self.state.lock().await.store.keep_discards(AT_ONCE);
            if runs.is_empty() || !self.discard(&runs).await {
                return;
            }
        }
    }

    /// Discards runs of stripes. Returns whether the volume has discarded all of them.
    async fn discard(&self, runs: &[Range<StripeNo>]) -> bool {
        let mut are_done = true;
        for run in runs {
            // What the volume cannot discard stays as it is, and nobody needs it.
            let is_done = self.volume.discard(run.clone()).await.is_ok();
            self.state.lock().await.end_discard(run.clone(), is_done);
            are_done &= is_done;
        }
        are_done
    }

    /// Waits for the batch under way, and gives up the others: space is short, so what is free will be written again soon.
    pub(super) async fn end_discards(&self) {
        let _batch = self.discarding.lock().await;
        self.state.lock().await.store.forget_discards();
    }
}

impl State {
    fn begin_discards(&mut self) -> Vec<Range<StripeNo>> {
        if !self.store.has_discards() || self.check_writable().is_err() {
            return Vec::new();
        }
        let may_keep = self.store.free_stripes().0 / FREE_PARTS;
        if may_keep == 0 {
            self.store.forget_discards();
        }
        self.store.keep_discards(AT_ONCE.min(usize::try_from(may_keep).unwrap_or(AT_ONCE)))
    }

    fn end_discard(&mut self, run: Range<StripeNo>, is_done: bool) {
        if is_done {
            self.counters.discarded_stripes += run.end.0 - run.start.0;
        }
        (run.start.0..run.end.0).for_each(|stripe| self.store.close_stripe(StripeNo(stripe)));
    }
}
