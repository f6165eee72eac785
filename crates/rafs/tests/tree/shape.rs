//! How full nodes are, how deep trees are, and how many nodes changes write.

use std::convert::Infallible;
use std::sync::Arc;

use stripewise_format::rafs::key::{Key, KeyKind};
use stripewise_format::rafs::value::VALUE_MAX;
use stripewise_rafs::shape::BlockNo;
use stripewise_rafs::tree::{Root, Tree};

use crate::model::key;
use crate::stored::{Memory, Stored, UUID, now};
use crate::world::World;

const VALUE: [u8; 60] = [7; 60];

/// Stores the tree that comes of inserting these keys in this order.
fn stored(keys: impl IntoIterator<Item = Key>) -> Stored {
    let mut world = World::new(100_000, 1000);
    keys.into_iter().for_each(|key| world.insert(key, &VALUE));
    checkpoint(&mut world)
}

fn checkpoint(world: &mut World) -> Stored {
    assert!(world.write_out());
    world.settle();
    Stored::read(&world.memory, world.durable.as_ref().unwrap().root)
}

fn shuffled(count: u64) -> Vec<u64> {
    let mut numbers: Vec<_> = (0..count).collect();
    fastrand::Rng::with_seed(11).shuffle(&mut numbers);
    numbers
}

#[test]
fn growing_keys_fill_nodes() {
    let tree = stored((0..40_000).map(key));
    assert!(tree.fill(0) > 0.97 && tree.fill(1) > 0.95, "{:?}", tree.levels);
}

#[test]
fn files_that_grow_side_by_side_fill_leaves() {
    let key = |number: u64| Key::new(number % 40, KeyKind::Extent, number / 40);
    let tree = stored((0..40_000).map(key));
    assert!(tree.fill(0) > 0.90, "{:?}", tree.levels);
}

#[test]
fn random_keys_fill_two_thirds() {
    let tree = stored(shuffled(40_000).into_iter().map(key));
    assert!((0.62..0.75).contains(&tree.fill(0)), "{:?}", tree.levels);
    assert!(tree.fill(1) > 0.5, "{:?}", tree.levels);
}

#[test]
fn a_tree_that_loses_its_items_loses_its_nodes() {
    let mut world = World::new(100_000, 1000);
    (0..40_000).for_each(|number| world.insert(key(number), &VALUE));
    let numbers = shuffled(40_000);
    let (last, most) = numbers.split_at(2000);
    most.iter().for_each(|number| world.remove(key(*number)));
    let tree = checkpoint(&mut world);
    assert!(tree.fill(0) > 0.35, "{:?}", tree.levels);
    last.iter().for_each(|number| world.remove(key(*number)));
    let tree = checkpoint(&mut world);
    assert_eq!((tree.places.len(), tree.levels.len()), (1, 1), "an empty leaf is left");
}

#[test]
fn nodes_that_shrink_by_shorter_values_are_joined() {
    let mut world = World::new(100_000, 1000);
    (0..2000).for_each(|number| world.insert(key(number), &[1; 900]));
    (0..2000).for_each(|number| world.insert(key(number), &[1; 10]));
    let tree = checkpoint(&mut world);
    assert!(tree.fill(0) > 0.25, "{:?}", tree.levels);
}

/// What lies before the long item and what lies behind it fill a leaf, and the long one fits with neither.
#[test]
fn a_long_item_between_others_takes_a_leaf_of_its_own() {
    let mut world = World::new(100, 10);
    [1, 2, 4, 5].into_iter().for_each(|number| world.insert(key(number), &[1; 980]));
    assert_eq!(world.tree.dirty_nodes(), 1);
    world.insert(key(3), &[2; VALUE_MAX]);
    let tree = checkpoint(&mut world);
    assert_eq!((tree.levels[&0].0, tree.levels[&1].0), (3, 1));
}

/// A tree without a model: large ones are checked at the end only.
struct Large {
    memory: Arc<Memory>,
    tree: Tree,
    generation: u64,
    written: usize,
}

impl Large {
    fn checkpoint(&mut self) -> Root {
        self.generation += 1;
        let first = self.written as u64;
        let take = |count| Ok::<_, Infallible>((first..first + count as u64).map(BlockNo).collect());
        let Ok(out) = self.tree.write_out(self.generation, take);
        self.written += out.blocks.len();
        out.blocks.into_iter().for_each(|(place, block)| self.memory.write(place, block));
        self.tree.settle();
        out.root
    }
}

/// 200,000 items in random order, with a checkpoint after each 2,000. The cache holds a tenth of the tree.
#[test]
fn large_trees_are_flat_and_checkpoints_write_few_nodes() {
    const COUNT: u64 = 200_000;
    let memory = Arc::new(Memory::default());
    let tree = Tree::new(memory.clone(), UUID, 700);
    let mut large = Large { memory, tree, generation: 0, written: 0 };
    for (done, number) in (1..).zip(shuffled(COUNT)) {
        now(large.tree.insert(key(number), VALUE.as_slice().into())).unwrap();
        if done % 2000 == 0 {
            large.checkpoint();
        }
    }
    let root = large.checkpoint();
    let tree = Stored::read(&large.memory, root);
    assert!(tree.items.len() == COUNT as usize && root.level == 2, "{:?}", tree.levels);
    let per_insert = large.written as f64 / COUNT as f64;
    assert!(per_insert < 1.0, "{per_insert} nodes written for each insert");
}

#[test]
fn futures_go_to_other_threads() {
    fn sendable(_: impl Send) {}
    let memory = Arc::new(Memory::default());
    let mut tree = Tree::new(memory, UUID, 10);
    sendable(tree.get(key(0)));
    sendable(tree.next(key(0)));
    sendable(tree.insert(key(0), [].into()));
    sendable(tree.remove(key(0)));
    let mut scan = stripewise_rafs::tree::Scan::over(key(0)..=key(1));
    sendable(scan.batch(&tree));
}
