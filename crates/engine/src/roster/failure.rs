//! Members that fail: dropped from the array at once, recorded on the survivors before anything is acknowledged.

use std::sync::{Arc, atomic::Ordering};

use stripewise_device::{IoError, IoErrorKind};
use stripewise_format::extension::MemberClass;

use crate::{
    array::Shared,
    error::{ArrayError, is_member_gone},
    intent::{Holder, IntentDisk},
    members::topology::{Member, Place, Recorded, Topology},
    metadata::ledger::{FailedMember, Ledger, Standing},
    mutants::{Mutant, lives},
    shape::geometry::StripeIndex,
    stripes::{Asks, detached::Detached},
};

/// Failed reads that a member may have before it is dropped, as md's `max_read_errors` (20): of a chunk that waits to be
/// healed, the first, and each block that cannot be read back when it was rewritten. The count is halved every hour.
const READ_ERRORS_MAX: u32 = 20;

/// What to do when the array cannot do without the members that are to be dropped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// They are lost: the array stops writing.
    GiveUp,
    /// They still serve: they stay.
    Refuse,
    /// As [`Limit::Refuse`]; an operator wants it, and no member has failed by itself.
    Ordered,
}

impl Shared {
    /// The one way by which the array's state changes: `change` alters ledger and topology under the ledger's lock,
    /// the result is written to all members, those that cannot take it are dropped, and only then does anybody
    /// acknowledge what relies on it. Nothing is changed or written once the array has failed.
    pub(crate) async fn change_state(
        &self,
        change: impl FnOnce(&mut Ledger, &Topology) -> Result<Option<Topology>, ArrayError>,
    ) -> Result<(), ArrayError> {
        self.change_state_then(change, |_| None).await
    }

    /// As [`Shared::change_state`], with a topology that counts only once the change is on all members that remain:
    /// `then` makes it from the one of that moment, in which a member may have failed meanwhile.
    pub(crate) async fn change_state_then(
        &self,
        change: impl FnOnce(&mut Ledger, &Topology) -> Result<Option<Topology>, ArrayError>,
        then: impl FnOnce(&Topology) -> Option<Topology>,
    ) -> Result<(), ArrayError> {
        if self.read_only {
            return Err(ArrayError::ReadOnly);
        }
        let mut ledger = self.ledger.lock().await;
        let topology = self.topology.load();
        if topology.failed {
            return Err(ArrayError::Failed);
        }
        let recorded = Recorded::pending();
        if let Some(mut next) = change(&mut ledger, &topology)? {
            next.recorded = recorded.clone();
            self.topology.store(Arc::new(next));
        }
        let result = self.write_down(&mut ledger, &recorded).await;
        if result.is_ok()
            && let Some(next) = then(&self.topology.load())
        {
            self.topology.store(Arc::new(next));
        }
        recorded.set();
        result
    }

    /// Changes the ledger alone, and writes it down.
    pub(crate) async fn record(&self, change: impl FnOnce(&mut Ledger)) -> Result<(), ArrayError> {
        self.change_state(|ledger, _| {
            change(ledger);
            Ok(None)
        })
        .await
    }

    /// Brings members level that a crash left an event behind, before the count is raised: with two crashes in a row
    /// they would be two behind, and stale.
    pub(crate) async fn catch_up(&self) -> Result<(), ArrayError> {
        if lives(Mutant::NoCatchUp) {
            return Ok(());
        }
        let mut ledger = self.ledger.lock().await;
        let failed = ledger.write_behind(self.env.wall_clock_us()).await;
        self.drop_unwritable(&mut ledger, failed).await
    }

    /// Drops members that could not take their metadata, and writes that down on the others.
    pub(super) async fn drop_unwritable(
        &self,
        ledger: &mut Ledger,
        failed: Vec<FailedMember>,
    ) -> Result<(), ArrayError> {
        if failed.is_empty() {
            return Ok(());
        }
        let recorded = Recorded::pending();
        let result = match self.drop_members(ledger, failed, &recorded, Limit::GiveUp) {
            Ok(_) => self.write_down(ledger, &recorded).await,
            Err(error) => Err(error),
        };
        recorded.set();
        result
    }

    /// Writes the ledger to all members, dropping those that cannot take it, until all that remain have.
    async fn write_down(&self, ledger: &mut Ledger, recorded: &Recorded) -> Result<(), ArrayError> {
        loop {
            let failed = ledger.write_all(self.env.wall_clock_us()).await;
            if failed.is_empty() {
                return Ok(());
            }
            self.drop_members(ledger, failed, recorded, Limit::GiveUp)?;
        }
    }

