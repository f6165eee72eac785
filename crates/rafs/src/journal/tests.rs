//! The journal on a volume that loses power: what is not flushed may be lost, sector by sector.

use std::ops::Range;

use futures_util::FutureExt;
use parking_lot::Mutex;
use proptest::prelude::*;
use stripewise_device::{Completion, IoFuture, ReadBufs, ReadDone};
use stripewise_format::rafs::key::{Key, KeyKind};

use super::*;
use crate::shape::{Cell, Geometry};

const SECTOR: usize = 512;
const FIRST: StripeNo = StripeNo(3);

/// Blocks row by row, in memory.
struct TestVolume {
    geometry: Geometry,
    state: Mutex<State>,
}

struct State {
    now: Vec<u8>,
    durable: Vec<u8>,
}

impl TestVolume {
    fn new(geometry: Geometry) -> Self {
        let bytes = vec![0; geometry.blocks() as usize * BLOCK_BYTES];
        Self { geometry, state: Mutex::new(State { now: bytes.clone(), durable: bytes }) }
    }

    /// Power fails: a sector that was not flushed is kept if `keeps` says so.
    fn lose_power(&self, mut keeps: impl FnMut() -> bool) {
        let State { now, durable } = &mut *self.state.lock();
        for (now, durable) in now.chunks_mut(SECTOR).zip(durable.chunks_mut(SECTOR)) {
            if now != durable && keeps() {
                durable.copy_from_slice(now);
            }
            now.copy_from_slice(durable);
        }
    }

    /// The bytes of rows of a stripe.
    fn bytes(&self, stripe: StripeNo, rows: Range<u32>) -> Range<usize> {
        let row = |row: u32| {
            (stripe.0 as usize * self.geometry.rows() as usize + row as usize)
                * self.geometry.data_columns() as usize
                * BLOCK_BYTES
        };
        row(rows.start)..row(rows.end)
    }

    /// Bytes of a row of the journal rot.
    fn rot(&self, row: u64) {
        let of_stripe = u64::from(self.geometry.rows());
        let (stripe, row) = (StripeNo(FIRST.0 + row / of_stripe), (row % of_stripe) as u32);
        let range = self.bytes(stripe, row..row + 1);
        let State { now, durable } = &mut *self.state.lock();
        [now, durable].into_iter().for_each(|bytes| bytes[range.clone()][..100].fill(0xA5));
    }
}

impl Volume for TestVolume {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, _: u64, _: ReadBufs) -> IoFuture<ReadDone> {
        unreachable!("a journal reads rows")
    }

    fn read_rows(&self, stripe: StripeNo, rows: Range<u32>) -> IoFuture<Result<Vec<IoBuf>, IoError>> {
        let bytes = &self.state.lock().now[self.bytes(stripe, rows)];
        IoFuture::ready(Ok(bytes.chunks(BLOCK_BYTES).map(IoBuf::copy_of).collect()))
    }

    fn write_rows(&self, stripe: StripeNo, first: u32, blocks: &[SharedBuf]) -> Completion {
        let rows = blocks.len() as u32 / self.geometry.data_columns();
        let bytes = self.bytes(stripe, first..first + rows);
        let now = &mut self.state.lock().now[bytes];
        now.chunks_mut(BLOCK_BYTES).zip(blocks).for_each(|(now, block)| now.copy_from_slice(block));
        IoFuture::ready(Ok(()))
    }

    fn write_blocks(&self, _: StripeNo, _: &[(Cell, SharedBuf)]) -> Completion {
        unreachable!("a journal writes rows")
    }

    fn flush(&self) -> Completion {
        let State { now, durable } = &mut *self.state.lock();
        durable.copy_from_slice(now);
        IoFuture::ready(Ok(()))
    }

    fn discard(&self, _: Range<StripeNo>) -> Completion {
        unreachable!("a journal discards nothing")
    }
}

fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("memory is done at once")
}

const UUID: Uuid = Uuid::from_u128(3);
const START: JournalPosition = JournalPosition { epoch: 1, sequence: 10, block: 0 };

