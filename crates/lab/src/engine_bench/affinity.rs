//! A core for each worker, while there are as many.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// This thread, and all that it starts from here on, keep to some of the cores until this is dropped; then it may have all of
/// them again that it had.
pub(super) struct Pinned(CpuSet);

impl Pinned {
    /// To the last cores, as many as there are threads; none if the kernel does not tell which cores there are.
    pub(super) fn to(threads: usize) -> Option<Self> {
        let had = sched_getaffinity(None).ok()?;
        let mut set = CpuSet::new();
        let allowed = (0..CpuSet::MAX_CPU).rev().filter(|core| had.is_set(*core));
        allowed.take(threads).for_each(|core| set.set(core));
        let _ = sched_setaffinity(None, &set);
        Some(Self(had))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_given_back() {
        let cores = || sched_getaffinity(None).unwrap().count();
        let before = cores();
        let pinned = Pinned::to(1);
        assert_eq!((cores(), pinned.is_some()), (1, true));
        drop(pinned);
        assert_eq!(cores(), before);
    }
}
