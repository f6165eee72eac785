//! The events of an array's life while clients use it: an operator's commands, and bad luck.

use std::{fmt, str::FromStr};

use stripewise_device::{
    Device, IoErrorKind,
    wrap::{FaultRule, Operation},
};
use stripewise_engine::{
    SpeedLimits,
    geometry::Level,
    locking::{CounterLocks, Locking, PRESETS},
    plan::selection::{POLICIES, Policy},
};

use super::Story;

/// A command of an operator, or bad luck of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Time passes: regions are cleared, the array becomes clean.
    Rest,
    /// An operator declares a member failed.
    Fail,
    /// An operator removes a member.
    Remove,
    /// A device is added: a new one, or one that was in the array before.
    Add,
    /// A spare begins to replace a living member.
    Replace,
    /// A check or repair starts.
    Scrub,
    /// The current job is paused, resumed, stopped or slowed down.
    Job,
    /// A member vanishes.
    Vanish,
    /// A member fails a write.
    WriteError,
    /// Sectors of a member cannot be read until they are written.
    LatentError,
    /// A member becomes slow.
    Slow,
    /// A member fails a flush.
    FlushError,
    /// Partly written rows are written by another policy from now on.
    Policy,
}

/// All actions, with how often each is drawn.
const WEIGHTS: [(Action, u32); 13] = [
    (Action::Rest, 2),
    (Action::Fail, 2),
    (Action::Remove, 1),
    (Action::Add, 4),
    (Action::Replace, 2),
    (Action::Scrub, 2),
    (Action::Job, 2),
    (Action::Vanish, 1),
    (Action::WriteError, 1),
    (Action::LatentError, 2),
    (Action::Slow, 1),
    (Action::FlushError, 1),
    (Action::Policy, 1),
];

impl Action {
    /// Every action.
    pub fn all() -> impl Iterator<Item = Self> {
        WEIGHTS.iter().map(|(action, _)| *action)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Fail => "fail",
            Self::Remove => "remove",
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Scrub => "scrub",
            Self::Job => "job",
            Self::Vanish => "vanish",
            Self::WriteError => "write-error",
            Self::LatentError => "latent-error",
            Self::Slow => "slow",
            Self::FlushError => "flush-error",
            Self::Policy => "policy",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Action {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::all().map(Self::name).collect::<Vec<_>>().join(", ");
        Self::all()
            .find(|action| action.name() == text)
            .ok_or_else(|| format!("no action {text}; there are {}", names()))
    }
}

impl Story {
    /// Draws an action, or none, and carries it out.
    pub(super) fn act(&mut self) {
        let total: u32 = WEIGHTS.iter().map(|(_, weight)| weight).sum();
        // No action is as likely as one.
        let mut drawn = self.rng.u32(..2 * total);
        let action = WEIGHTS.iter().find(|(_, weight)| {
            let hit = drawn < *weight;
            drawn = drawn.wrapping_sub(*weight);
            hit
        });
        let Some((action, _)) = action else { return };
        if self.plan.without.contains(action) {
            return;
        }
        match action {
            Action::Rest => self.rest(),
            Action::Fail => self.fail(),
            Action::Remove => self.remove(),
            Action::Add => self.add(),
            Action::Replace => self.replace(),
            Action::Scrub => self.start_scrub(),
            Action::Job => self.steer_job(),
            Action::Vanish => self.vanish(),
            Action::WriteError => self.write_error(),
            Action::LatentError => self.latent_error(),
            Action::Slow => self.slow(),
            Action::FlushError => self.flush_error(),
            Action::Policy => self.change_policy(),
        }
    }

    pub(super) fn any_unit(&mut self) -> usize {
        self.rng.usize(..self.units.len())
    }

    /// A unit that the array may lose now.
    pub(super) fn victim(&mut self) -> Option<usize> {
        let unit = self.any_unit();
        self.take_victim(unit)
    }

