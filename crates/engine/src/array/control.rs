//! What an operator does to an open array: fail, remove, add, replace, scrub, stop.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use stripewise_device::{Device, IoError, IoErrorKind};
use stripewise_format::{extension::MemberClass, md::Role};

use super::{Array, Shared};
use crate::{
    error::ArrayError,
    jobs::{Found, JobKind, JobReport, SpeedLimits},
    members::{
        measure::{ServiceTimes, Touch, measure_or_not},
        topology::{Incoming, Member, Place, SlotState},
    },
    metadata::{
        enroll::{self, Traits},
        ledger::{Ledger, Standing},
    },
    mutants::{Mutant, lives},
    roster::failure::Limit,
    shape::geometry::{Level, MemberIndex, StripeIndex},
    stripes::detached::Detached,
};

/// How often stopping looks whether the last request has ended.
const STOP_POLL: Duration = Duration::from_millis(1);
/// How often it is looked whether the last request has ended that may look at a member that was removed.
const LET_GO_POLLS: usize = 1000;

impl Array {
    /// Declares a member failed, as if it had failed by itself.
    ///
    /// # Errors
    /// [`ArrayError::Member`] if no member has this name, or the array cannot do without it.
    pub async fn fail(&self, name: &str) -> Result<(), ArrayError> {
        let (shared, name) = (self.shared.clone(), name.to_owned());
        self.run(async move { shared.fail_member(&name).await }).await
    }

    /// Lets go of a failed or spare member; its device is closed.
    ///
    /// # Errors
    /// [`ArrayError::Member`] if it is active.
    pub async fn remove(&self, name: &str) -> Result<(), ArrayError> {
        let (shared, name) = (self.shared.clone(), name.to_owned());
        self.run(async move { shared.remove_member(&name).await }).await
    }

    /// Adds a device as a spare; if a role is vacant, it is rebuilt at once.
    ///
    /// # Errors
    /// [`ArrayError::TooSmall`], or [`ArrayError::Member`] if it is in the array already.
    pub async fn add(&self, device: Arc<dyn Device>) -> Result<(), ArrayError> {
        self.add_as(device, None).await
    }

    /// As [`Array::add`], of a device whose class is not to be detected, if one is given.
    ///
    /// # Errors
    /// As [`Array::add`].
    pub async fn add_as(
        &self,
        device: Arc<dyn Device>,
        class: Option<MemberClass>,
    ) -> Result<(), ArrayError> {
        if self.shared.geometry.level() == Level::Raid0 {
            return Err(ArrayError::Unsupported("level 0 has no redundancy to rebuild a member from".into()));
        }
        let shared = self.shared.clone();
        self.run(async move { shared.enroll(device, class).await }).await?;
        self.shared.members_changed.store(!lives(Mutant::SpareComesUnseen), Ordering::Release);
        self.shared.jobs.poke();
        Ok(())
    }

    /// Fills a spare to take the place of a living member, which leaves when that is done.
    ///
    /// # Errors
    /// [`ArrayError::Member`] if either is not in the right state.
    pub async fn replace(&self, name: &str, with: &str) -> Result<(), ArrayError> {
        let (shared, name, with) = (self.shared.clone(), name.to_owned(), with.to_owned());
        self.run(async move { shared.begin_replacing(&name, &with).await }).await?;
        self.shared.jobs.poke();
        Ok(())
    }

