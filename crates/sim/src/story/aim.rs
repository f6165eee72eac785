//! When power fails: some time after the last action, or just when an event happens that a crash may find
//! half done. A crash aimed there is worth a hundred that are not.

use stripewise_engine::{JobKind, JobReport};

use super::Story;
use crate::Sight;

/// How many steps to wait for something.
pub(super) const WAIT_STEPS: u64 = 1000;

/// How much longer metadata takes than data while a failure is recorded in which power shall fail.
pub(super) const METADATA_SLOWNESS: u32 = 20;

/// Durable writes that begin while a failure is recorded.
const WRITES_FOR_GOOD: usize = 12;

/// One life in so many ends while a region is forgotten, as many while one is marked, and while a page of the
/// bitmap is written, whatever else is drawn.
const REGIONS_ONE_IN: u8 = 12;

/// The target of a power failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    /// Nothing.
    Anywhere,
    /// The consequences of the last action.
    Soon,
    /// Superblocks that are being written.
    Superblock,
    /// Pages of the bitmap that are being written.
    Page,
    /// A region that is forgotten, while a write comes and goes in it.
    Clearing,
    /// A region that is marked, while others write to it.
    Marking,
    /// A bad-block log that is being written because blocks that it lists were healed.
    Log,
    /// A write that fails.
    Failure,
    /// A failure that is being recorded, while other writes go on without the member.
    Recording,
    /// A member that is being filled.
    Filling,
    /// A filled member that is about to take its role.
    Promotion,
}

const AIMS: [Aim; 14] = [
    Aim::Soon,
    Aim::Soon,
    Aim::Soon,
    Aim::Soon,
    Aim::Soon,
    Aim::Anywhere,
    Aim::Anywhere,
    Aim::Superblock,
    Aim::Page,
    Aim::Failure,
    Aim::Recording,
    Aim::Recording,
    Aim::Filling,
    Aim::Promotion,
];

impl Story {
    /// Runs to the moment at which power fails.
    pub(super) fn run_to_the_end(&mut self) {
        let drawn = AIMS[self.rng.usize(..AIMS.len())];
        let aim = match self.side_rng.u8(..REGIONS_ONE_IN) {
            0 => Aim::Clearing,
            1 => Aim::Marking,
            2 => Aim::Page,
            _ => drawn,
        };
        self.run_to(aim);
    }

    /// If members list bad blocks, runs, now and then, to a moment at which these are being healed. False: it
    /// does not.
    pub(super) fn runs_to_healing(&mut self) -> bool {
        let runs = !self.units_listing().is_empty() && self.side_rng.u8(..3) == 0;
        if runs {
            self.run_to(Aim::Log);
        }
        runs
    }

    fn run_to(&mut self, aim: Aim) {
        let steps = match aim {
            Aim::Anywhere => self.rng.u64(..300),
            Aim::Soon => self.rng.u64(..60),
            _ => {
                let came = self.wait_for_aim(aim);
                self.say(|_| {
                    format!("power is to fail at: {aim:?}{}", if came { "" } else { ", which does not come" })
                });
                // A promotion is some rounds of metadata on all members; other aims are over soon.
                self.rng.u64(
                    ..match aim {
                        Aim::Promotion => 200,
                        Aim::Recording => 100,
                        _ => 40,
                    },
                )
            }
        };
        self.world.run_steps(steps);
    }

    fn wait_for_aim(&mut self, aim: Aim) -> bool {
        match aim {
            Aim::Anywhere | Aim::Soon => true,
            Aim::Superblock => self.wait_to_see(Sight::Superblock),
            Aim::Page => self.wait_to_see(Sight::Page),
            Aim::Clearing => self.write_while_clearing(),
            Aim::Marking => self.write_while_marking(),
            Aim::Log => self.wait_to_see(Sight::Log),
            Aim::Failure => self.wait_to_see(Sight::Failure),
            Aim::Recording => {
                // Give other writes the time to be acknowledged, if they may be.
                self.units.iter().for_each(|unit| unit.sim.set_metadata_slowness(METADATA_SLOWNESS));
                let has_come = self.fail_a_write() && self.wait_to_see(Sight::Header);
                if has_come && self.side_rng.bool() {
                    self.write_for_good();
                }
                has_come
            }
            Aim::Filling => self.wait_for_filling(|job| job.done_stripes > 0),
            Aim::Promotion => self.wait_for_filling(|job| job.done_stripes == job.total_stripes),
        }
    }

    /// Makes a member fail its next write, if some member may. True once it does.
    fn fail_a_write(&mut self) -> bool {
        let Some(unit) = self.victim() else { return false };
        self.units[unit].sim.fail_once();
        self.say(|story| format!("{} fails its next write", story.units[unit].name()));
        self.wait_to_see(Sight::Failure)
    }

    /// Writes blocks that must be durable once they are acknowledged.
    fn write_for_good(&mut self) {
        for _ in 0..WRITES_FOR_GOOD {
            let block = self.any_block();
            self.start_write(block.start, true);
        }
    }

    pub(super) fn wait_to_see(&self, sight: Sight) -> bool {
        let before = self.world.seen(sight);
        self.world.run_steps_until(WAIT_STEPS, || self.world.seen(sight) != before)
    }

    /// Runs until a member is being filled, and `is_so_far` holds. False: that does not happen for a while.
    pub(super) fn wait_for_filling(&self, is_so_far: impl Fn(&JobReport) -> bool) -> bool {
        let array = self.array();
        let mut waited = 0;
        self.world.run_steps_until(WAIT_STEPS, || {
            let job = array.job().filter(|job| matches!(job.kind, JobKind::Rebuild | JobKind::Replace));
            waited = if job.is_some() { 0 } else { waited + 1 };
            // Perhaps no member is to be filled.
            job.is_some_and(|job| is_so_far(&job)) || waited > WAIT_STEPS / 10
        }) && waited == 0
    }
}