    /// The unit, if the array may lose it now.
    pub(super) fn take_victim(&mut self, unit: usize) -> Option<usize> {
        let tolerable = self.losses_beside(unit) < self.shape.tolerance() || self.lost.contains(&unit);
        tolerable.then(|| {
            self.lost.insert(unit);
            // Before a resync has passed, the lost member's data in rows of the hole is not promised; nor, of
            // mirrors, which one is read.
            let role = self.with_image(|image, _| image.standing(unit)).flatten().map(|(role, _)| role);
            self.forgive_hole(|lost, _| {
                Some(lost) == role || role.is_some() && self.shape.level == Level::Raid1
            });
            unit
        })
    }

    /// Members that count as lost.
    pub(super) fn losses(&self) -> usize {
        self.lost.len() + self.losses_before
    }

    pub(super) fn command(
        &mut self,
        words: String,
        command: impl Future<Output = Result<(), stripewise_engine::ArrayError>> + Send + 'static,
    ) {
        self.say(|_| words);
        // It may fail: names may be wrong, members in the wrong state.
        drop(self.world.start(command));
    }

    fn fail(&mut self) {
        let Some(unit) = self.victim() else { return };
        let (array, name) = (self.array().clone(), self.units[unit].name().to_owned());
        self.command(format!("fail {name}"), async move { array.fail(&name).await });
    }

    fn remove(&mut self) {
        let unit = self.any_unit();
        let (array, name) = (self.array().clone(), self.units[unit].name().to_owned());
        self.command(format!("remove {name}"), async move { array.remove(&name).await });
    }

    fn add(&mut self) {
        let idle = self.idle_units();
        let reuse = !idle.is_empty() && self.rng.bool();
        let unit = if reuse {
            idle[self.rng.usize(..idle.len())]
        } else if self.units.len() < self.shape.members + 5 {
            self.new_unit();
            self.units.len() - 1
        } else {
            return;
        };
        self.losses_before += usize::from(self.lost.remove(&unit));
        self.units[unit].renew(&self.shape);
        let (array, device) = (self.array().clone(), self.units[unit].device.clone());
        let name = self.units[unit].name().to_owned();
        self.command(format!("add {name}"), async move {
            // A failed member is attached until it is removed.
            let _ = array.remove(&name).await;
            array.add(device).await
        });
    }

    /// Mostly replaces a serving member, by a device that waits or is new; then the old one may fail before
    /// it has left.
    fn replace(&mut self) {
        let array = self.array().clone();
        let (old, new) = (self.any_serving_unit(), self.any_unit());
        let use_new = self.rng.u8(..4) != 0 && self.units.len() < self.shape.members + 5;
        let old_name = self.units[old].name().to_owned();
        if !use_new {
            let new = self.units[new].name().to_owned();
            self.command(format!("replace {old_name} with {new}"), async move {
                array.replace(&old_name, &new).await
            });
            return;
        }
        self.new_unit();
        let device = self.units[self.units.len() - 1].device.clone();
        let new = device.info().name.clone();
        self.command(format!("replace {old_name} with {new}, which is added"), async move {
            array.add(device).await?;
            array.replace(&old_name, &new).await
        });
        if self.rng.bool()
            && self.wait_for_filling(|job| job.done_stripes > 0)
            && let Some(unit) = self.take_victim(old)
        {
            self.break_down(unit);
        }
    }

    /// A member fails its next write, or vanishes.
    fn break_down(&mut self, unit: usize) {
        if self.rng.bool() {
            self.units[unit].faults.set_gone(true);
            self.say(|story| format!("{} vanishes", story.units[unit].name()));
        } else {
            self.units[unit].sim.fail_once();
            self.say(|story| format!("{} fails its next write", story.units[unit].name()));
        }
    }

    /// A member in sync, three times in four.
    fn any_serving_unit(&mut self) -> usize {
        let serving = self.with_image(|image, _| image.in_sync()).unwrap_or_default();
        let serving: Vec<usize> = serving.into_iter().flatten().collect();
        if serving.is_empty() || self.rng.u8(..4) == 0 {
            return self.any_unit();
        }
        serving[self.rng.usize(..serving.len())]
    }

