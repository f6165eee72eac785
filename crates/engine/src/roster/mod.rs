//! The roster: which devices belong to the array, and the one way by which that changes.
//!
//! Requests use the roster through [`membership`]: it shows them the members now, and they report failed
//! members to it.

mod commands;
mod failure;
mod holders;
mod kept;
pub(crate) mod membership;
pub(crate) mod spares;
mod state;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::lock::Mutex as AsyncMutex;
use parking_lot::{Mutex, RwLock};
use stripewise_device::sync::Replaced;

use crate::{
    error::ArrayError,
    jobs::{board::JobBoard, events::ArrayEvent},
    life::Life,
    members::{member::Member, topology::Topology},
    metadata::ledger::Ledger,
    mutants::{Mutant, lives},
};

/// What to do when the array cannot do without the members that should be dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// The members are lost: the array stops writing.
    GiveUp,
    /// The members still serve: they stay.
    Refuse,
    /// As [`Limit::Refuse`]; an operator wants it, and no member has failed by itself.
    Ordered,
}

/// The members of an open array, in memory and on disk.
pub(crate) struct Roster {
    /// Itself, for work that outlives its caller.
    me: Weak<Roster>,
    life: Arc<Life>,
    topology: Replaced<Topology>,
    ledger: AsyncMutex<Ledger>,
    /// Where each member keeps its bitmap, by device number; members without an extension area are not
    /// listed.
    bitmap_offsets: RwLock<BTreeMap<u32, u64>>,
    /// Numbers of members that the array could not do without and has lost. Nothing of it is recorded.
    lost: Mutex<BTreeSet<u32>>,
    /// Names of devices on their way into the array.
    enrolling: Mutex<BTreeSet<String>>,
    /// The outgoing and the incoming member, while the handover is being recorded. Meanwhile bitmap pages go
    /// to the holders before and after it.
    handing_over: Mutex<Option<(Arc<Member>, Arc<Member>)>>,
    /// The holders of bitmap pages may have changed: the pages are due to be written to the new holders.
    holders_changed: AtomicBool,
    /// A member was dropped, or a spare came, since the last job began: a rebuild may be due.
    members_changed: AtomicBool,
    /// The cost of members' I/O is measured, because the selection policy looks at it.
    metered: AtomicBool,
    /// Told when members change.
    board: Arc<JobBoard>,
}

impl Roster {
    pub(crate) fn new(
        life: Arc<Life>,
        board: Arc<JobBoard>,
        topology: Topology,
        ledger: Ledger,
        bitmap_offsets: BTreeMap<u32, u64>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            topology: Replaced::new(life.requests().clone(), Arc::new(topology)),
            life,
            ledger: AsyncMutex::new(ledger),
            bitmap_offsets: RwLock::new(bitmap_offsets),
            lost: Mutex::default(),
            enrolling: Mutex::default(),
            handing_over: Mutex::default(),
            holders_changed: AtomicBool::new(false),
            members_changed: AtomicBool::new(false),
            metered: AtomicBool::new(false),
            board,
        })
    }

    /// Tells listeners what has happened to a member.
    pub(crate) fn tell(&self, event: &ArrayEvent) {
        self.board.listeners().tell(event);
    }

    /// The members now.
    pub(crate) fn topology(&self) -> Arc<Topology> {
        self.topology.load()
    }

    /// Whether more members are lost than the level tolerates.
    pub(crate) fn has_failed(&self) -> bool {
        self.topology.look(|topology| topology.failed)
    }

    /// Whether a member is missing, or is being filled.
    pub(crate) fn is_degraded(&self) -> bool {
        self.topology.look(|topology| !topology.has_all())
    }

    /// The members, unless the array has failed. For a job whose rows are locked: a batch that waited while
    /// the array failed may have half-written rows now, so nothing may be made from them, and nothing
    /// written.
    pub(crate) fn unfailed(&self) -> Result<Arc<Topology>, ArrayError> {
        let topology = self.topology.load();
        if topology.failed && !lives(Mutant::FailedJobsGoOn) { Err(ArrayError::Failed) } else { Ok(topology) }
    }

    /// Drops topologies that no request looks at any more, and with them members that have left. True if no
    /// such topology is left.
    pub(crate) fn reclaim(&self) -> bool {
        self.topology.reclaim()
    }

    /// The attached member of that name.
    pub(crate) async fn find(&self, name: &str) -> Result<Arc<Member>, ArrayError> {
        let ledger = self.ledger.lock().await;
        let entry = ledger.entries.iter().find(|entry| entry.member.name() == name);
        entry
            .map(|entry| entry.member.clone())
            .ok_or_else(|| problem(name, "it is not a member of this array"))
    }

    /// Looks at ledger and topology while neither changes.
    pub(crate) async fn look<T>(&self, at: impl FnOnce(&Ledger, &Topology) -> T) -> T {
        let ledger = self.ledger.lock().await;
        at(&ledger, &self.topology.load())
    }

    /// Takes the note that bitmap pages are due to be written to other members.
    pub(crate) fn take_holders_changed(&self) -> bool {
        self.holders_changed.swap(false, Ordering::AcqRel)
    }

    /// Whether redundancy is left to be checked.
    pub(crate) fn check_redundancy_left(&self) -> Result<(), ArrayError> {
        if self.topology.look(|topology| topology.spare()) > 0 {
            return Ok(());
        }
        let what = "the array is degraded: no redundancy is left that could be checked; rebuild it first";
        Err(ArrayError::Unsupported(what.to_owned()))
    }

    /// Notes that a spare came: a rebuild may be due.
    pub(crate) fn note_change(&self) {
        self.members_changed.store(!lives(Mutant::SpareComesUnseen), Ordering::Release);
        self.board.poke();
    }

    /// Whether members have changed since [`Roster::forget_change`].
    pub(crate) fn has_changed(&self) -> bool {
        self.members_changed.load(Ordering::Acquire)
    }

    /// Forgets changes of members: a job begins that sees the members as they are now.
    pub(crate) fn forget_change(&self) {
        self.members_changed.store(false, Ordering::Release);
    }

    /// Switches the members' meters: they run if the selection policy looks at them.
    pub(crate) fn switch_meters(&self, on: bool, ledger: &Ledger) {
        self.metered.store(on, Ordering::Relaxed);
        for entry in &ledger.entries {
            entry.member.meter.switch(on, self.life.env());
        }
    }
}

/// What is wrong with a member.
fn problem(member: &str, problem: &str) -> ArrayError {
    ArrayError::Member { member: member.to_owned(), problem: problem.to_owned() }
}
