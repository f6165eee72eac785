//! The destager: the task that makes room in the cache, and keeps what is dirty from growing old.
//!
//! It destages as many stripes at a time as the cache's policies of when and what say. Writers that lack memory help:
//! each destages what goes next before it tries again, so that destages come from as many threads as there are
//! writers.

use std::{
    collections::{BTreeSet, VecDeque},
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, Either, select},
    stream::{FuturesUnordered, StreamExt},
};
use stripewise_device::Timestamp;

use super::{
    Jobs,
    rate::{Pace, Rate},
    rewrites::Rewrites,
};
use crate::{
    cache::{Cache, CachePast, CacheSettings, DestageReason},
    destage::{
        Bound, Candidate, Chosen, Fill, Past, Seen, Spent, Verdict, What, WhatPolicy, When, WhenPolicy, Why,
        place,
    },
    error::ArrayError,
    life::Life,
    shape::rows::BLOCK_BYTES,
};

/// How often it looks whether something is to be destaged.
const TICK: Duration = Duration::from_millis(10);
/// The same while nothing is dirty.
const REST: Duration = Duration::from_millis(100);
/// How often it looks for what is old.
const LOOKS_FOR_OLD: Duration = Duration::from_secs(1);
/// How long it leaves members alone after a destage that failed; or the stripe, if only that cannot be written.
const AFTER_FAILURE: Duration = Duration::from_secs(1);
/// Stripes that are destaged at the same time: as many keep the members' queues full.
const IN_FLIGHT_MAX: usize = 64;
/// Blocks that are destaged at the same time, unless one stripe has more.
const BLOCKS_IN_FLIGHT_MAX: usize = 4096;
/// The least blocks that are chosen at a time.
const CHOSEN_MIN: u64 = 256;
/// With so many stripes or blocks under way, members are asked for all that they can.
const ALL_STRIPES: usize = IN_FLIGHT_MAX / 2;
const ALL_BLOCKS: u64 = BLOCKS_IN_FLIGHT_MAX as u64 / 4;

/// Destages until the array closes, or another cache is in the place of this one. While nothing is dirty, it keeps no
/// member open.
pub(crate) async fn run(jobs: Weak<Jobs>, life: Arc<Life>, cache: Arc<Cache>) {
    let mut destager = Destager::new(&cache);
    // Not after a rest: by then much may have been written.
    if let Some(jobs) = jobs.upgrade() {
        destager.take_full(&jobs, &cache, cache.fill());
    }
    loop {
        let rest = if cache.dirty_blocks() == 0 { REST } else { TICK };
        {
            let wanted = pin!(cache.room_is_wanted());
            let wakes = select(wanted, life.env().sleep(rest));
            match select(pin!(life.closed()), wakes).await {
                Either::Left(_) => return,
                Either::Right((woken, _)) => destager.is_new_want |= matches!(woken, Either::Left(_)),
            }
        }
        let Some(jobs) = jobs.upgrade() else { return };
        let _working = life.work();
        let is_there = jobs.stripes.cache().is_some_and(|now| Arc::ptr_eq(&now, &cache));
        if life.is_closing() || !is_there {
            return;
        }
        if destager.round(&jobs, &cache).await.is_err() {
            destager.queue.clear();
            select(pin!(life.closed()), life.env().sleep(AFTER_FAILURE)).await;
        } else if destager.put_off.is_empty() {
            destager.told = None;
        }
    }
}

/// What the task remembers.
struct Destager {
    policies: (&'static WhenPolicy, &'static WhatPolicy),
    when: Box<dyn When>,
    what: Box<dyn What>,
    /// A writer lacks memory.
    is_wanted: bool,
    /// The policy of passing by has not been told so yet.
    is_new_want: bool,
    /// What is destaged for other reasons than room.
    queue: VecDeque<(Candidate, DestageReason)>,
    /// What is under way, or put off. It is dirty still, and is not chosen again.
    begun: BTreeSet<Place>,
    /// What could not be written, and when that was.
    put_off: VecDeque<(Timestamp, Place)>,
    /// The last failure that was told.
    told: Option<String>,
    moments: Moments,
    past: Box<dyn Past>,
    /// Of what may be dirty, so much is left to writes that do not pass by.
    share: f64,
    /// Writes pass by, but for a sample perhaps: members are busy with them, too.
    passes: bool,
    rate: Rate,
    rewrites: Rewrites,
}

