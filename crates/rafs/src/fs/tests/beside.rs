//! What goes on beside clients: a look at the last checkpoint's tree, and long write-outs.

use std::ops::Range;

use parking_lot::Mutex;
use stripewise_device::{Completion, Env, IoError, IoFuture, ReadBufs, ReadDone, SharedBuf};

use super::{single::file, *};
use crate::{
    check::{CheckError, Problem, Progress, check_mounted},
    shape::{Cell, StripeNo},
};

/// A volume whose reads take a millisecond: no time passes while clients work.
struct Sleepy(Arc<dyn Volume>, Arc<TestEnv>);

impl Volume for Sleepy {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        let (volume, slept) = (self.0.clone(), self.1.sleep(Duration::from_millis(1)));
        IoFuture::boxed(async move {
            slept.await;
            volume.read(offset_bytes, into).await
        })
    }

    fn read_rows(&self, stripe: StripeNo, rows: Range<u32>) -> IoFuture<Result<Vec<IoBuf>, IoError>> {
        self.0.read_rows(stripe, rows)
    }

    fn write_rows(&self, _: StripeNo, _: u32, _: &[SharedBuf]) -> Completion {
        unreachable!("a look changes nothing")
    }

    fn write_blocks(&self, _: StripeNo, _: &[(Cell, SharedBuf)]) -> Completion {
        unreachable!("a look changes nothing")
    }

    fn flush(&self) -> Completion {
        unreachable!("a look changes nothing")
    }

    fn discard(&self, _: Range<StripeNo>) -> Completion {
        unreachable!("a look changes nothing")
    }
}

type Looked = Arc<Mutex<Option<Result<Report, CheckError>>>>;

/// A look begins.
fn look_beside(world: &World) -> Looked {
    let looked = Looked::default();
    let (fs, env, tell) = (world.fs.clone(), world.env.clone(), looked.clone());
    world.env.spawn(Box::pin(async move {
        let sleepy = |volume| Arc::new(Sleepy(volume, env)) as Arc<dyn Volume>;
        let report = check_mounted(&fs, sleepy, &Progress::silent()).await;
        *tell.lock() = Some(report);
    }));
    looked
}

const SEEDS: u64 = 8;

/// What it has found.
fn ended(world: &World, looked: &Looked) -> Result<Report, CheckError> {
    loop {
        if let Some(found) = looked.lock().take() {
            return found;
        }
        world.env.pass(Duration::from_millis(1));
    }
}

fn slow_world(seed: u64) -> World {
    let mut world = World::new((4, 16), 300 + seed, Order::Rows, 6);
    for number in 0..60 {
        world.act(&Action::Create { folder: number, name: number, file_type: FileType::File });
        world.act(&Action::Write { file: number, offset_bytes: 5000 * u32::from(number % 3), len: 9000 });
        world.act(&Action::SetAttribute { file: number, name: number % 3, len: 290 });
    }
    world
}

#[test]
fn a_look_beside_clients_finds_the_last_checkpoint_as_it_was() {
    let mut overtaken = 0;
    for seed in 0..SEEDS {
        let mut world = slow_world(seed);
        world.act(&Action::Checkpoint);
        let wanted = world.check();
        let looked = look_beside(&world);
        let before = world.run(|fs| Box::pin(fs.counters())).checkpoints;
        world.env.pass(Duration::ZERO);
        let fs = world.fs.clone();
        let other = async move { check_mounted(&fs, |volume| volume, &Progress::silent()).await };
        assert_eq!(world.env.run(other), Err(CheckError::Busy));
        for number in 0..40 {
            world.act(&Action::Unlink { folder: number, name: number });
            world.act(&Action::SetAttribute { file: number, name: 1, len: 200 + u16::from(number) });
            world.act(&Action::Checkpoint);
            world.env.pass(Duration::from_millis(1));
            if looked.lock().is_some() {
                break;
            }
        }
        let checkpoints = world.run(|fs| Box::pin(fs.counters())).checkpoints - before;
        overtaken += u64::from(checkpoints > 2);
        let report = ended(&world, &looked).unwrap();
        assert_eq!(report.problems, []);
        assert_eq!((report.inodes, report.nodes, report.records), (wanted.inodes, wanted.nodes, 0));
        // Nothing is kept for it any more.
        world.act(&Action::Checkpoint);
        world.nothing_is_kept();
        let kept =
            world.run(|fs| Box::pin(async move { fs.shared.state.lock().await.store.kept_for_looks() }));
        assert_eq!(kept, 0);
        world.act(&Action::Remount);
    }
    assert_eq!(overtaken, SEEDS, "looks took several checkpoints each");
}

