//! The store against a map, through power failures in the middle of everything, and failing writes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use stripewise_device::IoBuf;
use stripewise_format::{
    crc::crc32c,
    rafs::{
        anchor::JournalPosition,
        block::{BlockKind, open_at},
        journal::RecordId,
        key::KeyKind,
        node::Node,
        space::{Extent, GroupKind},
        superblock::FIRST_JOURNAL_STRIPE,
    },
};
use uuid::Uuid;

use super::*;
use crate::{
    shape::{BLOCK_BYTES, Order, StripeNo},
    test_volume::{TestVolume, now, read_block},
    tree::Scan,
};

type Items = BTreeMap<Key, Vec<u8>>;

#[derive(Debug, Clone)]
enum Action {
    /// A key, and its value's length and filling.
    Put(u64, usize, u8),
    Remove(u64),
    /// Writes a file of so many blocks, in the place of what it had.
    Write(u64, u64),
    Unlink(u64),
    /// A commit, with so many blocks of a file.
    Commit(u32),
    Checkpoint,
    /// Does the last of these, and power fails after so many writes and flushes. The seed says which sectors are lost.
    Crash(bool, u64, u64),
    /// Writes and flushes fail after so many.
    Fail(bool, u64),
    Remount,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => (0..60_u64, 0..=2400_usize, any::<u8>()).prop_map(|(key, len, fill)| Action::Put(key, len, fill)),
        4 => (0..60_u64).prop_map(Action::Remove),
        6 => (0..8_u64, 1..30_u64).prop_map(|(file, blocks)| Action::Write(file, blocks)),
        2 => (0..8_u64).prop_map(Action::Unlink),
        4 => (0..6_u32).prop_map(Action::Commit),
        2 => Just(Action::Checkpoint),
        3 => (any::<bool>(), 0..6_u64, any::<u64>()).prop_map(|(commits, after, seed)| Action::Crash(commits, after, seed)),
        2 => (any::<bool>(), 0..10_u64).prop_map(|(commits, after)| Action::Fail(commits, after)),
        1 => Just(Action::Remount),
    ]
}

struct World {
    volume: Arc<TestVolume>,
    /// None while it is opened.
    store: Option<Store>,
    current: Items,
    committed: Items,
    /// The files of which blocks came along with commits since the last checkpoint.
    data: Vec<u64>,
    writes: u64,
}

fn item(key: u64) -> Key {
    Key::new(100 + key, KeyKind::Inline, 0)
}

fn extent(file: u64) -> Key {
    Key::new(10 + file, KeyKind::Extent, 0)
}

fn options(order: Order, journal_stripes: u64) -> MakeOptions {
    let (uuid, label) = (Uuid::from_u128(4), "test".to_owned());
    MakeOptions { uuid, label, created_us: 1, order, journal_stripes: Some(journal_stripes), hash_seed: 7 }
}

impl World {
    fn new((columns, rows): (u32, u32), stripes: u64, order: Order) -> Self {
        let volume = Arc::new(TestVolume::new(Geometry::new(columns, rows, stripes).unwrap()));
        let as_volume: Arc<dyn Volume> = volume.clone();
        // Short, so that it fills up.
        now(make(&as_volume, &options(order, u64::from(32 / rows).max(2)))).unwrap();
        let mut world = Self {
            volume,
            store: None,
            current: Items::new(),
            committed: Items::new(),
            data: Vec::new(),
            writes: 0,
        };
        world.store = Some(world.open().0);
        world
    }

    fn open(&self) -> (Store, Replay) {
        let ground = now(Ground::read(&*self.volume)).unwrap();
        let (mut store, replay) = now(Store::open(self.volume.clone(), ground, 16, Purpose::Write)).unwrap();
        now(store.renew_anchors()).unwrap();
        (store, replay)
    }

    fn store(&mut self) -> &mut Store {
        self.store.as_mut().unwrap()
    }