/// A transaction that says which one it is.
fn transaction(number: u64, changes: usize, blocks: u32) -> Transaction {
    let mut all = vec![Change::Put(Key::new(number, KeyKind::Inode, 0), vec![number as u8; changes])];
    all.extend((blocks > 0).then_some(Change::Data { inode: number, first: 7, blocks }));
    let block = |_| IoBuf::copy_of(&[number as u8; BLOCK_BYTES]).freeze();
    Transaction { changes: all, data: (0..blocks).map(block).collect() }
}

fn replay(
    volume: &Arc<TestVolume>,
    stripes: u64,
    from: JournalPosition,
) -> (Vec<Replayed>, Result<JournalPosition, ReplayError>) {
    let mut replay = Replay::new(volume.clone(), UUID, (FIRST, stripes), from);
    let mut all = Vec::new();
    loop {
        match now(replay.next()) {
            Ok(Some(one)) => all.push(one),
            Ok(None) => return (all, Ok(replay.position())),
            Err(error) => return (all, Err(error)),
        }
    }
}

#[derive(Debug, Clone)]
enum Action {
    Commit(usize, u32),
    /// A checkpoint of some of the records.
    Checkpoint(prop::sample::Index),
    /// Power fails during a commit of this size. With these sectors of it, the others are lost.
    Crash(usize, u32, u64),
}

fn action() -> impl Strategy<Value = Action> {
    let size = || (0..2000_usize, 0..14_u32);
    prop_oneof![
        6 => size().prop_map(|(changes, blocks)| Action::Commit(changes, blocks)),
        2 => any::<prop::sample::Index>().prop_map(Action::Checkpoint),
        1 => (size(), any::<u64>()).prop_map(|((changes, blocks), seed)| Action::Crash(changes, blocks, seed)),
    ]
}

/// A mounted journal, and what it must give back.
struct Mounted {
    volume: Arc<TestVolume>,
    stripes: u64,
    journal: Journal,
    anchor: JournalPosition,
    /// What was committed since the anchor, by sequence and position behind it.
    committed: Vec<(u64, Transaction, JournalPosition)>,
}

impl Mounted {
    fn new(columns: u32, rows: u32, stripes: u64) -> Self {
        let geometry = Geometry::new(columns, rows, FIRST.0 + stripes + 1).unwrap();
        let volume = Arc::new(TestVolume::new(geometry));
        let journal = Journal::new(volume.clone(), UUID, (FIRST, stripes), START);
        Self { volume, stripes, journal, anchor: START, committed: Vec::new() }
    }

    fn commit(&mut self, transaction: Transaction) -> bool {
        let sequence = self.journal.position().sequence;
        let committed = now(self.journal.commit(&transaction));
        let (free, all) = self.journal.room();
        let columns = u64::from(self.volume.geometry.data_columns());
        let rows = (1 + transaction.data.len() as u64).div_ceil(columns);
        match committed {
            Ok(()) => self.committed.push((sequence, transaction, self.journal.position())),
            Err(CommitError::Full) => assert!(rows > free),
            Err(CommitError::TooLarge) => assert!(rows > all),
            Err(CommitError::Io(error)) => panic!("{error}"),
        }
        committed.is_ok()
    }

    fn checkpoint(&mut self, count: usize) {
        if let Some((_, _, position)) = self.committed.drain(..count).next_back() {
            self.anchor = position;
            self.journal.forget_before(position);
        }
    }

