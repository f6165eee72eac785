//! What an operator does to an open array: fail, remove, add, replace, scrub, stop.

use std::sync::Arc;

use stripewise_device::{Device, IoError};
use stripewise_format::extension::{Endurance, MemberClass};

use super::{AddOptions, Array, Parts};
use crate::{
    cache::DestageReason,
    error::ArrayError,
    jobs::{ArrayEvents, Found, JobKind, JobReport, Request, SpeedLimits},
    life::detached::Detached,
    members::strides::StrideLimits,
    mutants::{Mutant, lives},
    shape::{geometry::Level, rows::BLOCK_BYTES},
    stripes::measured::Measured,
};

impl Array {
    /// Declares a member failed, as if it had failed by itself.
    ///
    /// # Errors
    /// [`ArrayError::Member`] if no member has this name, or the array cannot do without it; also the errors
    /// of [any command](Array#commands).
    pub async fn fail(&self, name: &str) -> Result<(), ArrayError> {
        let (roster, name) = (self.parts.roster.clone(), name.to_owned());
        self.parts.life.run(async move { roster.fail_member(&name).await }).await
    }

    /// Removes a failed or spare member and closes its device.
    ///
    /// # Errors
    /// [`ArrayError::Member`] if it is active; also the errors of [any command](Array#commands).
    pub async fn remove(&self, name: &str) -> Result<(), ArrayError> {
        let (roster, name) = (self.parts.roster.clone(), name.to_owned());
        self.parts.life.run(async move { roster.remove_member(&name).await }).await
    }

    /// Adds a device as a spare. A vacant role is rebuilt at once.
    ///
    /// # Errors
    /// [`ArrayError::TooSmall`]; [`ArrayError::Member`] if the device is in the array already;
    /// [`ArrayError::Unsupported`] at level 0; also the errors of [any command](Array#commands).
    pub async fn add(&self, device: Arc<dyn Device>) -> Result<(), ArrayError> {
        self.add_with(device, AddOptions::default()).await
    }

    /// As [`Array::add`], with options.
    ///
    /// # Errors
    /// As [`Array::add`].
    pub async fn add_with(&self, device: Arc<dyn Device>, options: AddOptions) -> Result<(), ArrayError> {
        if self.geometry().level() == Level::Raid0 {
            return Err(ArrayError::Unsupported("level 0 has no redundancy to rebuild a member from".into()));
        }
        let roster = self.parts.roster.clone();
        let enroll = async move {
            roster.enroll(device, options).await?;
            roster.note_change();
            Ok(())
        };
        self.parts.life.run(enroll).await
    }

    /// Fills a spare to replace a living member. The replaced member leaves once the spare is filled.
    ///
    /// # Errors
    /// [`ArrayError::Member`] if either is not in the right state; [`ArrayError::Unsupported`] at level 0;
    /// also the errors of [any command](Array#commands).
    pub async fn replace(&self, name: &str, with: &str) -> Result<(), ArrayError> {
        let (roster, name, with) = (self.parts.roster.clone(), name.to_owned(), with.to_owned());
        let board = self.parts.board.clone();
        let begin = async move {
            roster.begin_replacing(&name, &with).await?;
            board.poke();
            Ok(())
        };
        self.parts.life.run(begin).await
    }

    /// Starts a check or a repair of the whole array.
    ///
    /// # Errors
    /// [`ArrayError::Busy`] if a job is under way or a scrub was requested; [`ArrayError::Unsupported`] where
    /// there is no redundancy to check: at level 0, or with as many members lost as the level tolerates;
    /// [`ArrayError::Failed`]; [`ArrayError::ReadOnly`], because even a check records where it stands.
    pub fn start_scrub(&self, mend: bool) -> Result<(), ArrayError> {
        if self.geometry().tolerance() == 0 {
            return Err(ArrayError::Unsupported("there is no redundancy to scrub at this level".into()));
        }
        if self.parts.life.is_closing() {
            return Err(ArrayError::Closed);
        }
        if self.is_read_only() {
            return Err(ArrayError::ReadOnly);
        }
        if self.parts.roster.has_failed() {
            return Err(ArrayError::Failed);
        }
        self.parts.roster.check_redundancy_left()?;
        let kind = if mend { JobKind::Repair } else { JobKind::Check };
        let request = Request { kind, start_stripe: 0, found: Found::default() };
        self.parts.board.request_alone(request).map_err(|kind| ArrayError::Busy(kind.name()))
    }

    /// Pauses the current job and those that follow.
    pub fn pause_jobs(&self) {
        self.parts.board.set_paused(true);
    }

    /// Resumes jobs.
    pub fn resume_jobs(&self) {
        self.parts.board.set_paused(false);
    }

