//! The buffer against a map of blocks.

use proptest::prelude::*;
use stripewise_device::IoBuf;

use super::*;

const PIECE: u64 = 12;
const SETTINGS: Settings = Settings { blocks: 200, free_percent: 20, age: Duration::from_secs(5) };

#[derive(Debug, Clone)]
enum Action {
    Write(u64, u64, u64),
    Drop(u64, Range<u64>),
    Whole,
    Fill(u32, Temperature, u64),
    Lend(u64, Range<u64>),
    Written(prop::sample::Index),
    Failed(prop::sample::Index),
}

fn action() -> impl Strategy<Value = Action> {
    let range = || (0..60_u64, 0..30_u64).prop_map(|(start, count)| start..start + count);
    prop_oneof![
        6 => (1..4_u64, 0..60_u64, 1..48_u64).prop_map(|(inode, first, blocks)| Action::Write(inode, first, blocks)),
        2 => (1..4_u64, range()).prop_map(|(inode, blocks)| Action::Drop(inode, blocks)),
        2 => Just(Action::Whole),
        3 => (1..20_u32, any::<bool>(), 0..5_u64)
            .prop_map(|(room, is_moved, inode)| Action::Fill(room, temperature(is_moved), inode)),
        1 => (1..4_u64, range()).prop_map(|(inode, blocks)| Action::Lend(inode, blocks)),
        4 => any::<prop::sample::Index>().prop_map(Action::Written),
        2 => any::<prop::sample::Index>().prop_map(Action::Failed),
    ]
}

fn temperature(is_moved: bool) -> Temperature {
    if is_moved { Temperature::Moved } else { Temperature::New }
}

/// The temperature of a block with this tag: of every third write it is moved.
fn temperature_of(tag: u64) -> Temperature {
    temperature((tag / 1000).is_multiple_of(3))
}

fn owner(inode: u64) -> Owner {
    Owner { folder: inode / 2, inode }
}

/// Blocks that say which write they are of.
fn data(tag: u64, blocks: u64) -> SharedBuf {
    let mut buf = IoBuf::zeroed(blocks as usize * BLOCK_BYTES);
    for (number, block) in buf.chunks_mut(BLOCK_BYTES).enumerate() {
        block[..8].copy_from_slice(&(tag * 1000 + number as u64).to_le_bytes());
    }
    buf.freeze()
}

fn tags(data: &[u8]) -> impl Iterator<Item = u64> {
    data.chunks(BLOCK_BYTES).map(|block| u64::from_le_bytes(block[..8].try_into().unwrap()))
}

struct Model {
    buffer: Buffer,
    /// What each block has, and whether it is lent.
    blocks: BTreeMap<(u64, u64), (u64, bool)>,
    /// What is lent, and whether it is still what the file has.
    lent: Vec<(Lent, bool)>,
    writes: u64,
}

impl Model {
    fn new() -> Self {
        let buffer = Buffer::new(SETTINGS, PIECE as u32);
        Self { buffer, blocks: BTreeMap::new(), lent: Vec::new(), writes: 0 }
    }

    /// Blocks of a file are overwritten or gone. Of what was lent with some of them, the others wait again.
    fn replace(&mut self, inode: u64, blocks: Range<u64>) {
        for (lent, is_intact) in &mut self.lent {
            let its = lent.first..lent.first + lent.blocks();
            let overlaps = its.start < blocks.end && blocks.start < its.end && !blocks.is_empty();
            if lent.owner.inode == inode && overlaps && *is_intact {
                *is_intact = false;
                for block in its {
                    self.blocks.get_mut(&(inode, block)).unwrap().1 = false;
                }
            }
        }
        blocks.for_each(|block| {
            self.blocks.remove(&(inode, block));
        });
    }

    fn note_lent(&mut self, lent: Vec<Lent>) {
        for one in lent {
            for (block, tag) in (one.first..).zip(tags(&one.data)) {
                let (is, is_lent) = self.blocks.get_mut(&(one.owner.inode, block)).unwrap();
                assert_eq!((*is, std::mem::replace(is_lent, true)), (tag, false));
            }
            self.lent.push((one, true));
        }
    }

