//! Commands on an array's background jobs.

use anyhow::{anyhow, bail};
use futures_util::FutureExt;
use stripewise::{ArrayError, JobKind, SpeedLimits};
use stripewise_wire::{Notes, ScrubAction};

use super::state::DaemonState;

/// The note when a repair begins.
const REPAIRS: &str = "where blocks disagree, data is taken for right and redundancy is written anew from it, at level 6 too: a \
                       data block that is wrong stays, and can be told no longer";

impl DaemonState {
    pub(super) fn scrub(&self, action: ScrubAction) -> anyhow::Result<Notes> {
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

    pub(super) fn set_speed(&self, min: Option<u64>, max: Option<u64>) -> Notes {
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
