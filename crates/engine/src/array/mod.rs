//! The array: requests of clients, and the state they share.
//!
//! The way of a write: geometry (stripes, columns) -> row locks -> bitmap intent -> plan -> recipe -> reads, XOR, writes ->
//! failed members recorded -> done. One direction, no stepping back; where a read fails before anything is written, another
//! recipe is made for what is left.

pub(crate) mod control;
mod device;
mod report;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
};

use futures_util::lock::Mutex as AsyncMutex;
use parking_lot::{Mutex, RwLock};
use stripewise_device::{
    EnvHandle,
    sync::{Readers, Replaced},
};
use stripewise_format::md::ArrayName;
use uuid::Uuid;

pub use device::ArrayDevice;
pub use report::{ArrayReport, BitmapReport, MemberReport, MemberState, StripeReport};

use crate::{
    error::ArrayError,
    intent::Intent,
    jobs::{JobBoard, Tuning},
    locks::RowLocks,
    members::{
        stats::Stats,
        topology::{Member, Topology},
    },
    metadata::ledger::Ledger,
    opening::candidates::Excluded,
    plan::WriteSelection,
    shape::geometry::{Geometry, StripeIndex},
    stripes::{Healing, trace::Tracer},
};

/// An open array. Clones are handles to the same array.
///
/// When the last handle is dropped, without [`Array::stop`], requests under way go to their end and background work ends; then the
/// members are free. They are left as a crash leaves them: the next opening resyncs what the bitmap marks.
#[derive(Clone)]
pub struct Array {
    pub(crate) shared: Arc<Shared>,
    _handles: Arc<Handles>,
}

/// All handles to an array together.
struct Handles(Weak<Shared>);

/// Nobody can ask the array for anything any more: its own work ends.
impl Drop for Handles {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.closing.store(true, Ordering::SeqCst);
            shared.jobs.poke();
        }
    }
}

/// What every request of an array works with.
pub(crate) struct Shared {
    /// Itself, for work that must outlive its caller.
    pub(crate) me: Weak<Shared>,
    pub(crate) env: EnvHandle,
    pub(crate) geometry: Geometry,
    pub(crate) uuid: Uuid,
    pub(crate) name: ArrayName,
    pub(crate) topology: Replaced<Topology>,
    pub(crate) locks: RowLocks,
    /// None for level 0, which has nothing that could disagree.
    pub(crate) intent: Option<Intent>,
    /// Where each member keeps its bitmap, by device number; members without extension area are not listed.
    pub(crate) bitmap_offsets: RwLock<BTreeMap<u32, u64>>,
    pub(crate) ledger: AsyncMutex<Ledger>,
    pub(crate) selection: Replaced<Arc<dyn WriteSelection>>,
    /// The number of the policy that the members keep, if it is not known here and another one stands in for it; else 0.
    pub(crate) unknown_policy: AtomicU8,
    /// The selection looks at what members' I/O costs.
    pub(crate) metered: AtomicBool,
    /// Names of devices on their way into the array.
    pub(crate) enrolling: Mutex<std::collections::BTreeSet<String>>,
    /// Who sees the decisions of write selection.
    pub(crate) tracer: Tracer,
    pub(crate) jobs: Arc<JobBoard>,
    pub(crate) stats: Stats,
    pub(crate) closing: AtomicBool,
    pub(crate) read_only: bool,
    /// Nothing is reconstructed where a resync is due: the array is read-only, and nobody has forced it.
    pub(crate) doubts_stale: bool,
    /// Devices that were given and take no part, for people.
    pub(crate) excluded: Vec<Excluded>,
    /// Members that were taken by force although they are not current, for people.
    pub(crate) forced: Vec<Excluded>,
    /// The steps of background work.
    pub(crate) tuning: Tuning,
    /// Requests being served, for stopping and for background jobs that give way.
    pub(crate) requests: Arc<Readers>,
    /// The array's own tasks at work: stopping waits for them too.
    pub(crate) background: Readers,
    /// The member that leaves, and the one that takes its place, while that is being written down: bitmap pages go to
    /// whoever holds them before, and after.
    pub(crate) handing_over: Mutex<Option<(Arc<Member>, Arc<Member>)>>,
    /// A member that may have held bitmap pages was dropped: they are due to be written to others.
    pub(crate) holders_changed: AtomicBool,
    /// A member was dropped, or a spare came, since the last job began: a rebuild may be due.
    pub(crate) members_changed: AtomicBool,
    /// Held while sectors are taken off members' bad-block logs.
    pub(crate) unlisting: AsyncMutex<()>,
    /// Chunks some of which failed to be read and that wait to be healed.
    pub(crate) healing: Mutex<Healing>,
}

impl Array {
    pub(crate) fn of(shared: Arc<Shared>) -> Self {
        let handles = Arc::new(Handles(Arc::downgrade(&shared)));
        Self { shared, _handles: handles }
    }

    /// The array's shape.
    pub fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }

    /// The array's identity.
    pub fn uuid(&self) -> Uuid {
        self.shared.uuid
    }

    /// The array's name as the superblocks have it, by custom `host:name`.
    pub fn name(&self) -> String {
        self.shared.name.to_string()
    }

    /// Whether the array takes no writes.
    pub fn is_read_only(&self) -> bool {
        self.shared.read_only
    }

    /// The environment the array runs in.
    pub fn env(&self) -> &EnvHandle {
        &self.shared.env
    }

    /// What the array has done since it was opened.
    pub fn stats(&self) -> &Stats {
        &self.shared.stats
    }
}

impl Shared {
    /// Itself, for what outlives its caller.
    pub(crate) fn handle(&self) -> Arc<Self> {
        self.me.upgrade().expect("who calls it holds it")
    }

    /// Checks that a request lies in the array and that the array takes requests.
    pub(crate) fn check_request(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), ArrayError> {
        if self.closing.load(Ordering::SeqCst) {
            return Err(ArrayError::Closed);
        }
        let block = u64::from(self.geometry.logical_block_bytes());
        let capacity_bytes = self.geometry.capacity_bytes();
        let end = offset_bytes.checked_add(len_bytes);
        let inside = end.is_some_and(|end| end <= capacity_bytes);
        if inside && offset_bytes.is_multiple_of(block) && len_bytes.is_multiple_of(block) {
            return Ok(());
        }
        let block_bytes = self.geometry.logical_block_bytes();
        Err(ArrayError::Range { offset_bytes, len_bytes, block_bytes, capacity_bytes })
    }

    /// As [`Shared::check_request`], for requests that change data.
    pub(crate) fn check_change(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), ArrayError> {
        if self.read_only {
            return Err(ArrayError::ReadOnly);
        }
        self.check_request(offset_bytes, len_bytes)
    }

    /// Whether parity agrees with data in a stripe, as far as the bitmap knows. Once it does it stays so in this opening: a
    /// write may look several times.
    pub(crate) fn is_trusted(&self, stripe: StripeIndex) -> bool {
        self.intent.as_ref().is_none_or(|intent| intent.is_trusted(stripe))
    }
}