    fn note(&mut self, key: Key, value: Option<Vec<u8>>) {
        match value {
            Some(value) => self.current.insert(key, value),
            None => self.current.remove(&key),
        };
    }

    /// The blocks of a file.
    fn extent(&self, file: u64) -> Option<Extent> {
        self.current.get(&extent(file)).map(|value| Extent::decode(value).unwrap())
    }

    fn write(&mut self, file: u64, blocks: u64) {
        self.writes += 1;
        let tag = self.writes;
        let store = self.store();
        if store.free_blocks() < blocks + 100 {
            return;
        }
        let Some(opened) = store.open_stripe(GroupKind::Small, StripeNo(0)) else { return };
        let mut slots = store.free_slots(opened.stripe);
        slots.sort_unstable();
        let run = slots.chunk_by(|one, next| one + 1 == *next).next().unwrap();
        let blocks = blocks.min(run.len() as u64);
        let first = store.geometry().block(opened.stripe, run[0]);
        let places = first..BlockNo(first.0 + blocks);
        store.take(opened.kind, places.clone()).unwrap();
        let block = |number: u64| IoBuf::copy_of(&[(tag * 37 + number) as u8; BLOCK_BYTES]).freeze();
        let data: Vec<_> = (0..blocks).map(|number| (BlockNo(first.0 + number), block(number))).collect();
        let written = now(store.write_blocks(&data));
        store.close_stripe(opened.stripe);
        if written.is_err() {
            store.free(places).unwrap();
            return;
        }
        let crcs = data.iter().map(|(_, block)| crc32c(block)).collect();
        let value = Extent { place: first.0, blocks: blocks as u32, crcs: Some(crcs) }.encode();
        self.unlink(file);
        now(self.store().put(extent(file), value.clone().into())).unwrap();
        self.note(extent(file), Some(value));
    }

    fn unlink(&mut self, file: u64) {
        let Some(Extent { place, blocks, .. }) = self.extent(file) else { return };
        assert!(now(self.store().remove(extent(file))).unwrap());
        self.store().free(BlockNo(place)..BlockNo(place + u64::from(blocks))).unwrap();
        self.note(extent(file), None);
    }

    /// Commits, or makes a checkpoint.
    fn make_durable(&mut self, commits: bool) -> Result<(), StoreError> {
        match commits {
            true => now(self.store().commit(&[])),
            false => now(self.store().checkpoint()),
        }
    }

    fn crash(&mut self, commits: bool, after: u64, seed: u64) {
        self.volume.stop_after(after);
        match self.make_durable(commits) {
            Ok(()) | Err(StoreError::Commit(CommitError::Full | CommitError::TooLarge)) => {}
            Err(error) => panic!("{error}"),
        }
        let mut rng = fastrand::Rng::with_seed(seed);
        let share = rng.f64();
        if seed.is_multiple_of(3) {
            // Only the program ended: what was not flushed may be lost later.
            self.volume.go_on();
        } else {
            self.volume.lose_power(|| rng.f64() < share);
        }
        self.reopen(!commits);
        // Else the journal goes on as it is.
        if rng.bool() {
            self.act(&Action::Checkpoint);
        }
    }

    /// Opens it again: it has what was committed, or all that was to be; and blocks that came along, unless there may have been a
    /// checkpoint.
    fn reopen(&mut self, may_be_checkpoint: bool) {
        let (store, Replay { data, .. }) = self.open();
        self.store = Some(store);
        self.check_anchors();
        let found = self.items();
        assert!(found == self.committed || found == self.current, "neither the old nor the new items");
        (self.committed, self.current) = (found.clone(), found);
        let files: Vec<u64> = data.iter().map(|one| one.inode).collect();
        assert!(
            files == self.data || may_be_checkpoint && files.is_empty(),
            "{files:?}, not {:?}",
            self.data
        );
        for FileBlocks { inode, blocks, .. } in data {
            assert!(blocks.iter().all(|block| block[0] == inode as u8) && !blocks.is_empty());
        }
        self.data = files;
    }