    fn start_scrub(&mut self) {
        let mend = self.rng.bool();
        self.say(|_| if mend { "repair starts" } else { "check starts" }.to_owned());
        // Another job may be under way.
        let _ = self.array().start_scrub(mend);
    }

    fn steer_job(&mut self) {
        let array = self.array().clone();
        let slow = SpeedLimits { min_bytes_per_s: 1 << 16, max_bytes_per_s: 1 << 20 };
        match self.rng.u8(..4) {
            0 => array.pause_jobs(),
            1 => array.resume_jobs(),
            2 => array.stop_job(),
            _ => array.set_speed_limits(slow),
        }
        self.say(|_| "the job is paused, resumed, stopped or slowed down".to_owned());
    }

    fn vanish(&mut self) {
        let Some(unit) = self.victim() else { return };
        self.units[unit].faults.set_gone(true);
        self.say(|story| format!("{} vanishes", story.units[unit].name()));
    }

    fn write_error(&mut self) {
        let Some(unit) = self.victim() else { return };
        // Immediately, with nothing done, or late and half done.
        if self.rng.bool() {
            self.units[unit].sim.fail_once();
        } else {
            self.fail_next(unit, Operation::Write);
        }
        self.say(|story| format!("{} fails its next write", story.units[unit].name()));
    }

    /// The next request of this kind fails, with nothing done.
    fn fail_next(&mut self, unit: usize, operation: Operation) {
        let kinds = [IoErrorKind::Medium, IoErrorKind::Other, IoErrorKind::NoSpace, IoErrorKind::Truncated];
        let kind = kinds[self.side_rng.usize(..kinds.len())];
        self.units[unit].faults.add(FaultRule {
            operation,
            range_bytes: 0..u64::MAX,
            kind,
            times: 1,
            healed_by_write: false,
        });
    }

    fn flush_error(&mut self) {
        let Some(unit) = self.victim() else { return };
        self.fail_next(unit, Operation::Flush);
        self.say(|story| format!("{} fails its next flush", story.units[unit].name()));
    }

    /// The policy for partly written rows.
    pub(super) fn any_policy(&mut self) -> &'static Policy {
        POLICIES[self.rng.usize(..POLICIES.len())]
    }

    /// The locking may differ each time that an array is opened.
    pub(super) fn any_locking(&mut self) -> Locking {
        let preset = PRESETS[self.lock_rng.usize(..PRESETS.len())].locking;
        // Now and then, an array without counters, as for one without a bitmap.
        let counter_locks =
            if self.lock_rng.u8(..8) == 0 { CounterLocks::Uncounted } else { preset.counter_locks };
        Locking { counter_locks, ..preset }
    }

    /// Changes the policy for partly written rows, or a member's write rating.
    fn change_policy(&mut self) {
        if self.side_rng.u8(..3) == 0 {
            return self.rate();
        }
        let (array, policy) = (self.array().clone(), self.any_policy());
        self.command(format!("policy {}", policy.name), async move { array.set_policy(policy).await });
    }

    fn rate(&mut self) {
        let (array, unit) = (self.array().clone(), self.any_serving_unit());
        let (name, rated) = (self.units[unit].name().to_owned(), self.side_rng.u64(1..1 << 40));
        self.command(format!("{name} is rated for {rated} bytes of writes"), async move {
            let of_name = array.report().await.members.into_iter().find(|member| member.name == name);
            let Some(member) = of_name else { return Ok(()) };
            let mut endurance = member.endurance;
            endurance.rated_write_bytes = rated;
            // The caller cannot set this.
            endurance.written_bytes = 0;
            array.set_endurance(&name, endurance).await
        });
    }

    fn slow(&mut self) {
        let (unit, times) = (self.any_unit(), self.rng.u32(2..=20));
        self.units[unit].sim.set_slowness(times);
        self.say(|story| format!("{} takes {times} times as long", story.units[unit].name()));
    }
}
