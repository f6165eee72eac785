//! Single cases.

use stripewise_device::IoErrorKind;
use stripewise_format::rafs::{
    anchor::{Anchor, AnchorError},
    journal::{Change, RecordId},
    key::{Key, KeyKind},
    superblock::FIRST_JOURNAL_STRIPE,
};

use super::{stored::Stored, *};
use crate::{
    journal::ReplayError,
    shape::{BLOCK_BYTES, Cell, Order, StripeNo},
    store::{Ground, GroundError, OpenError, Purpose, Store, read_anchor},
};

/// The first image of these that suits.
fn image(suits: impl Fn(&Image) -> bool) -> Image {
    (0..60).map(Image::make).find(|image| suits(image)).expect("some image suits")
}

fn has_records(image: &Image) -> bool {
    now(check(&as_volume(&Arc::new(image.volume.copy())))).unwrap().records > 0
}

/// Mends it, and looks at whether all is as it was.
fn assert_all_is_there(image: &Image, volume: &Arc<TestVolume>) {
    assert!(mended(volume).unwrap().is_changed);
    assert_eq!(problems(volume), []);
    assert!(image::read(volume, 1) == image.tree);
}

/// A second look at a file system without damage writes nothing.
#[test]
fn what_is_good_stays_as_it_is() {
    let image = Image::make(3);
    let volume = Arc::new(image.volume.copy());
    assert_eq!(problems(&volume), []);
    let before = volume.bytes_now();
    assert!(!mended(&volume).unwrap().is_changed);
    assert!(volume.bytes_now() == before);
}

/// The newer anchor is lost, and with it the way to the newest tree and the place of the first record behind it.
#[test]
fn nothing_is_lost_with_the_newest_anchor() {
    let image = image(has_records);
    let volume = Arc::new(image.volume.copy());
    let stored = Stored::read(&volume.bytes_now(), volume.geometry, image.order);
    for copy in stored.copies(stored.superblock.anchor_places()[stored.newest]) {
        volume.poke(copy, &[0x77; BLOCK_BYTES]);
    }
    // The older tree is whole: only the journal tells that it is not the newest.
    let opened = now(async {
        let volume = as_volume(&volume);
        let ground = Ground::read(&*volume).await.unwrap();
        Store::open(volume, ground, 16, Purpose::Write).await.map(drop)
    });
    assert!(matches!(opened, Err(OpenError::Replay(ReplayError::NewerAnchor { .. }))), "{opened:?}");
    assert!(problems(&volume).iter().any(|problem| matches!(problem, Problem::NewerTree { .. })));
    assert_all_is_there(&image, &volume);
}

/// The newest anchor's place has an older one again, and a record of its epoch begins where its first one would: only if that is whole, it
/// tells that the anchor was durable.
#[test]
fn what_only_looks_like_a_later_record_tells_of_no_later_anchor() {
    let with_older_anchor = |image: &Image| {
        let volume = Arc::new(image.volume.copy());
        let stored = Stored::read(&volume.bytes_now(), volume.geometry, image.order);
        let places = stored.superblock.anchor_places();
        let read = |at: usize| {
            now(read_anchor(&*as_volume(&volume), &stored.superblock, places[at])).unwrap().unwrap()
        };
        let (newest, older) = (read(stored.newest), read(1 - stored.newest));
        let place = places[stored.newest];
        let oldest = Anchor { generation: older.generation - 1, ..older };
        for copy in stored.copies(place) {
            volume.poke(copy, &oldest.encode(place, stored.superblock.uuid));
        }
        (volume, stored, newest, older)
    };
    let image = image(|image| {
        let (volume, _, newest, older) = with_older_anchor(image);
        newest.root.generation > older.root.generation && problems(&volume).is_empty()
    });
    for is_whole in [false, true] {
        let (volume, stored, newest, _) = with_older_anchor(&image);
        let (geometry, journal) = (volume.geometry, stored.superblock.journal_stripes);
        let id = RecordId {
            uuid: stored.superblock.journal_id(),
            epoch: newest.journal.epoch,
            sequence: newest.journal.sequence,
        };
        let none: [Vec<u8>; 0] = [];
        let change = Change::Delete(Key::new(u64::MAX, KeyKind::Inode, 0));
        let mut record = id.encode(&[change], &none, geometry.data_columns()).unwrap().bytes;
        record[BLOCK_BYTES - 1] ^= u8::from(!is_whole);
        let rows = journal * u64::from(geometry.rows());
        let row = newest.journal.block / u64::from(geometry.data_columns()) % rows;
        let cell = Cell { row: (row % u64::from(geometry.rows())) as u32, column: 0 };
        let stripe = StripeNo(FIRST_JOURNAL_STRIPE + row / u64::from(geometry.rows()));
        let block = geometry.block(stripe, geometry.slot(Order::Columns, cell));
        volume.poke(geometry.offset_bytes(Order::Columns, block), &record);
        let is_told = problems(&volume).iter().any(|problem| matches!(problem, Problem::NewerTree { .. }));
        assert_eq!(is_told, is_whole);
    }
}

