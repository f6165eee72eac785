//! A daemon's state, and its answers to requests.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail};
use futures_util::FutureExt;
use parking_lot::Mutex;
use stripewise::{
    Array, ArrayError, ArrayReport, CacheKind, Host, JobKind, SpeedLimits,
    internals::{format::extension::Endurance, plan::selection::policy, uring::Started},
};
use stripewise_wire::{CacheChange, ClassChoice, Notes, Reply, Request, ScrubAction};

use super::{
    adding::{Adding, Given},
    end::{Asked, End},
    exports::{Exports, Users},
    load::Loading,
    measuring::Measuring,
    patience::Deadline,
    session::Session,
    trace::Tracing,
};
use crate::{
    errors,
    reports::{cache_status, changed_cache, member_class, stride_limits},
    sizes::format_size,
};

/// How long a question and a command to the array may take. A command waits for members. A member that hangs
/// must not keep the user waiting for ever.
const QUESTION_WAIT: Duration = Duration::from_secs(10);
pub(super) const COMMAND_WAIT: Duration = Duration::from_secs(60);
/// How long an array may take to stop. A stop by force waits only a short time, as requests under way may
/// never end.
const STOP_WAIT: Duration = Duration::from_secs(60);
const FORCED_STOP_WAIT: Duration = Duration::from_secs(10);

/// How long a caller waits for a cache to be emptied before it is told how much is left, and the longest that a
/// member may take nothing of it meanwhile.
const EMPTYING_STEP: Duration = Duration::from_millis(300);
const EMPTYING_STILL_MAX: Duration = Duration::from_secs(60);
/// A command that has not asked for so long no longer waits for the stop.
const STOP_FORSAKEN: Duration = Duration::from_secs(2);

/// The error for an array that does not answer.
const HANGS: &str =
    "the array does not answer: a request to one of its members does not end, so that member hangs";
pub(super) const HANGS_GOES_ON: &str = "the array does not answer: a request to one of its members does not end, so that \
                                        member hangs; what was asked goes on";
/// The note when a repair begins.
const REPAIRS: &str = "where blocks disagree, data is taken for right and redundancy is written anew from it, at level 6 too: a \
                       data block that is wrong stays, and can be told no longer";
const HANGS_UNCLEAN: &str = "a request to one of its members does not end; what was being written is resynced when the array is \
                             next assembled";

/// A daemon's array and its exports.
pub(crate) struct DaemonState {
    pub(crate) name: String,
    pub(super) host: Host,
    pub(super) array: Array,
    pub(super) exports: Exports,
    pub(super) end: End,
    pub(super) asked: Asked,
    /// Members that could not be opened, with the reason.
    pub(super) unopened: Vec<String>,
    tracing: Tracing,
    loading: Loading,
    measuring: Measuring,
    pub(super) adding: Adding,
    /// What is written out of the cache, for a change of it or after its block device was taken away.
    emptied: Mutex<Option<Emptied>>,
    /// How far stopping has come. Locked while the array is being stopped.
    stopping: Mutex<Stopping>,
    /// A thread looks whether a stop is [forsaken](DaemonState::end_forsaken_stop).
    pub(super) stop_is_watched: AtomicBool,
}

/// How far stopping has come.
#[derive(Default)]
enum Stopping {
    #[default]
    No,
    /// Nothing is exported any more, and the array has been told to stop.
    Told {
        ends: Started<Result<(), ArrayError>>,
        notes: Notes,
        emptying: Emptying,
        /// When a command asked last.
        asked: Instant,
    },
    Stopped(Stopped),
}

/// How far a stop has come.
pub(super) enum StopStep {
    Stopped(Stopped),
    /// What is cached is being written to members.
    Emptying {
        left_bytes: u64,
    },
}

/// Whether what is cached becomes less.
#[derive(Default)]
struct Emptying(Option<(u64, Instant)>);

impl Emptying {
    /// Whether something is left, and was written lately.
    fn goes_on(&mut self, left_bytes: u64) -> bool {
        let (least, since) = self.0.get_or_insert((u64::MAX, Instant::now()));
        if left_bytes < *least {
            (*least, *since) = (left_bytes, Instant::now());
        }
        left_bytes > 0 && since.elapsed() < EMPTYING_STILL_MAX
    }
}

