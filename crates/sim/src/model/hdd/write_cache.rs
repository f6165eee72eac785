//! The part of the buffer that holds what is not on the medium yet: runs of sectors, neighbours made one.

use std::collections::BTreeMap;

use super::{
    mechanism::{Mechanism, Moment, Target},
    queue::{Choice, price_ns},
};
use crate::model::epochs::Epochs;

/// The runs among which the drive chooses the next to be written: those that follow the place where its sweep over
/// the disk has come. All of a full buffer (thousands) would cost too much to compare; a drive's firmware has limits
/// of the same kind.
const WINDOW: usize = 16;
/// The most that is written at once, so that a read need not wait for long: about a track.
const ACCESS_SECTORS_MAX: u64 = 2048;

/// Buffered writes.
pub(super) struct WriteCache {
    runs: BTreeMap<u64, Run>,
    limit_sectors: u64,
    /// Sectors buffered, those being written included.
    sectors: u64,
    being_written: Option<(Target, u64)>,
    /// The first run not yet passed by the sweep.
    sweep: u64,
    /// How often that run was passed over for a cheaper one.
    passed_over: usize,
    /// Of the oldest data in each run.
    epochs: Epochs,
}

/// A run chosen to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct NextRun {
    lba: u64,
    /// It is the first that the sweep has not passed.
    first: bool,
}

struct Run {
    target: Target,
    /// The epoch of its oldest data.
    epoch: u64,
}

impl WriteCache {
    pub(super) fn new(limit_sectors: u64) -> Self {
        Self {
            runs: BTreeMap::new(),
            limit_sectors,
            sectors: 0,
            being_written: None,
            sweep: 0,
            passed_over: 0,
            epochs: Epochs::new(),
        }
    }

    /// Whether so much more may come. One write always fits an empty buffer, however large it is.
    pub(super) fn has_room(&self, sectors: u64) -> bool {
        self.sectors == 0 || self.sectors + sectors <= self.limit_sectors
    }

    /// Half full: writing goes before reads are done.
    pub(super) fn is_pressed(&self) -> bool {
        self.sectors * 2 >= self.limit_sectors
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sectors == 0
    }

    /// Whether all of the range is buffered in one run.
    pub(super) fn holds(&self, lba: u64, end: u64) -> bool {
        let inside = |target: &Target| target.lba <= lba && end <= target.end;
        self.being_written.as_ref().is_some_and(|(target, _)| inside(target))
            || self.runs.range(..=lba).next_back().is_some_and(|(_, run)| inside(&run.target))
    }

    /// Data arrives in the buffer at a time; runs it touches or overlaps become one with it.
    pub(super) fn insert(&mut self, mechanism: &Mechanism, lba: u64, end: u64, arrives: u64) {
        let (mut start, mut stop, mut earliest) = (lba, end, arrives);
        let mut epoch = self.epochs.current();
        while let Some((&key, run)) = self.runs.range(..=stop).next_back()
            && run.target.end >= start
        {
            // Writing goes forward: what counts is when the beginning is here.
            if key <= start {
                (start, earliest) = (key, run.target.earliest);
            }
            (stop, epoch) = (stop.max(run.target.end), epoch.min(run.epoch));
            self.sectors -= run.target.sectors();
            let run = self.runs.remove(&key).expect("it was just found");
            self.epochs.remove(run.epoch);
        }
        self.sectors += stop - start;
        self.add(mechanism.target(start, stop, true, earliest), epoch);
        self.epochs.retire();
    }

    fn add(&mut self, target: Target, epoch: u64) {
        self.epochs.add(epoch);
        self.runs.insert(target.lba, Run { target, epoch });
    }

    /// The run to write next, cheapest within the window; but the window's first no later than after as many others.
    pub(super) fn cheapest(&self, mechanism: &Mechanism, moment: &Moment) -> Option<Choice<NextRun>> {
        let mut best: Option<Choice<NextRun>> = None;
        for (place, (lba, run)) in self.window().enumerate() {
            if run.target.earliest > moment.now {
                continue;
            }
            let price_ns = price_ns(mechanism, moment, &run.target, moment.now);
            if best.is_none_or(|best| price_ns < best.price_ns) {
                best = Some(Choice { what: NextRun { lba: *lba, first: place == 0 }, price_ns });
            }
            if self.passed_over >= WINDOW {
                break;
            }
        }
        best
    }

    fn window(&self) -> impl Iterator<Item = (&u64, &Run)> {
        // The beginning is looked up only if the end does not fill the window.
        let beginning = std::iter::once_with(|| self.runs.range(..self.sweep)).flatten();
        self.runs.range(self.sweep..).chain(beginning).take(WINDOW)
    }

    /// When the first run of the window has arrived.
    pub(super) fn next_ready(&self) -> Option<u64> {
        self.window().map(|(_, run)| run.target.earliest).min()
    }

    /// Begins to write a run, or its beginning if it is long.
    pub(super) fn begin(&mut self, mechanism: &Mechanism, next: NextRun) -> Target {
        assert!(self.being_written.is_none(), "one write at a time");
        let Run { mut target, epoch } =
            self.runs.remove(&next.lba).expect("a run that was chosen is buffered");
        let cut = target.end.min(target.lba + ACCESS_SECTORS_MAX);
        if cut < target.end {
            self.add(mechanism.target(cut, target.end, true, target.earliest), epoch);
        }
        if next.first {
            (self.sweep, self.passed_over) = (cut, 0);
        } else {
            self.passed_over += 1;
        }
        target.end = cut;
        self.being_written = Some((target, epoch));
        target
    }

    /// What was begun is on the medium. Returns it.
    pub(super) fn end(&mut self) -> Target {
        let (target, epoch) = self.being_written.take().expect("a write was begun");
        self.sectors -= target.sectors();
        self.epochs.remove(epoch);
        self.epochs.retire();
        target
    }

    /// Everything buffered so far belongs to the epoch that is returned; what comes later, to the next.
    pub(super) fn close_epoch(&mut self) -> u64 {
        self.epochs.close()
    }

    /// Whether all data of an epoch and of those before is on the medium.
    pub(super) fn is_settled(&self, epoch: u64) -> bool {
        self.epochs.is_settled(epoch)
    }
}