/// A look keeps no client from the last blocks.
#[test]
fn a_look_ends_where_space_is_short() {
    let world = slow_world(0);
    world.run(|fs| Box::pin(fs.checkpoint())).unwrap();
    let looked = look_beside(&world);
    world.env.pass(Duration::ZERO);
    let free = || world.run(|fs| Box::pin(async move { fs.usage().await.free_blocks }));
    let free_before = free();
    let inode = file(&world, b"full", &[1; BLOCK_BYTES]);
    let chunk = IoBuf::copy_of(&[2; 16 * BLOCK_BYTES]).freeze();
    let mut written = 0;
    loop {
        let chunk = chunk.clone();
        match world.run(move |fs| Box::pin(fs.write(inode, written * 16 * BLOCK_BYTES as u64, chunk))) {
            Ok(len) if len == 16 * BLOCK_BYTES => written += 1,
            Ok(_) | Err(FsError::NoSpace) => break,
            Err(error) => panic!("{error}"),
        }
        world.run(|fs| Box::pin(fs.checkpoint())).unwrap();
    }
    assert_eq!(ended(&world, &looked), Err(CheckError::Overwritten));
    assert!(written * 16 * 50 > free_before * 49, "{written} times 16 of {free_before} blocks were written");
    world.run(|fs| Box::pin(fs.sync())).unwrap();
    world.check();
}

#[test]
fn an_unmount_ends_a_look() {
    let world = slow_world(0);
    world.run(|fs| Box::pin(fs.checkpoint())).unwrap();
    let looked = look_beside(&world);
    world.run(|fs| Box::pin(async move { fs.attr(ROOT).await })).unwrap();
    assert!(looked.lock().is_none());
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    assert_eq!(looked.lock().take(), Some(Err(CheckError::Ended)));
    world.check();
}

/// What is wrong with the tree is told, and nothing is looked for elsewhere.
#[test]
fn a_look_beside_clients_tells_what_is_damaged() {
    let world = slow_world(0);
    world.run(|fs| Box::pin(fs.checkpoint())).unwrap();
    let node = lost::nodes(&world)[3];
    world.volume.poke(node + 100, &[0x5A; 64]);
    let fs = world.fs.clone();
    let report = world.env.run(async move { check_mounted(&fs, |volume| volume, &Progress::silent()).await });
    let problems = report.unwrap().problems;
    assert!(problems.iter().any(|problem| matches!(problem, Problem::Node { .. })), "{problems:?}");
}

/// A large fsync has its turn between two batches of a write-out of all.
#[test]
fn an_fsync_does_not_wait_for_all_that_other_files_have_buffered() {
    let stripe = 8 * BLOCK_BYTES;
    let mut world = World::new((2, 4), 2000, Order::Rows, 4);
    world.run(|fs| Box::pin(fs.unmount())).unwrap();
    world.fs = mount_with(&world.env, &world.volume, MountOptions { buffer_blocks: 4000, ..options(8) });
    let large: Vec<u64> = [b"1", b"2", b"3"].map(|name| file(&world, name, &vec![3; 80 * stripe])).to_vec();
    let small = file(&world, b"small", &vec![3; 3 * stripe / 4]);
    let synced = Arc::new(Mutex::new(false));
    let (fs, tell) = (world.fs.clone(), synced.clone());
    world.env.spawn(Box::pin(async move {
        fs.sync().await.unwrap();
        *tell.lock() = true;
    }));
    let waiting = |world: &World| world.run(|fs| Box::pin(async move { fs.usage().await.buffered_blocks }));
    // Each question lets other tasks take some steps.
    while waiting(&world) == 240 * 8 + 6 {}
    let before = waiting(&world);
    world.run(move |fs| Box::pin(fs.fsync(small))).unwrap();
    let left = waiting(&world);
    assert!(!*synced.lock() && left * 2 > before, "{left} blocks of {large:?} are left, and {before} were");
}