    /// Ends the current job and drops a waiting scrub. A stopped rebuild keeps its progress. Like a stopped
    /// resync, it resumes when the array is next opened, or when members change after the stop. Requesting a
    /// scrub also resumes a resync.
    pub fn stop_job(&self) {
        self.parts.board.stop();
    }

    /// The array's events from now on. A listener that does not read misses events and is told how many.
    pub fn events(&self) -> ArrayEvents {
        self.parts.board.listeners().listen()
    }

    /// The job under way.
    pub fn job(&self) -> Option<JobReport> {
        self.parts.board.current()
    }

    /// The job that ended last.
    pub fn last_job(&self) -> Option<JobReport> {
        self.parts.board.last()
    }

    /// The check or repair that ended last.
    pub fn last_scrub(&self) -> Option<JobReport> {
        self.parts.board.last_scrub()
    }

    /// How fast jobs may go.
    pub fn speed_limits(&self) -> SpeedLimits {
        self.parts.board.limits()
    }

    /// Changes how fast jobs may go, at once.
    pub fn set_speed_limits(&self, limits: SpeedLimits) {
        self.parts.board.set_limits(limits);
    }

    /// Waits until no job is under way or due. A read-only array has none.
    pub async fn wait_for_jobs(&self) {
        if self.is_read_only() {
            return;
        }
        loop {
            let seen = self.parts.board.changes();
            if !self.parts.board.is_due() || self.parts.life.is_closing() {
                return;
            }
            self.parts.board.changed(seen).await;
        }
    }

    /// Stops the array. Jobs end where they are, requests under way complete, everything is flushed, and the
    /// superblocks say clean if they may. Then all members are closed. Later requests get
    /// [`ArrayError::Closed`], and [`Array::report`] returns the last report. A read whose future is neither
    /// polled nor dropped is still under way: stopping waits for it.
    ///
    /// What is cached is written first, which takes as long as members need.
    ///
    /// # Errors
    /// [`ArrayError::Unwritten`] if members do not take what is cached: the array stays open, and can be read.
    /// [`ArrayError::Failed`] if the array has failed; the members stay as they are. [`ArrayError::Closed`] if
    /// it was stopped before. [`ArrayError::Io`] if a member cannot keep what it was sent.
    pub async fn stop(&self) -> Result<(), ArrayError> {
        let parts = self.parts.clone();
        Detached::start(self.env(), async move { parts.stop(Unwritten::Refuse).await }).await
    }

    /// As [`Array::stop`]. What members do not take of the cache is lost.
    ///
    /// # Errors
    /// As [`Array::stop`], without [`ArrayError::Unwritten`].
    pub async fn stop_by_force(&self) -> Result<(), ArrayError> {
        let parts = self.parts.clone();
        Detached::start(self.env(), async move { parts.stop(Unwritten::Lose).await }).await
    }

    /// Sets how much may be written to a member and how long it must last. The member stores this. The count
    /// of what was written stays.
    ///
    /// # Errors
    /// [`ArrayError::Member`] if no member has this name, or the member has no room to store this; also the
    /// errors of [any command](Array#commands).
    pub async fn set_endurance(&self, name: &str, wanted: Endurance) -> Result<(), ArrayError> {
        let (roster, name) = (self.parts.roster.clone(), name.to_owned());
        self.parts.life.run(async move { roster.set_endurance(&name, wanted).await }).await
    }

    /// Sets what kind of device a member is, whatever was detected or set before. The member stores this. The
    /// place of level 4's parity and the write selection policy do not change.
    ///
    /// # Errors
    /// [`ArrayError::Member`] if no member has this name, or the member has no room to store this; also the
    /// errors of [any command](Array#commands).
    pub async fn set_class(&self, name: &str, class: MemberClass) -> Result<(), ArrayError> {
        let (roster, name) = (self.parts.roster.clone(), name.to_owned());
        self.parts.life.run(async move { roster.set_class(&name, class).await }).await
    }

    /// Measures which gaps a contiguity transform should fill on members, while clients work: about 15 s, and members keep
    /// what is found. Clients that read or write a range of 8 MiB of a member wait now and then for some tenths of a
    /// second. Returns which members could not be measured, and why.
    ///
    /// # Errors
    /// [`ArrayError::Unsupported`] at levels without parity, if the members are too small, or where none has room to store
    /// this; also the errors of [any command](Array#commands).
    pub async fn measure_strides(&self) -> Result<Vec<(String, IoError)>, ArrayError> {
        if self.has_failed() {
            return Err(ArrayError::Failed);
        }
        self.check_fills_gaps().await?;
        if self.is_read_only() {
            return Err(ArrayError::ReadOnly);
        }
        let parts = self.parts.clone();
        let measured = async move {
            let (mut found, mut failed) = (Vec::new(), Vec::new());
            for Measured { member, name, strides } in parts.stripes.measure_strides().await? {
                match strides {
                    Ok(strides) => found.push((member, strides)),
                    Err(error) => failed.push((name, error)),
                }
            }
            parts.roster.keep_strides(found).await.map(|()| failed)
        };
        self.parts.life.run(measured).await
    }

