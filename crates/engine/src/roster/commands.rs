//! What an operator does to members: fail, remove, add.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use stripewise_device::{Device, IoError, IoErrorKind};
use stripewise_format::md::Role;

use super::{Limit, Roster, problem};
use crate::{
    array::AddOptions,
    error::ArrayError,
    jobs::events::ArrayEvent,
    members::{
        measure::{Measured, Touch, What, measure_or_not},
        topology::{SlotState, Topology},
    },
    metadata::{
        enroll::{self, Traits},
        ledger::Ledger,
    },
    mutants::{Mutant, lives},
};

/// How often, and how many times, to check whether the last request that may look at a removed member has
/// ended.
const LET_GO_POLL: Duration = Duration::from_millis(1);
const LET_GO_POLLS: usize = 1000;

/// Refuses a device that the array has already.
fn not_attached(ledger: &Ledger, name: &str) -> Result<(), ArrayError> {
    match ledger.entries.iter().any(|entry| entry.member.name() == name) {
        true => Err(problem(name, "it is in this array already")),
        false => Ok(()),
    }
}

impl Roster {
    /// Declares a member failed.
    pub(crate) async fn fail_member(&self, name: &str) -> Result<(), ArrayError> {
        if self.life.is_read_only() {
            return Err(ArrayError::ReadOnly);
        }
        let member = self.find(name).await?;
        if self.topology.load().place_of(&member).is_none() {
            return Err(problem(name, "it is not active; nothing to fail"));
        }
        let failed = vec![(member.clone(), IoError::new(IoErrorKind::Other))];
        match self.fail_within(failed, Limit::Ordered).await {
            Err(ArrayError::Failed) if !self.has_failed() => {
                let why = match self.topology().geometry.tolerance() {
                    0 => "this level cannot do without any member",
                    _ => "the array cannot do without it; add or rebuild another member first",
                };
                return Err(problem(name, why));
            }
            result => result?,
        }
        self.note_written_to(&member).await;
        Ok(())
    }

    /// Takes a member that is not active out of the array.
    pub(crate) async fn remove_member(&self, name: &str) -> Result<(), ArrayError> {
        let member = self.find(name).await?;
        self.change_state(|ledger, topology| {
            if topology.place_of(&member).is_some() {
                return Err(problem(name, "it is active; fail it first"));
            }
            ledger.forget(&member);
            Ok(None)
        })
        .await?;
        self.tell(&ArrayEvent::MemberRemoved { member: name.to_owned() });
        self.let_go().await;
        Ok(())
    }

    /// Closes all members when the array is stopped, even if its handles are still in use.
    pub(crate) async fn let_all_go(&self) {
        self.ledger.lock().await.entries.clear();
        let now = self.topology.load();
        let slots = now.slots.iter().map(|_| SlotState::default()).collect();
        self.topology.store(Arc::new(Topology { slots, ..(*now).clone() }));
        drop(now);
        self.let_go().await;
    }

    /// Waits a while for requests that may still look at members that have left, so that the members' devices
    /// are closed. If a request takes longer, housekeeping closes them later.
    async fn let_go(&self) {
        for _ in 0..LET_GO_POLLS {
            if self.topology.reclaim() {
                return;
            }
            self.life.env().sleep(LET_GO_POLL).await;
        }
    }

    /// The service times and strides of a device that is to be added, if those of other members were measured.
    async fn measure_as_others(&self, device: &Arc<dyn Device>, options: AddOptions) -> Measured {
        let measured = {
            let ledger = self.ledger.lock().await;
            ledger.entries.iter().any(|entry| entry.member.times.is_known())
        };
        match measured {
            true => {
                let strides = self.topology().geometry.has_parity();
                let AddOptions { class, benches } = options;
                let what = What { touch: Touch::WriteBack, strides, class, benches };
                measure_or_not(&**self.life.env(), &**device, what).await
            }
            false => Measured::default(),
        }
    }

    /// Writes a device's metadata as a spare of this array.
    pub(crate) async fn enroll(
        &self,
        device: Arc<dyn Device>,
        options: AddOptions,
    ) -> Result<(), ArrayError> {
        if self.life.is_read_only() {
            return Err(ArrayError::ReadOnly);
        }
        let class = options.class;
        // Until the device is attached, no other command may measure, blank or write it.
        let _enrolling = Enrolling::enter(&self.enrolling, &device.info().name)?;
        // The device may be a former member that an opening by force needs.
        if self.has_failed() && !lives(Mutant::FailedBlanks) {
            return Err(ArrayError::Failed);
        }
        let tentative = {
            let ledger = self.ledger.lock().await;
            not_attached(&ledger, &device.info().name)?;
            let unmeasured = Traits::of(&device, Measured::default(), class);
            enroll::spare(
                &self.topology().geometry,
                &ledger,
                device.clone(),
                &unmeasured,
                &**self.life.env(),
            )?
        };
        let measured = self.measure_as_others(&device, options).await;
        let strides = Self::with_given_limits(&*self.ledger.lock().await, measured.strides);
        let measured = Measured { strides, ..measured };
        let traits = Traits::of(&device, measured, class).with_kept_endurance(&device).await;
        let traits = Traits { zeroing: enroll::blank(&tentative.entry).await?, ..traits };
        let name = device.info().name.clone();
        self.change_state(|ledger, _| {
            not_attached(ledger, &name)?;
            // Its number is chosen here, under the lock: another device may have been added meanwhile.
            let mut enrolled =
                enroll::spare(&self.topology().geometry, ledger, device, &traits, &**self.life.env())?;
            self.note_bitmap_offset(enrolled.entry.member.dev_number, enrolled.bitmap_offset_bytes);
            enrolled.entry.superblock.roles = ledger.roles();
            let dev_number = enrolled.entry.member.dev_number;
            ledger.entries.push(enrolled.entry);
            self.switch_meters(self.metered.load(Ordering::Relaxed), ledger);
            // The number may be a lost member's, which the table calls faulty.
            ledger.set_role(dev_number, Role::Spare);
            Ok(None)
        })
        .await?;
        tracing::info!(member = name, "spare added");
        self.tell(&ArrayEvent::SpareAdded { member: name });
        Ok(())
    }

    /// Notes where the member with this number has room for bitmap pages. Without room, the place of the
    /// number's previous member is forgotten: the new member has data there.
    fn note_bitmap_offset(&self, dev_number: u32, offset_bytes: Option<u64>) {
        let mut offsets = self.bitmap_offsets.write();
        match offset_bytes {
            Some(offset_bytes) => _ = offsets.insert(dev_number, offset_bytes),
            None => _ = offsets.remove(&dev_number),
        }
    }
}

/// A device on its way into the array.
struct Enrolling<'a> {
    names: &'a Mutex<BTreeSet<String>>,
    name: String,
}

impl<'a> Enrolling<'a> {
    fn enter(names: &'a Mutex<BTreeSet<String>>, name: &str) -> Result<Self, ArrayError> {
        if !names.lock().insert(name.to_owned()) {
            return Err(problem(name, "it is being added already"));
        }
        Ok(Self { names, name: name.to_owned() })
    }
}

impl Drop for Enrolling<'_> {
    fn drop(&mut self) {
        self.names.lock().remove(&self.name);
    }
}
