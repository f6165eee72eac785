//! Makes a report of an array from its parts.

use std::{
    collections::BTreeSet,
    ops::Range,
    sync::{Arc, atomic::Ordering},
};

use stripewise_format::extension::Endurance;

use super::{Array, ArrayReport, BitmapReport, MemberReport, MemberState, Parts, StripeReport};
use crate::{
    members::{member::Member, strides::StrideRecords, topology::Topology},
    metadata::ledger::{Entry, Ledger, Standing},
    shape::geometry::StripeIndex,
};

impl Array {
    /// What the array looks like now; after a stop, what it looked like when it was stopped.
    pub async fn report(&self) -> ArrayReport {
        match self.parts.last.get() {
            Some(last) => last.clone(),
            None => self.parts.report().await,
        }
    }

    /// What writes to these stripes find now. Stripes beyond the array's end are left out.
    pub fn stripes(&self, stripes: Range<u64>) -> Vec<StripeReport> {
        let topology = self.parts.roster.topology();
        let (geometry, cache) = (&topology.geometry, self.parts.stripes.cache());
        let report = |stripe: StripeIndex| {
            let is_missing = |column: &usize| topology.reader(stripe, *column).is_none();
            let missing = (0..geometry.members()).filter(is_missing);
            StripeReport {
                stripe,
                synced: self.parts.stripes.is_trusted(stripe),
                cells: cache.as_ref().map(|cache| cache.cells_text(stripe)),
                missing: missing.map(|column| geometry.member_of(stripe, column)).collect(),
            }
        };
        (stripes.start..stripes.end.min(geometry.stripes())).map(StripeIndex).map(report).collect()
    }
}

impl Parts {
    pub(super) async fn report(&self) -> ArrayReport {
        self.roster.look(|ledger, topology| self.report_of(ledger, topology)).await
    }

    fn report_of(&self, ledger: &Ledger, topology: &Topology) -> ArrayReport {
        let Self { life, stripes, .. } = self;
        let lost = self.roster.lost();
        let report = |entry| member_report(entry, &lost);
        let mut members: Vec<_> = ledger.entries.iter().map(report).collect();
        members.sort_by_key(|member| member.dev_number);
        let serves = |member: &Arc<Member>| !lost.contains(&member.dev_number);
        let bitmap = stripes.intent().map(|intent| BitmapReport {
            shape: intent.map.shape(),
            regions: intent.map.regions(),
            marked: intent.marked_regions(),
        });
        ArrayReport {
            name: self.name.to_string(),
            uuid: self.uuid,
            geometry: topology.geometry,
            members,
            in_sync: topology.slots.iter().map(|slot| slot.primary.as_ref().is_some_and(serves)).collect(),
            failed: topology.failed,
            dirty: !ledger.clean,
            read_only: life.is_read_only(),
            selection: stripes.policy().name,
            unknown_policy: stripes.unknown_policy(),
            cache_problem: self.cache.problem(),
            events: ledger.events,
            bitmap,
            excluded: self.excluded.clone(),
            forced: self.forced.clone(),
            job: self.board.current(),
        }
    }
}

fn member_report(entry: &Entry, lost: &BTreeSet<u32>) -> MemberReport {
    let (state, slot) = match entry.standing {
        Standing::Active(slot) | Standing::Incoming { slot, .. }
            if lost.contains(&entry.member.dev_number) =>
        {
            (MemberState::Faulty, Some(slot))
        }
        Standing::Active(slot) => (MemberState::InSync, Some(slot)),
        Standing::Incoming { slot, .. } if entry.is_replacing() => (MemberState::Replacing, Some(slot)),
        Standing::Incoming { slot, .. } => (MemberState::Rebuilding, Some(slot)),
        Standing::Spare => (MemberState::Spare, None),
        Standing::Faulty => (MemberState::Faulty, entry.last_slot),
    };
    MemberReport {
        name: entry.member.name().to_owned(),
        dev_number: entry.member.dev_number,
        uuid: entry.member.uuid,
        slot,
        state,
        class: entry.member.class(),
        class_given: entry.header.as_ref().is_some_and(|header| header.member_class_given),
        times: entry.member.times,
        strides: entry.header.as_ref().map_or(StrideRecords::default(), |header| StrideRecords {
            read: header.stride_read,
            write: header.stride_write,
        }),
        endurance: Endurance {
            written_bytes: entry.member.written_bytes(),
            ..entry.header.as_ref().map_or(Endurance::default(), |header| header.endurance)
        },
        noted_written_bytes: entry.header.as_ref().map_or(0, |h| h.endurance.written_bytes),
        read_errors: entry.member.read_errors.load(Ordering::Relaxed),
        bad_block_bytes: entry.member.bad_blocks.unreadable().iter().map(|b| b.end - b.start).sum(),
        stats: entry.member.stats.report(),
        cost: entry.member.meter.cost(),
    }
}
