//! An interrupted run says what is kept, how far it came, and which command continues it.

use crate::said::note;
use std::{
    process,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use anyhow::Context;
use stripewise_lab::runner::Progress;

use crate::interrupt::Interrupt;

/// The exit code that a shell reports for a command that Ctrl-C ended.
const INTERRUPTED: i32 = 130;
/// How often to check for a signal: a point may take seconds, and the user should not wait for it.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How far a run has come.
#[derive(Clone, Copy, Default)]
struct Kept {
    points: usize,
    points_total: usize,
    percent: u64,
}

/// The commands to run after an interruption.
pub(super) struct After {
    /// Continues the run.
    pub(super) resume: String,
    /// Shows the results so far.
    pub(super) report: String,
}

/// Watches a run.
#[derive(Clone)]
pub(super) struct Watch(Arc<Mutex<Kept>>);

impl Watch {
    /// From now on, a signal ends the program with a message about what is kept. Finished points are already
    /// in the folder. A point that is just being written is there as a whole afterwards, or the next run cuts
    /// it off.
    pub(super) fn begin(after: After, clear: impl Fn() + Send + 'static) -> anyhow::Result<Self> {
        let interrupt = Interrupt::watch().context("signals cannot be watched for")?;
        let watch = Self(Arc::default());
        let watched = watch.clone();
        thread::spawn(move || {
            while !interrupt.is_asked() {
                thread::sleep(LOOK_EVERY);
            }
            clear();
            note!("stripewise: {}", told(watched.kept(), &after));
            process::exit(INTERRUPTED);
        });
        Ok(watch)
    }

    /// Notes how far the run has come.
    pub(super) fn note(&self, at: Progress<'_>) {
        let percent = 100 * at.done / at.total.max(1);
        let kept = Kept { points: at.points, points_total: at.points_total, percent };
        *self.0.lock().expect("no holder panics") = kept;
    }

    fn kept(&self) -> Kept {
        *self.0.lock().expect("no holder panics")
    }
}

fn told(Kept { points, points_total, percent }: Kept, After { resume, report }: &After) -> String {
    format!(
        "interrupted at {percent} % of the work: {points} of {points_total} points are finished and kept; `{resume}` goes \
         on with the others, and `{report}` shows what there is"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_has_how_far_it_came_and_how_it_goes_on() {
        let kept = Kept { points: 3, points_total: 20, percent: 12 };
        let [resume, report] =
            ["stripewise lab run all --seed 1 --out results", "stripewise lab report results"];
        let after = After { resume: resume.to_owned(), report: report.to_owned() };
        let text = told(kept, &after);
        assert!(text.starts_with("interrupted at 12 % of the work: 3 of 20 points are finished and kept"));
        assert!(text.contains("`stripewise lab run all --seed 1 --out results` goes on"), "{text}");
        assert!(text.contains("`stripewise lab report results` shows"), "{text}");
    }
}
