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
use stripewise_wire::{Reply, StepStatus};

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

/// What work has told last: how far its step has come. Work tells, and commands that ask are told.
#[derive(Clone, Default)]
pub(super) struct Step(Arc<Mutex<Option<StepStatus>>>);

impl Step {
    /// All of it is 0 if that is not known.
    pub(super) fn tell(&self, what: &str, done: u64, all: u64) {
        let mut last = self.0.lock();
        match &mut *last {
            // As often as there are blocks: no new word for each.
            Some(step) if step.what == what => (step.done, step.all) = (done, all),
            _ => *last = Some(StepStatus { what: what.to_owned(), done, all }),
        }
    }

    /// None before anything was told.
    pub(super) fn last(&self) -> Option<StepStatus> {
        self.0.lock().clone()
    }
}

struct Under {
    step: Step,
    outcome: Arc<Mutex<Receiver<anyhow::Result<Reply>>>>,
    /// What the array had read and written when it began.
    begun_bytes: u64,
}

impl Working {
    /// Begins. The array has moved `begun_bytes` until now, and the caller has claimed the file system. Returns the work's number.
    pub(super) fn begin(
        &self,
        begun_bytes: u64,
        work: impl FnOnce(Step) -> anyhow::Result<Reply> + Send + 'static,
    ) -> anyhow::Result<u64> {
        let (tell, outcome) = mpsc::channel();
        let step = Step::default();
        let told = step.clone();
        // The command may ask no more.
        let run = move || _ = tell.send(work(told));
        thread::Builder::new().name("stripewise-rafs".into()).spawn(run).context("starting a thread")?;
        let mut works = self.0.lock();
        works.count += 1;
        let number = works.count;
        let under = Under { step, outcome: Arc::new(Mutex::new(outcome)), begun_bytes };
        works.all.insert(number, under);
        while works.all.len() > KEPT {
            works.all.pop_first();
        }
        Ok(number)
    }

    /// Waits for a moment, and tells its outcome, once, or how far it has come: how many bytes the array has moved since it began,
    /// and what it has told. Without a number it is the newest work.
    pub(super) fn step(
        &self,
        number: Option<u64>,
        moved_bytes: impl FnOnce() -> u64,
        deadline: Deadline,
    ) -> anyhow::Result<Reply> {
        let (number, outcome, step, begun_bytes) = {
            let works = self.0.lock();
            let number = number.unwrap_or(works.count);
            let Some(under) = works.all.get(&number) else {
                bail!("nothing is under way on its file system")
            };
            (number, under.outcome.clone(), under.step.clone(), under.begun_bytes)
        };
        let ended = match outcome.lock().recv_timeout(deadline.within(STEP)) {
            Err(RecvTimeoutError::Timeout) => {
                let done_bytes = moved_bytes().saturating_sub(begun_bytes);
                return Ok(Reply::Working { done_bytes, work: Some(number), step: step.last() });
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
    fn each_command_is_told_its_own_work() {
        let working = Working::default();
        let one = working.begin(0, |_| bail!("the first")).unwrap();
        let ((end, ended), (told, has_told)) = (mpsc::channel::<()>(), mpsc::channel());
        let other = working.begin(10, move |step| {
            step.tell("nodes", 3, 0);
            step.tell("inodes", 1, 7);
            told.send(())?;
            ended.recv()?;
            Ok(Reply::Done(Notes::new()))
        });
        let other = other.unwrap();
        has_told.recv().unwrap();
        let now = Some(StepStatus { what: "inodes".to_owned(), done: 1, all: 7 });
        let step = |number| working.step(number, || 30, Deadline::of_command());
        for asked in [Some(other), None] {
            let told = step(asked).unwrap();
            let Reply::Working { done_bytes: 20, work, step } = told else { panic!("{told:?}") };
            assert_eq!((work, &step), (Some(other), &now));
        }
        assert_eq!(step(Some(one)).unwrap_err().to_string(), "the first");
        end.send(()).unwrap();
        assert!(matches!(step(Some(other)), Ok(Reply::Done(_))));
        for told in [Some(one), Some(other)] {
            assert!(step(told).unwrap_err().to_string().contains("nothing is under way"));
        }
    }
}
