//! Members that fail: dropped from the array at once, recorded on the survivors before anything is acknowledged.

use std::sync::{Arc, atomic::Ordering};

use stripewise_device::IoError;

use super::{Shared, write::is_member_gone};
use crate::{
    error::ArrayError,
    geometry::StripeIndex,
    intent::{Holder, IntentDisk},
    ledger::{FailedMember, Standing},
    topology::{Member, Place, Topology},
};

/// Failed reads that a member may have before it is dropped, as md's `max_read_errors` (20).
const READ_ERRORS_MAX: u32 = 20;

impl Shared {
    /// Drops members from the array.
    ///
    /// # Errors
    /// [`ArrayError::Failed`] when the level does not tolerate it: then nothing is recorded, so that an operator can
    /// still bring the members back together.
    pub(crate) async fn fail_all(&self, failed: Vec<FailedMember>) -> Result<(), ArrayError> {
        let mut ledger = self.ledger.lock().await;
        let mut queue = failed;
        let mut changed = None;
        while !queue.is_empty() {
            let mut dropped = false;
            for (member, error) in queue.drain(..) {
                let topology = self.topology.load_full();
                let Some(place) = topology.place_of(&member) else { continue };
                tracing::warn!(member = member.name(), %error, "member failed and is dropped from the array");
                let Some(next) = self.tolerable(&topology, place) else {
                    self.give_up(&topology, &member);
                    return Err(ArrayError::Failed);
                };
                changed = Some(next.recorded.clone());
                self.topology.store(Arc::new(next));
                ledger.set_standing(&member, Standing::Faulty);
                dropped = true;
            }
            if dropped {
                queue = ledger.write_all(self.env.wall_clock_us()).await;
            }
        }
        if let Some(recorded) = changed {
            recorded.set();
        }
        drop(ledger);
        // Somebody else may have dropped the same member and still be writing that down.
        self.topology.load_full().recorded.wait().await;
        if self.topology.load().failed { Err(ArrayError::Failed) } else { Ok(()) }
    }

    /// The topology without that member, if the level can do without.
    fn tolerable(&self, topology: &Topology, place: Place) -> Option<Topology> {
        let next = topology.without(place);
        let enough = next.degraded() <= self.geometry.parity_columns();
        (enough || matches!(place, Place::Incoming(_))).then_some(next)
    }

    /// The array has failed: it stays as it is on disk, and takes no more writes.
    fn give_up(&self, topology: &Topology, member: &Arc<Member>) {
        tracing::error!(
            member = member.name(),
            "the array has lost more members than it tolerates: stopped writing"
        );
        let mut next = topology.clone();
        next.failed = true;
        let recorded = next.recorded.clone();
        self.topology.store(Arc::new(next));
        recorded.set();
    }

    /// A read that failed: the member is dropped if it is gone or has failed too often, else its block is healed
    /// later from the others.
    pub(crate) async fn note_read_error(
        &self,
        member: &Arc<Member>,
        stripe: StripeIndex,
        column: usize,
        error: IoError,
    ) {
        self.stats.count_read_error();
        let errors = member.read_errors.fetch_add(1, Ordering::Relaxed) + 1;
        tracing::warn!(member = member.name(), stripe = stripe.0, %error, errors, "read failed");
        if is_member_gone(&error) || errors > READ_ERRORS_MAX {
            // On the level's last legs the member stays: what it can still read is all there is.
            let topology = self.topology.load_full();
            if topology.place_of(member).is_some_and(|place| self.tolerable(&topology, place).is_some()) {
                let _ = self.fail_all(vec![(member.clone(), error)]).await;
            }
            return;
        }
        self.healing.lock().insert((stripe.0, column));
    }
}

impl IntentDisk for Shared {
    async fn record_clean(&self, clean: bool) -> bool {
        let failed = {
            let mut ledger = self.ledger.lock().await;
            ledger.clean = clean;
            ledger.write_all(self.env.wall_clock_us()).await
        };
        failed.is_empty() || self.fail_members(failed).await
    }

    fn holders(&self) -> Vec<Holder> {
        let offsets = self.bitmap_offsets.read();
        let mut holders: Vec<_> = self
            .topology
            .load()
            .primaries()
            .filter_map(|member| {
                let bitmap_offset_bytes = *offsets.get(&member.dev_number)?;
                Some(Holder { member: member.clone(), bitmap_offset_bytes })
            })
            .collect();
        // Flash first: a page write there costs no seek. One more copy than members that may be lost, at least two.
        holders.sort_by_key(|holder| holder.member.device.info().media != stripewise_device::MediaKind::Ssd);
        holders.truncate((self.geometry.parity_columns() + 1).max(2));
        holders
    }

    async fn fail_members(&self, failed: Vec<FailedMember>) -> bool {
        self.fail_all(failed).await.is_ok()
    }

    async fn flush_members(&self) -> bool {
        self.flush().await.is_ok()
    }
}