    /// After a mount: whatever a crash left, all copies of both anchors lead to the tree that counts, and no node on the volume has a
    /// generation that this mount may give.
    fn check_anchors(&mut self) {
        let superblock = self.store().superblock().clone();
        let root = self.store().anchor.1.root;
        let mut first = u64::MAX;
        for place in superblock.anchor_places() {
            for column in 0..self.volume.geometry().data_columns() {
                let copy = now(read_copy(&*self.volume, place, column)).unwrap();
                let anchor = Anchor::decode(&copy, place, superblock.uuid).unwrap();
                assert_eq!(anchor.root, root, "copy {column} of the anchor at {place}");
                first = first.min(anchor.generation);
            }
        }
        for place in 0..self.volume.geometry().blocks() {
            let offset = self.volume.geometry().offset_bytes(order_of(&superblock), BlockNo(place));
            let bytes = read_block(&self.volume, offset);
            if let Ok((head, _)) = open_at(&bytes, BlockKind::Node, place, superblock.uuid) {
                assert!(head.generation < first, "node {place} of {} beside {first}", head.generation);
            }
        }
    }

    /// What the tree has, but for groups.
    fn items(&self) -> Items {
        let (mut all, store) = (Items::new(), self.store.as_ref().unwrap());
        let mut scan =
            Scan::over(Key::new(1, KeyKind::Group, 0)..=Key::new(u64::MAX, KeyKind::Extent, u64::MAX));
        while let Some(items) = now(scan.batch(store.tree())).unwrap() {
            all.extend(items.into_iter().map(|item| (item.key, item.value.to_vec())));
        }
        all
    }

    /// After a checkpoint: files have their blocks, and exactly their blocks and the tree's nodes are taken.
    fn check(&mut self) {
        let volume = self.volume.clone();
        let order = order_of(self.store().superblock());
        let mut places = BTreeSet::new();
        for file in 0..8 {
            let Some(Extent { place, blocks, crcs }) = self.extent(file) else { continue };
            for (at, crc) in (place..place + u64::from(blocks)).zip(crcs.unwrap()) {
                let bytes = read_block(&volume, volume.geometry().offset_bytes(order, BlockNo(at)));
                assert_eq!(crc32c(&bytes), crc, "block {at} of a file");
                assert!(places.insert(at), "block {at} has two owners");
            }
        }
        let (_, Anchor { root, .. }) = self.store().anchor;
        self.add_nodes(root.place, &mut places);
        assert_eq!(self.store().counts(), Counts { taken: places.len() as u64, held: 0 });
    }

    /// The places of the nodes of the durable tree, from one on.
    fn add_nodes(&mut self, place: u64, places: &mut BTreeSet<u64>) {
        let superblock = self.store().superblock().clone();
        let geometry = self.volume.geometry();
        let bytes = read_block(&self.volume, geometry.offset_bytes(order_of(&superblock), BlockNo(place)));
        let (_, payload) = open_at(&bytes, BlockKind::Node, place, superblock.uuid).unwrap();
        assert!(places.insert(place), "node {place} has two owners");
        if let Node::Inner { children, .. } = Node::decode(payload).unwrap() {
            children.iter().for_each(|child| self.add_nodes(child.place, places));
        }
    }

    fn act(&mut self, action: &Action) {
        match *action {
            Action::Put(key, len, fill) => {
                let value = vec![fill; len];
                now(self.store().put(item(key), value.clone().into())).unwrap();
                self.note(item(key), Some(value));
            }
            Action::Remove(key) => {
                let had = now(self.store().remove(item(key))).unwrap();
                assert_eq!(had, self.current.contains_key(&item(key)));
                self.note(item(key), None);
            }
            Action::Write(file, blocks) => self.write(file, blocks),
            Action::Unlink(file) => self.unlink(file),
            Action::Commit(blocks) => self.commit(blocks),
            Action::Checkpoint => {
                now(self.store().checkpoint()).unwrap();
                self.committed = self.current.clone();
                self.data.clear();
                self.check();
            }
            Action::Crash(commits, after, seed) => self.crash(commits, after, seed),
            Action::Fail(commits, after) => self.fail(commits, after),
            Action::Remount => {
                now(self.store.take().unwrap().close()).unwrap();
                self.committed = self.current.clone();
                self.data.clear();
                self.reopen(false);
            }
        }
    }