/// A mount that writes would destroy what the lost one led to, even if no record tells of it.
#[test]
fn no_mount_writes_while_an_anchor_is_lost() {
    let image = Image::make(3);
    let stored = Stored::read(&image.volume.bytes_now(), image.volume.geometry, image.order);
    for place in stored.superblock.anchor_places() {
        let volume = Arc::new(image.volume.copy());
        for copy in stored.copies(place) {
            volume.poke(copy, &[0x77; BLOCK_BYTES]);
        }
        let before = volume.bytes_now();
        let env = TestEnv::new(1);
        let mounted = image::try_mount(&env, &volume).map(drop);
        assert!(matches!(mounted, Err(MountError::LostAnchor(_))), "{mounted:?}");
        assert!(volume.bytes_now() == before);
        assert_all_is_there(&image, &volume);
    }
}

/// The medium has lost all copies of an anchor: it is as lost as one with other bytes.
#[test]
fn an_anchor_that_cannot_be_read_is_lost() {
    let image = Image::make(3);
    let stored = Stored::read(&image.volume.bytes_now(), image.volume.geometry, image.order);
    for kind in [IoErrorKind::Medium, IoErrorKind::BadBlock] {
        for place in stored.superblock.anchor_places() {
            let volume = Arc::new(image.volume.copy());
            stored.copies(place).into_iter().for_each(|copy| volume.spoil_block(copy, kind));
            let ground = now(Ground::read(&*volume)).unwrap();
            assert_eq!(ground.lost_anchor, Some(AnchorError::Unread));
            let mounted = image::try_mount(&TestEnv::new(1), &volume).map(drop);
            assert!(matches!(mounted, Err(MountError::LostAnchor(AnchorError::Unread))), "{mounted:?}");
            assert!(problems(&volume).iter().any(|problem| matches!(problem, Problem::Anchor { .. })));
            assert_all_is_there(&image, &volume);
        }
    }
}

/// One whose member is gone may come back: nothing is written in its place.
#[test]
fn an_anchor_that_cannot_be_read_just_now_is_kept() {
    let image = Image::make(3);
    for has_rotted in [true, false] {
        let volume = Arc::new(image.volume.copy());
        let stored = Stored::read(&volume.bytes_now(), volume.geometry, image.order);
        let copies = stored.copies(stored.superblock.anchor_places()[stored.newest]);
        copies[1..].iter().for_each(|copy| volume.spoil_block(*copy, IoErrorKind::Gone));
        match has_rotted {
            true => volume.poke(copies[0], &[0x77; BLOCK_BYTES]),
            false => volume.spoil_block(copies[0], IoErrorKind::Medium),
        }
        let before = volume.bytes_now();
        assert!(matches!(mended(&volume), Err(RepairError::Open(MountError::Ground(GroundError::Io(_))))));
        assert!(volume.bytes_now() == before);
    }
}

