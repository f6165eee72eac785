//! The journal on a volume that loses power: what is not flushed may be lost, sector by sector.

use proptest::prelude::*;
use stripewise_format::rafs::key::{Key, KeyKind};

use super::*;
use crate::{
    shape::Geometry,
    test_volume::{TestVolume, now},
};

const FIRST: StripeNo = StripeNo(3);

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
        let columns = u64::from(self.volume.geometry().data_columns());
        let rows = (1 + transaction.data.len() as u64).div_ceil(columns);
        match committed {
            Ok(()) => self.committed.push((sequence, transaction, self.journal.position())),
            Err(CommitError::Full) => assert!(rows > free),
            Err(CommitError::TooLarge) => assert!(rows > all),
            Err(CommitError::Io(error)) => panic!("{error}"),
        }
        committed.is_ok()
    }

    /// Writes to the volume that a commit begins with, before its flush.
    fn writes_of(&self, transaction: &Transaction) -> u64 {
        let JournalPosition { epoch, sequence, block } = self.journal.position();
        let id = RecordId { uuid: UUID, epoch, sequence };
        let columns = self.volume.geometry().data_columns();
        let front = id.encode(&transaction.changes, &transaction.data, columns).unwrap();
        let rows = u64::from(front.blocks / columns);
        self.journal.ring.runs(self.journal.ring.row_of(block), rows).count() as u64
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
                    // The flush does not come.
                    let runs = mounted.writes_of(&transaction(number, changes, blocks));
                    mounted.volume.stop_after(runs);
                    let is_committed = mounted.commit(transaction(number, changes, blocks));
                    let lost = is_committed.then(|| mounted.committed.pop().unwrap().1);
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
    mounted.volume.rot(FIRST, 2);
    let (replayed, end) = replay(&mounted.volume, 8, START);
    assert_eq!(replayed.len(), 2);
    assert!(matches!(end, Err(ReplayError::Rotten { sequence: 12, later: 13, .. })), "{end:?}");
    mounted.volume.rot(FIRST, 3);
    mounted.volume.rot(StripeNo(FIRST.0 + 1), 0);
    assert!(replay(&mounted.volume, 8, START).1.is_ok(), "nothing valid follows");
}

#[test]
fn a_valid_record_far_behind_rotten_ones_is_found() {
    for valid in 1..12 {
        let mut mounted = Mounted::new(4, 4, 8);
        // Of a row each.
        assert!((0..12).all(|number| mounted.commit(transaction(number, 10, 3))));
        for row in (0..12).filter(|row| *row != valid) {
            mounted.volume.rot(StripeNo(FIRST.0 + row / 4), (row % 4) as u32);
        }
        let (replayed, end) = replay(&mounted.volume, 8, START);
        let later = START.sequence + valid;
        assert!(
            replayed.is_empty()
                && matches!(end, Err(ReplayError::Rotten { later: found, .. }) if found == later),
            "row {valid}: {end:?}"
        );
    }
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
