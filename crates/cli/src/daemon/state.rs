//! What a daemon holds, and its answers to requests.

use std::{
    path::Path,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context, bail};
use stripewise::{Array, ArrayError, Device, Host, SpeedLimits};

use super::exports::{Exports, Users};
use crate::{
    errors,
    probe::probe,
    protocol::{ArrayStatus, BitmapStatus, JobStatus, MemberStatus, Reply, Request, ScrubAction, state_name},
};

/// A daemon's array and what is exported of it.
pub(crate) struct DaemonState {
    pub(crate) name: String,
    pub(super) host: Host,
    pub(super) array: Array,
    pub(super) exports: Mutex<Exports>,
    stopped: AtomicBool,
    ended: Mutex<bool>,
    end: Condvar,
}

impl DaemonState {
    pub(super) fn new(name: String, host: Host, array: Array) -> Arc<Self> {
        Arc::new(Self {
            name,
            host,
            array,
            exports: Mutex::default(),
            stopped: AtomicBool::new(false),
            ended: Mutex::new(false),
            end: Condvar::new(),
        })
    }

    /// Waits until the daemon has been stopped and its answer sent.
    pub(super) fn wait_for_end(&self) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        while !*ended {
            ended = self.end.wait(ended).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn end_if_stopped(&self) {
        if self.stopped.load(Ordering::Acquire) {
            *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.end.notify_all();
        }
    }

    /// Ends exports and array.
    pub(super) fn stop(&self, users: Users) -> anyhow::Result<()> {
        self.exports().end_all(self, users)?;
        let array = self.array.clone();
        let result = self.host.block_on(async move { array.stop().await });
        self.stopped.store(true, Ordering::Release);
        result.context("the array was stopped, but")
    }

    pub(super) fn exports(&self) -> std::sync::MutexGuard<'_, Exports> {
        self.exports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers one request.
    pub(super) fn answer(&self, request: Request) -> Reply {
        self.try_answer(request).unwrap_or_else(|error| Reply::Error(errors::line(&error)))
    }

    fn try_answer(&self, request: Request) -> anyhow::Result<Reply> {
        match request {
            Request::Status => return Ok(Reply::Status(Box::new(self.status()))),
            Request::Add { device, force } => self.add(&device, force)?,
            Request::Fail { member } => {
                let member = member_name(&member);
                self.on_array(move |array| async move { array.fail(&member).await })?;
            }
            Request::Remove { member } => {
                let member = member_name(&member);
                self.on_array(move |array| async move { array.remove(&member).await })?;
            }
            Request::Replace { member, with, force } => self.replace(&member, &with, force)?,
            Request::Scrub { action } => self.scrub(action)?,
            Request::Speed { min_bytes_per_s, max_bytes_per_s } => {
                self.set_speed(min_bytes_per_s, max_bytes_per_s)
            }
            Request::Attach { method } => {
                return self.exports().attach(self, method.as_deref()).map(Reply::Export);
            }
            Request::Detach { force } => self.exports().detach(&self.name, users_for(force))?,
            Request::Serve { address, read_only } => {
                return self.exports().serve(self, &address, read_only).map(Reply::Export);
            }
            Request::Unserve { address } => self.exports().unserve(self, address.as_deref())?,
            Request::Stop { force } => self.stop(users_for(force))?,
        }
        Ok(Reply::Done)
    }

    fn on_array<F>(&self, command: impl FnOnce(Array) -> F) -> Result<(), ArrayError>
    where
        F: Future<Output = Result<(), ArrayError>> + Send + 'static,
    {
        self.host.block_on(command(self.array.clone()))
    }

    fn add(&self, device: &str, force: bool) -> anyhow::Result<()> {
        if self.exports().is_own(Path::new(device)) {
            bail!("{device} is this array itself; it cannot be a member of its own");
        }
        let found = probe(Path::new(device)).with_context(|| device.to_owned())?;
        if !force && !found.is_empty() {
            bail!("{device} holds {}; give --force to overwrite it", found.join(" and "));
        }
        let opened = self.host.open_member(device)?;
        Ok(self.on_array(move |array| async move { array.add(opened).await })?)
    }

    fn replace(&self, member: &str, with: &str, force: bool) -> anyhow::Result<()> {
        let new = member_name(with);
        let is_spare = self.status().members.iter().any(|m| m.device == new);
        if !is_spare {
            self.add(with, force)?;
        }
        let old = member_name(member);
        Ok(self.on_array(move |array| async move { array.replace(&old, &new).await })?)
    }

    fn scrub(&self, action: ScrubAction) -> Result<(), ArrayError> {
        match action {
            ScrubAction::Start => self.array.start_scrub(false)?,
            ScrubAction::Repair => self.array.start_scrub(true)?,
            ScrubAction::Pause => self.array.pause_jobs(),
            ScrubAction::Resume => self.array.resume_jobs(),
            ScrubAction::Stop => self.array.stop_job(),
            ScrubAction::Status => {}
        }
        Ok(())
    }

    fn set_speed(&self, min: Option<u64>, max: Option<u64>) {
        let now = self.array.speed_limits();
        self.array.set_speed_limits(SpeedLimits {
            min_bytes_per_s: min.unwrap_or(now.min_bytes_per_s),
            max_bytes_per_s: match max {
                Some(0) => u64::MAX,
                Some(max) => max,
                None => now.max_bytes_per_s,
            },
        });
    }

    /// The array's status.
    pub(super) fn status(&self) -> ArrayStatus {
        let array = self.array.clone();
        let report = self.host.block_on(async move { array.report().await });
        let limits = self.array.speed_limits();
        let exports = self.exports();
        ArrayStatus {
            name: self.name.clone(),
            full_name: report.name.clone(),
            uuid: report.uuid.to_string(),
            level: report.geometry.level().number(),
            state: state_name(&report),
            size_bytes: report.geometry.capacity_bytes(),
            member_bytes: report.geometry.member_bytes(),
            chunk_bytes: report.geometry.chunk_bytes() as u64,
            logical_block_bytes: report.geometry.logical_block_bytes(),
            raid_devices: report.geometry.members(),
            parity_devices: report.geometry.parity_columns(),
            in_sync: report.in_sync.clone(),
            failed: report.failed,
            dirty: report.dirty,
            read_only: report.read_only,
            selection: report.selection.to_owned(),
            events: report.events,
            members: MemberStatus::of(&report),
            bitmap: report.bitmap.map(|b| BitmapStatus {
                region_bytes: b.region_bytes,
                regions: b.regions,
                marked: b.marked,
            }),
            job: report.job.as_ref().map(JobStatus::from),
            last_job: self.array.last_job().as_ref().map(JobStatus::from),
            last_scrub: self.array.last_scrub().as_ref().map(JobStatus::from),
            speed_min_bytes_per_s: limits.min_bytes_per_s,
            speed_max_bytes_per_s: Some(limits.max_bytes_per_s).filter(|max| *max != u64::MAX),
            left_out: report.excluded.iter().map(|e| format!("{}: {}", e.name, e.reason)).collect(),
            attached: exports.attached(),
            exports: exports.addresses(&self.name),
            counters: self
                .array
                .stats()
                .report()
                .fields()
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            pid: std::process::id(),
        }
    }

    pub(super) fn array_is_read_only(&self) -> bool {
        self.array.is_read_only()
    }

    /// The array as a device, for exports.
    pub(super) fn device(&self) -> Arc<dyn Device> {
        Arc::new(self.array.device())
    }
}

fn users_for(force: bool) -> Users {
    if force { Users::Force } else { Users::Refuse }
}

/// Members are known by their canonical paths.
fn member_name(path: &str) -> String {
    std::fs::canonicalize(path).map_or_else(|_| path.to_owned(), |p| p.display().to_string())
}
