//! Mounts that only read: of a journal with a rotten record, without the journal, and of features that only a later program may write.

use stripewise_format::rafs::superblock::{FIRST_JOURNAL_STRIPE, Superblock};

use super::{single::file, *};
use crate::{
    check::check,
    journal::ReplayError,
    shape::StripeNo,
    store::{Ground, GroundError, OpenError, write_row},
};

fn read_only() -> MountOptions {
    MountOptions { is_read_only: true, ..options(64) }
}

fn mounted(world: &World, options: MountOptions) -> Result<Fs, MountError> {
    let (env, volume): (EnvHandle, Arc<dyn Volume>) = (world.env.clone(), world.volume.clone());
    world.env.run(async move { Fs::mount(env, volume, options).await })
}

/// Whether the root has these files.
fn has(world: &World, fs: &Fs, names: [&'static [u8]; 3]) -> [bool; 3] {
    let fs = fs.clone();
    world.env.run(async move {
        let mut found = [false; 3];
        for (found, name) in found.iter_mut().zip(names) {
            *found = fs.lookup(ROOT, name).await.is_ok();
        }
        found
    })
}

const NAMES: [&[u8]; 3] = [b"one", b"two", b"three"];

/// A crash after three records, each of which made a file.
fn three_records() -> World {
    let mut world = single::plain();
    world.act(&Action::Checkpoint);
    for name in NAMES {
        let inode = file(&world, name, &[1; 4096]);
        world.run(move |fs| Box::pin(fs.fsync(inode))).unwrap();
    }
    world.run(|fs| Box::pin(fs.abandon()));
    world
}

#[test]
fn a_mount_for_reading_ends_before_a_rotten_record() {
    let world = three_records();
    let volume: Arc<dyn Volume> = world.volume.clone();
    let ground = world.env.run(async move { Ground::read(&*volume).await }).unwrap();
    let row = ground.anchor.1.journal.block / 4 + 1;
    world.volume.rot(StripeNo(FIRST_JOURNAL_STRIPE + row / 16), (row % 16) as u32);
    let before = world.volume.bytes_now();
    let refused = mounted(&world, options(64)).map(drop);
    assert!(
        matches!(refused, Err(MountError::Open(OpenError::Replay(ReplayError::Rotten { .. })))),
        "{refused:?}"
    );
    let fs = mounted(&world, read_only()).unwrap();
    assert!(matches!(fs.rotten_record(), Some(ReplayError::Rotten { .. })), "{:?}", fs.rotten_record());
    assert_eq!(has(&world, &fs, NAMES), [true, false, false]);
    world.env.run(async move { fs.unmount().await }).unwrap();
    assert!(world.volume.bytes_now() == before);
}

#[test]
fn a_mount_without_recovery_sees_the_last_checkpoint() {
    let world = three_records();
    let before = world.volume.bytes_now();
    for (repeats_journal, seen) in [(false, [false; 3]), (true, [true; 3])] {
        let fs = mounted(&world, MountOptions { repeats_journal, ..read_only() }).unwrap();
        assert_eq!((has(&world, &fs, NAMES), fs.rotten_record()), (seen, None));
        world.env.run(async move { fs.unmount().await }).unwrap();
    }
    assert!(world.volume.bytes_now() == before);
}

#[test]
fn features_that_only_a_later_program_may_write_can_be_read() {
    let world = three_records();
    let volume: Arc<dyn Volume> = world.volume.clone();
    world.env.run(async move {
        let ground = Ground::read(&*volume).await.unwrap();
        let superblock = Superblock { ro_compat: 4, ..ground.superblock };
        for place in superblock.places() {
            write_row(&*volume, place, &superblock.encode(place, 0)).await.unwrap();
        }
    });
    let unknown = MountError::Ground(GroundError::ReadOnly { bits: 4 });
    assert_eq!(mounted(&world, options(64)).map(drop), Err(unknown.clone()));
    let fs = mounted(&world, read_only()).unwrap();
    assert_eq!(has(&world, &fs, NAMES), [true; 3]);
    let volume: Arc<dyn Volume> = world.volume.clone();
    assert_eq!(world.env.run(async move { check(&volume).await }).map(drop), Err(unknown));
}
