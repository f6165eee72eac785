//! Arrays made over old content of their devices, perhaps with a member missing: the first resync makes them
//! agree.

use stripewise_engine::{CreateOptions, MemberState};

use super::Story;
use crate::check::{Checker, SECTOR_BYTES, Violation};

/// One array in so many is made over old content.
const ONE_IN: u8 = 6;

/// The devices that an array is made of.
pub(super) struct Origin {
    /// Devices hold old content, and nobody says that it agrees.
    pub(super) is_old: bool,
    /// A missing role.
    missing: Option<usize>,
}

impl Story {
    /// Draws the array's devices, and fills them.
    pub(super) fn draw_origin(&mut self) -> Origin {
        let may_be_old = self.shape.tolerance() > 0 && !self.shape.is_vast;
        if !may_be_old || self.side_rng.u8(..ONE_IN) != 0 {
            return Origin { is_old: false, missing: None };
        }
        for unit in 0..self.shape.members {
            let (sim, start) = (self.units[unit].sim.clone(), self.units[unit].data_offset_bytes);
            let mut old = vec![0; self.shape.data_bytes as usize];
            self.side_rng.fill(&mut old);
            sim.poke(start, &old);
        }
        // The first device has the array's long blocks, if any has: it must be one that can be added later.
        let first = usize::from(self.shape.block_bytes as usize > SECTOR_BYTES);
        let missing = self.side_rng.bool().then(|| self.side_rng.usize(first..self.shape.members));
        self.say(|_| match missing {
            Some(role) => format!("devices hold old data, and role {role} is missing"),
            None => "devices hold old data".to_owned(),
        });
        self.lost.extend(missing);
        Origin { is_old: true, missing }
    }

    /// Sets the options that follow from this origin.
    pub(super) fn apply_origin(&self, origin: &Origin, options: &mut CreateOptions) {
        options.assume_clean &= !origin.is_old;
        if let Some(role) = origin.missing {
            options.members[role] = None;
        }
    }

    /// The first resync ends, and from then on the array's content is fixed.
    pub(super) fn adopt_origin(&mut self, origin: &Origin) -> Result<(), Violation> {
        if !origin.is_old {
            return Ok(());
        }
        let report = self.wait_for_jobs()?;
        let in_sync = report.members.iter().filter(|member| member.state == MemberState::InSync).count();
        if in_sync + usize::from(origin.missing.is_some()) != self.shape.members {
            return Err(
                Checker::Service.violation("a member that was given is not in sync after the creation")
            );
        }
        for window in self.desk.windows.clone() {
            self.desk.sectors.lock().forgive(window.clone());
            let content = self.read_window(&window)?;
            debug_assert_eq!(content.len(), window.len() * SECTOR_BYTES);
            self.desk.sectors.lock().adopt(window.start, &content)?;
        }
        // The resync's writes are still volatile; the adopted content must not be.
        let array = self.array().clone();
        let flushed = self.finish(async move { array.flush().await }, "a flush")?;
        flushed.map_err(|error| Checker::Service.violation(format!("a flush: {error}")))?;
        self.check_redundancy()
    }
}
