//! The write buffer: units that are not programmed yet.
//!
//! A unit arrives over the wire, is merged with its old content if the host gave only a part of it, waits,
//! and is programmed. Its room is free again when it is in flash.

use std::collections::VecDeque;

use slab::Slab;
use smallvec::SmallVec;

use crate::model::{epochs::Epochs, hasher::NumberMap};

/// The number of a unit's place in the buffer.
pub(super) type Key = u32;

/// Numbers of the requests that wait until a unit is programmed.
pub(super) type Waiters = SmallVec<[u32; 2]>;

/// Units to be written.
pub(super) struct Buffer {
    entries: Slab<Entry>,
    /// The newest content of each unit.
    by_unit: NumberMap<u32, Key>,
    arriving: VecDeque<Key>,
    waiting: VecDeque<Key>,
    /// Entries waiting, less those that were dropped.
    waiting_count: u32,
    /// Those of them for which a request or a flush waits.
    wanted_count: u32,
    held: u32,
    limit: u32,
    epochs: Epochs,
}

struct Entry {
    unit: u32,
    state: State,
    /// The old content must be read first.
    partial: bool,
    epoch: u64,
    waiters: Waiters,
}

impl Entry {
    /// Whether a request or a flush waits for it: only flushes begin epochs, and they wait for all before.
    fn is_wanted(&self, epochs: &Epochs) -> bool {
        !self.waiters.is_empty() || self.epoch < epochs.current()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Arriving,
    Merging,
    Waiting,
    Programming,
    /// Discarded; its key becomes free when its turn comes.
    Dropped,
}

/// The result of putting a unit into the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    /// It replaces buffered data.
    Over,
    /// It takes room.
    New,
    /// There is no room.
    NoRoom,
}

impl Buffer {
    pub(super) fn new(limit: u32) -> Self {
        Self {
            entries: Slab::new(),
            by_unit: NumberMap::default(),
            arriving: VecDeque::new(),
            waiting: VecDeque::new(),
            waiting_count: 0,
            wanted_count: 0,
            held: 0,
            limit,
            epochs: Epochs::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Half full: programs take turns with reads.
    pub(super) fn is_pressed(&self) -> bool {
        self.held * 2 >= self.limit
    }

    /// Whether the newest content of a unit is here, complete.
    pub(super) fn holds(&self, unit: u32) -> bool {
        self.by_unit.get(&unit).is_some_and(|key| !self.entries[*key as usize].partial)
    }

    /// Units that can be programmed.
    pub(super) fn waiting_count(&self) -> u32 {
        self.waiting_count
    }

    /// Whether a request or a flush waits for a unit that can be programmed.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted_count > 0
    }

    /// Takes a unit that is on its way; `partial` if its old content is needed from flash; `waiter` is told
    /// when it is programmed.
    pub(super) fn put(&mut self, unit: u32, partial: bool, waiter: Option<u32>) -> Put {
        if let Some(key) = self.by_unit.get(&unit) {
            let entry = &mut self.entries[*key as usize];
            if entry.state != State::Programming {
                let newly = waiter.is_some() && !entry.is_wanted(&self.epochs);
                self.wanted_count += u32::from(newly && entry.state == State::Waiting);
                entry.waiters.extend(waiter);
                entry.partial &= partial || entry.state == State::Merging;
                return Put::Over;
            }
        }
        if self.held == self.limit {
            return Put::NoRoom;
        }
        // A unit being programmed is still here, so nothing is needed from flash.
        let partial = partial && !self.by_unit.contains_key(&unit);
        let epoch = self.epochs.current();
        self.epochs.add(epoch);
        self.held += 1;
        let waiters = waiter.into_iter().collect();
        let key = self.entries.insert(Entry { unit, state: State::Arriving, partial, epoch, waiters }) as Key;
        self.by_unit.insert(unit, key);
        self.arriving.push_back(key);
        Put::New
    }

    /// The oldest unit on its way has arrived. Returns it if its old content must be read first.
    pub(super) fn arrive(&mut self) -> Option<(Key, u32)> {
        let key = self.arriving.pop_front().expect("what arrives was on its way");
        let entry = &mut self.entries[key as usize];
        if entry.state == State::Dropped {
            self.entries.remove(key as usize);
            return None;
        }
        if entry.partial {
            entry.state = State::Merging;
            return Some((key, entry.unit));
        }
        self.wait(key);
        None
    }

    /// The old content of a unit was read.
    pub(super) fn merged(&mut self, key: Key) {
        if self.entries[key as usize].state == State::Dropped {
            self.entries.remove(key as usize);
        } else {
            self.wait(key);
        }
    }

    fn wait(&mut self, key: Key) {
        let entry = &mut self.entries[key as usize];
        (entry.state, entry.partial) = (State::Waiting, false);
        self.wanted_count += u32::from(entry.is_wanted(&self.epochs));
        self.waiting.push_back(key);
        self.waiting_count += 1;
    }

    /// Takes up to `count` units that wait, in the order they came; they stay here until they are programmed.
    pub(super) fn take(&mut self, count: u32, keys: &mut Vec<Key>, units: &mut Vec<u32>) {
        let mut left = count.min(self.waiting_count);
        self.waiting_count -= left;
        while left > 0 {
            let key = self.waiting.pop_front().expect("those counted are there");
            let entry = &mut self.entries[key as usize];
            if entry.state == State::Dropped {
                self.entries.remove(key as usize);
                continue;
            }
            entry.state = State::Programming;
            self.wanted_count -= u32::from(entry.is_wanted(&self.epochs));
            keys.push(key);
            units.push(entry.unit);
            left -= 1;
        }
    }

    /// A unit is in flash. Returns the requests that waited for that.
    pub(super) fn programmed(&mut self, key: Key) -> Waiters {
        let entry = self.entries.remove(key as usize);
        // A discard may have removed it, and a newer write may have replaced it.
        if self.by_unit.get(&entry.unit) == Some(&key) {
            self.by_unit.remove(&entry.unit);
        }
        self.leave(entry.epoch);
        entry.waiters
    }

    fn leave(&mut self, epoch: u64) {
        self.held -= 1;
        self.epochs.remove(epoch);
        self.epochs.retire();
    }

    /// A unit's content is no longer needed. Returns the requests that waited until it was programmed.
    pub(super) fn discard(&mut self, unit: u32) -> Waiters {
        let Some(key) = self.by_unit.remove(&unit) else { return Waiters::new() };
        let entry = &mut self.entries[key as usize];
        match entry.state {
            State::Programming => return Waiters::new(),
            State::Waiting => {
                self.waiting_count -= 1;
                self.wanted_count -= u32::from(entry.is_wanted(&self.epochs));
            }
            _ => {}
        }
        entry.state = State::Dropped;
        let (epoch, waiters) = (entry.epoch, std::mem::take(&mut entry.waiters));
        self.leave(epoch);
        if self.waiting_count == 0 {
            // Only dropped entries are left, and perhaps nothing will ever be taken.
            self.waiting.drain(..).for_each(|key| drop(self.entries.remove(key as usize)));
        }
        waiters
    }

    /// Everything buffered so far belongs to the epoch that is returned; what comes later, to the next.
    pub(super) fn close_epoch(&mut self) -> u64 {
        self.wanted_count = self.waiting_count;
        self.epochs.close()
    }

    /// Places in use, dropped entries included.
    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Whether all data of an epoch and of those before is in flash.
    pub(super) fn is_settled(&self, epoch: u64) -> bool {
        self.epochs.is_settled(epoch)
    }
}