type UnderWay<'a> = FuturesUnordered<BoxFuture<'a, (Candidate, Result<(), ArrayError>)>>;

/// What identifies a candidate.
type Place = (u64, Option<usize>);

impl Destager {
    fn new(cache: &Cache) -> Self {
        let CacheSettings { kind, when, what, .. } = cache.settings();
        Self {
            policies: (when, what),
            when: (when.make)(),
            what: (what.make)(),
            is_wanted: false,
            is_new_want: false,
            queue: VecDeque::new(),
            begun: BTreeSet::new(),
            put_off: VecDeque::new(),
            told: None,
            moments: Moments::default(),
            past: (kind.past().make)(),
            share: 1.0,
            passes: false,
            rate: Rate::default(),
            rewrites: Rewrites::default(),
        }
    }

    /// Takes up policies that were chosen since.
    fn settle_policies(&mut self, cache: &Cache) {
        let CacheSettings { when, what, .. } = cache.settings();
        if self.policies.0 != when {
            self.when = (when.make)();
        }
        if self.policies.1 != what {
            self.what = (what.make)();
            cache.forget_victims();
        }
        self.policies = (when, what);
    }

    /// Destages for as long as something calls for it.
    ///
    /// # Errors
    /// If members take nothing. A stripe that cannot be written keeps no other one waiting.
    async fn round(&mut self, jobs: &Jobs, cache: &Arc<Cache>) -> Result<(), ArrayError> {
        let (mut under_way, mut blocks) = (UnderWay::new(), 0);
        let mut result = Ok(());
        loop {
            self.resume(jobs.life.env().now());
            while result.is_ok() && !jobs.life.is_closing() && !cache.is_closed() {
                let Some((next, reason)) = self.next(jobs, cache, under_way.len(), blocks) else { break };
                blocks += next.blocks;
                self.begun.insert(place(&next));
                let destage = jobs.stripes.destage(cache, next.stripe, next.rows, reason);
                under_way.push(destage.map(move |done| (next, done)).boxed());
            }
            self.note_rate(cache, jobs.life.env().now(), under_way.len());
            self.note_rewrites(jobs, cache);
            if under_way.is_empty() {
                return result;
            }
            // More may be called for before one ends.
            let tick = jobs.life.env().sleep(TICK);
            if let Either::Left((Some((ended, done)), _)) = select(under_way.next(), tick).await {
                blocks -= ended.blocks;
                result = result.and(self.note_end(place(&ended), done, jobs.life.env().now()));
            }
        }
    }

    /// A destage has ended.
    fn note_end(
        &mut self,
        place: Place,
        done: Result<(), ArrayError>,
        now: Timestamp,
    ) -> Result<(), ArrayError> {
        // Of many stripes that cannot be written, the first is told.
        if let Err(error) = &done
            && self.put_off.is_empty()
        {
            self.tell(error);
        }
        if matches!(done, Err(ArrayError::Unreadable { .. })) {
            self.put_off.push_back((now, place));
            return Ok(());
        }
        self.begun.remove(&place);
        done
    }

    /// What was put off for long enough may be chosen again.
    fn resume(&mut self, now: Timestamp) {
        let count = self.put_off.iter().take_while(|(since, _)| now.since(*since) >= AFTER_FAILURE).count();
        for (_, place) in self.put_off.drain(..count) {
            self.begun.remove(&place);
        }
    }

    /// What has failed lately is told once.
    fn tell(&mut self, error: &ArrayError) {
        let text = error.to_string();
        if self.told.as_ref() != Some(&text) {
            tracing::warn!(%error, "what is cached could not be written; it is tried again every second");
            self.told = Some(text);
        }
    }