    /// Runs a command to its end even if its caller goes away. Stopping waits for it.
    pub(crate) fn run<T: Send + Unpin + 'static>(
        &self,
        command: impl Future<Output = Result<T, ArrayError>> + Send + 'static,
    ) -> Detached<Result<T, ArrayError>> {
        let shared = self.shared.clone();
        Detached::start(self.env(), async move {
            let _working = shared.background.enter();
            if shared.closing.load(Ordering::SeqCst) {
                return Err(ArrayError::Closed);
            }
            command.await
        })
    }

    /// Starts a check or a repair of the whole array.
    ///
    /// # Errors
    /// [`ArrayError::Busy`] if a job is under way or a scrub was asked for; [`ArrayError::Unsupported`] where there is no redundancy to check: at
    /// level 0, or with as many members lost as the level tolerates; [`ArrayError::Failed`]; [`ArrayError::ReadOnly`], since also a
    /// check writes down where it stands.
    pub fn start_scrub(&self, mend: bool) -> Result<(), ArrayError> {
        if self.shared.geometry.parity_columns() == 0 {
            return Err(ArrayError::Unsupported("there is no redundancy to scrub at this level".into()));
        }
        if self.shared.read_only {
            return Err(ArrayError::ReadOnly);
        }
        if self.shared.topology.load().failed {
            return Err(ArrayError::Failed);
        }
        self.shared.check_redundancy_left()?;
        let kind = if mend { JobKind::Repair } else { JobKind::Check };
        let request = crate::jobs::Request { kind, start_stripe: 0, found: Found::default() };
        self.shared.jobs.request_alone(request).map_err(|kind| ArrayError::Busy(kind.name()))
    }

    /// Pauses the current job and those that follow.
    pub fn pause_jobs(&self) {
        self.shared.jobs.set_paused(true);
    }

    /// Lets jobs go on.
    pub fn resume_jobs(&self) {
        self.shared.jobs.set_paused(false);
    }

    /// Ends the current job, and forgets a scrub that waits. A stopped rebuild keeps what it has; like a stopped resync it goes on
    /// when the array is next opened, or when its members change after that. A scrub that is asked for lets a resync go on, too.
    pub fn stop_job(&self) {
        self.shared.jobs.stop();
    }

    /// The job under way.
    pub fn job(&self) -> Option<JobReport> {
        self.shared.jobs.current()
    }

    /// The job that ended last.
    pub fn last_job(&self) -> Option<JobReport> {
        self.shared.jobs.last()
    }

    /// The check or repair that ended last.
    pub fn last_scrub(&self) -> Option<JobReport> {
        self.shared.jobs.last_scrub()
    }

    /// How fast jobs may go.
    pub fn speed_limits(&self) -> SpeedLimits {
        self.shared.jobs.limits()
    }

    /// Changes how fast jobs may go, at once.
    pub fn set_speed_limits(&self, limits: SpeedLimits) {
        self.shared.jobs.set_limits(limits);
    }

    /// Waits until no job is under way or due. A read-only array has none.
    pub async fn wait_for_jobs(&self) {
        if self.shared.read_only {
            return;
        }
        loop {
            let seen = self.shared.jobs.changes();
            if !self.shared.jobs.is_due() || self.shared.closing.load(Ordering::SeqCst) {
                return;
            }
            self.shared.jobs.changed(seen).await;
        }
    }

    /// Stops the array: jobs end where they are, requests under way are finished, everything is flushed and the
    /// superblocks say clean if they may. Later requests get [`ArrayError::Closed`].
    ///
    /// # Errors
    /// [`ArrayError::Failed`] if the array has failed; the members stay as they are.
    pub async fn stop(&self) -> Result<(), ArrayError> {
        let shared = self.shared.clone();
        Detached::start(self.env(), async move { shared.stop().await }).await
    }
}

/// Refuses a device that the array has already.
fn not_attached(ledger: &Ledger, name: &str) -> Result<(), ArrayError> {
    match ledger.entries.iter().any(|entry| entry.member.name() == name) {
        true => Err(problem(name, "it is in this array already")),
        false => Ok(()),
    }
}

pub(crate) fn problem(member: &str, problem: &str) -> ArrayError {
    ArrayError::Member { member: member.to_owned(), problem: problem.to_owned() }
}

impl Shared {
    /// Whether redundancy is left to be checked.
    pub(crate) fn check_redundancy_left(&self) -> Result<(), ArrayError> {
        if self.topology.load().degraded() < self.geometry.parity_columns() {
            return Ok(());
        }
        let what = "the array is degraded: no redundancy is left that could be checked; rebuild it first";
        Err(ArrayError::Unsupported(what.to_owned()))
    }

    /// The attached member of that name.
    pub(crate) async fn find(&self, name: &str) -> Result<Arc<Member>, ArrayError> {
        let ledger = self.ledger.lock().await;
        let entry = ledger.entries.iter().find(|entry| entry.member.name() == name);
        entry
            .map(|entry| entry.member.clone())
            .ok_or_else(|| problem(name, "it is not a member of this array"))
    }