/// What cannot be read just now is not given up: a repair ends with an error, and writes nothing.
#[test]
fn what_may_be_read_another_time_is_not_given_up() {
    let image = image(|image| image.tree.len() > 20);
    let stored = Stored::read(&image.volume.bytes_now(), image.volume.geometry, image.order);
    let journal = stored.offset(FIRST_JOURNAL_STRIPE * u64::from(image.volume.geometry.stripe_blocks()));
    let places = stored.nodes.iter().map(|node| node.offset).chain([journal]);
    for (at, offset) in places.enumerate() {
        let volume = Arc::new(image.volume.copy());
        let kinds = [IoErrorKind::Gone, IoErrorKind::Silent, IoErrorKind::NoRuntime, IoErrorKind::Other];
        let kind = kinds[at % kinds.len()];
        volume.spoil_block(offset, kind);
        let before = volume.bytes_now();
        let result = mended(&volume);
        assert!(
            matches!(result, Err(RepairError::Open(MountError::Ground(GroundError::Io(error)))) if error.kind == kind),
            "{result:?}"
        );
        assert!(volume.bytes_now() == before);
        volume.unspoil();
        assert_eq!(problems(&volume), []);
    }
}

/// Nodes are looked for all over the volume: a block that cannot be read just now may be one of them.
#[test]
fn no_node_is_given_up_while_some_block_may_be_it() {
    let image = image(|image| image.tree.len() > 20);
    let volume = Arc::new(image.volume.copy());
    let stored = Stored::read(&volume.bytes_now(), volume.geometry, image.order);
    volume.poke(stored.leaves()[0].offset, &[0; BLOCK_BYTES]);
    let nodes: BTreeSet<u64> = stored.nodes.iter().map(|node| node.head.place).collect();
    let first = stored.superblock.first_group_stripe() * u64::from(volume.geometry.stripe_blocks());
    let other = (first..).find(|place| !nodes.contains(place)).unwrap();
    volume.spoil_block(stored.offset(other), IoErrorKind::Gone);
    let before = volume.bytes_now();
    assert!(matches!(mended(&volume), Err(RepairError::Open(MountError::Ground(GroundError::Io(_))))));
    assert!(volume.bytes_now() == before);
    volume.unspoil();
    volume.spoil_block(stored.offset(other), IoErrorKind::Medium);
    assert!(mended(&volume).unwrap().is_changed);
}

/// A row of the journal that the medium has lost keeps nobody from what is elsewhere, and a repair writes it anew.
#[test]
fn a_row_of_the_journal_that_cannot_be_read_is_written_anew() {
    let image = image(|image| !has_records(image));
    for row in [0, 3] {
        let volume = Arc::new(image.volume.copy());
        volume.spoil(StripeNo(FIRST_JOURNAL_STRIPE + 1), row);
        assert!(problems(&volume).iter().any(|problem| matches!(problem, Problem::Journal { .. })));
        assert_all_is_there(&image, &volume);
    }
}

/// Blocks of files are in the journal only.
fn has_data(image: &Image) -> bool {
    let volume = as_volume(&Arc::new(image.volume.copy()));
    !now(Plan::make(&volume, 0, &Progress::silent())).unwrap().data.is_empty()
}

/// Power fails while a checkpoint is made, and then the older anchor rots.
#[test]
fn what_was_synced_outlives_a_checkpoint_that_did_not_end_and_a_rotten_anchor() {
    let image = image(has_data);
    for seed in 0..300 {
        let volume = Arc::new(image.volume.copy());
        let env = TestEnv::new(seed);
        let fs = image::mount(&env, &volume);
        volume.stop_after(seed % 24);
        let _ = env.run(async move { fs.checkpoint().await });
        env.end();
        // What lies in front is lost: blocks of files, not nodes.
        let mut left = fastrand::Rng::with_seed(seed).u32(0..400);
        volume.lose_power(|| {
            left = left.saturating_sub(1);
            left == 0
        });
        let stored = Stored::read(&volume.bytes_now(), volume.geometry, image.order);
        for copy in stored.copies(stored.superblock.anchor_places()[1 - stored.newest]) {
            volume.poke(copy, &[0x77; BLOCK_BYTES]);
        }
        assert_all_is_there(&image, &volume);
    }
}

