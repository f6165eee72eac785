//! Reports of tasks, brought together.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Poll, Waker},
};

use parking_lot::Mutex;

use crate::report::LoadReport;

/// Where tasks bring their reports.
pub(super) struct Gathering(Mutex<State>);

struct State {
    /// Tasks that have not brought theirs.
    left: u64,
    report: LoadReport,
    waker: Option<Waker>,
}

impl Gathering {
    /// For so many tasks.
    pub(super) fn new(tasks: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { left: tasks, report: LoadReport::default(), waker: None })))
    }

    /// A task has ended; its report, which others may share, is taken over.
    pub(super) fn bring(&self, report: &mut LoadReport) {
        let waker = {
            let mut state = self.0.lock();
            state.left -= 1;
            state.report.add(&std::mem::take(report));
            if state.left == 0 { state.waker.take() } else { None }
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// All reports in one, when the last is there.
    pub(super) async fn wait(&self) -> LoadReport {
        poll_fn(|cx| {
            let mut state = self.0.lock();
            if state.left == 0 {
                return Poll::Ready(std::mem::take(&mut state.report));
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}
