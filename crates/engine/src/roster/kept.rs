//! What is kept on members besides the array's state: what an operator says about a member, and how much was
//! written to it.

use std::{
    pin::pin,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use futures_util::future::{Either, select};
use stripewise_format::extension::{Endurance, Header, MemberClass, StrideRecord};

use super::{Roster, problem};
use crate::{
    error::ArrayError,
    members::{
        member::Member,
        strides::{StrideLimits, StrideRecords},
    },
    metadata::ledger::{Entry, Ledger, Standing},
};

/// The longest wait for a note on a member of how much was written to it. The member may not answer, and the
/// command that declares it failed waits meanwhile.
const NOTE_WAIT: Duration = Duration::from_secs(2);

/// The header of a member on which something can be kept.
fn kept_header<'a>(ledger: &'a mut Ledger, member: &Arc<Member>) -> Result<&'a mut Header, ArrayError> {
    let entry = ledger.entry_mut(member).filter(|entry| entry.standing != Standing::Faulty);
    let entry =
        entry.ok_or_else(|| problem(member.name(), "it has failed; nothing is kept on it any more"))?;
    let no_room = "it has no extension area to keep that in";
    entry.header.as_mut().ok_or_else(|| problem(member.name(), no_room))
}

/// Bytes written to a member that are not noted on it.
fn unnoted_bytes(entry: &Entry) -> u64 {
    let header = entry.header.as_ref();
    header.map_or(0, |header| entry.member.written_bytes().saturating_sub(header.endurance.written_bytes))
}

/// Enters limits that an operator gave into what was measured.
fn keep_given(records: &mut StrideRecords, (read, write): (&StrideRecord, &StrideRecord)) {
    for (own, given) in [(&mut records.read, read), (&mut records.write, write)] {
        if given.s_max_given {
            (own.s_max, own.s_max_given) = (given.s_max, true);
        }
    }
}

impl Roster {
    /// Strides of a new member: as measured, but for limits that an operator gave for all members.
    pub(super) fn with_given_limits(ledger: &Ledger, mut measured: StrideRecords) -> StrideRecords {
        for header in ledger.entries.iter().filter_map(|entry| entry.header.as_ref()) {
            keep_given(&mut measured, (&header.stride_read, &header.stride_write));
        }
        measured
    }

    /// Changes the endurance that a member keeps, and records it. The count of bytes written to the member
    /// stays.
    pub(crate) async fn set_endurance(&self, name: &str, wanted: Endurance) -> Result<(), ArrayError> {
        self.set_kept(name, |_, header| {
            let Endurance { written_bytes, written_since_s, .. } = header.endurance;
            header.endurance = Endurance { written_bytes, written_since_s, ..wanted };
        })
        .await
    }

    /// Says what kind of device a member is.
    pub(crate) async fn set_class(&self, name: &str, class: MemberClass) -> Result<(), ArrayError> {
        self.set_kept(name, |member, header| {
            (header.member_class, header.member_class_given) = (class, true);
            member.set_class(class);
            // The bitmap goes to flash first.
            self.holders_changed.store(true, Ordering::Release);
        })
        .await
    }

    /// Bounds the strides that are filled on all members.
    pub(crate) async fn limit_strides(&self, limits: StrideLimits) -> Result<(), ArrayError> {
        self.change_state(|ledger, _| {
            for entry in ledger.entries.iter_mut().filter(|entry| entry.standing != Standing::Faulty) {
                let Some(header) = &mut entry.header else { continue };
                let records =
                    [(limits.read, &mut header.stride_read), (limits.write, &mut header.stride_write)];
                for (limit, record) in records {
                    limit.into_iter().for_each(|limit| limit.enter_into(record));
                }
                entry.member.set_strides(header);
            }
            Ok(None)
        })
        .await
    }

    /// Keeps strides that were measured. A limit that an operator gave stays.
    pub(crate) async fn keep_strides(
        &self,
        measured: Vec<(Weak<Member>, StrideRecords)>,
    ) -> Result<(), ArrayError> {
        self.change_state(|ledger, _| {
            for (member, mut records) in measured {
                // It may have left meanwhile.
                let Some(member) = member.upgrade() else { continue };
                let Ok(header) = kept_header(ledger, &member) else { continue };
                keep_given(&mut records, (&header.stride_read, &header.stride_write));
                (header.stride_read, header.stride_write) = (records.read, records.write);
                member.set_strides(header);
            }
            Ok(None)
        })
        .await
    }

    async fn set_kept(
        &self,
        name: &str,
        change: impl FnOnce(&Arc<Member>, &mut Header),
    ) -> Result<(), ArrayError> {
        let member = self.find(name).await?;
        self.change_state(|ledger, _| {
            change(&member, kept_header(ledger, &member)?);
            Ok(None)
        })
        .await
    }

    /// Notes on members how much was written to them, if `unnoted_max` bytes or more are not noted yet.
    /// Otherwise a daemon that is killed would forget it. Only changes of the array's state wait for this.
    pub(crate) async fn note_written(&self, unnoted_max: u64) {
        if self.life.is_read_only() {
            return;
        }
        let mut ledger = self.ledger.lock().await;
        if self.topology.load().failed {
            return;
        }
        let is_due =
            |entry: &Entry| entry.standing != Standing::Faulty && unnoted_bytes(entry) >= unnoted_max;
        let noted = {
            let noting = ledger.note_written(is_due, self.life.env().wall_clock_us());
            match select(pin!(noting), self.life.env().sleep(NOTE_WAIT)).await {
                Either::Left((failed, _)) => Some(failed),
                Either::Right(_) => None,
            }
        };
        let Some(failed) = noted else {
            tracing::warn!("what was written to members could not be noted: one does not answer");
            return;
        };
        if let Err(error) = self.drop_unwritable(&mut ledger, failed).await {
            tracing::warn!(%error, "what was written to members could not be noted");
        }
    }

    /// Notes how much was written to a member that has left the array and, as far as is known, works. A
    /// member that does not answer keeps what was noted before.
    pub(crate) async fn note_written_to(&self, member: &Arc<Member>) {
        let mut ledger = self.ledger.lock().await;
        let is_it = |entry: &Entry| Arc::ptr_eq(&entry.member, member);
        let noting = ledger.note_written(is_it, self.life.env().wall_clock_us());
        select(pin!(noting), self.life.env().sleep(NOTE_WAIT)).await;
    }
}
