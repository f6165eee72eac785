//! The destager: the task that makes room in the cache, and keeps what is dirty from growing old.

use std::{
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::{Either, select};
use stripewise_device::Timestamp;

use super::Jobs;
use crate::{
    cache::{Cache, Candidate},
    life::Life,
};

/// How often it looks whether something is to be destaged.
const TICK: Duration = Duration::from_millis(10);
/// Cells that are dirty for so long are destaged.
const AGE_MAX: Duration = Duration::from_secs(30);
/// Without requests for so long, all is destaged.
const IDLE: Duration = Duration::from_secs(1);
/// From this share of dirty blocks on, in hundredths, cells are destaged to make room.
const LOW_MARK: u64 = 85;
/// The share of what is dirty that one round destages for room: one part in so many, the oldest first.
const ROUND_PARTS: usize = 16;

/// Destages until the array closes. While nothing is dirty, it keeps no member open.
pub(crate) async fn run(jobs: Weak<Jobs>, life: Arc<Life>, cache: Arc<Cache>) {
    let mut idle = Idle::default();
    loop {
        let seen = cache.changes();
        {
            let changed = pin!(cache.changed(seen));
            let wakes = select(changed, life.env().sleep(TICK));
            if let Either::Left(_) = select(pin!(life.closed()), wakes).await {
                return;
            }
        }
        let Some(jobs) = jobs.upgrade() else { return };
        if cache.dirty_blocks() == 0 {
            continue;
        }
        let _working = life.work();
        if life.is_closing() {
            return;
        }
        let now = life.env().now();
        let chosen = chosen(&cache, idle.is_idle(life.requests().served(), now), now);
        if !chosen.is_empty()
            && let Err(error) = jobs.destage(&cache, chosen).await
        {
            tracing::warn!(%error, "what is cached could not be written");
            life.env().sleep(TICK).await;
        }
    }
}

/// Whether clients are idle.
#[derive(Default)]
struct Idle {
    served: u64,
    since: Timestamp,
}

impl Idle {
    fn is_idle(&mut self, served: u64, now: Timestamp) -> bool {
        if served != self.served {
            (self.served, self.since) = (served, now);
        }
        now.since(self.since) >= IDLE
    }
}

/// What is destaged now, by place.
fn chosen(cache: &Cache, is_idle: bool, now: Timestamp) -> Vec<Candidate> {
    let wants_room = cache.take_want_of_room();
    let is_high = cache.dirty_blocks() * 100 >= cache.blocks_max() * LOW_MARK;
    let mut chosen = cache.candidates();
    if is_idle {
        return chosen;
    }
    let count = if wants_room || is_high { chosen.len().div_ceil(ROUND_PARTS) } else { 0 };
    chosen.sort_unstable_by_key(|candidate| candidate.written);
    let mut index = 0;
    chosen.retain(|candidate| {
        index += 1;
        index <= count || now.since(candidate.dirty_since) >= AGE_MAX
    });
    chosen.sort_unstable_by_key(|candidate| (candidate.stripe.0, candidate.rows.first()));
    chosen
}
