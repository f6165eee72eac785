//! The stride benchmark on the members of an open array: each has a range of its own, whose rows are locked for every
//! pass.

use std::{ops::Range, sync::Arc};

use futures_util::{
    FutureExt,
    future::{BoxFuture, join_all},
};

use super::Stripes;
use crate::{
    error::ArrayError,
    members::{
        member::Member,
        strides::{Lender, Lent, SPAN_BYTES, StrideRecords, measure_lent},
        topology::Place,
    },
};

/// The rows that a member's range lies in.
struct Rows<'a> {
    stripes: &'a Stripes,
    range: Range<u64>,
    member: Arc<Member>,
}

impl Lender for Rows<'_> {
    /// None once the member serves no more.
    fn lend(&self) -> BoxFuture<'_, Option<Lent<'_>>> {
        async {
            let rows = self.stripes.lock_stripes(self.range.clone()).await;
            // As long as this is held, the member is not let go of.
            let topology = self.stripes.members.load();
            let serves =
                !topology.failed && matches!(topology.place_of(&self.member), Some(Place::Primary(_)));
            serves.then(|| Box::new((rows, topology)) as Lent<'_>)
        }
        .boxed()
    }
}

impl Stripes {
    /// Measures the strides of all members in sync, at the same time, while clients work. Those that cannot be measured
    /// are left out.
    ///
    /// # Errors
    /// [`ArrayError::Unsupported`] if the members are too small; [`ArrayError::Io`] if none could be measured.
    pub(crate) async fn measure_strides(&self) -> Result<Vec<(Arc<Member>, StrideRecords)>, ArrayError> {
        let (geometry, env) = (self.geometry(), &**self.life.env());
        let members: Vec<_> = self.members.load().primaries().cloned().collect();
        let count = SPAN_BYTES.div_ceil(geometry.chunk_bytes() as u64);
        let spare = geometry.stripes().checked_sub(count * members.len() as u64);
        let problem =
            || ArrayError::Unsupported("the members are too small to measure strides on".to_owned());
        let first = spare.ok_or_else(problem)? / 2;
        let lenders: Vec<_> = (0..)
            .zip(&members)
            .map(|(number, member)| {
                let start = first + number * count;
                Rows { stripes: self, range: start..start + count, member: member.clone() }
            })
            .collect();
        let measured = join_all(lenders.iter().map(async |rows| {
            let start = rows.member.data_offset_bytes + rows.range.start * geometry.chunk_bytes() as u64;
            measure_lent(env, &*rows.member.device, start, rows).await
        }))
        .await;
        let (mut found, mut failed) = (Vec::new(), None);
        for (member, measured) in members.into_iter().zip(measured) {
            match measured {
                Ok(records) => found.push((member, records)),
                Err(error) => {
                    tracing::warn!(member = member.name(), %error, "its strides could not be measured");
                    failed = Some(ArrayError::Io { member: member.name().to_owned(), error });
                }
            }
        }
        if found.is_empty() { Err(failed.unwrap_or(ArrayError::Failed)) } else { Ok(found) }
    }
}
