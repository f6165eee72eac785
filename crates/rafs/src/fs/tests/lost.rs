//! Nodes of the tree that cannot be read: what needs one fails, and changes nothing.

use std::sync::atomic::Ordering;

use stripewise_device::IoErrorKind;
use stripewise_format::rafs::{
    block::{BlockKind, open},
    key::{Key, KeyKind},
    node::Node,
};

use super::{super::sync::Ticket, *};
use crate::{shape::BlockNo, tree::Scan};

/// Where the nodes of the tree lie.
pub(super) fn nodes(world: &World) -> Vec<u64> {
    let (bytes, geometry) = (world.volume.bytes_now(), world.volume.geometry());
    let taken = world.run(move |fs| {
        Box::pin(async move {
            let state = fs.shared.state.lock().await;
            (0..geometry.blocks()).filter(|place| state.store.is_taken(BlockNo(*place))).collect::<Vec<_>>()
        })
    });
    let offsets = taken.into_iter().map(|place| geometry.offset_bytes(Order::Rows, BlockNo(place)));
    offsets.filter(|at| bytes[*at as usize..].starts_with(&BlockKind::Node.magic())).collect()
}

/// The leaf that has this key cannot be read any more.
fn spoil_leaf_of(world: &World, key: Key) {
    let bytes = world.volume.bytes_now();
    let has_key = |at: &u64| {
        let block = &bytes[*at as usize..][..BLOCK_BYTES];
        let (_, payload) = open(block, BlockKind::Node).unwrap();
        matches!(Node::decode(payload), Ok(Node::Leaf(items)) if items.iter().any(|item| item.key == key))
    };
    let leaf = nodes(world).into_iter().find(has_key).unwrap();
    world.volume.spoil_block(leaf, IoErrorKind::Medium);
}

/// A tree of many leaves.
fn fill(world: &mut World) {
    for number in 0..24 {
        world.act(&Action::Create { folder: number, name: number / 2, file_type: FileType::Folder });
        world.act(&Action::Create { folder: number, name: number, file_type: FileType::File });
    }
    for number in 0..100 {
        let offset_bytes = u32::from(number) % 7 * 9000;
        world.act(&Action::Write { file: number, offset_bytes, len: 9000 });
        world.act(&Action::SetAttribute { file: number, name: number % 3, len: 290 });
    }
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    world.model.synced(None);
    // What is lost is not in memory.
    let stripe_blocks = world.volume.geometry().stripe_blocks();
    let options = MountOptions { cached_nodes: 1, ..options(stripe_blocks) };
    world.fs = mount_with(&world.env, &world.volume, options);
}

fn lost(choice: prop::sample::Index, actions: &[Action]) {
    let mut world = World::new((4, 4), 300, Order::Rows, 0);
    fill(&mut world);
    let nodes = nodes(&world);
    world.volume.spoil_block(nodes[choice.index(nodes.len())], IoErrorKind::Medium);
    world.is_failing = true;
    for action in actions {
        world.act(action);
    }
    world.volume.unspoil();
    world.is_failing = false;
    world.act(&Action::Sync);
    world.look();
    world.act(&Action::Remount);
}

/// What needs no device but for reads, and leaves the mount as it is.
fn plain_action() -> impl Strategy<Value = Action> {
    action().prop_filter("a mount that goes on", |action| {
        use Action::{Crash, FailAfter, GoWell, Remount, StopAfter};
        !matches!(action, Crash(_) | FailAfter(_) | GoWell | Remount | StopAfter(_))
    })
}

/// A mount without a journal, and two files, one of which has many extents. Little of the tree is in memory.
fn spread_and_sound() -> (World, u64, u64) {
    let mut world = World::new((4, 16), 400, Order::Rows, 0);
    let [spread, sound] = [b"lost", b"good"].map(|name| single::file(&world, name, &[9; BLOCK_BYTES]));
    let block = IoBuf::copy_of(&[9; BLOCK_BYTES]).freeze();
    for at in (0..1500).step_by(2) {
        let block = block.clone();
        world.run(move |fs| Box::pin(fs.write(spread, at * BLOCK_BYTES as u64, block))).unwrap();
    }
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    let stripe_blocks = world.volume.geometry().stripe_blocks();
    let options = MountOptions { cached_nodes: 1, journal: JournalMode::None, ..options(stripe_blocks) };
    world.fs = mount_with(&world.env, &world.volume, options);
    for inode in [spread, sound] {
        world.run(move |fs| Box::pin(fs.attr(inode))).unwrap();
    }
    (world, spread, sound)
}

/// A task's fsync fails if its own file cannot be written out, and not if another task's cannot.
#[test]
fn a_lost_file_keeps_no_other_one_from_being_synced() {
    let (world, lost, sound) = spread_and_sound();
    let block = IoBuf::copy_of(&[9; BLOCK_BYTES]).freeze();
    spoil_leaf_of(&world, Key::new(lost, KeyKind::Extent, 1000));
    for (inode, at) in [(lost, 1000), (sound, 0)] {
        let block = block.clone();
        world.run(move |fs| Box::pin(fs.write(inode, at * BLOCK_BYTES as u64, block))).unwrap();
    }
    let renamed = world.run(|fs| Box::pin(fs.rename((ROOT, b"lost"), (ROOT, b"good"), Rename::Replace)));
    assert!(matches!(renamed, Err(FsError::Store(_))), "{renamed:?}");
    // Another task waits for the lost file, too.
    let waits: Ticket = Arc::new((lost, false.into()));
    let ticket = waits.clone();
    world.run(move |fs| Box::pin(async move { fs.shared.syncs.lock().push(ticket) }));
    let synced = world.run(move |fs| Box::pin(fs.fsync(lost)));
    assert!(matches!(synced, Err(FsError::Store(_))), "{synced:?}");
    assert_eq!(world.run(move |fs| Box::pin(fs.fsync(sound))), Ok(()));
    assert!(!waits.1.load(Ordering::Acquire));
    world.volume.unspoil();
    assert_eq!(world.run(move |fs| Box::pin(fs.fsync(lost))), Ok(()));
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    world.check();
}

