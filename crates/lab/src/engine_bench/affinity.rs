//! A core for each worker, while there are as many.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// This thread, and all that it starts from here on, keep to some of the cores. When this is dropped, this
/// thread may have all of them again that it had.
pub(super) struct Pinned {
    had: CpuSet,
    cores: Cores,
}

/// Cores, one for each of as many threads; none, if there are fewer.
#[derive(Debug, Clone, Default)]
pub(super) struct Cores(Vec<usize>);

impl Pinned {
    /// To the last cores, as many as there are threads; none if the kernel does not tell which cores there
    /// are.
    pub(super) fn to(threads: usize) -> Option<Self> {
        let had = sched_getaffinity(None).ok()?;
        let allowed = (0..CpuSet::MAX_CPU).rev().filter(|core| had.is_set(*core));
        let cores: Vec<_> = allowed.take(threads).collect();
        keep_to(&cores);
        let cores = if cores.len() == threads { Cores(cores) } else { Cores::default() };
        Some(Self { had, cores })
    }

    pub(super) fn cores(&self) -> Cores {
        self.cores.clone()
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.had);
    }
}

impl Cores {
    /// This thread keeps to the core of its own from here on: else the kernel lets two of them share one now
    /// and then, for as long as a slice of its time, while another core has nothing to do.
    pub(super) fn keep_to(&self, thread: usize) {
        if let Some(core) = self.0.get(thread) {
            keep_to(&[*core]);
        }
    }
}

/// Only what is measured hangs on it.
fn keep_to(cores: &[usize]) {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    let _ = sched_setaffinity(None, &set);
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

    #[test]
    fn each_thread_has_a_core_of_its_own_while_there_are_as_many() {
        let all = sched_getaffinity(None).unwrap();
        let count = all.count() as usize;
        let pinned = Pinned::to(count).unwrap();
        let mut kept: Vec<_> = (0..count)
            .map(|thread| {
                pinned.cores().keep_to(thread);
                let own = sched_getaffinity(None).unwrap();
                (0..CpuSet::MAX_CPU).filter(|core| own.is_set(*core)).collect::<Vec<_>>()
            })
            .collect();
        assert!(kept.iter().all(|cores| cores.len() == 1), "{kept:?}");
        kept.sort_unstable();
        kept.dedup();
        assert_eq!(kept.len(), count);
        drop(pinned);
        let pinned = Pinned::to(count + 1).unwrap();
        pinned.cores().keep_to(0);
        assert_eq!(sched_getaffinity(None).unwrap().count() as usize, count, "too few for each to have one");
    }
}
