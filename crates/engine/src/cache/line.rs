//! The line of writers that lack room. They get it in the order in which they came, and a writer that comes later goes to the
//! end: else a client that was served comes again at once, and takes what others wait for. Once there is room for all of
//! them, none waits for its turn: else clients that come again at once would keep up a line that nothing calls for.

use std::{collections::BTreeMap, sync::Arc, task::Waker};

use stripewise_device::sync::{seam::atomic::Ordering, wake_all};

use super::Cache;

/// The writers in the line, by the order in which they came.
#[derive(Default)]
pub(super) struct Line {
    came: u64,
    places: BTreeMap<u64, Stand>,
    /// Blocks that all of them want.
    blocks: u64,
    /// Writers with a lower ticket get room in turn: one of them found no memory although little enough is dirty.
    in_turn_until: u64,
    /// Some writer is to be woken.
    sleeps: bool,
}

struct Stand {
    blocks: u64,
    waits: Waits,
}

/// What a writer in the line does.
enum Waits {
    /// It makes room, and lets others go first meanwhile.
    No,
    /// It waits for its turn, and is to be woken then, once it has looked.
    ForTurn(Option<Waker>),
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The first one that waits for its turn.
    pub(super) fn next(&self) -> Option<u64> {
        let waits = |stand: &Stand| matches!(stand.waits, Waits::ForTurn(_));
        self.places.iter().find(|(_, stand)| waits(stand)).map(|(ticket, _)| *ticket)
    }

    /// Has a writer woken when its turn comes.
    pub(super) fn wake_later(&mut self, ticket: u64, waker: &Waker) {
        if let Some(Stand { waits: Waits::ForTurn(known), .. }) = self.places.get_mut(&ticket) {
            *known = Some(waker.clone());
            self.sleeps = true;
        }
    }

    /// What wakes the one whose turn it is.
    pub(super) fn take_next(&mut self) -> Option<Waker> {
        match self.next().and_then(|ticket| self.places.get_mut(&ticket)) {
            Some(Stand { waits: Waits::ForTurn(waker), .. }) => waker.take(),
            _ => None,
        }
    }

    /// What wakes all that wait.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Waker> {
        self.sleeps = false;
        self.places.values_mut().filter_map(|stand| match &mut stand.waits {
            Waits::ForTurn(waker) => waker.take(),
            Waits::No => None,
        })
    }

    /// Whether what all of them want, and so many blocks more, fits into the room.
    fn fits(&self, more: u64, room: u64) -> bool {
        let in_turn = self.places.first_key_value().is_some_and(|(first, _)| *first < self.in_turn_until);
        !in_turn && self.blocks + more <= room
    }
}

/// A writer's place in the line, until it is dropped.
pub(crate) struct Place {
    cache: Arc<Cache>,
    pub(super) ticket: u64,
}

impl Cache {
    /// Goes to the end of the line, for so many blocks. While there is not room for all of them, a writer outside the line
    /// gets none.
    pub(crate) fn line_up(self: &Arc<Self>, blocks: u64) -> Place {
        let mut waiting = self.waiting.lock();
        let line = &mut waiting.line;
        let ticket = line.came;
        line.came += 1;
        line.blocks += blocks;
        line.places.insert(ticket, Stand { blocks, waits: Waits::ForTurn(None) });
        self.is_over.store(true, Ordering::Relaxed);
        Place { cache: self.clone(), ticket }
    }

    /// Whether a writer is to get room for so many blocks: it is its turn, or there is enough for all that wait.
    pub(super) fn is_turn_of(&self, place: Option<&Place>, blocks: u64, room: u64) -> bool {
        let line = &self.waiting.lock().line;
        let (is_next, more) = match place {
            None => (line.is_empty(), blocks),
            Some(place) => (line.next() == Some(place.ticket), 0),
        };
        room > 0 && (is_next || line.fits(more, room))
    }

    /// Wakes all that are in the line. Those that wait for something else are not woken: one that leaves the line to do so would
    /// wake others that come back, leave it again, and wake it.
    fn tell_line(&self) {
        let wakers: Vec<_> = {
            let mut waiting = self.waiting.lock();
            waiting.note_for_line();
            waiting.line.take_all().collect()
        };
        wake_all(wakers);
    }

