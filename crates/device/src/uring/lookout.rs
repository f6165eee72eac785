//! Which members are slow to answer: each worker looks now and then at its requests that the kernel has. A request pays nothing for
//! that unless it is under way during a look.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{reactor, timer::Sleep};

/// What the workers of a runtime saw at their last looks.
#[derive(Debug, Default)]
pub struct Lookout {
    /// By worker: the requests to files, and since when each was seen.
    seen: Mutex<BTreeMap<usize, Vec<Seen>>>,
}

/// The name of a file, and since when a request to it was seen.
pub(super) type Seen = (Arc<str>, Instant);

/// A file whose requests take long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slow {
    /// The name by which it was opened.
    pub name: String,
    /// How many of its requests were under way for the time that was asked for.
    pub requests: usize,
    /// For how long the oldest has been seen under way; up to one interval less than it has been.
    pub oldest: Duration,
}

impl Lookout {
    /// The files with requests that were under way for this long at the last look, by name.
    pub fn slow(&self, least: Duration) -> Vec<Slow> {
        let now = Instant::now();
        let mut slow: BTreeMap<Arc<str>, (usize, Duration)> = BTreeMap::new();
        for (name, since) in self.seen.lock().values().flatten() {
            let age = now.saturating_duration_since(*since);
            if age >= least {
                let (requests, oldest) = slow.entry(name.clone()).or_default();
                *requests += 1;
                *oldest = age.max(*oldest);
            }
        }
        let told =
            |(name, (requests, oldest)): (Arc<str>, _)| Slow { name: name.to_string(), requests, oldest };
        slow.into_iter().map(told).collect()
    }
}

/// Looks at this worker's requests every `interval`, as long as the lookout is there.
pub(super) async fn look_out(lookout: Weak<Lookout>, worker: usize, interval: Duration) {
    loop {
        Sleep::until(Sleep::deadline_after(interval)).await;
        let Some(lookout) = lookout.upgrade() else { return };
        let seen = reactor::with(|reactor| reactor.look(Instant::now()));
        lookout.seen.lock().insert(worker, seen);
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, io::Write, os::fd::OwnedFd, sync::atomic::AtomicBool, thread};

    use smallvec::smallvec;

    use super::*;
    use crate::{
        IoBuf,
        uring::{
            Runtime, RuntimeOptions,
            files::OpenFile,
            op::{Command, FileRequest, OpHandle, Payload},
        },
    };

    const LIMIT: Duration = Duration::from_millis(60);

    /// Reads eight bytes of a pipe, which hangs until they are written.
    fn read(pipe: &Arc<OpenFile>) -> OpHandle {
        OpHandle::submit_to_file(FileRequest {
            file: pipe,
            file_bytes: 0,
            can_poll: &Arc::new(AtomicBool::new(false)),
            command: Command::Read { offset_bytes: u64::MAX },
            payload: Payload::Read(smallvec![IoBuf::zeroed(8)]),
        })
    }

    fn eventually(what: &str, is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !is_so() {
            assert!(Instant::now() < deadline, "{what}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Also those whose futures are gone, before a look or after one: they hold up their file all the same.
    #[test]
    fn a_request_that_hangs_is_seen_with_its_age_until_it_is_done() {
        let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
        let lookout = runtime.look_out(Duration::from_millis(10));
        let (reader, mut writer) = std::io::pipe().unwrap();
        let pipe = OpenFile::new(OwnedFd::from(reader), "a pipe");
        let file = pipe.clone();
        let begun = Instant::now();
        let first = runtime.begin(async move {
            drop(read(&file));
            let (later, mut waits) = (read(&file), read(&file));
            Sleep::until(Sleep::deadline_after(LIMIT / 2)).await;
            drop(later);
            poll_fn(|cx| waits.poll(cx)).await.result
        });
        eventually("all are slow", || lookout.slow(LIMIT).first().is_some_and(|slow| slow.requests == 3));
        let slow = lookout.slow(LIMIT);
        assert_eq!((slow.len(), slow[0].name.as_str()), (1, "a pipe"));
        assert!((LIMIT..=begun.elapsed()).contains(&slow[0].oldest), "{slow:?}");
        assert!(lookout.slow(Duration::from_secs(60)).is_empty(), "not for that long");
        writer.write_all(&[7; 24]).unwrap();
        assert_eq!(first.wait(), Ok(8));
        eventually("nothing is under way", || lookout.slow(Duration::ZERO).is_empty());
        pipe.leave();
        assert!(
            runtime.block_on(async move { reactor::with(|reactor| reactor.requests()) }) <= 1,
            "what was abandoned is freed: only the worker's own wait for wake-ups is left"
        );
    }

    #[test]
    fn requests_that_are_done_soon_are_never_slow() {
        let runtime = Runtime::start(&RuntimeOptions::default()).unwrap();
        let lookout = runtime.look_out(Duration::from_millis(5));
        let (reader, mut writer) = std::io::pipe().unwrap();
        let pipe = OpenFile::new(OwnedFd::from(reader), "a pipe");
        for _ in 0..20 {
            let file = pipe.clone();
            let begun = runtime.begin(async move {
                let mut waits = read(&file);
                poll_fn(|cx| waits.poll(cx)).await.result
            });
            thread::sleep(LIMIT / 10);
            assert!(lookout.slow(LIMIT).is_empty(), "one after the other is no request that hangs");
            writer.write_all(&[7; 8]).unwrap();
            assert_eq!(begun.wait(), Ok(8));
        }
        pipe.leave();
    }
}