    /// What is destaged next, and why, if anything is to be begun now.
    fn next(
        &mut self,
        jobs: &Jobs,
        cache: &Cache,
        count: usize,
        blocks: usize,
    ) -> Option<(Candidate, DestageReason)> {
        self.settle_policies(cache);
        let fill = cache.fill();
        self.take_full(jobs, cache, fill);
        let now = jobs.life.env().now();
        let called_for = self.called_for(fill, cache.leaving_blocks().saturating_sub(blocks as u64));
        let is_new_want = std::mem::take(&mut self.is_new_want) | cache.take_want_of_room();
        self.is_wanted |= is_new_want;
        // Before it is looked at how much is under way or queued: clients write meanwhile.
        let passes = self.let_writes_pass(jobs, cache, (fill, called_for > 0, is_new_want), now);
        if count >= IN_FLIGHT_MAX || blocks >= BLOCKS_IN_FLIGHT_MAX {
            return None;
        }
        if let Some(next) = self.queue.pop_front() {
            return Some(next);
        }
        let is_wanted = std::mem::take(&mut self.is_wanted);
        if fill.dirty == 0 {
            return None;
        }
        // What is old goes first, or it would wait for as long as room is made.
        let served = jobs.life.requests().served();
        let is_busy = count > 0 || !self.put_off.is_empty();
        let chosen = self.moments.chosen(cache, served, now, is_busy);
        self.queue.extend(chosen.into_iter().filter(|(one, _)| !self.begun.contains(&place(one))));
        if let Some(next) = self.queue.pop_front() {
            return Some(next);
        }
        let wanted = match (is_wanted && !cache.room_is_coming(), passes) {
            (true, _) => IN_FLIGHT_MAX,
            (false, true) => 0,
            (false, false) => called_for,
        };
        if count >= wanted {
            return None;
        }
        let victim = cache.next_victim().or_else(|| {
            self.choose(jobs, cache, fill);
            cache.next_victim()
        });
        victim.map(|next| (next, DestageReason::Mark))
    }

    /// Has stripes that are dirty as a whole destaged at once, if the policy of when would.
    fn take_full(&self, jobs: &Jobs, cache: &Cache, fill: Fill) {
        cache.take_full(self.when.takes_full_from(self.shared(fill), jobs.stripes.rotates()));
    }

    /// The marks of the share that writes may fill, the low one as the policy of when has it.
    fn shared(&self, fill: Fill) -> Fill {
        let of = |mark: u64| (mark as f64 * self.share) as u64;
        let low = self.when.low_mark(fill, self.rewrites.share());
        Fill { low: of(low), high: of(fill.high), ..fill }
    }

    /// How many stripes the policy of when wants under way. What `others` destage is as good as gone: a stream whose stripes go
    /// at once does not call for more room.
    fn called_for(&mut self, fill: Fill, others: u64) -> usize {
        let fill = self.shared(Fill { dirty: fill.dirty.saturating_sub(others), ..fill });
        let called_for = self.when.in_flight(fill, IN_FLIGHT_MAX);
        if fill.dirty > 0 { called_for } else { 0 }
    }

    /// Has the policy say which writes go past the cache. Returns whether all of them do, and nothing need be destaged: if more is
    /// dirty than a flush may take, that goes on meanwhile.
    fn let_writes_pass(
        &mut self,
        jobs: &Jobs,
        cache: &Cache,
        (fill, wants_room, lacks_memory): (Fill, bool, bool),
        now: Timestamp,
    ) -> bool {
        let written = jobs.stripes.stats().written();
        let spent = || {
            let (mut through, mut back) = cache.accounts(written.bytes);
            let ([through_ns, back_ns, others_ns], members) = jobs.stripes.spent();
            (through.ns, back.ns) = (through_ns, back_ns);
            let (full_blocks, gathered) = (cache.full_blocks(), jobs.stripes.stats().gathered());
            Spent { through, back, others_ns, members, full_blocks, gathered }
        };
        let stripe_blocks = cache.stripe_blocks();
        let excess = cache.dirty_excess();
        let seen =
            Seen { fill, wants_room, lacks_memory, excess, stripe_blocks, written, spent: &spent, now };
        let verdict = match cache.settings().past {
            CachePast::Measured => self.past.next(&seen),
            CachePast::Never => Verdict::of_all(false, Why::Chosen),
        };
        cache.let_writes_pass(&verdict);
        self.share = verdict.share;
        self.passes = verdict.weighed.passes;
        verdict.bound == Bound::ALL && excess <= 0.0
    }

    /// Measures how fast members take what is destaged. So many stripes are under way.
    fn note_rate(&mut self, cache: &Cache, now: Timestamp, count: usize) {
        let leaving = cache.leaving_blocks();
        let is_all = count >= ALL_STRIPES || leaving >= ALL_BLOCKS;
        let pace = match () {
            () if leaving == 0 => Pace::None,
            () if is_all && !self.passes => Pace::All,
            () => Pace::Some,
        };
        match self.rate.note(cache.destaged_blocks(), now, pace) {
            Some(blocks_per_s) => cache.note_rate(blocks_per_s),
            None if cache.dirty_excess() > 0.0 => cache.limit_flush_time(),
            None => {}
        }
    }

