//! A rebuild is cut short, by a stop or a power failure, after it has listed a block that can be read again:
//! the next opening fills the member to its end, and writes the listed block back. After a stop it needs no
//! permission.

use stripewise_engine::SpeedLimits;

use super::{Story, operator::CRAWL};
use crate::{
    Sight,
    check::{Checker, SECTOR_BYTES, Violation, layout::ROW_BYTES},
};

/// Stripes at the start of the array; one of them has a bad block.
const FIRST_STRIPES: u64 = 4;
/// Steps in which a crawling rebuild gets there.
const STEPS_MAX: u64 = 20_000;
/// The most steps from a log's write until the array is stopped.
const LOG_STEPS: u64 = 60;
/// And the most until power fails.
const POWER_STEPS: u64 = 12;

impl Story {
    /// A member is rebuilt while another one has a bad block, which is readable when the array is opened
    /// again.
    pub(super) fn rebuild_in_two_openings(&mut self) -> Result<(), Violation> {
        if self.shape.tolerance() != 1 || self.spare_unit()?.is_none() {
            return Ok(());
        }
        let serving = self.units_by_role();
        let (lost, bad) = self.two_of(&serving);
        let chunk_rows = u64::from(self.shape.chunk_bytes).div_ceil(ROW_BYTES as u64);
        let rows = (self.shape.data_bytes / ROW_BYTES as u64).min(FIRST_STRIPES * chunk_rows);
        let row = self.side_rng.u64(..rows);
        self.write_stripe_of(row)?;
        let start = self.units[bad].data_offset_bytes + row * ROW_BYTES as u64;
        self.cannot_read(bad, start, u32::MAX);
        self.array().set_speed_limits(CRAWL);
        let logs = self.world.seen(Sight::Log);
        self.lost.insert(lost);
        self.fail_calmly(lost)?;
        self.world.run_steps_until(STEPS_MAX, || self.world.seen(Sight::Log) != logs);
        let power_fails = self.side_rng.bool();
        let steps = self.side_rng.u64(..if power_fails { POWER_STEPS } else { LOG_STEPS });
        self.world.run_steps(steps);
        if power_fails {
            self.lose_power()?
        } else {
            self.stop()?
        }
        self.units[bad].faults.clear();
        self.say(|story| format!("{} can read its block again", story.units[bad].name()));
        if power_fails {
            self.open_until_it_serves()?
        } else {
            self.open_unasked()?
        }
        self.array().set_speed_limits(SpeedLimits::default());
        self.wait_for_jobs()?;
        self.flush_all()?;
        self.lost.remove(&lost);
        self.units_by_role().into_iter().for_each(|unit| self.look_at_log(unit));
        self.expect_unlisted()?;
        self.expect_whole("a rebuild went on at the next opening")
    }

    /// Writes the whole stripe of a row, if clients use it, so that its loss would show.
    fn write_stripe_of(&mut self, row: u64) -> Result<(), Violation> {
        let (layout, window) = (self.layout(), self.desk.windows[0].clone());
        let stripe = layout.stripe_bytes() / SECTOR_BYTES;
        let start = layout.stripe_of_row(row as usize) * stripe;
        let sectors = start..(start + stripe).min(window.end);
        if !self.shape.is_vast {
            self.try_write(&sectors)?
                .map_err(|error| Checker::Service.violation(format!("a write of a stripe: {error}")))?;
        }
        self.flush_all()
    }

    fn two_of(&mut self, serving: &[usize]) -> (usize, usize) {
        let first = self.side_rng.usize(..serving.len());
        let second = (first + self.side_rng.usize(1..serving.len())) % serving.len();
        (serving[first], serving[second])
    }

    /// No member is absent: the array opens without permission to run degraded.
    fn open_unasked(&mut self) -> Result<(), Violation> {
        let opening = self.start_opening_as(false, false, |_| true);
        match self.wait_for(opening, "assembling")? {
            Ok(array) => self.array = Some(array),
            Err(error) => {
                let what =
                    format!("a role was being filled, no member is absent, and it is refused: {error}");
                return Err(Checker::Service.violation(what));
            }
        }
        self.expect_policy()
    }
}
