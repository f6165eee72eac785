//! What the tree makes of nodes that are damaged, stale, or belong elsewhere: errors that name the place, and no panic.

use proptest::prelude::*;
use stripewise_device::{IoBuf, IoError, IoErrorKind};
use stripewise_format::rafs::block::{BlockError, BlockKind, HEAD_LEN, Head, PAYLOAD_LEN, open, seal};
use stripewise_format::rafs::key::Key;
use stripewise_format::rafs::node::{Child, LEVEL_MAX, Node, NodeError, encode_inner, encode_leaf};
use stripewise_rafs::shape::{BLOCK_BYTES, BlockNo};
use stripewise_rafs::tree::{Damage, Root, Scan, Tree, TreeError};
use uuid::Uuid;

use crate::model::key;
use crate::stored::{Memory, Stored, UUID, now};
use crate::world::World;

/// A stored tree of three levels, some of whose nodes are damaged in turns.
struct Sample {
    world: World,
    root: Root,
}

/// A node to be damaged.
#[derive(Clone, Copy)]
struct Victim {
    place: BlockNo,
    /// A node behind it, under the same parent.
    behind: BlockNo,
    /// A key under it.
    key: Key,
    level: u8,
}

impl Sample {
    fn new() -> Self {
        let mut world = World::new(2000, 0);
        (0..8000).for_each(|number| world.insert(key(number * 2), &[3; 60]));
        assert!(world.write_out());
        world.settle();
        let root = world.durable.as_ref().unwrap().root;
        assert_eq!(root.level, 2);
        Self { world, root }
    }

    fn memory(&self) -> &Memory {
        &self.world.memory
    }

    fn open(&self) -> Tree {
        Tree::open(self.world.memory.clone(), UUID, 100, self.root)
    }

    fn children(&self, place: BlockNo) -> Vec<Child> {
        let block = self.memory().block(place);
        match Node::decode(open(&block, BlockKind::Node).unwrap().1).unwrap() {
            Node::Inner { children, .. } => children,
            Node::Leaf(_) => panic!("a leaf at {place:?}"),
        }
    }

    /// A leaf, and the node above it.
    fn victims(&self) -> [Victim; 2] {
        let upper = self.children(self.root.place);
        let lower = self.children(BlockNo(upper[0].place));
        let victim = |children: &[Child], at: usize, level| Victim {
            place: BlockNo(children[at].place),
            behind: BlockNo(children[at + 1].place),
            key: children[at].key,
            level,
        };
        [victim(&lower, 3, 0), victim(&upper, 0, 1)]
    }

    /// Seals a payload at a place.
    fn put(&self, head: Head, payload: &[u8]) {
        let mut block = IoBuf::zeroed(BLOCK_BYTES);
        block[HEAD_LEN..].copy_from_slice(payload);
        seal(&mut block, BlockKind::Node, &head);
        self.memory().write(BlockNo(head.place), block.freeze());
    }

    fn payload(&self, place: BlockNo) -> Vec<u8> {
        self.memory().block(place)[HEAD_LEN..].to_vec()
    }

    /// Each operation that needs the victim fails in the same way, and changes nothing.
    fn expect(&self, victim: Victim, wanted: TreeError) {
        let mut tree = self.open();
        assert_eq!(now(tree.get(victim.key)).unwrap_err(), wanted);
        assert_eq!(now(tree.next(victim.key)).unwrap_err(), wanted);
        assert_eq!(now(tree.insert(victim.key, [0].into())).unwrap_err(), wanted);
        assert_eq!(now(tree.remove(victim.key)).unwrap_err(), wanted);
        assert_eq!((tree.dirty_nodes(), tree.given_up()), (0, &[][..]));
        let mut scan = Scan::over(key(0)..=key(u64::MAX));
        let all = std::iter::from_fn(|| now(scan.batch(&tree)).transpose());
        let error = all.filter_map(Result::err).next();
        assert_eq!(error, Some(wanted));
        assert!(wanted.to_string().contains(&victim.place.0.to_string()), "{wanted}");
    }

    /// Damages a victim, sees what the tree makes of that, and mends it again.
    fn hurt(&self, victim: Victim, hurt: impl FnOnce(&Self, Head), damage: Damage) {
        let whole = self.memory().block(victim.place);
        hurt(self, Head { place: victim.place.0, uuid: UUID, generation: self.root.generation });
        self.expect(victim, TreeError::Corrupt { place: victim.place, damage });
        self.memory().write(victim.place, whole);
        assert!(now(self.open().get(victim.key)).unwrap().is_some());
    }
}

