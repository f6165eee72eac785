//! Members that do not answer: what workers see of it, and how it is told.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use stripewise::internals::uring::{Lookout, Runtime};
use stripewise_wire::SlowStatus;

use crate::slow;

/// How often each worker looks at its requests.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A request that takes longer than this is told of. A busy hard disk takes a second or two, and one that tries again and again to
/// read a bad block takes longer.
const SLOW_MIN: Duration = Duration::from_secs(5);

/// What is seen of requests to members.
pub(super) struct Slow(Arc<Lookout>);

impl Slow {
    pub(super) fn watch(runtime: &Runtime) -> Self {
        Self(runtime.look_out(LOOK_EVERY))
    }

    /// The members with requests that take long, by path. Devices that are about to become members are among them.
    pub(super) fn members(&self) -> BTreeMap<String, SlowStatus> {
        let told = |slow: stripewise::internals::uring::Slow| {
            let status = SlowStatus {
                requests: slow.requests as u64,
                oldest_s: slow.oldest.as_millis() as f64 / 1000.0,
            };
            (slow.name, status)
        };
        self.0.slow(SLOW_MIN).into_iter().map(told).collect()
    }

    /// Which member hangs; that one does, where none is known.
    pub(super) fn what_hangs(&self) -> String {
        match slow::text(&self.members()) {
            Some(slow) => format!("{slow}, so that it hangs"),
            None => "a request to one of its members does not end, so that member hangs".to_owned(),
        }
    }

    /// The error for an array that does not answer a command, which goes on.
    pub(super) fn hangs_and_goes_on(&self) -> String {
        format!("the array does not answer: {}; what was asked goes on", self.what_hangs())
    }
}