    fn waits(&self, temperature: Temperature) -> usize {
        let waits = |(tag, is_lent): &&(u64, bool)| !is_lent && temperature_of(*tag) == temperature;
        self.blocks.values().filter(waits).count()
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Write(inode, first, blocks) => {
                self.writes += 1;
                let data = data(self.writes, blocks);
                self.buffer.write(
                    owner(inode),
                    temperature_of(self.writes * 1000),
                    first,
                    &data,
                    Timestamp::default(),
                );
                self.replace(inode, first..first + blocks);
                for (block, tag) in (first..).zip(tags(&data)) {
                    self.blocks.insert((inode, block), (tag, false));
                }
            }
            Action::Drop(inode, blocks) => {
                self.buffer.drop_blocks(inode, blocks.clone());
                // The parts beside what is dropped wait again if they were cut.
                self.replace(inode, blocks);
            }
            Action::Whole => self.lend_whole(),
            Action::Fill(room, temperature, inode) => {
                let lent = self.buffer.fill(room, temperature, owner(inode));
                let sum: u64 = lent.iter().map(Lent::blocks).sum();
                let wanted = self.waits(temperature).min(room as usize) as u64;
                let all = lent.iter().flat_map(|one| tags(&one.data));
                assert!(all.into_iter().all(|tag| temperature_of(tag) == temperature));
                self.note_lent(lent);
                assert_eq!(sum, wanted, "room is filled as long as something waits");
            }
            Action::Lend(inode, blocks) => {
                let lent = self.buffer.lend(inode, blocks.clone());
                self.note_lent(lent);
                let waits = |block| self.blocks.get(&(inode, block)).is_some_and(|(_, is_lent)| !is_lent);
                assert!(!blocks.into_iter().any(waits), "all is lent");
            }
            Action::Written(one) if !self.lent.is_empty() => {
                let (lent, is_intact) = self.lent.remove(one.index(self.lent.len()));
                assert_eq!(self.buffer.written(&lent), is_intact);
                if is_intact {
                    self.replace(lent.owner.inode, lent.first..lent.first + lent.blocks());
                }
            }
            Action::Failed(one) if !self.lent.is_empty() => {
                let (lent, is_intact) = self.lent.remove(one.index(self.lent.len()));
                self.buffer.failed(&lent);
                for block in (lent.first..lent.first + lent.blocks()).filter(|_| is_intact) {
                    self.blocks.get_mut(&(lent.owner.inode, block)).unwrap().1 = false;
                }
            }
            Action::Written(_) | Action::Failed(_) => {}
        }
    }

    fn lend_whole(&mut self) {
        let is_whole = |inode: u64, piece: u64| {
            let blocks = piece * PIECE..(piece + 1) * PIECE;
            blocks
                .into_iter()
                .all(|block| self.blocks.get(&(inode, block)).is_some_and(|(_, is_lent)| !is_lent))
        };
        let expected = (1..4).any(|inode| (0..10).any(|piece| is_whole(inode, piece)));
        let whole = self.buffer.lend_whole();
        assert_eq!(whole.is_some(), expected);
        let Some(Whole { piece, parts }) = whole else { return };
        let mut at = piece * PIECE;
        for part in &parts {
            assert_eq!((part.first, part.owner.inode), (at, parts[0].owner.inode));
            at += part.blocks();
        }
        assert_eq!(at, (piece + 1) * PIECE);
        self.note_lent(parts);
    }

    fn check(&self) {
        for inode in 1..4 {
            let mut read = BTreeMap::new();
            for Part { first, data } in self.buffer.read(inode, 3..90) {
                read.extend((first..).zip(tags(&data)));
            }
            let of_file = self.blocks.range((inode, 3)..(inode, 90));
            let expected: BTreeMap<u64, u64> = of_file.map(|((_, block), (tag, _))| (*block, *tag)).collect();
            assert_eq!(read, expected);
        }
        assert_eq!(self.buffer.blocks(), self.blocks.len() as u64);
        let listed: u64 = self.buffer.lists().iter().map(ListCount::blocks).sum();
        assert_eq!(listed, self.buffer.blocks());
        for one in [Temperature::New, Temperature::Moved] {
            assert_eq!(self.buffer.has_waiting(one), self.waits(one) > 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_buffer_does_what_a_map_does(actions in prop::collection::vec(action(), 1..60)) {
        let mut model = Model::new();
        for action in actions {
            model.act(action);
            model.check();
        }
        for (lent, _) in &model.lent {
            model.buffer.written(lent);
        }
        (1..4).for_each(|inode| model.buffer.drop_blocks(inode, 0..u64::MAX));
        let Buffer { files, pieces, whole, blocks, lists, .. } = model.buffer;
        prop_assert!(files.is_empty() && pieces.is_empty() && whole.is_empty() && blocks == 0);
        prop_assert_eq!((lists.oldest(), lists.best_list(1, Temperature::New)), (None, None));
    }
}

/// The paper's example: 47 = 32 + 8 + 4 + 2 + 1.
#[test]
fn a_write_of_47_blocks_is_split_by_powers_of_two() {
    let mut buffer = Buffer::new(SETTINGS, 64);
    buffer.write(owner(1), Temperature::New, 10, &data(1, 47), Timestamp::default());
    let parts: Vec<_> =
        buffer.read(1, 0..100).iter().map(|part| (part.first, part.data.len() / BLOCK_BYTES)).collect();
    assert_eq!(parts, [(10, 32), (42, 8), (50, 4), (54, 2), (56, 1)]);
    let sizes: Vec<_> = buffer.fill(13, Temperature::New, owner(1)).iter().map(Lent::blocks).collect();
    assert_eq!(sizes, [8, 4, 1]);
    let sizes: Vec<_> = buffer.fill(13, Temperature::New, owner(1)).iter().map(Lent::blocks).collect();
    assert_eq!(sizes, [2, 8, 2, 1], "the entry of 32 blocks is split");
}

#[test]
fn files_of_a_folder_are_chosen_together() {
    let mut buffer = Buffer::new(SETTINGS, 64);
    for inode in [3, 8, 2, 9, 4] {
        let owner = Owner { folder: inode % 2, inode };
        buffer.write(owner, Temperature::New, 0, &data(inode, 1), Timestamp::default());
    }
    let lent = buffer.fill(5, Temperature::New, Owner { folder: 1, inode: 0 });
    assert_eq!(lent.iter().map(|one| one.owner.inode).collect::<Vec<_>>(), [3, 9, 2, 4, 8]);
}

/// Of two files of one block, that in the folder of the larger one goes with it.
#[test]
fn what_is_chosen_first_leads_to_its_folder() {
    let mut buffer = Buffer::new(SETTINGS, 64);
    for (folder, inode, blocks) in [(0, 2, 1), (1, 9, 2), (1, 11, 1)] {
        buffer.write(
            Owner { folder, inode },
            Temperature::New,
            0,
            &data(inode, blocks),
            Timestamp::default(),
        );
    }
    let lent = buffer.fill(3, Temperature::New, Owner { folder: 0, inode: 0 });
    assert_eq!(lent.iter().map(|one| one.owner.inode).collect::<Vec<_>>(), [9, 11]);
}

#[test]
fn it_is_due_when_room_is_short_or_something_is_old() {
    let mut buffer = Buffer::new(SETTINGS, 64);
    let at = |s: u64| Timestamp(s * 1_000_000_000);
    buffer.write(owner(1), Temperature::New, 0, &data(1, 160), at(1));
    assert_eq!((buffer.room(), buffer.due(at(5)), buffer.due(at(6))), (40, None, Some(Due::Age)));
    buffer.write(owner(1), Temperature::New, 160, &data(1, 1), at(1));
    assert_eq!(buffer.due(at(5)), Some(Due::Room));
    let lent = buffer.lend(1, 0..200);
    assert_eq!(buffer.due(at(20)), None, "all of it is being written out");
    buffer.failed(&lent[0]);
    assert_eq!(buffer.due(at(20)), Some(Due::Room));
    lent[1..].iter().for_each(|one| assert!(buffer.written(one)));
    assert_eq!(buffer.due(at(20)), Some(Due::Age), "as old as it was");
    buffer.set(Settings { age: Duration::from_secs(60), ..SETTINGS });
    assert_eq!(buffer.due(at(20)), None);
}

/// A client that writes on does not keep a write-out of its file from ending.
#[test]
fn of_a_file_only_what_is_old_enough_is_lent() {
    let mut buffer = Buffer::new(SETTINGS, 12);
    let at = |s: u64| Timestamp(s * 1_000_000_000);
    for (first, since) in [(0, 1), (12, 2), (24, 5), (36, 6)] {
        buffer.write(owner(1), Temperature::New, first, &data(first, 12), at(since));
    }
    assert_eq!(buffer.lend_whole_of(1, at(1)).map(|whole| whole.piece), Some(0));
    assert!(buffer.lend_whole_of(1, at(1)).is_none() && !buffer.has_due(1, at(1)));
    assert!(buffer.has_due(1, at(2)) && !buffer.has_due(2, at(2)));
    let lent = buffer.fill_of(1, 100, at(5));
    assert_eq!(lent.iter().map(Lent::blocks).sum::<u64>(), 24);
    assert!(lent.iter().all(|one| (12..36).contains(&one.first)));
}

#[test]
fn lists_tell_what_they_hold_and_since_when() {
    let mut buffer = Buffer::new(SETTINGS, PIECE as u32);
    assert_eq!(buffer.lists(), []);
    // 7 blocks are entries of 4, 2 and 1.
    buffer.write(owner(1), Temperature::New, 0, &data(1, 7), Timestamp(50));
    buffer.write(owner(2), Temperature::Moved, 9, &data(2, 4), Timestamp(20));
    let lent = buffer.lend(1, 0..4);
    assert_eq!(lent.len(), 1);
    let count = |list, entries, lent, oldest| ListCount { list, entries, lent, oldest: Timestamp(oldest) };
    assert_eq!(buffer.lists(), [count(0, 1, 0, 50), count(1, 1, 0, 50), count(2, 2, 1, 20)]);
    assert!(buffer.written(&lent[0]));
    buffer.drop_blocks(1, 4..7);
    assert_eq!(buffer.lists(), [count(2, 1, 0, 20)]);
}
