//! Which members hold the write-intent bitmap.

use std::sync::Arc;

use parking_lot::Mutex;
use stripewise_format::extension::MemberClass;

use super::Roster;
use crate::{intent::Holder, members::member::Member, shape::geometry::Geometry};

impl Roster {
    /// Which of these members hold the bitmap. Flash comes first, where a page write costs no seek. Of each
    /// kind, members that are slower than the fastest by at most half come first. Measured reads decide,
    /// since writes may not have been measured. There is one more copy than members that may be lost, and at
    /// least two.
    fn holders_among<'a>(
        &self,
        geometry: &Geometry,
        members: impl Iterator<Item = &'a Arc<Member>>,
    ) -> Vec<Holder> {
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
        // Each member is looked at once: an operator may say meanwhile that it is of the other kind.
        holders.sort_by_cached_key(|holder| {
            let (kind, ns) = speed(holder);
            (kind, ns > fastest_ns[kind].saturating_mul(3) / 2)
        });
        holders.truncate((geometry.tolerance() + 1).max(2));
        holders
    }

    /// The members that hold copies of the bitmap now.
    pub(crate) fn holders(&self) -> Vec<Holder> {
        let topology = self.topology.load();
        let mut holders = self.holders_among(&topology.geometry, topology.primaries());
        if let Some((leaves, comes)) = &*self.handing_over.lock() {
            let stays = topology.primaries().filter(|member| !Arc::ptr_eq(member, leaves));
            let after = self.holders_among(&topology.geometry, stays.chain([comes]));
            let is_known =
                |holder: &Holder| holders.iter().any(|known| Arc::ptr_eq(&known.member, &holder.member));
            let new: Vec<_> = after.into_iter().filter(|holder| !is_known(holder)).collect();
            holders.extend(new);
        }
        holders
    }

    /// Has bitmap pages written to the holders before and after a handover, until the result is dropped.
    pub(crate) fn hand_over(&self, leaves: Arc<Member>, comes: &Arc<Member>) -> HandingOver<'_> {
        *self.handing_over.lock() = Some((leaves, comes.clone()));
        HandingOver(&self.handing_over)
    }
}

/// While it lives, bitmap pages go to the holders before and after a handover.
pub(crate) struct HandingOver<'a>(&'a Mutex<Option<(Arc<Member>, Arc<Member>)>>);

impl Drop for HandingOver<'_> {
    fn drop(&mut self) {
        *self.0.lock() = None;
    }
}
