//! How long a daemon waits: one deadline for all waits of a command, and patience with a process that may
//! hang.

use std::time::{Duration, Instant};

use stripewise_wire::ANSWER_TIMEOUT;

/// The longest a command may take, with all its waits: its answer must come while the client still waits for
/// it.
const COMMAND_MAX: Duration = Duration::from_secs(100);

const _: () = assert!(COMMAND_MAX.as_secs() + 15 < ANSWER_TIMEOUT.as_secs());

/// When all waits of a command end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(Instant);

impl Deadline {
    /// For a command that was just read.
    pub(super) fn of_command() -> Self {
        Self::after(COMMAND_MAX)
    }

    pub(super) fn after(limit: Duration) -> Self {
        Self(Instant::now() + limit)
    }

    /// This deadline, or `limit` from now if that comes first.
    pub(super) fn or_after(self, limit: Duration) -> Self {
        Self(self.0.min(Instant::now() + limit))
    }

    pub(super) fn instant(self) -> Instant {
        self.0
    }

    pub(super) fn is_over(self) -> bool {
        self.left().is_zero()
    }

    pub(super) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// How long a part of the command may wait: `limit`, or the time left if that is less.
    pub(super) fn within(self, limit: Duration) -> Duration {
        self.left().min(limit)
    }
}

/// How long a process that writes to the array may run while nothing is written. After that, it is taken to
/// hang and is left to itself.
const STILL_MAX: Duration = Duration::from_secs(10);

/// Decides whether to go on waiting for a process that may hang.
#[derive(Clone, Copy)]
pub(super) struct Patience<'a> {
    /// How much was written to the array so far: while it grows, something happens.
    pub(super) written: &'a dyn Fn() -> u64,
    /// Whether an operator will not wait any longer.
    pub(super) is_over: &'a dyn Fn() -> bool,
    pub(super) still_max: Duration,
    pub(super) deadline: Deadline,
}

impl<'a> Patience<'a> {
    /// Waits while the array is written to, until the deadline.
    pub(super) fn while_written(written: &'a dyn Fn() -> u64, deadline: Deadline) -> Self {
        Self { written, is_over: &|| false, still_max: STILL_MAX, deadline }
    }

    /// Begins to wait for one process.
    pub(super) fn watch(self) -> Watch<'a> {
        Watch { patience: self, before: (self.written)(), since: Instant::now() }
    }
}

/// Patience with one process, from its start.
pub(super) struct Watch<'a> {
    patience: Patience<'a>,
    before: u64,
    /// When something was written last.
    since: Instant,
}

impl Watch<'_> {
    /// Whether to go on waiting.
    pub(super) fn goes_on(&mut self) -> bool {
        let now = (self.patience.written)();
        if now != self.before {
            (self.before, self.since) = (now, Instant::now());
        }
        let is_still = self.since.elapsed() >= self.patience.still_max;
        !is_still && !self.patience.deadline.is_over() && !(self.patience.is_over)()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const LONG: Duration = Duration::from_secs(1000);

    #[test]
    fn the_waits_of_a_command_share_its_deadline() {
        let deadline = Deadline::after(Duration::from_secs(5));
        assert_eq!(deadline.within(Duration::from_secs(1)), Duration::from_secs(1));
        assert!(deadline.within(LONG) <= Duration::from_secs(5), "not each its own limit");
        let over = Deadline::after(Duration::ZERO);
        assert!(over.is_over() && over.within(LONG).is_zero() && deadline.or_after(Duration::ZERO).is_over());
        assert!(
            !deadline.or_after(LONG).is_over() && deadline.or_after(LONG).left() <= Duration::from_secs(5)
        );
    }

    #[test]
    fn patience_ends_with_its_deadline_although_something_is_written() {
        let written = Cell::new(0);
        let grows = || {
            written.set(written.get() + 1);
            written.get()
        };
        assert!(Patience::while_written(&grows, Deadline::after(LONG)).watch().goes_on());
        assert!(!Patience::while_written(&grows, Deadline::after(Duration::ZERO)).watch().goes_on());
    }

    #[test]
    fn patience_ends_where_nothing_is_written() {
        let still =
            Patience { still_max: Duration::ZERO, ..Patience::while_written(&|| 7, Deadline::after(LONG)) };
        assert!(!still.watch().goes_on());
    }
}