    async fn stop(&self) -> Result<(), ArrayError> {
        if self.closing.swap(true, Ordering::SeqCst) {
            return Err(ArrayError::Closed);
        }
        self.jobs.poke();
        while self.requests.active() > 0 || self.background.active() > 0 {
            self.env.sleep(STOP_POLL).await;
        }
        if self.read_only {
            return Ok(());
        }
        self.flush_and_unlist().await?;
        if let Some(intent) = &self.intent {
            intent.clear_all(self).await;
        }
        if self.intent.as_ref().is_none_or(|intent| intent.marked_regions() > 0) {
            // No last change of state has noted what was written.
            self.note_written(1).await;
        }
        if self.topology.load().failed { Err(ArrayError::Failed) } else { Ok(()) }
    }

    async fn fail_member(&self, name: &str) -> Result<(), ArrayError> {
        if self.read_only {
            return Err(ArrayError::ReadOnly);
        }
        let member = self.find(name).await?;
        if self.topology.load().place_of(&member).is_none() {
            return Err(problem(name, "it is not active; nothing to fail"));
        }
        let failed = vec![(member.clone(), IoError::new(IoErrorKind::Other))];
        match self.fail_within(failed, Limit::Ordered).await {
            Err(ArrayError::Failed) if !self.topology.load().failed => {
                let why = match self.geometry.parity_columns() {
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

    async fn remove_member(&self, name: &str) -> Result<(), ArrayError> {
        let member = self.find(name).await?;
        self.change_state(|ledger, topology| {
            if topology.place_of(&member).is_some() {
                return Err(problem(name, "it is active; fail it first"));
            }
            ledger.forget(&member);
            Ok(None)
        })
        .await?;
        self.let_go().await;
        Ok(())
    }

    /// Waits a while for requests that may still look at members that have left, so that their devices are closed.
    /// Housekeeping goes on with those of requests that take longer.
    async fn let_go(&self) {
        for _ in 0..LET_GO_POLLS {
            if self.topology.reclaim() {
                return;
            }
            self.env.sleep(STOP_POLL).await;
        }
    }

    /// The times of a device that is to be added, if those of the other members were measured.
    async fn measure_as_others(&self, device: &Arc<dyn Device>) -> ServiceTimes {
        let measured = {
            let ledger = self.ledger.lock().await;
            ledger.entries.iter().any(|entry| entry.member.times.is_known())
        };
        match measured {
            true => measure_or_not(&*self.env, &**device, Touch::WriteBack).await,
            false => ServiceTimes::default(),
        }
    }

    /// Writes a device's metadata as a spare of this array.
    async fn enroll(&self, device: Arc<dyn Device>, class: Option<MemberClass>) -> Result<(), ArrayError> {
        if self.read_only {
            return Err(ArrayError::ReadOnly);
        }
        // Until it is attached, nobody else may measure, blank or write it.
        let _enrolling = Enrolling::enter(&self.enrolling, &device.info().name)?;
        // The device may be what is left of a member that `--force` needs.
        if self.topology.load().failed && !lives(Mutant::FailedBlanks) {
            return Err(ArrayError::Failed);
        }
        let tentative = {
            let ledger = self.ledger.lock().await;
            not_attached(&ledger, &device.info().name)?;
            let unmeasured = Traits::of(&device, ServiceTimes::default(), class);
            enroll::spare(&self.geometry, &ledger, device.clone(), &unmeasured, &*self.env)?
        };
        let times = self.measure_as_others(&device).await;
        let traits = Traits::of(&device, times, class).with_kept_endurance(&device).await;
        let traits = Traits { zeroing: enroll::blank(&tentative.entry).await?, ..traits };
        self.change_state(|ledger, _| {
            let name = device.info().name.clone();
            not_attached(ledger, &name)?;
            // Its number is chosen here, under the lock: another device may have been added meanwhile.
            let mut enrolled = enroll::spare(&self.geometry, ledger, device, &traits, &*self.env)?;
            self.note_bitmap_offset(enrolled.entry.member.dev_number, enrolled.bitmap_offset_bytes);
            enrolled.entry.superblock.roles = ledger.roles();
            tracing::info!(member = name, "spare added");
            let dev_number = enrolled.entry.member.dev_number;
            ledger.entries.push(enrolled.entry);
            self.switch_meters(ledger);
            // The number may be a lost member's, which the table calls faulty.
            ledger.set_role(dev_number, Role::Spare);
            Ok(None)
        })
        .await
    }

    /// Notes where the member with this number has room for bitmap pages. Without room, what the number's last member had is
    /// forgotten: the new member has data there.
    fn note_bitmap_offset(&self, dev_number: u32, offset_bytes: Option<u64>) {
        let mut offsets = self.bitmap_offsets.write();
        match offset_bytes {
            Some(offset_bytes) => _ = offsets.insert(dev_number, offset_bytes),
            None => _ = offsets.remove(&dev_number),
        }
    }

    async fn begin_replacing(&self, name: &str, with: &str) -> Result<(), ArrayError> {
        // Nothing would say where a crash has left the new member different from the old one.
        if self.geometry.level() == Level::Raid0 {
            let what =
                "a member of level 0 is not replaced while the array runs: stop it, and copy the member";
            return Err(ArrayError::Unsupported(what.into()));
        }
        let (old, new) = (self.find(name).await?, self.find(with).await?);
        if lives(Mutant::ReplaceRefused) {
            return Err(problem(name, "it cannot be replaced"));
        }
        let place = self.topology.load().place_of(&old);
        let Some(Place::Primary(slot)) = place else {
            return Err(problem(name, "it is not an active member"));
        };
        self.begin_filling(slot, &new, Some(&old)).await
    }

    /// Makes a spare the incoming member of a slot, to replace the member that is to be there if one is.
    async fn begin_filling(
        &self,
        slot: MemberIndex,
        member: &Arc<Member>,
        replaced: Option<&Arc<Member>>,
    ) -> Result<(), ArrayError> {
        self.change_state(|ledger, topology| {
            // Another may have taken its place while this change waited for its turn.
            let has_left = |old: &&Arc<Member>| topology.place_of(old) != Some(Place::Primary(slot));
            if let Some(old) = replaced.filter(has_left) {
                return Err(problem(old.name(), "it is not an active member"));
            }
            let is_spare = ledger.entry_mut(member).is_some_and(|entry| entry.standing == Standing::Spare);
            let is_filled = topology.slots[slot.0].incoming.is_some() && !lives(Mutant::RoleGivenTwice);
            if !is_spare || is_filled {
                let what = "it is not a spare, or the role is being filled already";
                return Err(problem(member.name(), what));
            }
            ledger.set_standing(member, Standing::Incoming { slot, done_sectors: 0 });
            let mut next = topology.clone();
            next.slots[slot.0].incoming = Some(Incoming::new(member.clone(), 0));
            Ok(Some(next))
        })
        .await
    }

    /// Gives vacant roles to spares.
    pub(crate) async fn take_up_spares(&self) {
        loop {
            let next = self.next_spare(&*self.ledger.lock().await);
            let Some((slot, spare)) = next else { return };
            if let Err(error) = self.begin_filling(slot, &spare, None).await {
                tracing::warn!(%error, "a spare could not be taken up");
                return;
            }
        }
    }

    /// A vacant role, and a spare that can take it.
    pub(crate) fn next_spare(&self, ledger: &Ledger) -> Option<(MemberIndex, Arc<Member>)> {
        let is_vacant = |slot: &SlotState| slot.primary.is_none() && slot.incoming.is_none();
        let vacant = self.topology.load().slots.iter().position(is_vacant)?;
        let entry = ledger.entries.iter().find(|entry| entry.standing == Standing::Spare)?;
        Some((MemberIndex(vacant), entry.member.clone()))
    }

    /// Sectors of each member below a stripe.
    pub(crate) fn sectors_before(&self, stripe: StripeIndex) -> u64 {
        self.geometry.chunk_start(stripe).min(self.geometry.member_bytes()) / 512
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
