//! Progress bars: on a terminal only, and only for what takes longer than a moment.

use std::{io::IsTerminal, thread, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{
    client,
    protocol::{ArrayStatus, JobStatus},
};

/// How often a job is looked at.
const POLL: Duration = Duration::from_millis(200);

/// A bar over bytes, hidden where nobody looks.
pub(crate) fn bytes_bar(total: u64, what: impl Into<String>) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{msg:>9} [{wide_bar}] {percent:>3}% {binary_bytes_per_sec} ETA {eta}");
    ProgressBar::with_draw_target(Some(total), target())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "))
        .with_message(what.into())
}

/// A bar over the points of experiments, hidden where nobody looks.
pub(crate) fn points_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:>28} [{wide_bar}] {pos}/{len}");
    ProgressBar::with_draw_target(Some(0), target())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "))
}

fn target() -> ProgressDrawTarget {
    if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() }
}

/// Waits until an array has no job under way, with a bar, and returns its last status.
pub(crate) fn wait_for_jobs(name: &str) -> anyhow::Result<ArrayStatus> {
    let mut bar: Option<(String, ProgressBar)> = None;
    loop {
        let status = client::status(name)?;
        match &status.job {
            Some(job) => show(&mut bar, job),
            // A job may be about to start; two quiet looks in a row mean that none is.
            None => {
                if let Some((_, bar)) = bar.take() {
                    bar.finish_and_clear();
                }
                thread::sleep(POLL);
                let again = client::status(name)?;
                if again.job.is_none() {
                    return Ok(again);
                }
            }
        }
        thread::sleep(POLL);
    }
}

fn show(bar: &mut Option<(String, ProgressBar)>, job: &JobStatus) {
    if bar.as_ref().is_none_or(|(kind, _)| *kind != job.kind) {
        // What was done before we looked counts neither for speed nor for the time to go.
        let new = bytes_bar(job.total_bytes, job.kind.clone()).with_position(job.done_bytes);
        new.reset_eta();
        *bar = Some((job.kind.clone(), new));
    }
    if let Some((_, bar)) = bar {
        bar.set_position(job.done_bytes);
        bar.set_message(if job.paused { format!("{} paused", job.kind) } else { job.kind.clone() });
    }
}
