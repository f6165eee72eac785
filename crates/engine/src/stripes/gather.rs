//! Writes that lie behind a write under way: they wait for it together, and are written as one.

use std::{ops::Range, time::Duration};

use futures_util::future::{Either, select};
use stripewise_device::{IoBuf, WriteBufs};

use super::{
    Stripes,
    rows::Part,
    steps::{Rest, StripeWrite},
};
use crate::{
    compute::{Content, Data, touched_rows},
    error::ArrayError,
    life::detached::Promise,
    locks::{Due, Gathered, Place, Until},
    mutants::{Mutant, lives},
    shape::geometry::{StripeIndex, StripeSpan},
};

/// How long gathered writes that are due wait for more: about the time that a client takes to answer an
/// acknowledgement with its next request, and little compared with a read-modify-write of a device.
const LINGER: Duration = Duration::from_micros(50);
/// How often they wait, while more keep coming.
const LINGERS_MAX: u32 = 4;

impl Stripes {
    /// Lets a write wait with others for the write that it lies behind. If none joins it, it goes on as `alone` says.
    pub(super) fn wait_behind(
        &self,
        place: &Place,
        write: StripeWrite,
        alone: fn(StripeWrite) -> Rest,
    ) -> Rest {
        let StripeWrite { content, flags, .. } = write;
        let Content::Span(span, data) = content else { unreachable!("what is destaged is not gathered") };
        let (promise, outcome) = Promise::new();
        match self.locks.gather(place, Part { data, flags, promise }) {
            Gathered::Alone(Part { data, flags, .. }) => {
                return alone(StripeWrite::of(span, data, flags));
            }
            Gathered::Joined => {}
            Gathered::First => self.spawn_writer_of_gathered(span.stripe),
        }
        Rest::Gathered(outcome)
    }

    fn spawn_writer_of_gathered(&self, stripe: StripeIndex) {
        let stripes = self.handle();
        let kept = self.requests.enter().keep();
        self.life.env().spawn(Box::pin(async move {
            let _request = stripes.requests.resume(kept);
            stripes.linger(stripe).await;
            stripes.write_gathered(stripe).await;
        }));
    }

    /// Waits until the writes gathered in a stripe are due. If more writes were gathered before them, it then
    /// waits a moment for as many: the clients of the earlier writes are just being told.
    async fn linger(&self, stripe: StripeIndex) {
        let mut standing = self.locks.wait_for_gather(stripe, Until::Due).await;
        for _ in 0..LINGERS_MAX {
            if standing.is_complete {
                return;
            }
            let complete = self.locks.wait_for_gather(stripe, Until::Complete);
            if let Either::Left(_) = select(complete, self.life.env().sleep(LINGER)).await {
                return;
            }
            let now = self.locks.gather_standing(stripe);
            if now == standing {
                return;
            }
            standing = now;
        }
    }

    /// Writes what was gathered in a stripe.
    async fn write_gathered(&self, stripe: StripeIndex) {
        let span = |bytes: Range<usize>| StripeSpan {
            stripe,
            start: bytes.start,
            len: bytes.len(),
            request_offset: 0,
        };
        let chunk_bytes = self.geometry().chunk_bytes();
        let Due { bytes, parts, rows } =
            self.locks.take_gather(stripe, |bytes| touched_rows(&span(bytes), chunk_bytes));
        let (span, rows) = (span(bytes), rows.await);
        if !self.may_pass(&span, parts.len() as u64) {
            drop(rows);
            return self.put_gathered(stripe, (span.start, parts)).await;
        }
        self.stats.count_gathered(parts.len() as u64);
        let (write, promises) = as_one(span, parts);
        let flags = write.flags;
        let written = self.finish_stripe(Rest::Region(write, rows.keep())).await;
        let result = self.as_durable(flags, written).await;
        promises.into_iter().for_each(|promise| promise.keep(result.clone()));
    }

