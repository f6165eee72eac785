//! Which members the array has right now. A topology never changes; a new one replaces it.

use std::{ops::Range, sync::Arc};

use smallvec::SmallVec;
use stripewise_device::sync::{
    Event,
    seam::atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::member::Member;
use crate::{
    error::ArrayError,
    mutants::{Mutant, lives},
    plan::Presence,
    shape::geometry::{Geometry, MemberIndex, StripeIndex},
};

/// A member that is being filled to become the member of its slot.
pub(crate) struct Incoming {
    pub(crate) member: Arc<Member>,
    /// Stripes below this one are complete on the member. It moves only while the rows that it passes are
    /// locked.
    done_stripes: AtomicU64,
}

impl Incoming {
    pub(crate) fn new(member: Arc<Member>, done_stripes: u64) -> Arc<Self> {
        Arc::new(Self { member, done_stripes: AtomicU64::new(done_stripes) })
    }

    pub(crate) fn done_stripes(&self) -> u64 {
        self.done_stripes.load(Ordering::Acquire)
    }

    pub(crate) fn advance(&self, done_stripes: u64) {
        let before = self.done_stripes.swap(done_stripes, Ordering::AcqRel);
        debug_assert!(before <= done_stripes, "a rebuild moves forward");
    }

    fn covers(&self, stripe: StripeIndex) -> bool {
        lives(Mutant::ReadIncompleteMember) || stripe.0 < self.done_stripes()
    }
}

/// One role of the array.
#[derive(Clone, Default)]
pub(crate) struct SlotState {
    /// The member in sync.
    pub(crate) primary: Option<Arc<Member>>,
    /// The member being filled.
    pub(crate) incoming: Option<Arc<Incoming>>,
}

/// Whether the superblocks already say what a topology says. A write that passes over a failed member is
/// acknowledged only after they do. Otherwise that member could come back as current after a crash.
#[derive(Clone)]
pub(crate) struct Recorded {
    done: Arc<AtomicBool>,
    event: Event<()>,
}

impl Recorded {
    pub(crate) fn pending() -> Self {
        Self { done: Arc::new(AtomicBool::new(false)), event: Event::default() }
    }

    pub(crate) fn already() -> Self {
        let recorded = Self::pending();
        recorded.set();
        recorded
    }

    pub(crate) fn set(&self) {
        self.done.store(true, Ordering::Release);
        self.event.set(());
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// The acknowledgement of a request that relied on this; None while not all is written down. Whether the
    /// array has failed is checked only after that: it may have failed while the change was being written
    /// down, and then nothing was written.
    pub(crate) fn acknowledgement(
        &self,
        has_failed: impl FnOnce() -> bool,
    ) -> Option<Result<(), ArrayError>> {
        self.is_done().then(|| if has_failed() { Err(ArrayError::Failed) } else { Ok(()) })
    }

    pub(crate) async fn wait(&self) {
        if !self.is_done() {
            self.event.wait().await;
        }
    }
}

/// The members of an array at one moment.
#[derive(Clone)]
pub(crate) struct Topology {
    /// The array's shape.
    pub(crate) geometry: Geometry,
    pub(crate) slots: Vec<SlotState>,
    /// More members are lost than the level tolerates: nothing is written any more.
    pub(crate) failed: bool,
    pub(crate) recorded: Recorded,
}

/// The place of a member in the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Primary(MemberIndex),
    Incoming(MemberIndex),
}

impl Place {
    /// The role that this place belongs to.
    pub(crate) fn role(self) -> MemberIndex {
        let (Self::Primary(role) | Self::Incoming(role)) = self;
        role
    }
}

impl Topology {
    /// The slot that holds a column of a stripe.
    fn slot(&self, stripe: StripeIndex, column: usize) -> &SlotState {
        &self.slots[self.geometry.member_of(stripe, column).0]
    }

    /// The member to read a column of a stripe from.
    pub(crate) fn reader(&self, stripe: StripeIndex, column: usize) -> Option<&Arc<Member>> {
        let slot = self.slot(stripe, column);
        let incoming = || slot.incoming.as_ref().filter(|incoming| incoming.covers(stripe));
        slot.primary.as_ref().or_else(|| incoming().map(|incoming| &incoming.member))
    }

    /// The members to write a column of a stripe to: the one in sync, and the one being filled if it is past
    /// the stripe.
    pub(crate) fn writers(
        &self,
        stripe: StripeIndex,
        column: usize,
    ) -> impl Iterator<Item = &Arc<Member>> + use<'_> {
        let (primary, incoming) = self.writers_by_place(stripe, column);
        primary.into_iter().chain(incoming)
    }

    /// As [`Topology::writers`]: the one in sync, and the one being filled.
    #[inline]
    pub(crate) fn writers_by_place(
        &self,
        stripe: StripeIndex,
        column: usize,
    ) -> (Option<&Arc<Member>>, Option<&Arc<Member>>) {
        let slot = self.slot(stripe, column);
        let incoming = slot.incoming.as_ref().filter(move |incoming| incoming.covers(stripe));
        let incoming = incoming.filter(|_| !lives(Mutant::WritesPassIncoming));
        (slot.primary.as_ref(), incoming.map(|incoming| &incoming.member))
    }

    /// The members to write whole chunks of a role to, for consecutive stripes. The member in sync gets all
    /// the stripes, a member being filled only those that it is past.
    pub(crate) fn writers_of_run(
        &self,
        slot: usize,
        stripes: &Range<u64>,
    ) -> impl Iterator<Item = (&Arc<Member>, Range<u64>)> {
        let SlotState { primary, incoming } = &self.slots[slot];
        let incoming = incoming.iter().filter_map(|incoming| {
            let filled = stripes.start..stripes.end.min(incoming.done_stripes());
            let passes_by = lives(Mutant::WritesPassIncoming) || lives(Mutant::ZeroPassesIncoming);
            (!filled.is_empty() && !passes_by).then_some((&incoming.member, filled))
        });
        primary.iter().map(|member| (member, stripes.clone())).chain(incoming)
    }

    /// Whether every slot has a member in sync, so that every column of every stripe can be used.
    pub(crate) fn has_all(&self) -> bool {
        self.slots.iter().all(|slot| slot.primary.is_some())
    }

    /// The columns of a stripe that cannot be used.
    pub(crate) fn missing(&self, stripe: StripeIndex) -> SmallVec<[usize; 2]> {
        let covers =
            |slot: &SlotState| slot.incoming.as_ref().is_some_and(|incoming| incoming.covers(stripe));
        let is_missing = |slot: &SlotState| slot.primary.is_none() && !covers(slot);
        let slots = self.slots.iter().enumerate().filter(|(_, slot)| is_missing(slot));
        slots.map(|(slot, _)| self.geometry.column_of(stripe, MemberIndex(slot))).collect()
    }

    /// Whether a column of a stripe can be used.
    pub(crate) fn presence(&self, stripe: StripeIndex, column: usize) -> Presence {
        if self.reader(stripe, column).is_some() { Presence::Present } else { Presence::Missing }
    }

    /// All members in sync.
    pub(crate) fn primaries(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.slots.iter().filter_map(|slot| slot.primary.as_ref())
    }

    /// All members that hold current data, wholly or up to some stripe.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.slots
            .iter()
            .flat_map(|slot| slot.primary.iter().chain(slot.incoming.as_ref().map(|i| &i.member)))
    }

    /// Slots without a member in sync.
    pub(crate) fn degraded(&self) -> usize {
        self.slots.iter().filter(|slot| slot.primary.is_none()).count()
    }

    fn is_lost(&self, member: MemberIndex) -> bool {
        self.slots[member.0].primary.is_none()
    }

    /// Whether all data is there.
    pub(crate) fn survives(&self) -> bool {
        self.geometry.survives(|member| self.is_lost(member))
    }

    /// Whether a member that is being filled has a stripe already.
    pub(crate) fn is_filled_at(&self, stripe: StripeIndex) -> bool {
        self.slots
            .iter()
            .any(|slot| slot.incoming.as_ref().is_some_and(|incoming| incoming.done_stripes() > stripe.0))
    }

    /// How many more members may be lost, whichever they are.
    pub(crate) fn spare(&self) -> usize {
        self.geometry.spare(|member| self.is_lost(member))
    }

    /// Where a member stands, if it is still part of the array.
    pub(crate) fn place_of(&self, member: &Arc<Member>) -> Option<Place> {
        self.slots.iter().enumerate().find_map(|(index, slot)| {
            if slot.primary.as_ref().is_some_and(|m| Arc::ptr_eq(m, member)) {
                return Some(Place::Primary(MemberIndex(index)));
            }
            let incoming = slot.incoming.as_ref().is_some_and(|i| Arc::ptr_eq(&i.member, member));
            incoming.then_some(Place::Incoming(MemberIndex(index)))
        })
    }

    /// Takes out the member at `place`.
    pub(crate) fn remove(&mut self, place: Place) {
        match place {
            Place::Primary(slot) => self.slots[slot.0].primary = None,
            Place::Incoming(slot) => self.slots[slot.0].incoming = None,
        }
    }

    /// This topology with another member in sync for a slot, and none being filled there.
    pub(crate) fn with_primary(&self, slot: MemberIndex, member: &Arc<Member>) -> Self {
        let mut next = self.clone();
        next.slots[slot.0] = SlotState { primary: Some(member.clone()), incoming: None };
        next
    }

    /// Whether this is the incoming member of that role.
    pub(crate) fn is_incoming(&self, slot: MemberIndex, incoming: &Arc<Incoming>) -> bool {
        self.slots[slot.0].incoming.as_ref().is_some_and(|current| Arc::ptr_eq(current, incoming))
    }
}
