//! Progress of the laboratory's work.

use std::{
    io::{self, IsTerminal},
    sync::Mutex,
    time::{Duration, Instant},
};

use indicatif::ProgressBar;

use crate::{
    progress::{style, target},
    said::note,
};

/// A bar over the points of experiments, hidden without a terminal.
pub(super) fn points_bar() -> ProgressBar {
    ProgressBar::with_draw_target(Some(0), target()).with_style(style("{msg:>28} [{wide_bar}] {pos}/{len}"))
}

/// A bar over work that may be partly done when it begins.
pub(super) struct WorkBar {
    bar: ProgressBar,
    /// Printed where a bar would be hidden.
    lines: Option<Mutex<Lines>>,
}

/// A bar that tells when the work will be done. Without a terminal, prints a line now and then instead.
pub(super) fn work_bar() -> WorkBar {
    let bar = ProgressBar::with_draw_target(None, target())
        .with_style(style("{msg:>28} [{wide_bar}] {percent:>3}% {left}"));
    let lines = (!io::stderr().is_terminal()).then(|| Mutex::new(Lines { last: Instant::now() }));
    WorkBar { bar, lines }
}

impl WorkBar {
    /// Shows how much of the work and how many of the points are done. The first call reports earlier work,
    /// which says nothing about the speed.
    pub(super) fn move_to(
        &self,
        (done, total): (u64, u64),
        what: &str,
        (points, points_total): (usize, usize),
    ) {
        if let Some(lines) = &self.lines {
            if lines.lock().is_ok_and(|mut lines| lines.is_due(Instant::now())) {
                let percent = 100 * done / total.max(1);
                note!("stripewise: {percent} % done, {points} of {points_total} points");
            }
            return;
        }
        let is_first = self.bar.length().is_none();
        self.bar.set_length(total);
        self.bar.set_position(done);
        self.bar.set_message(format!("{what} {points}/{points_total}"));
        if is_first {
            self.bar.reset_eta();
        }
    }

    /// Removes the bar.
    pub(super) fn finish_and_clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// How often a line says how far work has come.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// When the last line was printed.
struct Lines {
    last: Instant,
}

impl Lines {
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now.saturating_duration_since(self.last) >= LINE_EVERY;
        if is_due {
            self.last = now;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sparse() {
        let begun = Instant::now();
        let mut lines = Lines { last: begun };
        let due: Vec<_> = (0..120).filter(|s| lines.is_due(begun + Duration::from_secs(*s))).collect();
        assert_eq!(due, [30, 60, 90]);
    }
}