/// A request that ends when what was cached is on the members.
struct Emptied {
    ends: Started<Result<(), ArrayError>>,
    /// What is told then.
    notes: Notes,
    what_for: WhatFor,
}

/// Why what is cached is written to the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WhatFor {
    Change,
    Detach,
}

impl WhatFor {
    /// What is told if it fails.
    fn failed(self) -> &'static str {
        match self {
            Self::Change => "the change of the cache failed",
            Self::Detach => "it is detached, and what is cached could not be written",
        }
    }
}

/// The request that empties the cache now. One that has ended, and whose command was interrupted before, is forgotten.
fn under_way(emptied: &mut Option<Emptied>) -> Option<&mut Emptied> {
    if let Some(ended) = emptied.as_ref().and_then(|before| before.ends.wait_for(Duration::ZERO)) {
        if let Err(error) = ended {
            tracing::warn!(%error, "an earlier command, which was interrupted, could not write what is cached");
        }
        *emptied = None;
    }
    emptied.as_mut()
}

/// How an array stopped.
#[derive(Debug, Clone)]
pub(super) struct Stopped {
    /// Why it is not clean.
    pub(super) unclean: Option<String>,
    /// What is left of its exports, for people.
    pub(super) notes: Notes,
}

impl DaemonState {
    pub(super) fn new(name: String, host: Host, array: Array, unopened: Vec<String>) -> Arc<Self> {
        let asked = Asked::default();
        let exports = Exports::new(name.clone(), array.clone(), host.runtime().clone(), asked.clone());
        Arc::new(Self {
            name,
            host,
            array,
            exports,
            end: End::default(),
            asked,
            unopened,
            tracing: Tracing::default(),
            loading: Loading::default(),
            measuring: Measuring::default(),
            adding: Adding::default(),
            emptied: Mutex::default(),
            stopping: Mutex::default(),
            stop_is_watched: AtomicBool::default(),
        })
    }

    /// Ends the exports and stops the array. A caller that asks while this is under way waits for it and gets
    /// the same answer. By force, a daemon whose array does not stop ends without it. In steps, a caller does not wait
    /// for long while what is cached is written.
    pub(super) fn stop(&self, users: Users, deadline: Deadline, in_steps: bool) -> anyhow::Result<StopStep> {
        let stopping = self.stopping.try_lock_until(deadline.instant());
        let mut stopping = stopping
            .ok_or_else(|| anyhow!("it is being stopped already, and that takes long; see its log"))?;
        if let Stopping::No = &*stopping {
            self.check_can_be_emptied(users)?;
            let notes = self.exports.end_all(users, deadline).map_err(|refused| self.with_stake(refused))?;
            self.loading.cut_short();
            let array = self.array.clone();
            let ends = self.host.runtime().begin(async move {
                if users == Users::Force { array.stop_by_force().await } else { array.stop().await }
            });
            let (emptying, asked) = (Emptying::default(), Instant::now());
            *stopping = Stopping::Told { ends, notes, emptying, asked };
        }
        if let Stopping::Told { asked, .. } = &mut *stopping {
            *asked = Instant::now();
        }
        self.go_on_stopping(&mut stopping, users, deadline, in_steps)
    }

    /// Ends a stop whose command asks no more. Returns whether there is nothing left to end.
    pub(super) fn end_forsaken_stop(&self) -> anyhow::Result<bool> {
        let Some(mut stopping) = self.stopping.try_lock() else { return Ok(false) };
        match &*stopping {
            Stopping::Told { asked, .. } if asked.elapsed() < STOP_FORSAKEN => Ok(false),
            Stopping::Told { .. } => {
                let step = self.go_on_stopping(&mut stopping, Users::Refuse, Deadline::of_command(), true)?;
                Ok(matches!(step, StopStep::Stopped(_)))
            }
            Stopping::No | Stopping::Stopped(_) => Ok(true),
        }
    }

