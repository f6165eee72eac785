//! A daemon's answers to requests.

use anyhow::anyhow;
use stripewise::internals::{format::extension::Endurance, plan::selection::policy};
use stripewise_wire::{ClassChoice, Notes, Reply, Request};

use super::{
    adding::Given,
    patience::Deadline,
    session::Session,
    state::{DaemonState, member_name, users_for},
    stopping::{StopStep, Stopped},
};
use crate::{errors, reports::member_class};

impl DaemonState {
    /// Answers one request of a connection.
    pub(super) fn answer(&self, request: Request, session: &mut Session) -> Reply {
        let is_question = matches!(
            request,
            Request::Status
                | Request::Slow
                | Request::Emptied
                | Request::Measured
                | Request::Added { .. }
                | Request::Stripes { .. }
                | Request::Traced { .. }
                | Request::LoadStatus
                | Request::Worked { .. }
                | Request::Unmounted
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
            Request::Slow => return Ok(Reply::Slow(self.slow.members())),
            Request::Add { device, force, class, steps } => {
                return self.add(&Given { device: &device, force, class, steps }, deadline);
            }
            Request::Added { device } => return self.adding.step(&device, &self.slow, deadline),
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
                let allowed = || self.check_exportable();
                return self
                    .exports
                    .attach(method, sector_bytes, discard, deadline, allowed)
                    .map(Reply::Export);
            }
            Request::Detach { force } => return self.detach(force, deadline),
            Request::Serve { address, read_only, discard, limits } => {
                let allowed = || self.check_exportable();
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
                session.load = Some(if writes { self.while_unused(deadline, begin)? } else { begin()? });
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
            Request::Mkfs { spec } => return self.make_file_system(spec, deadline),
            Request::Mount { choice } => return self.mount(choice, deadline),
            Request::Fsck { mend } => return self.check_file_system(mend, deadline),
            Request::Usage => return self.usage(deadline),
            Request::Worked { work } => return self.worked(work, deadline),
            Request::Unmounted => return self.unmounted(deadline),
            Request::Stop { force, steps } => {
                return Ok(match self.stop(users_for(force), deadline, steps)? {
                    StopStep::Stopped(Stopped { unclean, notes }) => Reply::Stopped { unclean, notes },
                    StopStep::Emptying { left_bytes } => Reply::Emptying { left_bytes },
                });
            }
        };
        Ok(Reply::Done(notes))
    }

    /// Refuses to export the array while a load overwrites it, or its file system is in use.
    fn check_exportable(&self) -> anyhow::Result<()> {
        self.check_not_overwritten()?;
        self.file_system.check_unused()
    }

    /// Begins what overwrites the array, while nobody uses it.
    fn while_unused<T>(
        &self,
        deadline: Deadline,
        begin: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.exports.while_unused(deadline, || {
            self.file_system.check_unused()?;
            begin()
        })
    }

    /// Refuses to use the array while a load overwrites it.
    pub(super) fn check_not_overwritten(&self) -> anyhow::Result<()> {
        anyhow::ensure!(!self.loading.is_writing(), "`bench run` is overwriting it; wait for that or end it");
        Ok(())
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
}