/// The newest anchor is lost, and power fails while that is mended: of all that was written, blocks of files are lost first.
#[test]
fn what_was_synced_outlives_a_repair_that_did_not_end_and_a_lost_anchor() {
    let image = image(has_data);
    for seed in 0..200 {
        let volume = Arc::new(image.volume.copy());
        let stored = Stored::read(&volume.bytes_now(), volume.geometry, image.order);
        for copy in stored.copies(stored.superblock.anchor_places()[stored.newest]) {
            volume.poke(copy, &[0x77; BLOCK_BYTES]);
        }
        volume.stop_after(seed % 8);
        let _ = mended(&volume);
        let mut left = fastrand::Rng::with_seed(seed).u32(0..24);
        volume.lose_power(|| {
            left = left.saturating_sub(1);
            left == 0
        });
        mended(&volume).unwrap();
        assert_eq!(problems(&volume), []);
        assert!(image::read(&volume, 1) == image.tree, "seed {seed}");
    }
}

/// Blocks of files that are in the journal only are so no more after a repair, which begins the journal anew.
#[test]
fn what_is_in_the_journal_only_is_written_out() {
    let image = image(has_data);
    let volume = Arc::new(image.volume.copy());
    let stored = Stored::read(&volume.bytes_now(), volume.geometry, image.order);
    let group = |item: &&stripewise_format::rafs::node::Item| item.key.kind == KeyKind::Group;
    let leaf = stored.leaves().into_iter().find(|leaf| leaf.items().iter().any(|item| group(&item))).unwrap();
    let rest: Vec<_> = leaf.items().into_iter().filter(|item| !group(&item)).collect();
    leaf.rewrite(&volume, &rest);
    assert_all_is_there(&image, &volume);
    assert_eq!(now(check(&as_volume(&volume))).unwrap().records, 0);
}

/// Two nodes lie in each other's places: each is found, and nothing is lost.
#[test]
fn nodes_in_wrong_places_are_found_there() {
    let image = image(|image| {
        Stored::read(&image.volume.bytes_now(), image.volume.geometry, image.order).nodes.len() > 6
    });
    let bytes = image.volume.bytes_now();
    let stored = Stored::read(&bytes, image.volume.geometry, image.order);
    for pair in stored.nodes.windows(2) {
        let volume = Arc::new(image.volume.copy());
        for (from, to) in [(&pair[0], &pair[1]), (&pair[1], &pair[0])] {
            volume.poke(to.offset, &bytes[from.offset as usize..][..BLOCK_BYTES]);
        }
        assert_all_is_there(&image, &volume);
    }
}

/// Two files have one block, and no CRC tells whose it is: both have its bytes then, each for itself.
#[test]
fn blocks_with_two_owners_are_copied() {
    let mut tells = 0;
    for seed in 0..40 {
        let image = Image::make(seed);
        let volume = Arc::new(image.volume.copy());
        let stored = Stored::read(&volume.bytes_now(), volume.geometry, image.order);
        let leaves = stored.leaves();
        let plain = |item: &stripewise_format::rafs::node::Item| {
            item.key.kind == KeyKind::Extent && Extent::decode(&item.value).unwrap().crcs.is_none()
        };
        let all: Vec<_> = leaves.iter().flat_map(|leaf| leaf.items()).filter(|item| plain(item)).collect();
        let Some(other) = all.iter().find(|other| other.key.object != all[0].key.object) else { continue };
        let leaf = leaves.iter().find(|leaf| leaf.items().contains(other)).unwrap();
        let mut items = leaf.items();
        items
            .iter_mut()
            .filter(|item| item.key == other.key)
            .for_each(|item| item.value = all[0].value.clone());
        leaf.rewrite(&volume, &items);
        assert!(problems(&volume).iter().any(|problem| matches!(problem, Problem::TwoOwners { .. })));
        mended(&volume).unwrap();
        assert_eq!(problems(&volume), []);
        let found = image::read(&volume, 1);
        let kept = image.tree.iter().filter(|(_, file)| file.inode != other.key.object);
        kept.for_each(|(path, file)| assert!(found[path].content == file.content, "{path:?}"));
        tells += 1;
    }
    assert!(tells > 2);
}