#[test]
fn blocks_that_are_no_node_of_this_place_are_refused() {
    let sample = Sample::new();
    let block = |error| Damage::Block(error);
    for victim in sample.victims() {
        let zeroes = |sample: &Sample, _| sample.memory().write(victim.place, IoBuf::zeroed(4096).freeze());
        sample.hurt(victim, zeroes, block(BlockError::NoMagic { found: [0; 8] }));
        let elsewhere =
            |sample: &Sample, _| sample.memory().write(victim.place, sample.memory().block(victim.behind));
        let place = BlockError::Place { found: victim.behind.0, wanted: victim.place.0 };
        sample.hurt(victim, elsewhere, block(place));
        let (found, wanted) = (Uuid::from_u128(1), UUID);
        let foreign =
            |sample: &Sample, head| sample.put(Head { uuid: found, ..head }, &sample.payload(victim.place));
        sample.hurt(victim, foreign, block(BlockError::Owner { found, wanted }));
        let stale =
            |sample: &Sample, head| sample.put(Head { generation: 0, ..head }, &sample.payload(victim.place));
        sample.hurt(victim, stale, Damage::Generation { found: 0, wanted: sample.root.generation });
    }
}

#[test]
fn a_torn_block_is_refused() {
    let sample = Sample::new();
    for victim in sample.victims() {
        let whole = sample.memory().block(victim.place);
        let mut torn = IoBuf::copy_of(&whole);
        torn[512..].fill(0);
        sample.memory().write(victim.place, torn.freeze());
        let error = now(sample.open().get(victim.key)).unwrap_err();
        assert!(matches!(
            error,
            TreeError::Corrupt { place, damage: Damage::Block(BlockError::Crc { .. }) } if place == victim.place
        ));
        sample.memory().write(victim.place, whole);
    }
}

#[test]
fn nodes_that_do_not_fit_under_their_parents_are_refused() {
    let sample = Sample::new();
    let [leaf, inner] = sample.victims();
    for victim in [leaf, inner] {
        let other = if victim.level == 0 { inner } else { leaf };
        let level = |sample: &Sample, head| sample.put(head, &sample.payload(other.place));
        sample.hurt(victim, level, Damage::Level { found: other.level, wanted: victim.level });
        let behind = |sample: &Sample, head| sample.put(head, &sample.payload(victim.behind));
        let block = sample.memory().block(victim.behind);
        let first = match Node::decode(open(&block, BlockKind::Node).unwrap().1).unwrap() {
            Node::Leaf(items) => items[0].key,
            Node::Inner { children, .. } => children[0].key,
        };
        sample.hurt(victim, behind, Damage::Bounds { key: first });
        let kind = |sample: &Sample, head: Head| sample.put(head, &[LEVEL_MAX + 1; PAYLOAD_LEN]);
        sample.hurt(victim, kind, Damage::Node(NodeError::Level { found: LEVEL_MAX + 1 }));
    }
    let empty = |sample: &Sample, head| {
        let mut payload = vec![0; PAYLOAD_LEN];
        encode_leaf(&[], &mut payload);
        sample.put(head, &payload);
    };
    sample.hurt(leaf, empty, Damage::Empty);
}

/// The node is in the cache when its second parent entry is followed.
#[test]
fn a_node_that_is_referred_to_twice_belongs_to_one_place_only() {
    let sample = Sample::new();
    let [leaf, inner] = sample.victims();
    let mut children = sample.children(inner.place);
    let key = children[4].key;
    children[4] = Child { key, ..children[3] };
    let mut payload = vec![0; PAYLOAD_LEN];
    encode_inner(1, &children, &mut payload);
    sample.put(Head { place: inner.place.0, uuid: UUID, generation: sample.root.generation }, &payload);
    let tree = sample.open();
    assert!(now(tree.get(leaf.key)).unwrap().is_some());
    let damage = Damage::Bounds { key: leaf.key };
    assert_eq!(now(tree.get(key)).unwrap_err(), TreeError::Corrupt { place: leaf.place, damage });
}

