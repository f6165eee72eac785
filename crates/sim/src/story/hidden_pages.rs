//! After a power failure no member can read its newest copy of a bitmap page. The older copies tell nothing:
//! all regions of the page may disagree.

use super::{Story, Unit};
use crate::check::image::newest_page_slots;

/// One possible opening in so many does not find the newest pages.
const ONE_IN: u8 = 2;

impl Story {
    /// Hides the newest copies of the bitmap's pages, if the array is whole and dirty. Returns the members
    /// concerned.
    pub(super) fn hide_newest_pages(&mut self) -> Vec<usize> {
        let is_sound = self.losses() == 0 && self.units.iter().all(Unit::is_sound);
        if !is_sound || self.hole.is_empty() || self.is_foreign || self.side_rng.u8(..ONE_IN) != 0 {
            return Vec::new();
        }
        let whole_and_dirty = self.with_image(|image, _| {
            let serving = image.in_sync();
            (!image.freshest().clean).then(|| serving.into_iter().collect::<Option<Vec<usize>>>()).flatten()
        });
        let serving = whole_and_dirty.flatten().unwrap_or_default();
        let times = if self.side_rng.bool() { 1 } else { u32::MAX };
        for unit in serving.clone() {
            let slots = newest_page_slots(&self.units[unit].sim.bytes());
            slots.into_iter().flatten().for_each(|slot| self.cannot_read(unit, slot.start, times));
        }
        serving
    }

    /// Makes hidden pages readable again.
    pub(super) fn show_pages(&mut self, hidden: &[usize]) {
        hidden.iter().filter(|unit| !self.units[**unit].faults.is_gone()).for_each(|unit| {
            self.units[*unit].faults.clear();
        });
    }
}
