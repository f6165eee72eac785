//! Merges the reports of tasks.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Poll, Waker},
};

use parking_lot::Mutex;

use crate::report::LoadReport;

/// Collects the reports of tasks.
pub(super) struct Gathering(Mutex<State>);

struct State {
    /// Tasks whose reports are missing.
    left: u64,
    report: LoadReport,
    waker: Option<Waker>,
}

impl Gathering {
    /// For so many tasks.
    pub(super) fn new(tasks: u64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { left: tasks, report: LoadReport::default(), waker: None })))
    }

    /// A task has ended; takes over its report, which other tasks may share.
    pub(super) fn bring(&self, report: &mut LoadReport) {
        let waker = {
            let mut state = self.0.lock();
            state.left -= 1;
            state.report.add(&std::mem::take(report));
            if state.left == 0 { state.waker.take() } else { None }
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Waits for the last report, and returns all in one.
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
