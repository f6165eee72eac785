//! Work that a command waits for in steps.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, bail};
use parking_lot::Mutex;
use stripewise_wire::Reply;

use super::super::patience::Deadline;

/// How long a caller waits before it is told how much was done.
const STEP: Duration = Duration::from_millis(300);

/// Outcomes that are kept for commands which have not asked for them, and may never do.
const KEPT: usize = 8;

/// Work under way, and outcomes of earlier work, for the commands that ask.
#[derive(Default)]
pub(in crate::daemon) struct Working(Mutex<Works>);

#[derive(Default)]
struct Works {
    /// How much work there was.
    count: u64,
    /// By its number.
    all: BTreeMap<u64, Under>,
}

struct Under {
    outcome: Arc<Mutex<Receiver<anyhow::Result<Reply>>>>,
    /// What the array had read and written when it began.
    begun_bytes: u64,
}

impl Working {
    /// Begins. The array has moved `begun_bytes` until now, and the caller has claimed the file system. Returns the work's number.
    pub(super) fn begin(
        &self,
        begun_bytes: u64,
        work: impl FnOnce() -> anyhow::Result<Reply> + Send + 'static,
    ) -> anyhow::Result<u64> {
        let (tell, outcome) = mpsc::channel();
        // The command may ask no more.
        let run = move || _ = tell.send(work());
        thread::Builder::new().name("stripewise-rafs".into()).spawn(run).context("starting a thread")?;
        let mut works = self.0.lock();
        works.count += 1;
        let number = works.count;
        let under = Under { outcome: Arc::new(Mutex::new(outcome)), begun_bytes };
        works.all.insert(number, under);
        while works.all.len() > KEPT {
            works.all.pop_first();
        }
        Ok(number)
    }

    /// Waits for a moment, and tells its outcome, once, or how far it has come: how many bytes the array has moved since it began. Without a
    /// number it is the newest work.
    pub(super) fn step(
        &self,
        number: Option<u64>,
        moved_bytes: impl FnOnce() -> u64,
        deadline: Deadline,
    ) -> anyhow::Result<Reply> {
        let (number, outcome, begun_bytes) = {
            let works = self.0.lock();
            let number = number.unwrap_or(works.count);
            let Some(under) = works.all.get(&number) else {
                bail!("nothing is under way on its file system")
            };
            (number, under.outcome.clone(), under.begun_bytes)
        };
        let ended = match outcome.lock().recv_timeout(deadline.within(STEP)) {
            Err(RecvTimeoutError::Timeout) => {
                let done_bytes = moved_bytes().saturating_sub(begun_bytes);
                return Ok(Reply::Working { done_bytes, work: Some(number) });
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Ok(outcome) => Some(outcome),
        };
        self.0.lock().all.remove(&number);
        ended.unwrap_or_else(|| bail!("it ended by itself; see the daemon's log"))
    }
}

#[cfg(test)]
mod tests {
    use stripewise_wire::Notes;

    use super::*;

    /// The second work begins before the first command has asked for its outcome.
    #[test]
    fn each_command_is_told_its_own_outcome() {
        let working = Working::default();
        let one = working.begin(0, || bail!("the first")).unwrap();
        let (end, ended) = mpsc::channel::<()>();
        let other = working.begin(10, move || {
            ended.recv()?;
            Ok(Reply::Done(Notes::new()))
        });
        let other = other.unwrap();
        let step = |number| working.step(number, || 30, Deadline::of_command());
        for asked in [Some(other), None] {
            let told = step(asked).unwrap();
            assert!(matches!(told, Reply::Working { done_bytes: 20, work } if work == Some(other)));
        }
        assert_eq!(step(Some(one)).unwrap_err().to_string(), "the first");
        end.send(()).unwrap();
        assert!(matches!(step(Some(other)), Ok(Reply::Done(_))));
        for told in [Some(one), Some(other)] {
            assert!(step(told).unwrap_err().to_string().contains("nothing is under way"));
        }
    }
}
