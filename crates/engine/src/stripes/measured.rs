//! The stride benchmark on the members of an open array: each has a range of its own, whose rows are locked for every
//! pass.

use std::{
    ops::Range,
    sync::{Arc, Weak},
};

use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};

use stripewise_device::IoError;

use super::{RowGuard, Stripes};
use crate::{
    error::ArrayError,
    members::{
        member::Member,
        stats::Cause,
        strides::{Lender, Lent, SPAN_BYTES, StrideRecords, measure_lent},
        topology::Place,
    },
};

/// So often it looks for a moment at which nobody else uses a range.
const LOOKS_MAX: usize = 10_000;

/// What was found of a member. It does not keep the member's device open.
pub(crate) struct Measured {
    pub(crate) member: Weak<Member>,
    pub(crate) name: String,
    pub(crate) strides: Result<StrideRecords, IoError>,
}

/// The rows that a member's range lies in.
struct Rows<'a> {
    stripes: &'a Stripes,
    range: Range<u64>,
    member: Arc<Member>,
}

impl Lender for Rows<'_> {
    /// None once the member serves no more, or the array is about to close.
    fn lend(&self) -> BoxFuture<'_, Option<Lent<'_>>> {
        async {
            let rows = self.stripes.lock_whole(self.range.clone()).await?;
            let topology = self.stripes.members.load();
            let serves = matches!(topology.place_of(&self.member), Some(Place::Primary(_)));
            let goes_on = serves && !topology.failed && !self.stripes.life.is_closing();
            goes_on.then(|| Box::new((rows, topology)) as Lent<'_>)
        }
        .boxed()
    }

    fn note_written(&self, bytes: u64) {
        self.member.stats.count_write(Cause::Job, bytes);
    }

    fn note_failure(&self, error: IoError) -> BoxFuture<'_, ()> {
        async move {
            // As after a client's write or flush: what it was written may be lost.
            let _ = self.stripes.members.fail_all(vec![(self.member.clone(), error)]).await;
        }
        .boxed()
    }
}

impl Stripes {
    /// Locks all rows of some stripes, without waiting for any while it holds others, as [`Stripes::lock_run`]. None if one
    /// of them is in use whenever it looks.
    async fn lock_whole(&self, stripes: Range<u64>) -> Option<Vec<RowGuard<'_>>> {
        for _ in 0..LOOKS_MAX {
            let held = self.lock_run(stripes.clone()).await;
            let busy = stripes.start + held.len() as u64;
            if busy == stripes.end {
                return Some(held);
            }
            drop(held);
            drop(self.lock_run(busy..busy + 1).await);
        }
        None
    }

    /// Measures the strides of all members in sync, at the same time, while clients work. Of those that cannot be measured
    /// the error is told.
    ///
    /// # Errors
    /// [`ArrayError::Unsupported`] if the members are too small.
    pub(crate) async fn measure_strides(&self) -> Result<Vec<Measured>, ArrayError> {
        let geometry = self.geometry();
        let members: Vec<_> = self.members.load().primaries().cloned().collect();
        let count = SPAN_BYTES.div_ceil(geometry.chunk_bytes() as u64);
        let spare = geometry.stripes().checked_sub(count * members.len() as u64);
        let problem =
            || ArrayError::Unsupported("the members are too small to measure strides on".to_owned());
        let first = spare.ok_or_else(problem)? / 2;
        let benches = (0..).zip(members).map(|(number, member)| {
            let start = first + number * count;
            self.measure(Rows { stripes: self, range: start..start + count, member })
        });
        Ok(join_all(benches).await)
    }

    /// Measures one member. Then lets go of it, while others are still measured: it may have to be closed.
    async fn measure(&self, rows: Rows<'_>) -> Measured {
        let (member, chunk_bytes) = (&rows.member, self.geometry().chunk_bytes() as u64);
        let start_bytes = member.data_offset_bytes + rows.range.start * chunk_bytes;
        let strides = measure_lent(&**self.life.env(), &*member.device, start_bytes, &rows).await;
        Measured { member: Arc::downgrade(member), name: member.name().to_owned(), strides }
    }
}