    /// Replays, and goes on in a new epoch, as a mount does.
    fn remount(&mut self, may_be_there: Option<&Transaction>) {
        let (replayed, end) = replay(&self.volume, self.stripes, self.anchor);
        let mut replayed = replayed.into_iter();
        for (sequence, Transaction { changes, data }, _) in &self.committed {
            let one = replayed.next().expect("what was committed is there");
            assert_eq!((one.sequence, &one.changes), (*sequence, changes));
            assert!(one.data.iter().map(|block| &**block).eq(data.iter().map(|block| &**block)));
        }
        if let Some(one) = replayed.next() {
            let wanted = may_be_there.expect("nothing else is there");
            assert_eq!(&one.changes, &wanted.changes);
            assert!(replayed.next().is_none());
        }
        let end = end.expect("nothing rots");
        self.anchor = JournalPosition { epoch: end.epoch + 1, ..end };
        self.journal = Journal::new(self.volume.clone(), UUID, (FIRST, self.stripes), self.anchor);
        self.committed.clear();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn what_was_committed_is_replayed_whatever_else_is_lost(
        (columns, rows, stripes) in (1..5_u32, 1..4_u32, 1..6_u64),
        actions in prop::collection::vec(action(), 1..60),
    ) {
        let mut mounted = Mounted::new(columns, rows, stripes);
        for (number, action) in (1..).zip(actions) {
            match action {
                Action::Commit(changes, blocks) => {
                    mounted.commit(transaction(number, changes, blocks));
                }
                Action::Checkpoint(count) => mounted.checkpoint(count.index(mounted.committed.len() + 1)),
                Action::Crash(changes, blocks, seed) => {
                    let durable = mounted.volume.state.lock().durable.clone();
                    let is_committed = mounted.commit(transaction(number, changes, blocks));
                    // As if the flush had not come.
                    let lost = is_committed.then(|| mounted.committed.pop().unwrap().1);
                    mounted.volume.state.lock().durable = durable;
                    let mut rng = fastrand::Rng::with_seed(seed);
                    let share = rng.f64();
                    mounted.volume.lose_power(|| rng.f64() < share);
                    mounted.remount(lost.as_ref());
                }
            }
        }
        mounted.volume.lose_power(|| false);
        mounted.remount(None);
    }
}

#[test]
fn a_record_that_rots_before_valid_ones_is_not_the_end() {
    let mut mounted = Mounted::new(4, 4, 8);
    for number in 1..=5 {
        assert!(mounted.commit(transaction(number, 10, 3)));
    }
    mounted.volume.rot(2);
    let (replayed, end) = replay(&mounted.volume, 8, START);
    assert_eq!(replayed.len(), 2);
    assert!(matches!(end, Err(ReplayError::Rotten { sequence: 12, later: 13, .. })), "{end:?}");
    mounted.volume.rot(3);
    mounted.volume.rot(4);
    assert!(replay(&mounted.volume, 8, START).1.is_ok(), "nothing valid follows");
}

/// Such a record was not replayed when that mount ended, whatever it looks like now.
#[test]
fn records_of_an_earlier_mount_do_not_count() {
    let mut mounted = Mounted::new(4, 4, 8);
    assert!((1..=3).all(|number| mounted.commit(transaction(number, 10, 3))));
    let later = JournalPosition { epoch: START.epoch + 1, ..START };
    let (replayed, end) = replay(&mounted.volume, 8, later);
    assert_eq!((replayed.len(), end), (0, Ok(later)));
}

/// Clients may write what looks like a record.
#[test]
fn data_that_looks_like_a_record_does_not_count() {
    let mut mounted = Mounted::new(2, 4, 8);
    let later = RecordId { uuid: UUID, epoch: START.epoch, sequence: START.sequence + 5 };
    let fake = later.encode(&[], &[] as &[SharedBuf], 2).unwrap();
    let mut torn = transaction(1, 10, 3);
    torn.data[1] = IoBuf::copy_of(&fake.bytes).freeze();
    assert!(mounted.commit(torn));
    assert_eq!(replay(&mounted.volume, 8, START).0.len(), 1);
    // The last block of the record is lost, and the fake is not.
    let last = mounted.volume.bytes(FIRST, 0..2).end;
    mounted.volume.state.lock().now[last - BLOCK_BYTES..last].fill(0);
    let (replayed, end) = replay(&mounted.volume, 8, START);
    assert_eq!((replayed.len(), end), (0, Ok(START)));
}

#[test]
fn a_full_journal_says_so_and_a_checkpoint_makes_room() {
    let mut mounted = Mounted::new(2, 2, 2);
    assert_eq!(mounted.journal.room(), (4, 4));
    assert!(now(mounted.journal.commit(&transaction(1, 10, 8))) == Err(CommitError::TooLarge));
    assert!(mounted.commit(transaction(1, 10, 3)) && mounted.commit(transaction(2, 10, 3)));
    mounted.journal.forget_before(START);
    assert_eq!(mounted.journal.room(), (0, 4), "the anchor is as before");
    assert_eq!(now(mounted.journal.commit(&transaction(3, 10, 0))), Err(CommitError::Full));
    mounted.checkpoint(1);
    assert_eq!(mounted.journal.room(), (2, 4));
    assert!(mounted.commit(transaction(3, 10, 3)));
    mounted.checkpoint(2);
    assert_eq!(mounted.journal.room(), (4, 4));
}
