//! How a life of a story ends: power fails, perhaps with a member, or the program is killed.

use futures_util::FutureExt;
use stripewise_engine::Array;
use stripewise_rafs::volume::Volume;

use super::{Found, Life, Story, operator::losable};

/// Steps by which a crash is put off at most, if nothing would be promised after it.
const SETTLING_STEPS: u64 = 2_000;
/// Steps until a member may be lost, at most.
const WAITING_STEPS: u64 = 400;

impl Story {
    /// Ends a life. Returns what tells a power failure from others.
    ///
    /// # Errors
    /// If a flush does not end.
    pub(super) fn end_life(&mut self, life: &Life) -> Result<Option<u64>, Found> {
        let lost = if self.may_lose && self.world.random(2) == 0 { self.some_loss(life) } else { None };
        self.settle(life)?;
        let point = self.world.trace_hash();
        self.was_killed = !self.may_lose && self.world.random(4) == 0;
        if self.was_killed {
            self.log.note(|| "the program is killed".to_owned());
            self.world.kill();
            return Ok(None);
        }
        self.log.note(|| "power fails".to_owned());
        self.world.crash();
        if let Some(number) = lost {
            (self.lost, self.is_just_lost) = (Some(number), true);
            self.log.note(|| format!("the power failure has taken member {number} along"));
        }
        Ok(Some(point))
    }

    /// While a member is missing, a crash amid a write of blocks beside others may hurt these. Mostly such a write soon comes to its end, and a flush
    /// makes it certain.
    fn settle(&mut self, life: &Life) -> Result<(), Found> {
        let is_certain = || life.volume.doubts().are_none() || !life.is_short() && !is_changing(life);
        if !self.world.run_steps_until(SETTLING_STEPS, is_certain) && !is_certain() {
            let volume = life.volume.clone();
            // It may fail, as clients' flushes may.
            let _ = self.finish(async move { volume.flush().await })?;
        }
        self.has_hurt = !is_certain();
        Ok(())
    }

    /// A member that power takes along, if that loses nothing but what was just being overwritten.
    fn some_loss(&self, life: &Life) -> Option<usize> {
        let array = life.array.as_ref()?;
        let mut losable = Vec::new();
        self.world.run_steps_until(WAITING_STEPS, || {
            losable = if life.volume.doubts().are_none() { losable_now(array) } else { Vec::new() };
            !losable.is_empty()
        });
        let at = self.world.random(losable.len().max(1) as u64) as usize;
        self.volumes.number_of(losable.get(at)?)
    }
}

/// Whether the array is writing down which members it has.
fn is_changing(life: &Life) -> bool {
    life.array.as_ref().is_some_and(|array| array.report().now_or_never().is_none())
}

fn losable_now(array: &Array) -> Vec<String> {
    let report = if array.job().is_none() { array.report().now_or_never() } else { None };
    report.map(|report| losable(array, &report)).unwrap_or_default()
}
