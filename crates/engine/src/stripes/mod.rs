//! What is done to stripes: client requests are served, and blocks are mended behind them.
//!
//! From the top: a request ([`blocks`], [`without`], [`write`], [`read`], [`zero`]) is cut into stripes ([`piece`], [`extents`]);
//! [`gather`] lets writes of a stream wait for one another; [`begin`] gets a stripe's write its rows and its
//! region; [`execute`] does what the recipe says that [`selection`] makes, with [`recover`] and [`heal`] for
//! what cannot be read ([`around`]: a large read); [`blame`] and [`healing`] note what could not; [`ask`] asks
//! members and [`wait`] waits for them; [`flush`] makes durable; [`settle`] drops members that failed. With a
//! cache, writes go by way of [`cached`]; one that finds no room there gets [`room`], by [`destaging`] if need be. [`ahead`] reads for sequential readers, and [`switch`] puts another
//! cache in the place of one. [`measured`] runs a benchmark on members. What a request keeps while it waits is in [`steps`] and [`pending`], and the rows that it holds in [`rows`]. No
//! module calls one above it.

mod ahead;
mod around;
mod ask;
mod begin;
mod beside;
mod blame;
mod blocks;
mod cached;
mod destaging;
mod execute;
mod extents;
mod flush;
mod gather;
mod heal;
mod healing;
mod intent_disk;
pub(crate) mod measured;
pub(crate) mod pending;
mod piece;
mod read;
mod recover;
mod room;
mod rows;
mod selection;
mod settle;
mod steps;
pub(crate) mod switch;
pub(crate) mod trace;
mod traced;
mod wait;
pub(crate) mod without;
mod working;
mod write;
mod zero;

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU8, Ordering},
};

use futures_util::lock::Mutex as AsyncMutex;
use parking_lot::Mutex;
use stripewise_device::sync::{Readers, Replaced};

pub(crate) use healing::Asks;
pub(crate) use rows::{RowGuard, RowLocks};

use self::{healing::Healing, trace::Tracer};
use crate::{
    cache::Cache,
    error::ArrayError,
    intent::Intent,
    life::Life,
    members::stats::Stats,
    plan::{WriteSelection, selection::Policy},
    roster::membership::Membership,
    shape::geometry::{Geometry, StripeIndex},
};

/// The stripes of an open array, and what is under way in them.
pub(crate) struct Stripes {
    /// Itself, for work that must outlive its caller.
    me: Weak<Stripes>,
    life: Arc<Life>,
    /// Requests under way: the counter of `life`, for requests that are counted here.
    requests: Arc<Readers>,
    members: Membership,
    locks: RowLocks,
    /// None for level 0, which has nothing that could disagree.
    intent: Option<Intent>,
    /// None if writes are acknowledged by members.
    cache: Replaced<Option<Arc<Cache>>>,
    /// Held while the cache is replaced.
    switching: AsyncMutex<()>,
    selection: Replaced<Arc<dyn WriteSelection>>,
    /// The number of the policy that the members keep, if it is not known here and another policy stands in
    /// for it; else 0.
    unknown_policy: AtomicU8,
    /// Keeps the decisions of write selection, when it is on.
    tracer: Tracer,
    stats: Stats,
    /// Nothing is reconstructed where a resync is due: the array is read-only, and was not opened by force.
    doubts_stale: bool,
    /// Held while sectors are taken off members' bad-block logs.
    unlisting: AsyncMutex<()>,
    /// Chunks that partly failed to be read, and that wait to be healed.
    healing: Mutex<Healing>,
}

/// What an opening decides about an array's stripes.
pub(crate) struct StripeOptions {
    pub(crate) locks: RowLocks,
    pub(crate) intent: Option<Intent>,
    pub(crate) policy: &'static Policy,
    /// See [`Stripes`].
    pub(crate) unknown_policy: u8,
    /// See [`Stripes`].
    pub(crate) doubts_stale: bool,
    /// None if writes are acknowledged by members.
    pub(crate) cache: Option<Arc<Cache>>,
}

impl Stripes {
    pub(crate) fn new(life: Arc<Life>, members: Membership, options: StripeOptions) -> Arc<Self> {
        let StripeOptions { locks, intent, policy, unknown_policy, doubts_stale, cache } = options;
        let requests = life.requests().clone();
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            life,
            selection: Replaced::new(requests.clone(), Arc::new((policy.make)())),
            cache: Replaced::new(requests.clone(), Arc::new(cache)),
            switching: AsyncMutex::new(()),
            requests,
            members,
            locks,
            intent,
            unknown_policy: AtomicU8::new(unknown_policy),
            tracer: Tracer::default(),
            stats: Stats::default(),
            doubts_stale,
            unlisting: AsyncMutex::new(()),
            healing: Mutex::default(),
        })
    }

    /// Itself, for work that outlives its caller.
    fn handle(&self) -> Arc<Self> {
        self.me.upgrade().expect("its caller holds it")
    }

    /// The array's shape now.
    pub(crate) fn geometry(&self) -> Geometry {
        self.members.look(|topology| topology.geometry)
    }

    /// The cache, if there is one.
    pub(crate) fn cache(&self) -> Option<Arc<Cache>> {
        self.cache.look(Clone::clone)
    }

    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    pub(crate) fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    /// The write-intent bitmap, if the level has one.
    pub(crate) fn intent(&self) -> Option<&Intent> {
        self.intent.as_ref()
    }

    /// The number of the policy that the members keep, if it is not known here.
    pub(crate) fn unknown_policy(&self) -> Option<u8> {
        Some(self.unknown_policy.load(Ordering::Relaxed)).filter(|number| *number != 0)
    }

    /// Drops policies and caches that no request looks at any more.
    pub(crate) fn reclaim(&self) {
        self.selection.reclaim();
        self.reclaim_caches();
    }

    /// Checks that a request lies in the array and that the array takes requests.
    fn check_request(
        &self,
        geometry: &Geometry,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<(), ArrayError> {
        if self.life.is_closing() {
            return Err(ArrayError::Closed);
        }
        let block = u64::from(geometry.logical_block_bytes());
        let capacity_bytes = geometry.capacity_bytes();
        let end = offset_bytes.checked_add(len_bytes);
        let inside = end.is_some_and(|end| end <= capacity_bytes);
        // A block is a power of two, so one test covers both.
        if inside && (offset_bytes | len_bytes).is_multiple_of(block) {
            return Ok(());
        }
        let block_bytes = geometry.logical_block_bytes();
        Err(ArrayError::Range { offset_bytes, len_bytes, block_bytes, capacity_bytes })
    }

    /// As [`Stripes::check_request`], for requests that change data.
    fn check_change(&self, geometry: &Geometry, offset_bytes: u64, len_bytes: u64) -> Result<(), ArrayError> {
        if self.life.is_read_only() {
            return Err(ArrayError::ReadOnly);
        }
        self.check_request(geometry, offset_bytes, len_bytes)
    }

    /// Whether parity agrees with data in a stripe, as far as the bitmap knows. Once it does, it stays so
    /// during this opening, so a write may look several times.
    pub(crate) fn is_trusted(&self, stripe: StripeIndex) -> bool {
        self.intent.as_ref().is_none_or(|intent| intent.is_trusted(stripe))
    }
}
