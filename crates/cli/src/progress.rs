//! Progress bars: on a terminal only, and only for what takes longer than a moment.

use std::{
    fmt::Write,
    io::{self, IsTerminal},
    thread,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use stripewise_wire::{ArrayStatus, JobStatus, StepStatus};

use crate::{
    client::{self, Attended},
    output::duration,
    said::note,
    sizes::format_size,
};

/// How often to poll a job.
const POLL: Duration = Duration::from_millis(200);
/// How often a line tells how far something has come, where there is no terminal for a bar.
const TOLD_EVERY: Duration = Duration::from_secs(30);

/// A bar over bytes that the caller moves, hidden without a terminal.
pub(crate) fn bytes_bar(total: u64, what: impl Into<String>) -> ProgressBar {
    bar(total, what, "{binary_bytes_per_sec} {left}")
}

fn bar(total: u64, what: impl Into<String>, rate: &str) -> ProgressBar {
    ProgressBar::with_draw_target(Some(total), target())
        .with_style(style(&format!("{{msg:>9}} [{{wide_bar}}] {{percent:>3}}% {rate}")))
        .with_message(what.into())
}

/// A style from a template, in which `left` is the time left.
pub(crate) fn style(template: &str) -> ProgressStyle {
    let left = |state: &ProgressState, out: &mut dyn Write| {
        let _ = out.write_str(&left_text(state.eta()));
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("=> ").with_key("left", left)
}

/// The time left. Empty without an estimate, which is 0 until something was done.
fn left_text(left: Duration) -> String {
    if left.is_zero() { String::new() } else { format!("ETA {}", duration(left.as_secs())) }
}

/// How much of a cache is written to members: a bar as long as what was left at first; without a terminal a line now and
/// then.
#[derive(Default)]
pub(crate) struct EmptyingBar {
    bar: Option<ProgressBar>,
    told: Option<Instant>,
}

impl EmptyingBar {
    pub(crate) fn show(&mut self, name: &str, left_bytes: u64) {
        let bar = self.bar.get_or_insert_with(|| bytes_bar(left_bytes, "destage"));
        let total = bar.length().unwrap_or(0).max(left_bytes);
        bar.set_length(total);
        bar.set_position(total - left_bytes);
        let is_due = self.told.is_none_or(|told| told.elapsed() >= TOLD_EVERY);
        if is_due && !io::stderr().is_terminal() {
            self.told = Some(Instant::now());
            note!("stripewise: {name}: {} of its cache are still to be written", format_size(left_bytes));
        }
    }

    pub(crate) fn clear(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

/// How far work on an array's file system has come, as its daemon tells: a bar over the work's steps; a spinner where it tells none. It
/// goes when it is dropped. Without a terminal there is a line now and then.
pub(crate) struct WorkBar {
    what: &'static str,
    spinner: Option<ProgressBar>,
    steps: Option<StepsBar>,
    told: Option<Instant>,
}

impl WorkBar {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what, spinner: None, steps: None, told: None }
    }

    pub(crate) fn show(&mut self, name: &str, done_bytes: u64, step: Option<&StepStatus>) {
        match step {
            Some(step) => self.show_step(step),
            None => self.spin(done_bytes),
        }
        let now = Instant::now();
        let is_due = *self.told.get_or_insert(now) + TOLD_EVERY <= now;
        if is_due && !io::stderr().is_terminal() {
            self.told = Some(now);
            let step = step.map_or_else(String::new, |step| format!(" ({})", step_text(step)));
            note!("stripewise: {name}: {} goes on: {} so far{step}", self.what, format_size(done_bytes));
        }
    }

    fn show_step(&mut self, StepStatus { what, done, all }: &StepStatus) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
        }
        self.steps.get_or_insert_with(StepsBar::new).show(what, *done, *all);
    }

    fn spin(&mut self, done_bytes: u64) {
        let begin = || {
            ProgressBar::with_draw_target(None, target())
                .with_style(style("{msg:>9} {spinner} {binary_bytes} ({elapsed})"))
                .with_message(self.what)
        };
        self.spinner.get_or_insert_with(begin).set_position(done_bytes);
    }
}

impl Drop for WorkBar {
    fn drop(&mut self) {
        self.spinner.iter().for_each(ProgressBar::finish_and_clear);
        self.steps.iter().for_each(StepsBar::clear);
    }
}

/// A step for people.
fn step_text(StepStatus { what, done, all }: &StepStatus) -> String {
    match all {
        0 => format!("{what} {done}"),
        all => format!("{what} {} %", u128::from(*done) * 100 / u128::from(*all)),
    }
}

/// How much of the time for a measurement of strides has passed: a bar, which goes when it is dropped; without a terminal
/// one line, as it takes no longer than those are apart.
#[derive(Default)]
pub(crate) struct MeasuringBar(Option<ProgressBar>);

impl MeasuringBar {
    pub(crate) fn show(&mut self, name: &str, passed_s: f64, most_s: f64) {
        let begin = || {
            if !io::stderr().is_terminal() {
                note!("stripewise: {name}: strides are being measured, which takes {most_s:.0} s at most");
            }
            bar((most_s * 1000.0) as u64, "measure", "{left}")
        };
        self.0.get_or_insert_with(begin).set_position((passed_s.min(most_s) * 1000.0) as u64);
    }
}

impl Drop for MeasuringBar {
    fn drop(&mut self) {
        self.0.iter().for_each(ProgressBar::finish_and_clear);
    }
}