/// What has replaced another file comes along with all commits, unless it can no longer be written out.
#[test]
fn a_file_that_is_lost_after_a_rename_keeps_no_other_one_from_being_synced() {
    let (world, lost, sound) = spread_and_sound();
    let block = IoBuf::copy_of(&[9; BLOCK_BYTES]).freeze();
    let write = |world: &World, inode: u64| {
        let block = block.clone();
        world.run(move |fs| Box::pin(fs.write(inode, 1000 * BLOCK_BYTES as u64, block)))
    };
    spoil_leaf_of(&world, Key::new(lost, KeyKind::Extent, 1000));
    write(&world, lost).unwrap();
    // As if it had been renamed over another one before.
    world.run(move |fs| Box::pin(async move { fs.shared.state.lock().await.replacing.insert(lost) }));
    let refused = write(&world, lost);
    assert!(matches!(refused, Err(FsError::Store(_))), "{refused:?}");
    write(&world, sound).unwrap();
    assert_eq!(world.run(move |fs| Box::pin(fs.fsync(sound))), Ok(()));
    assert!(world.run(move |fs| Box::pin(fs.fsync(lost))).is_err());
    world.volume.unspoil();
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    world.check();
}

/// A change that no commit could tell of is refused. Else it would keep all others from being committed.
#[test]
fn a_file_whose_inode_is_lost_takes_no_change() {
    let mut world = World::new((4, 16), 400, Order::Rows, 0);
    let lost = single::file(&world, b"lost", &[9; 100]);
    for number in 0..300 {
        let name: &'static [u8] = Box::leak(format!("file {number}").into_boxed_str().into_boxed_bytes());
        single::file(&world, name, &[8; 100]);
    }
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    world.fs = mount_with(&world.env, &world.volume, MountOptions { cached_nodes: 1, ..options(64) });
    let other = world.run(|fs| Box::pin(fs.lookup(ROOT, b"file 299"))).unwrap().inode;
    world.run(|fs| Box::pin(fs.lookup(ROOT, b"lost"))).unwrap();
    world.run(|fs| Box::pin(fs.lookup(ROOT, b"file 298"))).unwrap();
    spoil_leaf_of(&world, Key::new(lost, KeyKind::Inode, 0));
    let block = IoBuf::copy_of(&[9; BLOCK_BYTES]).freeze();
    let (written, again) = (block.clone(), block.clone());
    assert!(matches!(world.run(move |fs| Box::pin(fs.write(lost, 0, written))), Err(FsError::Store(_))));
    let mode = SetAttr { permissions: Some(0o600), ..SetAttr::default() };
    assert!(matches!(world.run(move |fs| Box::pin(fs.set_attr(lost, mode))), Err(FsError::Store(_))));
    let set = world.run(move |fs| Box::pin(fs.set_attribute(lost, b"user.a", b"b", SetAttribute::Either)));
    assert!(matches!(set, Err(FsError::Store(_))));
    assert_eq!(world.run(move |fs| Box::pin(fs.write(other, 0, again))), Ok(BLOCK_BYTES));
    assert_eq!(world.run(move |fs| Box::pin(fs.fsync(other))), Ok(()));
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
}

/// Its extents are freed in several steps. Each reads first where its other items are.
#[test]
fn a_file_of_many_extents_and_a_lost_attribute_is_put_off() {
    let mut world = World::new((4, 16), 400, Order::Rows, 0);
    let inode = single::file(&world, b"file", &[9; BLOCK_BYTES]);
    let block = IoBuf::copy_of(&[9; BLOCK_BYTES]).freeze();
    for at in (0..1500).step_by(2) {
        let block = block.clone();
        world.run(move |fs| Box::pin(fs.write(inode, at * BLOCK_BYTES as u64, block))).unwrap();
    }
    for name in 0..40_u8 {
        world
            .run(move |fs| {
                Box::pin(async move {
                    fs.set_attribute(inode, &[b'a' + name], &[1; 1000], SetAttribute::Either).await
                })
            })
            .unwrap();
    }
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    world.fs = mount_with(&world.env, &world.volume, MountOptions { cached_nodes: 1, ..options(64) });
    let key = world.run(move |fs| {
        Box::pin(async move {
            let state = fs.shared.state.lock().await;
            let all = Key::new(inode, KeyKind::Xattr, 0)..=Key::new(inode, KeyKind::Xattr, u64::MAX);
            let mut scan = Scan::over(all);
            scan.batch(state.store.tree()).await.unwrap();
            scan.batch(state.store.tree()).await.unwrap().unwrap()[0].key
        })
    });
    spoil_leaf_of(&world, key);
    world.run(|fs| Box::pin(fs.unlink(ROOT, b"file"))).unwrap();
    world.env.pass(Duration::from_secs(20));
    single::file(&world, b"other", &[1; 5000]);
    world.run(|fs| Box::pin(fs.sync())).unwrap();
    world.volume.unspoil();
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    world.fs = mount(&world.env, &world.volume);
    world.env.pass(Duration::from_secs(20));
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    assert_eq!(world.check().inodes, 2);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 3000, ..ProptestConfig::default() })]

    /// No change ends in the middle, after which nothing could be changed any more. Each was made, or was not.
    #[test]
    fn a_lost_node_ends_nothing(
        choice in any::<prop::sample::Index>(),
        actions in prop::collection::vec(plain_action(), 1..60),
    ) {
        lost(choice, &actions);
    }
}