/// Two files of which one has the other one's extent without CRCs, as its own.
fn with_two_owners() -> (Arc<TestVolume>, Extent) {
    let image = image(|image| image.tree.len() > 20 && !has_records(image));
    let volume = Arc::new(image.volume.copy());
    let stored = Stored::read(&volume.bytes_now(), volume.geometry, image.order);
    let leaves = stored.leaves();
    let checked = checked_extents(&stored);
    let (_, owner) = checked.iter().find(|(_, extent)| extent.blocks > 1).cloned().unwrap();
    let plain = Extent { crcs: None, ..owner.clone() };
    for leaf in leaves {
        let mut items = leaf.items();
        let is_extent = |item: &&mut stripewise_format::rafs::node::Item| item.key.kind == KeyKind::Extent;
        for item in items.iter_mut().filter(is_extent) {
            let extent = Extent::decode(&item.value).unwrap();
            if extent == owner || item.key == checked[checked.len() - 1].0 {
                item.value = plain.encode().into();
            }
        }
        leaf.rewrite(&volume, &items);
    }
    (volume, plain)
}

/// A plan notes whose blocks are copied, and reads none of them for keeps: many extents may have the same blocks.
#[test]
fn a_plan_holds_no_bytes_of_blocks_that_are_copied() {
    let (volume, plain) = with_two_owners();
    let plan = now(Plan::make(&as_volume(&volume), 0, &Progress::silent())).unwrap();
    assert!(plan.data.is_empty());
    assert_eq!(plan.copies.blocks, u64::from(plain.blocks));
    let runs: Vec<_> =
        plan.copies.runs.iter().map(|one| (one.is.extent.place, one.is.extent.blocks)).collect();
    assert_eq!(runs, [(plain.place, plain.blocks)]);
    assert!(mended(&volume).unwrap().is_changed);
    assert_eq!(problems(&volume), []);
}

/// More copies than there are free blocks are refused before one is written, and a plan does not list them.
#[test]
fn more_copies_than_have_room_are_refused() {
    let (volume, _) = with_two_owners();
    let shared = as_volume(&volume);
    let mut plan = now(Plan::make(&shared, 0, &Progress::silent())).unwrap();
    let copied = plan.copies.runs[0].clone();
    for _ in 0..100_000 {
        plan.copies.add(copied.clone(), plan.referred.free());
    }
    assert!(plan.copies.runs.is_empty());
    let before = volume.bytes_now();
    let mut mend = Mend { volume: &shared, plan };
    assert!(matches!(now(mend.tree(&Progress::silent())), Err(RepairError::NoSpace { .. })));
    assert!(volume.bytes_now() == before);
}

/// Where there is no room, nothing is changed.
#[test]
fn without_room_nothing_is_changed() {
    let image = Image::make(5);
    let volume = Arc::new(image.volume.copy());
    let stored = Stored::read(&volume.bytes_now(), volume.geometry, image.order);
    let leaf = stored.leaves()[0].clone();
    volume.poke(leaf.offset, &[0; BLOCK_BYTES]);
    let mut plan = now(Plan::make(&as_volume(&volume), 0, &Progress::silent())).unwrap();
    for group in 0..plan.referred.groups() {
        plan.referred.blocks_of(group).for_each(|block| plan.referred.add(block));
    }
    let before = volume.bytes_now();
    let shared = as_volume(&volume);
    let mut mend = Mend { volume: &shared, plan };
    assert!(matches!(now(mend.tree(&Progress::silent())), Err(RepairError::NoSpace { .. })));
    assert!(volume.bytes_now() == before);
}

