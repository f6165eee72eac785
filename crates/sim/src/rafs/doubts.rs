//! Writes that a power failure may tear while a member is missing: those that no flush has made certain yet.

use std::collections::BTreeMap;

use parking_lot::Mutex;

/// The writes to a volume, each until a flush has made it certain.
#[derive(Default)]
pub(super) struct Doubts(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    next: u64,
    writes: BTreeMap<u64, Doubt>,
    all_count: bool,
}

/// A write.
struct Doubt {
    /// If it is torn, blocks that it did not write may be lost, or the older content of those that it did.
    counts: bool,
    has_ended: bool,
}

impl Doubts {
    /// A write begins, of blocks beside others or of whole rows. Returns its number.
    pub(super) fn begin(&self, is_beside: bool) -> u64 {
        let mut inner = self.0.lock();
        let counts = is_beside || inner.all_count;
        let number = inner.next;
        inner.next += 1;
        inner.writes.insert(number, Doubt { counts, has_ended: false });
        number
    }

    /// A write has ended. It may not be durable yet.
    pub(super) fn end(&self, number: u64) {
        if let Some(doubt) = self.0.lock().writes.get_mut(&number) {
            doubt.has_ended = true;
        }
    }

    /// What a flush that begins now makes certain.
    pub(super) fn ended(&self) -> Vec<u64> {
        let inner = self.0.lock();
        inner.writes.iter().filter(|(_, doubt)| doubt.has_ended).map(|(number, _)| *number).collect()
    }

    /// A flush that made these certain has come to its end.
    pub(super) fn flushed(&self, numbers: &[u64]) {
        let mut inner = self.0.lock();
        numbers.iter().for_each(|number| _ = inner.writes.remove(number));
    }

    /// A member begins to fail, or has failed. Until it is missing, whole rows may be overwritten where they lie: so all writes that begin
    /// before that count.
    pub(super) fn count_all(&self, all_count: bool) {
        let mut inner = self.0.lock();
        inner.all_count = all_count;
        if all_count {
            inner.writes.values_mut().for_each(|doubt| doubt.counts = true);
        }
    }

    /// Whether a member is failing at this moment.
    pub(super) fn do_all_count(&self) -> bool {
        self.0.lock().all_count
    }

    /// Whether no block beside a write may be lost, whatever happens.
    pub(super) fn are_none(&self) -> bool {
        !self.0.lock().writes.values().any(|doubt| doubt.counts)
    }
}