    /// Whether a cache of this array could fill gaps, and members store which.
    async fn check_fills_gaps(&self) -> Result<(), ArrayError> {
        let problem = if !self.geometry().has_parity() {
            "levels without parity have no cache that would fill gaps"
        } else if !self.parts.roster.look(|ledger, _| ledger.keeps_options()).await {
            "no member has an extension area to keep strides in"
        } else {
            return Ok(());
        };
        Err(ArrayError::Unsupported(problem.to_owned()))
    }

    /// Bounds the gaps that the contiguity transform fills, on all members. Members store this.
    ///
    /// # Errors
    /// [`ArrayError::Unsupported`] at levels without parity, or where no member has room to store this; also the errors of
    /// [any command](Array#commands).
    pub async fn limit_strides(&self, limits: StrideLimits) -> Result<(), ArrayError> {
        self.check_fills_gaps().await?;
        let roster = self.parts.roster.clone();
        self.parts.life.run(async move { roster.limit_strides(limits).await }).await
    }
}

/// How often all that is dirty is destaged before the array closes, if that leaves something.
const STOP_DESTAGES: u32 = 4;

/// What becomes of writes that members do not take from the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unwritten {
    /// The array is not stopped.
    Refuse,
    Lose,
}

impl Parts {
    async fn stop(&self, unwritten: Unwritten) -> Result<(), ArrayError> {
        if self.life.is_closing() {
            return Err(ArrayError::Closed);
        }
        // A cache that is put in place meanwhile would take writes until the array closes. A forced stop waits for nothing.
        let changes = match unwritten {
            Unwritten::Refuse => Some(self.cache.changing.lock().await),
            Unwritten::Lose => None,
        };
        if self.life.is_closing() {
            return Err(ArrayError::Closed);
        }
        // Before anything ends: as long as this fails, what is dirty can still be read.
        self.destage(unwritten).await?;
        if !self.life.close() {
            return Err(ArrayError::Closed);
        }
        drop(changes);
        self.board.poke();
        self.life.quiet().await;
        let stopped = if self.life.is_read_only() { Ok(()) } else { self.write_down_end(unwritten).await };
        let report = self.report().await;
        self.last.get_or_init(|| report);
        self.roster.let_all_go().await;
        self.board.listeners().end();
        stopped
    }

    /// Writes what is cached to the members.
    async fn destage(&self, unwritten: Unwritten) -> Result<(), ArrayError> {
        if lives(Mutant::StopDropsDirty) {
            return Ok(());
        }
        // What is acknowledged from now on is on members: nothing new is dirty when the array closes.
        let cache = self.stripes.cache().filter(|cache| cache.write_through());
        // A write that is refused meanwhile leaves something dirty. Clients keep writing, so the number of passes is limited.
        for _ in 0..STOP_DESTAGES {
            let destaged = self.stripes.destage_written(DestageReason::Stop).await;
            let blocks = self.stripes.cache().map_or(0, |cache| cache.dirty_blocks());
            // Without anything to lose, what comes next tells.
            if blocks == 0 || unwritten == Unwritten::Lose {
                return Ok(());
            }
            if let Err(why) = destaged {
                cache.iter().for_each(|cache| cache.write_back());
                return Err(ArrayError::Unwritten { bytes: blocks * BLOCK_BYTES as u64, why: Box::new(why) });
            }
        }
        Ok(())
    }

    /// Makes everything durable and marks the superblocks clean if they may be.
    async fn write_down_end(&self, unwritten: Unwritten) -> Result<(), ArrayError> {
        let Self { stripes, roster, .. } = self;
        self.destage(unwritten).await?;
        stripes.flush_and_unlist().await?;
        if stripes.cache().is_some_and(|cache| cache.dirty_blocks() == 0) {
            roster.record(|ledger| ledger.set_cache_open(false)).await?;
        }
        if let Some(intent) = stripes.intent() {
            intent.clear_all(&**stripes).await;
        }
        if stripes.intent().is_none_or(|intent| intent.marked_regions() > 0) {
            // No final change of state has noted what was written.
            roster.note_written(1).await;
        }
        if roster.has_failed() { Err(ArrayError::Failed) } else { Ok(()) }
    }
}
