//! The part of the buffer that holds what is not on the medium yet: runs of sectors, neighbours made one.

use super::{
    mechanism::{Mechanism, Moment, Target},
    queue::{Choice, least, price_ns},
    runs::{Run, Runs},
};
use crate::model::epochs::Epochs;

/// The runs among which the drive chooses the next to be written: those that follow the place where its sweep
/// over the disk has come. All of a full buffer (thousands) would cost too much to compare; a drive's
/// firmware has limits of the same kind.
const WINDOW: usize = 16;
/// The most that is written at once, so that a read need not wait for long: about a track.
const ACCESS_SECTORS_MAX: u64 = 2048;

/// Buffered writes.
pub(super) struct WriteCache {
    /// All that is buffered but what is being written.
    runs: Runs,
    /// The first of the runs, as many as [`WINDOW`], in the order in which the sweep comes to them. Kept,
    /// since it changes little from one choice to the next.
    window: Vec<Target>,
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

/// A run chosen to be written, by its place in the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct NextRun(usize);

impl WriteCache {
    pub(super) fn new(limit_sectors: u64) -> Self {
        Self {
            runs: Runs::default(),
            window: Vec::with_capacity(WINDOW + 1),
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
        self.being_written.as_ref().is_some_and(|(target, _)| target.lba <= lba && end <= target.end)
            || self.runs.last_by(lba).is_some_and(|(_, run)| end <= run.end)
    }

    /// Data arrives in the buffer at a time; runs it touches or overlaps become one with it.
    pub(super) fn insert(&mut self, mechanism: &Mechanism, lba: u64, end: u64, arrives: u64) {
        let (mut start, mut stop, mut earliest) = (lba, end, arrives);
        let mut epoch = self.epochs.current();
        while let Some((key, run)) = self.runs.last_by(stop)
            && run.end >= start
        {
            // Writing goes forward: the beginning's arrival counts.
            if key <= start {
                (start, earliest) = (key, run.earliest);
            }
            (stop, epoch) = (stop.max(run.end), epoch.min(run.epoch));
            let run = self.remove(mechanism, key);
            self.sectors -= run.end - key;
            self.epochs.remove(run.epoch);
        }
        self.sectors += stop - start;
        self.epochs.add(epoch);
        self.add(mechanism, start, Run { end: stop, earliest, epoch });
        self.epochs.retire();
    }

    fn add(&mut self, mechanism: &Mechanism, lba: u64, run: Run) {
        let all_in_window = self.window.len() == self.runs.len();
        if all_in_window || self.window.last().is_some_and(|last| self.way_to(lba) < self.way_to(last.lba)) {
            let place = self.window.partition_point(|other| self.way_to(other.lba) < self.way_to(lba));
            self.window.insert(place, mechanism.target(lba, run.end, true, run.earliest));
            self.window.truncate(WINDOW);
        }
        self.runs.insert(lba, run);
    }

    fn remove(&mut self, mechanism: &Mechanism, lba: u64) -> Run {
        let run = self.runs.remove(lba).expect("it was just found");
        if let Some(place) = self.window.iter().position(|target| target.lba == lba) {
            self.window.remove(place);
            if let Some((lba, run)) = self.behind_window() {
                self.window.push(mechanism.target(lba, run.end, true, run.earliest));
            }
        }
        run
    }

    /// How far the sweep has to go to a sector; from the disk's end it goes on at its beginning.
    fn way_to(&self, lba: u64) -> u64 {
        lba.wrapping_sub(self.sweep)
    }

    /// The run to which the sweep comes after those of the window, if there is one.
    fn behind_window(&self) -> Option<(u64, &Run)> {
        if self.window.len() == self.runs.len() {
            return None;
        }
        let from = self.window.last().map_or(self.sweep, |last| last.lba + 1);
        self.runs.first_from(from).or_else(|| self.runs.first_from(0))
    }

    /// The run to write next: the cheapest within the window, but the window's first after a limited number
    /// of others.
    pub(super) fn cheapest(&self, mechanism: &Mechanism, moment: &Moment) -> Option<Choice<NextRun>> {
        let ready = self.window.iter().enumerate().filter(|(_, target)| target.earliest <= moment.now);
        let choices = if self.passed_over < WINDOW { WINDOW } else { 1 };
        let priced = ready
            .take(choices)
            .map(|(place, target)| (place, price_ns(mechanism, moment, target, moment.now)));
        let best = least(priced)?;
        Some(Choice { what: NextRun(best.what), price_ns: best.price_ns })
    }

    /// When the first run of the window has arrived.
    pub(super) fn next_ready(&self) -> Option<u64> {
        self.window.iter().map(|target| target.earliest).min()
    }

    /// Begins to write a run, or its beginning if it is long.
    pub(super) fn begin(&mut self, mechanism: &Mechanism, NextRun(place): NextRun) -> Target {
        assert!(self.being_written.is_none(), "one write at a time");
        let mut target = self.window[place];
        let Run { end, earliest, epoch } = self.remove(mechanism, target.lba);
        target.end = end.min(target.lba + ACCESS_SECTORS_MAX);
        if target.end < end {
            self.epochs.add(epoch);
            self.add(mechanism, target.end, Run { end, earliest, epoch });
        }
        if place == 0 {
            (self.sweep, self.passed_over) = (target.end, 0);
        } else {
            self.passed_over += 1;
        }
        self.being_written = Some((target, epoch));
        target
    }

    /// The write that was begun is on the medium. Returns it.
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

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;
    use crate::model::hdd::HddParams;

    /// All runs, in order.
    fn all(cache: &WriteCache) -> Vec<(u64, u64)> {
        let next = |lba: u64| cache.runs.first_from(lba).map(|(lba, run)| (lba, run.end));
        std::iter::successors(next(0), |(lba, _)| next(lba + 1)).collect()
    }

    /// The window, computed from its definition.
    fn window_anew(cache: &WriteCache) -> Vec<(u64, u64)> {
        let (behind, ahead): (Vec<_>, Vec<_>) =
            all(cache).into_iter().partition(|(lba, _)| *lba < cache.sweep);
        ahead.into_iter().chain(behind).take(WINDOW).collect()
    }

    #[test]
    fn the_window_is_what_the_sweep_comes_to_next() {
        let mechanism = Mechanism::new(&HddParams::seagate_cheetah_15k4_73(), 0);
        let mut rng = Rng::with_seed(1);
        // Few sectors, so that runs merge; and writes longer than one access.
        for (sectors, longest) in [(400, 8), (4000, 8), (100_000, 6000)] {
            let mut cache = WriteCache::new(u64::MAX);
            for _ in 0..4000 {
                let lba = rng.u64(..sectors);
                cache.insert(&mechanism, lba, lba + rng.u64(1..=longest), 0);
                if rng.u8(..100) < 45 || cache.runs.len() > 40 {
                    cache.begin(&mechanism, NextRun(rng.usize(..cache.window.len())));
                    cache.end();
                }
                let window: Vec<_> = cache.window.iter().map(|target| (target.lba, target.end)).collect();
                assert_eq!(window, window_anew(&cache));
                let buffered: u64 = all(&cache).iter().map(|(lba, end)| end - lba).sum();
                assert_eq!(buffered, cache.sectors);
            }
        }
    }
}