    /// Whether it is being stopped.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.try_lock().is_none_or(|stopping| !matches!(*stopping, Stopping::No))
    }

    fn go_on_stopping(
        &self,
        stopping: &mut Stopping,
        users: Users,
        deadline: Deadline,
        in_steps: bool,
    ) -> anyhow::Result<StopStep> {
        let (ends, notes, emptying) = match stopping {
            Stopping::Stopped(stopped) => return Ok(StopStep::Stopped(stopped.clone())),
            Stopping::Told { ends, notes, emptying, .. } => (ends, notes.clone(), emptying),
            Stopping::No => bail!("it could not be told to stop"),
        };
        let unclean = loop {
            let is_emptied = emptying.goes_on(self.cached_bytes());
            let patience = if is_emptied { EMPTYING_STEP } else { patience_for(users) };
            match ends.wait_for(deadline.within(patience)) {
                Some(Err(unwritten @ ArrayError::Unwritten { .. })) => {
                    *stopping = Stopping::No;
                    // What is cached can be copied off.
                    self.exports.reopen(deadline)?;
                    return Err(unwritten.into());
                }
                Some(result) => break result.err().map(why_unclean),
                None if is_emptied && in_steps => {
                    return Ok(StopStep::Emptying { left_bytes: self.cached_bytes() });
                }
                None if is_emptied && !deadline.is_over() => {}
                None if is_emptied => bail!("what is cached is still being written; ask again"),
                None if users == Users::Force => break Some(format!("{HANGS_UNCLEAN}{}", self.at_stake())),
                None => bail!("{HANGS}; `stop --force` ends its daemon all the same, as a crash would"),
            }
        };
        self.end.stopped();
        let stopped = Stopped { unclean, notes };
        *stopping = Stopping::Stopped(stopped.clone());
        Ok(StopStep::Stopped(stopped))
    }

    /// Refuses to stop an array that cannot write out what it has cached, before its clients are cut off: they can read
    /// that.
    fn check_can_be_emptied(&self, users: Users) -> anyhow::Result<()> {
        let bytes = self.cached_bytes();
        if users != Users::Force && bytes > 0 && self.array.has_failed() {
            return Err(ArrayError::Unwritten { bytes, why: Box::new(ArrayError::Failed) }.into());
        }
        Ok(())
    }

    /// What is in the cache only.
    fn cached_bytes(&self) -> u64 {
        cache_status(&self.array).map_or(0, |cache| cache.dirty_bytes)
    }

    /// What is in the cache only, where that may be lost; empty if nothing is.
    fn at_stake(&self) -> String {
        match self.cached_bytes() {
            0 => String::new(),
            bytes => format!("; {} are in the cache only", format_size(bytes)),
        }
    }

    /// An error with what a stop by force may lose.
    fn with_stake(&self, refused: anyhow::Error) -> anyhow::Error {
        match self.at_stake() {
            stake if stake.is_empty() => refused,
            stake => anyhow!(
                "{}{stake}, and a stop by force loses what members do not take of that",
                errors::line(&refused)
            ),
        }
    }

    /// Begins to change the cache. What changes at once is waited for as any command is.
    fn change_cache(&self, change: &CacheChange, deadline: Deadline) -> anyhow::Result<Reply> {
        let notes = self.notes_of_gaps(change, deadline)?;
        // All is judged before any of it is done.
        self.array.check_cache(&changed_cache(self.array.cache_settings(), change)?)?;
        self.check_not_emptied(&mut self.emptied.lock())?;
        if let Some(limits) = stride_limits(change) {
            self.on_array(deadline, move |array| async move { array.limit_strides(limits).await })?;
        }
        let settings = {
            let mut emptied = self.emptied.lock();
            self.check_not_emptied(&mut emptied)?;
            let (array, settings) = (self.array.clone(), changed_cache(self.array.cache_settings(), change)?);
            let is_replaced = change.kind.is_some() || change.size_bytes.is_some();
            if is_replaced {
                let ends = self.host.runtime().begin(async move { array.set_cache(settings).await });
                *emptied = Some(Emptied { ends, notes, what_for: WhatFor::Change });
            }
            (!is_replaced).then_some(settings)
        };
        let Some(settings) = settings else { return self.emptied(deadline) };
        self.on_array(deadline, move |array| async move { array.set_cache(settings).await }).map(Reply::Done)
    }

    /// Refuses to change a cache that is being emptied.
    fn check_not_emptied(&self, emptied: &mut Option<Emptied>) -> anyhow::Result<()> {
        if under_way(emptied).is_some() {
            bail!(
                "what is cached is being written, for an earlier command; wait for that, and see whether a member hangs \
                 (`stripewise detail {}`)",
                self.name
            );
        }
        Ok(())
    }

    /// What an operator must know who chooses to have gaps filled.
    fn notes_of_gaps(&self, change: &CacheChange, deadline: Deadline) -> anyhow::Result<Notes> {
        let fills = |kind: &CacheKind| kind.fills_gaps() && change.kind.as_deref() == Some(kind.name());
        if !CacheKind::ALL.iter().any(fills) {
            return Ok(Notes::new());
        }
        let array = self.array.clone();
        let report = self.wait_for(async move { array.report().await }, deadline.within(QUESTION_WAIT))?;
        let is_known = report
            .members
            .iter()
            .any(|member| member.strides.read.s_max > 0 || member.strides.write.s_max > 0);
        let unknown = format!(
            "no member's strides are known, so that no gap is filled: `stripewise cache {} --measure`",
            self.name
        );
        Ok(if is_known { Notes::new() } else { vec![unknown] })
    }

    /// Takes the block device away, and begins to write out what is cached.
    fn detach(&self, force: bool, deadline: Deadline) -> anyhow::Result<Reply> {
        let is_attached = self.exports.attached().is_some();
        let notes = self.exports.detach(users_for(force), deadline);
        let notes = notes.map_err(|refused| if is_attached { self.with_stake(refused) } else { refused })?;
        {
            let mut emptied = self.emptied.lock();
            if let Some(before) = under_way(&mut emptied) {
                before.notes.extend(notes);
            } else if self.cached_bytes() == 0 {
                return Ok(Reply::Done(notes));
            } else {
                let array = self.array.clone();
                let ends = self.host.runtime().begin(async move { array.flush().await });
                *emptied = Some(Emptied { ends, notes, what_for: WhatFor::Detach });
            }
        }
        self.emptied(deadline)
    }

    /// How far the cache is emptied.
    fn emptied(&self, deadline: Deadline) -> anyhow::Result<Reply> {
        let mut emptied = self.emptied.lock();
        let Some(Emptied { ends, what_for, .. }) = &*emptied else { return Ok(Reply::Done(Notes::new())) };
        let what_for = *what_for;
        let Some(result) = ends.wait_for(deadline.within(EMPTYING_STEP)) else {
            return Ok(Reply::Emptying { left_bytes: self.cached_bytes() });
        };
        let notes = emptied.take().map(|emptied| emptied.notes).unwrap_or_default();
        drop(emptied);
        match result.context(what_for.failed()) {
            Err(refused) if what_for == WhatFor::Detach => Err(self.with_stake(refused)),
            result => result.map(|()| Reply::Done(notes)),
        }
    }

    /// Answers one request of a connection.
    pub(super) fn answer(&self, request: Request, session: &mut Session) -> Reply {
        let is_question = matches!(
            request,
            Request::Status
                | Request::Emptied
                | Request::Measured
                | Request::Added { .. }
                | Request::Stripes { .. }
                | Request::Traced { .. }
                | Request::LoadStatus
        );
        let is_repeated = matches!(request, Request::Stop { .. }) && self.is_stopping();
        if !is_question && !is_repeated {
            tracing::info!(?request, "an operator asks");
        }
        let deadline = Deadline::of_command();
        self.try_answer(request, session, deadline).unwrap_or_else(|error| {
            let why = errors::line(&error);
            tracing::info!(why, "refused");
            Reply::Error(why)
        })
    }

    fn try_answer(
        &self,
        request: Request,
        session: &mut Session,
        deadline: Deadline,
    ) -> anyhow::Result<Reply> {
        let notes = match request {
            Request::Status => return Ok(Reply::Status(Box::new(self.status()?))),
            Request::Add { device, force, class, steps } => {
                return self.add(&Given { device: &device, force, class, steps }, deadline);
            }
            Request::Added { device } => return self.adding.step(&device, deadline),
            Request::Fail { member } => {
                let member = member_name(&member);
                self.on_array(deadline, move |array| async move { array.fail(&member).await })?
            }
            Request::Remove { member } => {
                let member = member_name(&member);
                self.on_array(deadline, move |array| async move { array.remove(&member).await })?
            }
            Request::Replace { member, with, force, class, steps } => {
                return self.replace(&member, &Given { device: &with, force, class, steps }, deadline);
            }
            Request::Scrub { action } => self.scrub(action)?,
            Request::Speed { min_bytes_per_s, max_bytes_per_s } => {
                self.set_speed(min_bytes_per_s, max_bytes_per_s)
            }
            Request::Attach { method, sector_bytes, discard } => {
                let allowed = || self.check_not_overwritten();
                return self
                    .exports
                    .attach(method, sector_bytes, discard, deadline, allowed)
                    .map(Reply::Export);
            }
            Request::Detach { force } => return self.detach(force, deadline),
            Request::Serve { address, read_only, discard, limits } => {
                let allowed = || self.check_not_overwritten();
                return self
                    .exports
                    .serve(&address, read_only, discard, &limits, deadline, allowed)
                    .map(Reply::Export);
            }
            Request::Unserve { address } => self.exports.unserve(address.as_deref(), deadline)?,
            Request::Policy { policy: name } => {
                let policy = policy(&name)?;
                self.on_array(deadline, move |array| async move { array.set_policy(policy).await })?
            }
            Request::Cache { change } => return self.change_cache(&change, deadline),
            Request::Measure => return self.measuring.begin(&self.host, &self.array, deadline),
            Request::Measured => return self.measuring.step(deadline),
            Request::Emptied => return self.emptied(deadline),
            Request::Class { member, class } => self.set_class(&member, class, deadline)?,
            Request::Stripes { from, to } => return self.stripes(from, to).map(Reply::Stripes),
            Request::Endurance { member, rated_write_bytes, warranty_end_s, warranty_margin_days } => {
                let (member, now) = self.endurance_of(&member)?;
                let wanted = Endurance {
                    rated_write_bytes: rated_write_bytes.unwrap_or(now.rated_write_bytes),
                    warranty_end_s: warranty_end_s.unwrap_or(now.warranty_end_s),
                    warranty_margin_days: warranty_margin_days.unwrap_or(now.warranty_margin_days),
                    ..now
                };
                self.on_array(
                    deadline,
                    move |array| async move { array.set_endurance(&member, wanted).await },
                )?
            }
            Request::Trace { choice } => {
                session.trace = Some(self.tracing.start(&self.array, choice)?);
                Notes::new()
            }
            Request::Traced { since } => return Ok(Reply::Traced(session.trace()?.since(since))),
            Request::TraceEnd => {
                session.trace = None;
                Notes::new()
            }
            Request::Load { load } => {
                let writes = load.writes();
                let begin = || self.loading.start(&self.host, &self.array, load);
                session.load =
                    Some(if writes { self.exports.while_unused(deadline, begin)? } else { begin()? });
                Notes::new()
            }
            Request::LoadStatus => {
                let status = session.load()?.status();
                if status.figures.is_some() {
                    session.load = None;
                }
                return Ok(Reply::Load(status));
            }
            Request::LoadEnd => {
                session.load()?.end();
                Notes::new()
            }
            Request::Stop { force, steps } => {
                return Ok(match self.stop(users_for(force), deadline, steps)? {
                    StopStep::Stopped(Stopped { unclean, notes }) => Reply::Stopped { unclean, notes },
                    StopStep::Emptying { left_bytes } => Reply::Emptying { left_bytes },
                });
            }
        };
        Ok(Reply::Done(notes))
    }

    /// Refuses to export the array while a load overwrites it.
    fn check_not_overwritten(&self) -> anyhow::Result<()> {
        anyhow::ensure!(!self.loading.is_writing(), "`bench run` is overwriting it; wait for that or end it");
        Ok(())
    }

    fn on_array<F>(&self, deadline: Deadline, command: impl FnOnce(Array) -> F) -> anyhow::Result<Notes>
    where
        F: Future<Output = Result<(), ArrayError>> + Send + 'static,
    {
        self.wait_for(command(self.array.clone()), deadline.within(COMMAND_WAIT))??;
        Ok(Notes::new())
    }

    /// The result of a question or a command, in bounded time: a member may hang.
    pub(super) fn wait_for<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
        limit: Duration,
    ) -> anyhow::Result<T> {
        self.host.runtime().block_on_for(future, limit).context(HANGS_GOES_ON)
    }

    pub(super) fn report_of_array(&self) -> anyhow::Result<ArrayReport> {
        let array = self.array.clone();
        self.wait_for(async move { array.report().await }, QUESTION_WAIT)
    }

    /// A member's full name and its endurance record.
    fn endurance_of(&self, device: &str) -> anyhow::Result<(String, Endurance)> {
        let (name, report) = (member_name(device), self.report_of_array()?);
        let member = report.members.into_iter().find(|member| member.name == name);
        let member = member.ok_or_else(|| anyhow!("{device} is not a member; `detail` lists them"))?;
        Ok((name, member.endurance))
    }

    pub(super) fn set_class(
        &self,
        member: &str,
        class: ClassChoice,
        deadline: Deadline,
    ) -> anyhow::Result<Notes> {
        let name = member_name(member);
        self.on_array(deadline, move |array| async move { array.set_class(&name, member_class(class)).await })
    }

    fn scrub(&self, action: ScrubAction) -> anyhow::Result<Notes> {
        // A job that was asked for and has not begun counts too.
        let has_job = self.array.wait_for_jobs().now_or_never().is_none();
        match action {
            ScrubAction::Start => self.start_scrub(false)?,
            ScrubAction::Repair => {
                self.start_scrub(true)?;
                return Ok(vec![REPAIRS.to_owned()]);
            }
            ScrubAction::Status => {}
            _ if !has_job => bail!("no job is under way"),
            ScrubAction::Pause => self.array.pause_jobs(),
            ScrubAction::Resume => self.array.resume_jobs(),
            ScrubAction::Stop => self.stop_job()?,
        }
        Ok(Notes::new())
    }

    /// Stops the current job, unless it is a resync: what that has not passed yet has no redundancy to count
    /// on, and nothing would say so.
    fn stop_job(&self) -> anyhow::Result<()> {
        let name = &self.name;
        if self.array.job().is_some_and(|job| job.kind == JobKind::Resync) {
            bail!(
                "a resync is not stopped, as what it has not passed yet has no redundancy; pause it (`stripewise scrub {name} \
                 pause`) or slow it down (`stripewise speed {name} --max 50M`)"
            );
        }
        self.array.stop_job();
        Ok(())
    }

    fn start_scrub(&self, mend: bool) -> anyhow::Result<()> {
        let name = &self.name;
        self.array.start_scrub(mend).map_err(|error| match error {
            ArrayError::Busy(kind) if kind == JobKind::Resync.name() => {
                anyhow!("a {kind} is under way; wait for it (`stripewise wait {name}`)")
            }
            ArrayError::Busy(kind) => anyhow!(
                "a {kind} is under way; wait for it (`stripewise wait {name}`) or stop it first (`stripewise scrub {name} \
                 stop`)"
            ),
            other => other.into(),
        })
    }

    fn set_speed(&self, min: Option<u64>, max: Option<u64>) -> Notes {
        let now = self.array.speed_limits();
        self.array.set_speed_limits(SpeedLimits {
            min_bytes_per_s: min.unwrap_or(now.min_bytes_per_s),
            max_bytes_per_s: match max {
                Some(0) => u64::MAX,
                Some(max) => max,
                None => now.max_bytes_per_s,
            },
        });
        Notes::new()
    }
}

/// Why a stopped array is not clean. The engine's own words are for an array that still runs.
fn why_unclean(error: ArrayError) -> String {
    match error {
        ArrayError::Failed => "it had lost more members than its level tolerates; bring them back and assemble it \
                               again, or accept with `assemble --force` that what was written since they left is lost"
            .to_owned(),
        other => other.to_string(),
    }
}

fn patience_for(users: Users) -> Duration {
    if users == Users::Force { FORCED_STOP_WAIT } else { STOP_WAIT }
}

fn users_for(force: bool) -> Users {
    if force { Users::Force } else { Users::Refuse }
}

/// Members are known by their canonical paths.
pub(super) fn member_name(path: &str) -> String {
    std::fs::canonicalize(path).map_or_else(|_| path.to_owned(), |p| p.display().to_string())
}