    /// Whether so many gathered writes may go to members: there is no cache, or it has nothing newer to write there.
    fn may_pass(&self, span: &StripeSpan, writes: u64) -> bool {
        self.cache().is_none_or(|cache| cache.let_pass(span, writes) || lives(Mutant::GatheredPastDirty))
    }
}

/// One write of all parts, and the promises of its outcome. It is durable if any part must be.
fn as_one(span: StripeSpan, parts: Vec<Part>) -> (StripeWrite, Vec<Promise<Result<(), ArrayError>>>) {
    let mut flags = parts[0].flags;
    flags.fua |= !lives(Mutant::GatheredFuaForgotten) && parts.iter().any(|part| part.flags.fua);
    let (mut bufs, mut promises) = (WriteBufs::new(), Vec::with_capacity(parts.len()));
    for part in parts {
        bufs.extend(part.data.into_bufs());
        promises.push(part.promise);
    }
    if lives(Mutant::GatheredPartLost) {
        bufs.last_mut().into_iter().for_each(|last| *last = IoBuf::zeroed(last.len()).freeze());
    }
    (StripeWrite::of(span, Data::of(bufs, span.start as u64), flags), promises)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use futures_util::future::join_all;
    use stripewise_device::{Device, WriteFlags};
    use stripewise_sim::World;

    use super::{super::working::tests::put, *};
    use crate::{
        Array, CacheKind, CacheSettings, CreateOptions,
        destage::{Verdict, Why},
        shape::{geometry::Level, rows::BLOCK_BYTES},
    };

    /// Writes of a whole stripe, and the blocks of each.
    const WRITES: usize = 12;
    const BLOCKS: usize = 2;
    const STRIPE: StripeIndex = StripeIndex(0);

    /// Writes a stream to an array whose cache lets writes pass by, on members that take time. The cache had older bytes of these blocks
    /// to write.
    fn streamed(dirty: &[usize]) -> Array {
        let mut world = World::new(1);
        let members = (0..4).map(|i| world.add_member(format!("m{i}"), 3 << 20) as Arc<dyn Device>).collect();
        let mut options = CreateOptions::new("streamed", Level::Raid5, members);
        options.chunk_bytes = 8 * BLOCK_BYTES as u32;
        options.assume_clean = true;
        options.cache = Some(CacheSettings::new(CacheKind::Stripe, 1 << 20));
        let env = world.env();
        let array = world.run(async move { Array::create(env, options).await }).unwrap();
        let cache = array.parts().stripes.cache().unwrap();
        put(&cache, STRIPE, dirty);
        cache.let_writes_pass(&Verdict::of_all(true, Why::Served));
        const LEN: usize = BLOCKS * BLOCK_BYTES;
        let content = |at: usize| IoBuf::copy_of(&[at as u8 + 1; LEN]);
        let (writer, flags) = (array.clone(), WriteFlags::default());
        let written = world.run(async move {
            let write = |at: usize| writer.write((at * LEN) as u64, content(at).freeze(), flags);
            join_all((0..WRITES).map(write).collect::<Vec<_>>()).await
        });
        assert!(written.iter().all(Result::is_ok), "{written:?}");
        let reader = array.clone();
        let found = world.run(async move { reader.read(0, IoBuf::zeroed(WRITES * LEN)).await }).unwrap();
        assert!(
            (0..WRITES).all(|at| found[at * LEN..][..LEN] == content(at)[..]),
            "the stream's bytes are read"
        );
        array
    }

    #[test]
    fn a_stream_that_passes_the_cache_by_is_gathered() {
        let array = streamed(&[]);
        assert!(array.stats().report().gathered_writes >= 8);
        let cache = array.cache().unwrap();
        assert_eq!((cache.passed, cache.dirty_blocks), (WRITES as u64, 0));
    }

    /// What is dirty is older than the stream, and would come to members after it.
    #[test]
    fn what_was_gathered_goes_on_one_by_one_where_something_is_dirty() {
        let array = streamed(&[15]);
        assert_eq!(array.stats().report().gathered_writes, 0);
        assert!(array.cache().unwrap().passed < WRITES as u64);
    }
}