    /// Wakes the writer whose turn it is.
    pub(super) fn tell_next(&self) {
        let waker = {
            let mut waiting = self.waiting.lock();
            waiting.note_turn();
            waiting.line.take_next()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Place {
    /// Whether it is a place in the line of this cache.
    pub(crate) fn is_of(&self, cache: &Arc<Cache>) -> bool {
        Arc::ptr_eq(&self.cache, cache)
    }

    /// Whether it is the writer's turn.
    pub(crate) fn is_next(&self) -> bool {
        self.cache.waiting.lock().line.next() == Some(self.ticket)
    }

    /// Notes that the writer was to get room and found no memory: all that are in the line now wait for their turn.
    pub(super) fn note_lack(&self) {
        let line = &mut self.cache.waiting.lock().line;
        line.in_turn_until = line.came;
    }

    /// Whether no other writer has waited for longer.
    pub(crate) fn is_oldest(&self) -> bool {
        let waiting = self.cache.waiting.lock();
        waiting.line.places.first_key_value().is_some_and(|(first, _)| *first == self.ticket)
    }

    /// Lets others go first until this work is done.
    pub(crate) async fn aside<T>(&self, work: impl Future<Output = T>) -> T {
        self.set(Waits::No);
        self.cache.tell_next();
        let done = work.await;
        self.set(Waits::ForTurn(None));
        done
    }

    fn set(&self, waits: Waits) {
        if let Some(stand) = self.cache.waiting.lock().line.places.get_mut(&self.ticket) {
            stand.waits = waits;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let room = self.cache.room();
        let (is_last, fits, sleeps) = {
            let line = &mut self.cache.waiting.lock().line;
            line.blocks -= line.places.remove(&self.ticket).map_or(0, |stand| stand.blocks);
            (line.places.is_empty(), line.fits(0, room), line.sleeps)
        };
        if is_last {
            self.cache.note_fill();
        } else if !fits {
            self.cache.tell_next();
        } else if sleeps {
            self.cache.tell_line();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use stripewise_device::{IoBuf, Timestamp, WriteBufs};

    use super::*;
    use crate::{
        cache::{CacheKind, CacheSettings, NotPut, Way},
        compute::Data,
        shape::{
            geometry::{Geometry, Level, StripeIndex, StripeSpan},
            rows::BLOCK_BYTES,
        },
    };

    const MORE_THAN_THERE_IS: u64 = 4096;

    fn cache() -> Arc<Cache> {
        let geometry = Geometry::new(Level::Raid5, 3, 16384, 4 << 20, 512).unwrap();
        Cache::new(&CacheSettings::new(CacheKind::Stripe, 4 << 20), 4 << 20, &geometry).unwrap().unwrap()
    }

    /// Puts a block of a stripe.
    fn put(cache: &Cache, stripe: u64, place: Option<&Place>) -> Result<bool, NotPut> {
        let data = Data::of(WriteBufs::from_iter([IoBuf::zeroed(BLOCK_BYTES).freeze()]), 0);
        let span = StripeSpan { stripe: StripeIndex(stripe), start: 0, len: BLOCK_BYTES, request_offset: 0 };
        cache.put_from(&span, &data, Way::Back, Timestamp::default(), place)
    }

    #[test]
    fn a_writer_that_comes_later_finds_no_room_while_those_in_the_line_lack_it() {
        let cache = cache();
        put(&cache, 0, None).unwrap();
        let [first, second] = [(); 2].map(|()| cache.line_up(MORE_THAN_THERE_IS));
        assert_eq!(put(&cache, 1, None), Err(NotPut::Full));
        assert_eq!(put(&cache, 1, Some(&second)), Err(NotPut::Full));
        put(&cache, 0, None).expect("what is rewritten needs no room");
        put(&cache, 1, Some(&first)).unwrap();
        assert!(!second.is_next());
        drop(first);
        assert!(second.is_next() && second.is_oldest());
        put(&cache, 2, Some(&second)).unwrap();
        assert_eq!(put(&cache, 3, None), Err(NotPut::Full));
        drop(second);
        put(&cache, 3, None).unwrap();
    }

    #[test]
    fn none_waits_for_its_turn_where_there_is_room_for_all() {
        let cache = cache();
        let [first, second, third] = [4, 4, 4].map(|blocks| cache.line_up(blocks));
        let woken = |place| cache.changed(cache.changes(), Some(place), false).now_or_never();
        assert_eq!((woken(&second), woken(&third)), (None, None));
        let seen = cache.changes();
        put(&cache, 0, None).unwrap();
        put(&cache, 1, Some(&third)).unwrap();
        drop(first);
        assert_eq!(
            cache.changed(seen, Some(&third), false).now_or_never(),
            Some(()),
            "not the next one alone"
        );
    }

    #[test]
    fn a_writer_that_would_take_the_room_of_those_in_the_line_waits() {
        let cache = cache();
        let room = cache.room();
        let first = cache.line_up(room);
        assert_eq!(put(&cache, 0, None), Err(NotPut::Full));
        drop(first);
        let first = cache.line_up(room - 1);
        put(&cache, 0, None).unwrap();
        put(&cache, 1, Some(&first)).unwrap();
        drop(first);
        assert_eq!(cache.waiting.lock().line.blocks, 0);
    }

    #[test]
    fn memory_that_one_lacked_goes_to_those_that_waited_then_in_turn() {
        let cache = cache();
        let [first, second, third] = [(); 3].map(|()| cache.line_up(1));
        second.note_lack();
        let later = cache.line_up(1);
        let others = [None, Some(&second), Some(&third), Some(&later)];
        assert_eq!(others.map(|place| put(&cache, 0, place)), [Err(NotPut::Full); 4]);
        drop(second);
        put(&cache, 0, Some(&first)).unwrap();
        drop(first);
        assert_eq!([None, Some(&later)].map(|place| put(&cache, 1, place)), [Err(NotPut::Full); 2]);
        put(&cache, 1, Some(&third)).unwrap();
        drop(third);
        put(&cache, 2, None).unwrap();
    }

    #[test]
    fn the_next_one_alone_is_woken_where_there_is_no_room_for_all() {
        let cache = cache();
        let [first, second, third] = [(); 3].map(|()| cache.line_up(MORE_THAN_THERE_IS));
        let seen = cache.changes();
        let woken = |place| cache.changed(seen, Some(place), false).now_or_never().is_some();
        assert_eq!([&second, &third].map(woken), [false, false]);
        drop(first);
        assert_eq!([&second, &third].map(woken), [true, false]);
    }

    /// It is the next again once it has done so.
    #[test]
    fn a_writer_that_makes_room_lets_others_go_first() {
        let cache = cache();
        let [first, second] = [(); 2].map(|()| cache.line_up(MORE_THAN_THERE_IS));
        let goes_first = first.aside(async {
            assert!(!first.is_next() && first.is_oldest() && !second.is_oldest());
            put(&cache, 1, Some(&second)).is_ok() && put(&cache, 2, None).is_err()
        });
        assert_eq!(goes_first.now_or_never(), Some(true));
        assert!(first.is_next() && !second.is_next());
    }

    #[test]
    fn a_writer_is_woken_when_its_turn_comes_and_when_something_changes_for_all() {
        let cache = cache();
        let [first, second] = [(); 2].map(|()| cache.line_up(MORE_THAN_THERE_IS));
        let waits =
            |place: &Place, was_next| cache.changed(cache.changes(), Some(place), was_next).now_or_never();
        assert_eq!((waits(&first, true), waits(&second, false)), (None, None));
        let seen = cache.changes();
        cache.tell_of_room();
        assert_eq!(cache.changed(seen, Some(&first), true).now_or_never(), Some(()));
        assert_eq!(cache.changed(seen, Some(&second), false).now_or_never(), None);
        cache.tell_waiting();
        assert_eq!(cache.changed(seen, Some(&second), false).now_or_never(), Some(()));
        drop(first);
        assert_eq!(waits(&second, false), Some(()));
        assert_eq!(waits(&second, true), None, "it has looked");
    }
}