/// A bar over the steps of something long. It begins anew with each step, and is a spinner in one whose end is not known.
#[derive(Clone)]
pub(crate) struct StepsBar(ProgressBar);

impl StepsBar {
    pub(crate) fn new() -> Self {
        Self(ProgressBar::with_draw_target(Some(0), target()))
    }

    /// Shows how much of a step is done; all of it is 0 if that is not known.
    pub(crate) fn show(&self, what: &str, done: u64, all: u64) {
        if self.0.message() != what {
            self.0.reset();
            self.0.set_style(style(step_template(all)));
            self.0.set_message(what.to_owned());
        }
        self.0.set_length(all.max(done));
        self.0.set_position(done);
    }

    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// How a step is drawn. A share and a time are known only of one whose end is known.
fn step_template(all: u64) -> &'static str {
    match all {
        0 => "{msg:>9} {spinner} {pos} ({elapsed})",
        _ => "{msg:>9} [{wide_bar}] {percent:>3}% {left}",
    }
}

/// A bar over a load.
pub(crate) struct LoadBar {
    bar: ProgressBar,
    /// Set for a load that ends by time: the bar then shows the time.
    time: Option<Duration>,
    begun: Instant,
}

/// A bar over a load that ends after so many bytes or after a time, hidden without a terminal.
pub(crate) fn load_bar(bytes: Option<u64>, time: Option<Duration>) -> LoadBar {
    let total = bytes.or(time.map(|time| time.as_millis() as u64)).unwrap_or(0);
    LoadBar { bar: bar(total, "bench", "{prefix}"), time, begun: Instant::now() }
}

impl LoadBar {
    /// Shows how much is done.
    pub(crate) fn show(&self, done_bytes: u64) {
        let elapsed = self.begun.elapsed();
        let per_s = done_bytes as f64 / elapsed.as_secs_f64().max(1e-3);
        self.bar.set_position(self.time.map_or(done_bytes, |_| elapsed.as_millis() as u64));
        let left = self.time.map_or_else(
            || {
                let left_bytes = self.bar.length().unwrap_or(0).saturating_sub(done_bytes);
                Duration::try_from_secs_f64(left_bytes as f64 / per_s).unwrap_or_default()
            },
            |time| time.saturating_sub(elapsed),
        );
        self.bar.set_prefix(format!("{}/s {}", format_size(per_s as u64), left_text(left)));
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Where bars are drawn.
pub(crate) fn target() -> ProgressDrawTarget {
    if io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() }
}

/// Waits until an array has no job under way, with a bar, and returns its last status. If interrupted, says
/// that the job goes on.
pub(crate) fn wait_for_jobs(name: &str) -> anyhow::Result<ArrayStatus> {
    let mut attended = Attended::new(name)?;
    let again = format!("`stripewise wait {name}` waits again");
    let (mut shown, mut goes_on): (Option<Shown>, _) = (None, again.clone());
    loop {
        let status = client::status_attended(&mut attended, &goes_on)?;
        goes_on = match &status.job {
            Some(job) => format!("its {} is not ended by that; {again}", job.kind),
            None => again.clone(),
        };
        match &status.job {
            Some(job) => show(name, &mut shown, job),
            // A job may be about to start; two quiet looks in a row mean that none is.
            None => {
                if let Some(shown) = shown.take() {
                    shown.bar.finish_and_clear();
                }
                thread::sleep(POLL);
                let later = client::status_attended(&mut attended, &goes_on)?;
                if later.job.is_none() {
                    return Ok(later);
                }
            }
        }
        thread::sleep(POLL);
    }
}

/// A job as a command that waits for it shows it.
struct Shown {
    kind: String,
    bar: ProgressBar,
    paused: bool,
}

fn show(name: &str, shown: &mut Option<Shown>, job: &JobStatus) {
    if shown.as_ref().is_some_and(|shown| shown.kind != job.kind) {
        *shown = None;
    }
    let shown = shown.get_or_insert_with(|| Shown {
        kind: job.kind.clone(),
        bar: bar(job.total_bytes, job.kind.clone(), "{prefix}"),
        paused: false,
    });
    shown.bar.set_position(job.done_bytes);
    shown.bar.set_message(if job.paused { format!("{} paused", job.kind) } else { job.kind.clone() });
    shown.bar.set_prefix(rate(job));
    if job.paused && !shown.paused {
        shown.bar.suspend(|| {
            note!(
                "stripewise: {name}: its {} is paused; `stripewise scrub {name} resume` lets it go on",
                job.kind
            );
        });
    }
    shown.paused = job.paused;
}

/// Speed and time left as the daemon measured them: the bar cannot know what was done before it began.
fn rate(job: &JobStatus) -> String {
    job.eta_s
        .map_or_else(String::new, |eta| format!("{}/s ETA {}", format_size(job.bytes_per_s), duration(eta)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_time_to_go_before_anything_is_done() {
        assert_eq!([0, 75_000].map(|ms| left_text(Duration::from_millis(ms))), ["", "ETA 1m15s"]);
    }

    #[test]
    fn a_share_is_told_of_a_step_whose_end_is_known() {
        assert_eq!([0, 9].map(|all| step_template(all).contains("percent")), [false, true]);
    }

    #[test]
    fn a_line_tells_the_share_where_it_is_known() {
        let step = |done, all| step_text(&StepStatus { what: "scan".to_owned(), done, all });
        assert_eq!([step(7, 0), step(u64::MAX / 2, u64::MAX)], ["scan 7", "scan 49 %"]);
    }
}