/// The leaf behind a damaged one becomes small, and empty: it is not joined, and all else goes on.
#[test]
fn a_damaged_neighbour_is_not_joined_and_keeps_nothing_from_changing() {
    let sample = Sample::new();
    let [leaf, _] = sample.victims();
    sample.memory().write(leaf.place, IoBuf::zeroed(4096).freeze());
    let mut tree = sample.open();
    let children = sample.children(BlockNo(sample.children(sample.root.place)[0].place));
    let [behind, next] = [4, 5].map(|at| children[at].key);
    let gone: Vec<_> = sample.world.items.range(behind..next).map(|(key, _)| *key).collect();
    assert!(gone.len() > 1);
    for key in &gone {
        assert!(now(tree.remove(*key)).unwrap().is_some());
    }
    for (key, value) in sample.world.items.range(next..) {
        assert_eq!(now(tree.get(*key)).unwrap().as_ref(), Some(value));
    }
    let damage = Damage::Block(BlockError::NoMagic { found: [0; 8] });
    assert_eq!(now(tree.get(leaf.key)).unwrap_err(), TreeError::Corrupt { place: leaf.place, damage });
}

#[test]
fn an_unreadable_root_is_told() {
    let sample = Sample::new();
    let root = Root { place: BlockNo(1999), ..sample.root };
    let tree = Tree::open(sample.world.memory.clone(), UUID, 100, root);
    let source = IoError::new(IoErrorKind::Truncated);
    let wanted = TreeError::Unreadable { place: BlockNo(1999), source };
    assert_eq!(now(tree.get(key(1))).unwrap_err(), wanted);
}

#[test]
fn a_tree_of_the_highest_level_takes_items_until_its_root_is_full() {
    let sample = Sample::new();
    let head = |place| Head { place, uuid: UUID, generation: 1 };
    let mut payload = vec![0; PAYLOAD_LEN];
    let items = [stripewise_format::rafs::node::Item { key: key(0), value: [1].into() }];
    encode_leaf(&items, &mut payload);
    sample.put(head(0), &payload);
    for children in [1..122, 1..123] {
        for level in 1..=LEVEL_MAX {
            let child = |number| Child { key: key(number), place: u64::from(level) - 1, generation: 1 };
            let numbers = if level == LEVEL_MAX { children.clone() } else { 1..2 };
            let children: Vec<_> = numbers.map(|number| child(number - 1)).collect();
            encode_inner(level, &children, &mut payload);
            sample.put(head(u64::from(level)), &payload);
        }
        let root = Root { place: BlockNo(LEVEL_MAX.into()), generation: 1, level: LEVEL_MAX };
        let mut tree = Tree::open(sample.world.memory.clone(), UUID, 100, root);
        let error = now(tree.insert(key(0), [2].into())).unwrap_err();
        assert_eq!(error, TreeError::TooDeep);
        assert!(now(tree.remove(key(0))).unwrap().is_some());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Nodes whose heads are right and whose payloads lie. What follows need not be right, but ends.
    #[test]
    fn lies_give_errors_and_no_panic(
        lies in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![0..80_usize, 0..PAYLOAD_LEN], any::<u8>()), 1..12),
        numbers in prop::collection::vec(0..16_000_u64, 1..300),
    ) {
        let sample = Sample::new();
        let places: Vec<_> = Stored::read(sample.memory(), sample.root).places.into_iter().collect();
        for (node, at, byte) in lies {
            let place = *node.get(&places);
            let mut payload = sample.payload(place);
            payload[at] = byte;
            sample.put(Head { place: place.0, uuid: UUID, generation: sample.root.generation }, &payload);
        }
        let mut tree = sample.open();
        for number in numbers {
            let _ = now(tree.get(key(number)));
            let _ = now(tree.next(key(number)));
            let _ = now(tree.remove(key(number / 2 * 2)));
            let _ = now(tree.insert(key(number), vec![1; number as usize % 2400].into()));
        }
        let mut scan = Scan::over(key(0)..=key(u64::MAX));
        while let Ok(Some(items)) = now(scan.batch(&tree)) {
            prop_assert!(items.is_sorted_by(|a, b| a.key < b.key));
        }
        let places = |count: usize| Ok::<_, ()>((2000..2000 + count as u64).map(BlockNo).collect());
        prop_assert!(tree.write_out(2, places).is_ok());
    }
}
