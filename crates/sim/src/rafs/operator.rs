//! The operator: fails members of the array below a mounted file system and adds others, has it scrubbed, stops jobs, changes its cache,
//! and when the file system writes out what it has buffered, and has fsck look at it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use fastrand::Rng;
use stripewise_device::{Device, EnvHandle};
use stripewise_engine::{Array, ArrayReport, CacheSettings, MemberState, SpeedLimits};
use stripewise_rafs::{
    check::{CheckError, Progress, check_mounted},
    fs::{Fs, FsError, Pace},
};

use super::{act::Act, client::Doings, ground::STRIPE_BYTES};
use crate::{SimMember, story::draw_settings_for};

/// Rests between what the operator does, at most, in milliseconds.
const REST_MS: u64 = 4_000;
/// How long a failed member is left alone at most, in milliseconds.
const ALONE_MS: u64 = 3_000;
/// Slow jobs pass so many bytes of each member in a second, or up to eight times as many, as a power of two: members have up to 4 MiB.
const SLOW_SHIFT: u64 = 19;
/// T_t at most, in milliseconds.
const AGE_MS: u64 = 8_000;

/// The operator.
pub(super) struct Operator {
    pub(super) env: EnvHandle,
    /// The array below, if there is one.
    pub(super) array: Option<Array>,
    /// Devices that are or may become its members.
    pub(super) devices: Vec<Arc<SimMember>>,
    pub(super) fs: Fs,
    pub(super) doings: Doings,
}

type Done = Result<(), String>;

impl Operator {
    /// Works until power fails, or until clients are to leave.
    pub(super) async fn work(&self) -> Done {
        loop {
            self.env.sleep(Duration::from_millis(self.random(REST_MS))).await;
            if self.doings.leave.load(Ordering::Relaxed) {
                return Ok(());
            }
            let act = Act::operated(self.random(Act::OPERATED));
            if !self.doings.without.contains(&act) {
                self.act(act).await?;
            }
        }
    }

    fn random(&self, below: u64) -> u64 {
        self.env.random_u64() % below
    }

    fn note(&self, words: impl FnOnce() -> String) {
        self.doings.log.note(|| format!("{:?} operator: {}", self.env.now(), words()));
    }

    async fn act(&self, act: Act) -> Done {
        match (act, &self.array) {
            (Act::SetPace, _) => self.set_pace().await,
            (Act::Fsck, _) => return self.fsck().await,
            (_, None) => {}
            (Act::FailMember, Some(array)) => return self.fail(array).await,
            (Act::AddMember, Some(array)) => return self.add(array).await,
            (Act::Scrub, Some(array)) => return self.scrub(array).await,
            (Act::StopJob, Some(array)) => self.stop_job(array),
            (_, Some(array)) => self.set_cache(array).await,
        }
        Ok(())
    }

    /// While the member is missing, nothing is overwritten where it lies.
    async fn fail(&self, array: &Array) -> Done {
        let serving = losable(array, &array.report().await);
        if serving.is_empty() || array.job().is_some() {
            return Ok(());
        }
        let name = &serving[self.random(serving.len() as u64) as usize];
        self.note(|| format!("fail {name}"));
        let doubts = self.doings.volume.doubts();
        self.doings.member_failed.store(true, Ordering::Relaxed);
        doubts.count_all(true);
        let failed = array.fail(name).await;
        // No overwrite that began before is under way once the file system has answered.
        let before = self.fs.counters().await.overwritten_blocks;
        doubts.count_all(false);
        failed.map_err(|error| format!("fail {name}: {error}"))?;
        self.env.sleep(Duration::from_millis(self.random(ALONE_MS))).await;
        let blocks = self.fs.counters().await.overwritten_blocks - before;
        if blocks == 0 {
            return Ok(());
        }
        Err(format!("{blocks} blocks were overwritten in place while {name} is missing"))
    }