    /// Drops members from the array, all the way through even if the caller goes away.
    ///
    /// # Errors
    /// [`ArrayError::Failed`] when the level does not tolerate it: then nothing is recorded, so that an operator can
    /// still bring the members back together.
    pub(crate) async fn fail_all(&self, failed: Vec<FailedMember>) -> Result<(), ArrayError> {
        self.fail_within(failed, Limit::GiveUp).await
    }

    /// As [`Shared::fail_all`], with a choice of what happens beyond the level's tolerance.
    pub(crate) async fn fail_within(
        &self,
        failed: Vec<FailedMember>,
        limit: Limit,
    ) -> Result<(), ArrayError> {
        let Some(shared) = self.me.upgrade() else { return Err(ArrayError::Closed) };
        let drop_them = async move {
            let _working = shared.background.enter();
            shared.fail_now(failed, limit).await
        };
        Detached::start(&self.env, drop_them).await
    }

    async fn fail_now(&self, failed: Vec<FailedMember>, limit: Limit) -> Result<(), ArrayError> {
        let mut ledger = self.ledger.lock().await;
        if self.topology.load().failed {
            return Err(ArrayError::Failed);
        }
        let recorded = Recorded::pending();
        let result = match self.drop_members(&mut ledger, failed, &recorded, limit) {
            Ok(true) if self.records() && !lives(Mutant::FailureNotRecorded) => {
                self.write_down(&mut ledger, &recorded).await
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        recorded.set();
        result
    }

    /// Whether failures are written down.
    fn records(&self) -> bool {
        !self.read_only || lives(Mutant::ReadOnlyRecords)
    }

    /// Takes members out of topology and ledger, all of them or, beyond the tolerance, none. False: there was
    /// nothing to do.
    fn drop_members(
        &self,
        ledger: &mut Ledger,
        failed: Vec<FailedMember>,
        recorded: &Recorded,
        limit: Limit,
    ) -> Result<bool, ArrayError> {
        let mut next = (*self.topology.load()).clone();
        let mut dropped = Vec::new();
        for (member, error) in failed {
            let place = next.place_of(&member);
            let is_spare = ledger.entry_mut(&member).is_some_and(|entry| entry.standing == Standing::Spare);
            if place.is_none() && !is_spare {
                continue;
            }
            place.into_iter().for_each(|place| next.remove(place));
            dropped.push((member, place, error));
        }
        if dropped.is_empty() {
            return Ok(false);
        }
        let losses = match lives(Mutant::IncomingCountsAsLoss) {
            true => self.topology.load().degraded() + dropped.len(),
            false => next.degraded(),
        };
        if losses > self.geometry.parity_columns() {
            if limit == Limit::GiveUp {
                dropped.iter().for_each(|(member, _, error)| {
                    tracing::warn!(member = member.name(), %error, "member failed, and the array cannot do without it");
                });
                self.give_up(recorded);
            }
            return Err(ArrayError::Failed);
        }
        next.recorded = recorded.clone();
        for (member, place, error) in dropped {
            match limit {
                // An operator's word, and no error of the member's.
                Limit::Ordered => tracing::info!(member = member.name(), "member declared failed"),
                Limit::Refuse | Limit::GiveUp => {
                    tracing::warn!(member = member.name(), %error, "member failed")
                }
            }
            ledger.set_standing(&member, Standing::Faulty);
            place.into_iter().for_each(|place| settle_slot(ledger, &next, place));
        }
        self.topology.store(Arc::new(next));
        self.holders_changed.store(true, Ordering::Release);
        // A spare may take the vacant role.
        self.members_changed.store(true, Ordering::Release);
        self.jobs.poke();
        Ok(true)
    }

    /// The array has failed: it stays as it is on disk, and takes no more writes.
    fn give_up(&self, recorded: &Recorded) {
        tracing::error!("the array has lost more members than it tolerates: it stops writing");
        let mut next = (*self.topology.load()).clone();
        next.failed = true;
        next.recorded = recorded.clone();
        self.topology.store(Arc::new(next));
    }

    /// A read that failed: the member is dropped if it is gone or has failed too often, else its block is healed
    /// later from the others.
    pub(crate) async fn note_read_error(
        &self,
        member: &Arc<Member>,
        stripe: StripeIndex,
        column: usize,
        error: IoError,
        asks: Asks,
    ) {
        let chunk = (stripe.0, column);
        let note = || match asks {
            _ if self.read_only => true,
            Asks::Healing => self.healing.lock().note_own(chunk),
            _ => self.healing.lock().note(chunk),
        };
        if error.kind == IoErrorKind::BadBlock {
            note();
            return; // the member was not asked
        }
        self.stats.count_read_error();
        tracing::warn!(member = member.name(), stripe = stripe.0, %error, "read failed");
        if error.kind == IoErrorKind::Refused {
            return; // our request was wrong, not the member
        }
        if !is_member_gone(&error) {
            // A chunk that waits to be healed counts once, however many want it meanwhile.
            if !note() || asks == Asks::Healing || !is_one_too_many(member) {
                return;
            }
            self.healing.lock().forget(chunk);
        }
        self.drop_if_possible(member, error).await;
    }

    /// A block that was rewritten and still cannot be read: the member does not keep what it takes, and is dropped once that
    /// has happened too often.
    pub(crate) async fn note_unhealed(&self, member: &Arc<Member>, stripe: StripeIndex, error: IoError) {
        tracing::warn!(member = member.name(), stripe = stripe.0, "a block was rewritten and cannot be read");
        if !lives(Mutant::UnkeptUncounted) && is_one_too_many(member) {
            self.drop_if_possible(member, error).await;
        }
    }

    /// Drops a member that reads badly. On the level's last legs it stays: what it can still read is all there is.
    async fn drop_if_possible(&self, member: &Arc<Member>, error: IoError) {
        let _ = self.fail_within(vec![(member.clone(), error)], Limit::Refuse).await;
    }
}

/// Counts a failed read. True if the member has had as many as it may have before.
fn is_one_too_many(member: &Member) -> bool {
    member.read_errors.fetch_add(1, Ordering::Relaxed) >= READ_ERRORS_MAX
        && !lives(Mutant::ReadErrorsUncounted)
}

/// A member that left changes what the other of its slot is: one whose replacement failed stays.
fn settle_slot(ledger: &mut Ledger, topology: &Topology, left: Place) {
    let (Place::Primary(index) | Place::Incoming(index)) = left;
    let slot = &topology.slots[index.0];
    if let Some(primary) = &slot.primary
        && !lives(Mutant::ReplacedStaysFaulty)
    {
        ledger.set_standing(primary, Standing::Active(index));
    }
}

impl Shared {
    /// Who of these members holds the bitmap: flash first, where a page write costs no seek, and then who is no slower than the
    /// fastest by half, as reads were measured, since writes may not have been; one more copy than members that may be lost,
    /// at least two.
    fn holders_among<'a>(&self, members: impl Iterator<Item = &'a Arc<Member>>) -> Vec<Holder> {
        let offsets = self.bitmap_offsets.read();
        let holder = |member: &Arc<Member>| {
            let bitmap_offset_bytes = *offsets.get(&member.dev_number)?;
            Some(Holder { member: member.clone(), bitmap_offset_bytes })
        };
        let mut holders: Vec<_> = members.filter_map(holder).collect();
        let speed = |Holder { member, .. }: &Holder| {
            (usize::from(member.class() != MemberClass::Ssd), member.times.block_read_ns())
        };
        let mut fastest_ns = [u64::MAX; 2];
        for (kind, ns) in holders.iter().map(speed) {
            fastest_ns[kind] = fastest_ns[kind].min(ns);
        }
        // Each is looked at once: an operator may say meanwhile that it is of the other kind.
        holders.sort_by_cached_key(|holder| {
            let (kind, ns) = speed(holder);
            (kind, ns > fastest_ns[kind].saturating_mul(3) / 2)
        });
        holders.truncate((self.geometry.parity_columns() + 1).max(2));
        holders
    }
}

impl IntentDisk for Shared {
    fn has_failed(&self) -> bool {
        self.topology.look(|topology| topology.failed)
    }

    async fn record_clean(&self, clean: bool) -> bool {
        self.record(|ledger| ledger.clean = clean).await.is_ok()
    }

    fn holders(&self) -> Vec<Holder> {
        let topology = self.topology.load();
        let mut holders = self.holders_among(topology.primaries());
        if let Some((leaves, comes)) = &*self.handing_over.lock() {
            let stays = topology.primaries().filter(|member| !Arc::ptr_eq(member, leaves));
            let after = self.holders_among(stays.chain([comes]));
            let is_known =
                |holder: &Holder| holders.iter().any(|known| Arc::ptr_eq(&known.member, &holder.member));
            let new: Vec<_> = after.into_iter().filter(|holder| !is_known(holder)).collect();
            holders.extend(new);
        }
        holders
    }

    async fn fail_members(&self, failed: Vec<FailedMember>) -> bool {
        self.fail_all(failed).await.is_ok()
    }

    async fn flush_members(&self) -> bool {
        self.flush().await.is_ok()
    }
}