/// The extents whose blocks have CRCs.
fn checked_extents(stored: &Stored) -> Vec<(Key, Extent)> {
    let items = stored.leaves().into_iter().flat_map(|leaf| leaf.items());
    let extents = items.filter(|item| item.key.kind == KeyKind::Extent);
    let decoded = extents.map(|item| (item.key, Extent::decode(&item.value).unwrap()));
    decoded.filter(|(_, extent)| extent.crcs.is_some()).collect()
}

/// An extent leads to another file's blocks, whose CRCs match: it becomes a hole, and tells nothing of that file.
#[test]
fn a_crc_tells_whose_a_block_is() {
    let image = image(|image| image.tree.len() > 20 && !has_records(image));
    let stored = Stored::read(&image.volume.bytes_now(), image.volume.geometry, image.order);
    let (leaves, checked) = (stored.leaves(), checked_extents(&stored));
    let (owner, of_owner) = checked[0].clone();
    let fits =
        |(key, extent): &&(Key, Extent)| key.object != owner.object && extent.blocks <= of_owner.blocks;
    let (thief, of_thief) = checked.iter().rfind(fits).cloned().unwrap();
    // Its own CRCs do not match there; or it has none.
    for crcs in [of_thief.crcs.clone(), None] {
        let volume = Arc::new(image.volume.copy());
        let leaf = leaves.iter().find(|leaf| leaf.items().iter().any(|item| item.key == thief)).unwrap();
        let mut items = leaf.items();
        let stolen = Extent { place: of_owner.place, blocks: of_thief.blocks, crcs };
        items
            .iter_mut()
            .filter(|item| item.key == thief)
            .for_each(|item| item.value = stolen.encode().into());
        leaf.rewrite(&volume, &items);
        mended(&volume).unwrap();
        assert_eq!(problems(&volume), []);
        let found = image::read(&volume, 1);
        for (path, file) in &image.tree {
            if file.inode == thief.object {
                let bytes = &found[path].content.as_ref().unwrap().0;
                let from = bytes.len().min(thief.offset as usize * BLOCK_BYTES);
                let to = bytes.len().min(from + stolen.blocks as usize * BLOCK_BYTES);
                assert!(bytes[from..to].iter().all(|byte| *byte == 0), "{path:?} has bytes of another file");
            } else {
                assert!(found[path].content == file.content, "{path:?}");
            }
        }
    }
}

/// Of an extent one block has two owners, and another one is damaged: that is no hole, but told by reads, as without the first.
#[test]
fn a_damaged_block_beside_one_with_two_owners_stays() {
    let image = image(|image| image.tree.len() > 20 && !has_records(image));
    let stored = Stored::read(&image.volume.bytes_now(), image.volume.geometry, image.order);
    let (leaves, checked) = (stored.leaves(), checked_extents(&stored));
    let (owner, of_owner) = checked.iter().find(|(_, extent)| extent.blocks > 1).cloned().unwrap();
    let (thief, of_thief) = checked.iter().rfind(|(key, _)| key.object != owner.object).cloned().unwrap();
    let volume = Arc::new(image.volume.copy());
    let leaf = leaves.iter().find(|leaf| leaf.items().iter().any(|item| item.key == thief)).unwrap();
    let mut items = leaf.items();
    let crcs = of_thief.crcs.map(|crcs| crcs[..1].to_vec());
    let stolen = Extent { place: of_owner.place, blocks: 1, crcs };
    items.iter_mut().filter(|item| item.key == thief).for_each(|item| item.value = stolen.encode().into());
    leaf.rewrite(&volume, &items);
    volume.poke(stored.offset(of_owner.place + 1), &[0xA5; 100]);
    mended(&volume).unwrap();
    let found = image::read(&volume, 1);
    let (path, _) = image.tree.iter().find(|(_, file)| file.inode == owner.object).unwrap();
    assert_eq!(found[path].content.as_ref().unwrap().0, b"unreadable", "{path:?}");
}