    /// Once a device has been filled, one member less is missing.
    async fn add(&self, array: &Array) -> Done {
        let report = array.report().await;
        let is_idle = |member: &&Arc<SimMember>| {
            let found = report.members.iter().find(|entry| entry.name == member.info().name);
            found.is_none_or(|entry| entry.state == MemberState::Faulty)
        };
        let idle: Vec<_> = self.devices.iter().filter(is_idle).collect();
        if report.degraded() == 0 || idle.is_empty() {
            return Ok(());
        }
        let device = idle[self.random(idle.len() as u64) as usize].clone();
        let name = device.info().name.clone();
        self.note(|| format!("add {name}"));
        // A failed member is attached until it is removed.
        if report.members.iter().any(|member| member.name == name) {
            array.remove(&name).await.map_err(|error| format!("remove {name}: {error}"))?;
        }
        self.limit_speed(array);
        array.add(device).await.map_err(|error| format!("add {name}: {error}"))?;
        if self.random(2) == 0 {
            return Ok(());
        }
        array.wait_for_jobs().await;
        let missing = array.report().await.degraded();
        if missing < report.degraded() {
            return Ok(());
        }
        Err(format!("{name} was added, and {missing} members are missing, as before"))
    }

    /// Clients write meanwhile, and no row's parity is wrong.
    async fn scrub(&self, array: &Array) -> Done {
        let repairs = self.random(2) == 0;
        self.limit_speed(array);
        if array.start_scrub(repairs).is_err() {
            return Ok(());
        }
        let started = self.env.now();
        self.note(|| if repairs { "repair".to_owned() } else { "check".to_owned() });
        if self.random(2) == 0 {
            return Ok(());
        }
        array.wait_for_jobs().await;
        match array.last_scrub().filter(|scrub| scrub.started >= started && scrub.mismatched_rows > 0) {
            Some(scrub) => Err(format!("a scrub finds rows that disagree: {scrub:?}")),
            None => Ok(()),
        }
    }

    /// Half of the jobs are slow, so that much happens meanwhile.
    fn limit_speed(&self, array: &Array) {
        let bytes_per_s = 1 << (SLOW_SHIFT + self.random(4));
        let slow = SpeedLimits { min_bytes_per_s: bytes_per_s, max_bytes_per_s: bytes_per_s };
        array.set_speed_limits(if self.random(2) == 0 { slow } else { SpeedLimits::default() });
    }

    fn stop_job(&self, array: &Array) {
        self.note(|| format!("stop the job: {:?}", array.job().map(|job| job.kind)));
        array.stop_job();
    }

    /// It may be refused.
    async fn set_cache(&self, array: &Array) {
        let settings = any_cache(self.env.random_u64());
        self.note(|| format!("another cache: {settings:?}"));
        let done = array.set_cache(settings).await;
        self.note(|| format!("another cache: {done:?}"));
    }

    /// Clients go on meanwhile, and nothing is wrong.
    async fn fsck(&self) -> Done {
        self.note(|| "fsck".to_owned());
        let looked = check_mounted(&self.fs, |volume| volume, &Progress::silent()).await;
        self.note(|| format!("fsck: {looked:?}"));
        match looked.map(|report| report.problems.into_iter().next()) {
            Ok(None) | Err(CheckError::Ended | CheckError::Overwritten) => Ok(()),
            Ok(Some(problem)) => Err(format!("fsck while it is mounted: {problem}")),
            Err(CheckError::Checkpoint(error))
                if error == FsError::NoSpace || self.doings.volume.has_failed() =>
            {
                Ok(())
            }
            Err(error) => Err(format!("fsck while it is mounted: {error}")),
        }
    }

    async fn set_pace(&self) {
        let pace = any_pace(|below| self.random(below));
        self.note(|| format!("another pace: {pace:?}"));
        self.fs.set_pace(pace).await;
    }
}

/// The members in sync of which the array can do without one more: no row waits for a resync, nor a spare to be filled.
pub(super) fn losable(array: &Array, report: &ArrayReport) -> Vec<String> {
    let geometry = array.geometry();
    let is_synced = array.stripes(0..geometry.stripes()).iter().all(|stripe| stripe.synced);
    let is_settled = |state| matches!(state, MemberState::InSync | MemberState::Faulty);
    let are_settled = report.members.iter().all(|member| is_settled(member.state));
    if !is_synced || !are_settled || report.degraded() >= geometry.tolerance() {
        return Vec::new();
    }
    let serving = report.members.iter().filter(|member| member.state == MemberState::InSync);
    serving.map(|member| member.name.clone()).collect()
}

/// Any cache for an array of a story.
pub(super) fn any_cache(seed: u64) -> CacheSettings {
    draw_settings_for(STRIPE_BYTES as u64, &mut Rng::with_seed(seed))
}

/// Any T_f and T_t.
pub(super) fn any_pace(random: impl Fn(u64) -> u64) -> Pace {
    Pace { free_percent: random(101) as u8, age: Duration::from_millis(1 + random(AGE_MS)) }
}
