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
/// How often it looks for such cells.
const LOOKS_FOR_OLD: Duration = Duration::from_secs(1);
/// Without requests for so long, all is destaged.
const IDLE: Duration = Duration::from_secs(1);
/// From this share of dirty blocks on, in hundredths, cells are destaged to make room.
const LOW_MARK: u64 = 85;
/// The share of what is dirty that one round destages for room: one part in so many, the oldest first.
const ROUND_PARTS: usize = 16;

/// Destages until the array closes. While nothing is dirty, it keeps no member open.
pub(crate) async fn run(jobs: Weak<Jobs>, life: Arc<Life>, cache: Arc<Cache>) {
    let mut moments = Moments::default();
    loop {
        {
            let wanted = pin!(cache.room_is_wanted());
            let wakes = select(wanted, life.env().sleep(TICK));
            if let Either::Left(_) = select(pin!(life.closed()), wakes).await {
                return;
            }
        }
        let wants_room = cache.take_want_of_room();
        let Some(jobs) = jobs.upgrade() else { return };
        if cache.dirty_blocks() == 0 {
            continue;
        }
        let _working = life.work();
        if life.is_closing() {
            return;
        }
        let is_high = cache.dirty_blocks() * 100 >= cache.blocks_max() * LOW_MARK;
        let why = moments.why(life.requests().served(), life.env().now(), wants_room || is_high);
        let Some(why) = why else { continue };
        if let Err(error) = jobs.destage(&cache, chosen(&cache, why, life.env().now())).await {
            tracing::warn!(%error, "what is cached could not be written");
            life.env().sleep(TICK).await;
        }
    }
}

/// Why cells are destaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Room,
    Idle,
    Age,
}

/// When something happened last.
#[derive(Default)]
struct Moments {
    served: u64,
    request: Timestamp,
    look: Timestamp,
}

impl Moments {
    /// What calls for a destage now. To look for what is old takes a look at every slot: now and then.
    fn why(&mut self, served: u64, now: Timestamp, needs_room: bool) -> Option<Why> {
        if served != self.served {
            (self.served, self.request) = (served, now);
        }
        if now.since(self.request) >= IDLE {
            return Some(Why::Idle);
        }
        if needs_room {
            return Some(Why::Room);
        }
        if now.since(self.look) < LOOKS_FOR_OLD {
            return None;
        }
        self.look = now;
        Some(Why::Age)
    }
}

/// What is destaged now, by place.
fn chosen(cache: &Cache, why: Why, now: Timestamp) -> Vec<Candidate> {
    let mut chosen = cache.candidates();
    let count = match why {
        Why::Idle => return chosen,
        Why::Room => chosen.len().div_ceil(ROUND_PARTS),
        Why::Age => 0,
    };
    chosen.sort_unstable_by_key(|candidate| candidate.written);
    let (first, others) = chosen.split_at(count);
    let old = others.iter().filter(|candidate| now.since(candidate.dirty_since) >= AGE_MAX);
    let mut chosen: Vec<Candidate> = first.iter().chain(old).copied().collect();
    chosen.sort_unstable_by_key(|candidate| (candidate.stripe.0, candidate.rows.first()));
    chosen
}