    /// Measures how much of what clients put is dirty already.
    fn note_rewrites(&mut self, jobs: &Jobs, cache: &Cache) {
        let (_, back) = cache.accounts(jobs.stripes.stats().written().bytes);
        self.rewrites.note(back.bytes / BLOCK_BYTES as u64, cache.dirtied_blocks(), cache.dirty_max());
    }

    /// Has the policy choose what goes next to make room.
    fn choose(&mut self, jobs: &Jobs, cache: &Cache, fill: Fill) {
        let mut candidates = cache.candidates(&jobs.stripes.destage_cost());
        candidates.retain(|one| !self.begun.contains(&place(one)));
        // What is counted as dirty may be going at this moment.
        if candidates.is_empty() {
            return;
        }
        let wanted = (fill.dirty / self.what.parts()).max(CHOSEN_MIN) as usize;
        let Chosen { destaged, passed } = self.what.choose(candidates, wanted);
        cache.spare(&passed);
        cache.offer(destaged);
    }
}

/// When something happened last.
#[derive(Default)]
struct Moments {
    served: u64,
    request: Timestamp,
    look: Timestamp,
}

impl Moments {
    /// What is destaged because clients are idle, unless destages are under way, or because it was dirty for long. To look
    /// for it takes a look at every slot: now and then.
    fn chosen(
        &mut self,
        cache: &Cache,
        served: u64,
        now: Timestamp,
        is_busy: bool,
    ) -> Vec<(Candidate, DestageReason)> {
        let CacheSettings { idle, age, .. } = cache.settings();
        if served != self.served {
            (self.served, self.request) = (served, now);
        }
        let dirty = || cache.dirty_until(cache.end_epoch()).into_iter();
        if !is_busy && idle.is_some_and(|idle| now.since(self.request) >= idle) {
            return dirty().map(|one| (one, DestageReason::Idle)).collect();
        }
        let Some(age) = age.filter(|age| now.since(self.look) >= LOOKS_FOR_OLD.min(*age)) else {
            return Vec::new();
        };
        self.look = now;
        let old = dirty().filter(|candidate| now.since(candidate.dirty_since) >= age);
        old.map(|one| (one, DestageReason::Age)).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use stripewise_device::Device;
    use stripewise_sim::World;

    use super::*;
    use crate::{
        Array, CacheKind, CreateOptions,
        shape::{
            geometry::{Level, StripeIndex},
            rows::RowSet,
        },
    };

    /// Counts how often it is asked.
    struct Asked(Arc<parking_lot::Mutex<u32>>);

    impl Past for Asked {
        fn next(&mut self, _: &Seen<'_>) -> Verdict {
            *self.0.lock() += 1;
            Verdict::of_all(false, Why::Room)
        }
    }

    /// Clients write meanwhile, perhaps others than those whose writes are destaged.
    #[test]
    fn which_way_writes_go_is_decided_however_much_is_under_way_or_queued() {
        let mut world = World::new(1);
        let members = (0..4).map(|i| world.add_member(format!("m{i}"), 3 << 20) as Arc<dyn Device>).collect();
        let mut options = CreateOptions::new("busy", Level::Raid5, members);
        options.assume_clean = true;
        options.cache = Some(CacheSettings::new(CacheKind::Stripe, 1 << 20));
        let env = world.env();
        let array = world.run(async move { Array::create(env, options).await }).unwrap();
        let (cache, jobs) = (array.parts().stripes.cache().unwrap(), &array.parts().jobs);
        let mut destager = Destager::new(&cache);
        let asked = Arc::new(parking_lot::Mutex::new(0));
        destager.past = Box::new(Asked(asked.clone()));
        let queued = Candidate {
            stripe: StripeIndex(0),
            rows: RowSet::default(),
            blocks: 1,
            written: Timestamp::default(),
            dirty_since: Timestamp::default(),
            is_recent: false,
            cost_ns: 1.0,
        };
        destager.queue.push_back((queued, DestageReason::Age));
        assert_eq!(destager.next(jobs, &cache, IN_FLIGHT_MAX, 0), None);
        assert_eq!(destager.next(jobs, &cache, 1, BLOCKS_IN_FLIGHT_MAX), None);
        assert_eq!(destager.next(jobs, &cache, 1, 1), Some((queued, DestageReason::Age)));
        assert_eq!(*asked.lock(), 3);
    }
}