    /// Commits with so many blocks of a file. If the journal is full of such blocks, a checkpoint comes first.
    fn commit(&mut self, blocks: u32) {
        self.writes += 1;
        let inode = self.writes;
        let block = |_| IoBuf::copy_of(&[inode as u8; BLOCK_BYTES]).freeze();
        let data = [FileBlocks { inode, first: 3, blocks: (0..blocks).map(block).collect() }];
        let data = &data[..usize::from(blocks > 0)];
        let had_data = self.store().has_data;
        match now(self.store().commit(data)) {
            Ok(()) => {}
            Err(StoreError::Commit(CommitError::Full | CommitError::TooLarge)) => {
                assert!(had_data);
                self.act(&Action::Checkpoint);
                now(self.store().commit(data)).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
        self.committed = self.current.clone();
        self.data.extend((blocks > 0).then_some(inode));
    }

    /// What fails changes nothing, and goes well later; unless an anchor could not be written.
    fn fail(&mut self, commits: bool, after: u64) {
        self.volume.fail_after(after);
        let result = self.make_durable(commits);
        self.volume.fail_after(u64::MAX);
        match result {
            Ok(()) => self.committed = self.current.clone(),
            Err(StoreError::Failed | StoreError::Io(_) | StoreError::Commit(_)) => {}
            Err(error) => panic!("{error}"),
        }
        if self.store().has_failed {
            assert_eq!(self.make_durable(commits), Err(StoreError::Failed));
            assert_eq!(now(self.store().put(item(1), [][..].into())), Err(StoreError::Failed));
            self.volume.lose_power(|| true);
            self.reopen(true);
        } else {
            assert_eq!(self.items(), self.current);
            self.act(&Action::Checkpoint);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_was_committed_is_there_and_nothing_is_lost_or_shared(
        shape in prop::sample::select(vec![(4, 16), (3, 4), (1, 8), (8, 2)]),
        by_rows in any::<bool>(),
        actions in prop::collection::vec(action(), 1..80),
    ) {
        let order = if by_rows { Order::Rows } else { Order::Columns };
        let stripes = 24 + 1200 / u64::from(shape.0 * shape.1);
        let mut world = World::new(shape, stripes, order);
        actions.iter().for_each(|action| world.act(action));
        world.volume.lose_power(|| false);
        world.current = world.committed.clone();
        world.reopen(false);
        world.act(&Action::Checkpoint);
    }
}

/// A small change and its commit take whole rows, one flush and no block beside others.
#[test]
fn a_commit_writes_whole_rows_only() {
    let mut world = World::new((4, 16), 200, Order::Rows);
    let (rows, blocks) = world.volume.written();
    assert_eq!(blocks, 0, "mkfs and mount write whole rows");
    world.act(&Action::Put(1, 100, 1));
    world.act(&Action::Commit(1));
    assert_eq!(world.volume.written(), (rows + 1, 0));
    world.act(&Action::Checkpoint);
    assert_eq!(world.volume.written().1, 0, "a checkpoint, too");
}

/// A block beside a live one is written alone, and leaves that as it is.
#[test]
fn live_blocks_in_a_row_stay() {
    let mut world = World::new((4, 16), 200, Order::Rows);
    let volume = world.volume.clone();
    let store = world.store();
    let opened = store.open_stripe(GroupKind::Small, StripeNo(0)).unwrap();
    let block = |slot| store.geometry().block(opened.stripe, slot);
    let places = [block(0), block(1)];
    for (at, place) in places.into_iter().enumerate() {
        store.take(opened.kind, place..BlockNo(place.0 + 1)).unwrap();
        let bytes = IoBuf::copy_of(&[at as u8 + 1; BLOCK_BYTES]).freeze();
        now(store.write_blocks(&[(place, bytes)])).unwrap();
    }
    let firsts =
        places.map(|place| read_block(&volume, volume.geometry().offset_bytes(Order::Rows, place))[0]);
    assert_eq!((firsts, volume.written().1), ([1, 2], 1));
}

/// The one before stays valid while an anchor is written.
#[test]
fn anchors_take_turns() {
    let mut world = World::new((4, 16), 200, Order::Rows);
    let mut seen = Vec::new();
    for _ in 0..3 {
        world.act(&Action::Checkpoint);
        let ground = now(Ground::read(&*world.volume)).unwrap();
        seen.push(ground.anchor.0);
    }
    assert!(seen == [0, 1, 0] || seen == [1, 0, 1], "{seen:?}");
}

/// A record with an inode behind which no number is left does not count.
#[test]
fn a_record_with_an_inode_that_no_mount_gives_is_refused() {
    let mut world = World::new((4, 16), 200, Order::Rows);
    let inode = u64::MAX;
    now(world.store().put(Key::new(inode, KeyKind::Inode, 0), vec![0; 8].into())).unwrap();
    now(world.store().commit(&[])).unwrap();
    let ground = now(Ground::read(&*world.volume)).unwrap();
    let opened = now(Store::open(world.volume.clone(), ground, 16, Purpose::Write)).map(drop);
    assert_eq!(opened, Err(OpenError::Store(StoreError::Inode { inode })));
}

/// Blocks that came along are nowhere but in the journal, after a mount, too: only the caller can make room.
#[test]
fn a_journal_full_of_file_blocks_stays_full() {
    let mut world = World::new((4, 16), 200, Order::Rows);
    let full = Err(StoreError::Commit(CommitError::Full));
    let of_file = |inode: u64| {
        let block = |_| IoBuf::copy_of(&[inode as u8; BLOCK_BYTES]).freeze();
        [FileBlocks { inode, first: 3, blocks: (0..6).map(block).collect() }]
    };
    for file in 1..100 {
        if now(world.store().commit(&of_file(file))).is_err() {
            break;
        }
        world.data.push(file);
    }
    assert_eq!(now(world.store().commit(&of_file(99))), full);
    for _ in 0..2 {
        world.volume.lose_power(|| false);
        world.reopen(false);
        assert_eq!((world.data.len(), now(world.store().commit(&of_file(99)))), (16, full));
    }
    world.act(&Action::Checkpoint);
    now(world.store().commit(&of_file(99))).unwrap();
}

/// The blocks were taken in an earlier transaction, and are written and referred to in this one.
#[test]
fn a_record_does_not_come_before_the_blocks_that_it_refers_to() {
    let mut world = World::new((4, 16), 200, Order::Rows);
    let store = world.store();
    let opened = store.open_stripe(GroupKind::Small, StripeNo(0)).unwrap();
    let place = store.geometry().block(opened.stripe, 0);
    store.take(opened.kind, place..BlockNo(place.0 + 1)).unwrap();
    now(store.commit(&[])).unwrap();
    let bytes = IoBuf::copy_of(&[7; BLOCK_BYTES]).freeze();
    let value = Extent { place: place.0, blocks: 1, crcs: Some(vec![crc32c(&bytes)]) }.encode();
    now(store.write_blocks(&[(place, bytes)])).unwrap();
    now(store.put(extent(0), value.clone().into())).unwrap();
    world.note(extent(0), Some(value));
    world.volume.stop_after(1);
    now(world.store().commit(&[])).unwrap();
    // The journal lies before the groups: what is kept of a record that came too early is its one sector.
    let mut kept = 0;
    world.volume.lose_power(|| std::mem::replace(&mut kept, 1) == 0);
    world.reopen(false);
    assert!(world.current.is_empty() && world.store().counts().taken == 1);
}

/// Clients may learn the UUID, and where the next record goes.
#[test]
fn a_record_of_somebody_who_knows_the_uuid_does_not_count() {
    let mut world = World::new((4, 16), 200, Order::Rows);
    let JournalPosition { epoch, sequence, .. } = world.store().journal.position();
    let uuid = world.store().superblock().uuid;
    let forged = |uuid| {
        let id = RecordId { uuid, epoch, sequence };
        let front = id.encode(&[Change::Put(item(1), vec![1])], &[] as &[SharedBuf], 4).unwrap();
        vec![IoBuf::copy_of(&front.bytes).freeze(); 4]
    };
    now(world.volume.write_rows(StripeNo(FIRST_JOURNAL_STRIPE), 0, &forged(uuid))).unwrap();
    world.reopen(false);
    let id = world.store().superblock().journal_id();
    now(world.volume.write_rows(StripeNo(FIRST_JOURNAL_STRIPE), 0, &forged(id))).unwrap();
    assert_eq!(world.open().1.records, 1, "with the right number it would");
}

/// A crash has torn a record, of which the first sector is there. Another crash tears the next one: what it leaves is just what the first one
/// lacks.
#[test]
fn a_torn_record_is_not_made_whole_by_the_next_one() {
    let mut world = World::new((4, 16), 200, Order::Rows);
    let JournalPosition { epoch, sequence, .. } = world.store().journal.position();
    let id = RecordId { uuid: world.store().superblock().journal_id(), epoch, sequence };
    let front = id.encode(&[Change::Put(item(1), vec![1; 1500])], &[] as &[SharedBuf], 4).unwrap();
    let geometry = world.volume.geometry;
    let place = geometry.offset_bytes(Order::Columns, geometry.block(StripeNo(FIRST_JOURNAL_STRIPE), 0));
    world.volume.poke(place, &front.bytes[..512]);
    world.reopen(false);
    world.volume.poke(place + 512, &front.bytes[512..BLOCK_BYTES]);
    assert_eq!(world.open().1.records, 0);
}

/// Other columns have copies of what column 0 has.
#[test]
fn copies_of_superblocks_and_anchors_are_used() {
    let mut world = World::new((4, 16), 200, Order::Rows);
    world.act(&Action::Put(1, 100, 1));
    world.act(&Action::Checkpoint);
    for stripe in 0..3 {
        world.volume.rot(StripeNo(stripe), 0);
    }
    world.reopen(false);
    assert_eq!(world.items().len(), 1);
}

/// A device goes on with what was begun.
#[test]
fn a_commit_that_is_dropped_is_the_last_one() {
    let mut world = World::new((4, 16), 200, Order::Rows);
    let store = world.store();
    store.begin().unwrap();
    assert_eq!(now(store.commit(&[])), Err(StoreError::Failed));
    assert_eq!(now(store.checkpoint()), Err(StoreError::Failed));
}

#[test]
fn a_store_without_room_says_so_and_goes_on() {
    let mut world = World::new((4, 4), 60, Order::Rows);
    let mut file = 0;
    loop {
        let store = world.store();
        let Some(opened) = store.open_stripe(GroupKind::Small, StripeNo(0)) else { break };
        let slots = store.free_slots(opened.stripe);
        let first = store.geometry().block(opened.stripe, slots[0]);
        let taken = store.take(opened.kind, first..BlockNo(first.0 + 1));
        store.close_stripe(opened.stripe);
        match taken {
            Ok(()) => file += 1,
            Err(error) => {
                assert_eq!(error, StoreError::NoSpace);
                break;
            }
        }
    }
    assert!(file > 500 && world.store().free_blocks() == 0, "{file}");
    for key in 0..20 {
        world.act(&Action::Put(key, 2000, 1));
    }
    now(world.store().checkpoint()).unwrap();
}
