//! A member lies: all that it has is garbage, and it tells no error. What has a CRC is found by redundancy, and healed.

#![allow(clippy::unwrap_used)]

use std::{sync::Arc, time::Duration};

use smallvec::smallvec;
use stripewise_device::{Device, IoBuf, WriteFlags, memory::MemoryDevice};
use stripewise_engine::{Array, CreateOptions, geometry::Level};
use stripewise_format::rafs::inode::FileType;
use stripewise_rafs::{
    fs::{Fs, FsError, MountOptions, NewInode, ROOT},
    shape::Order,
    store::MakeOptions,
    volume::{ArrayVolume, Volume},
};
use stripewise_sim::World;
use uuid::Uuid;

/// Of each member, and where its data begin.
const BYTES: u64 = 6 << 20;
const DATA_OFFSET_BYTES: u64 = 1 << 20;
const FILES: u64 = 60;

struct Ground {
    members: Vec<Arc<MemoryDevice>>,
    array: Array,
}

async fn make(env: stripewise_device::EnvHandle, level: Level, count: usize, order: Order) -> Ground {
    let members: Vec<_> =
        (0..count).map(|number| Arc::new(MemoryDevice::new(format!("memory{number}"), BYTES))).collect();
    let devices = members.iter().map(|member| member.clone() as Arc<dyn Device>).collect();
    let mut options = CreateOptions::new("lies", level, devices);
    options.chunk_bytes = 16384;
    options.assume_clean = true;
    let array = Array::create(env, options).await.unwrap();
    let volume = volume(&array);
    let made = MakeOptions {
        uuid: Uuid::from_u128(7),
        label: String::new(),
        created_us: 1,
        order,
        journal_stripes: Some(12),
        hash_seed: 3,
    };
    Fs::make(&volume, &made, (0, 0)).await.unwrap();
    Ground { members, array }
}

fn volume(array: &Array) -> Arc<dyn Volume> {
    Arc::new(ArrayVolume::new(array.clone()).unwrap())
}

/// The content of a file: some lie in the tree, others in blocks, none in a stripe of its own.
fn content(number: u64) -> Vec<u8> {
    let len = if number.is_multiple_of(3) { 900 } else { 5000 + number * 100 };
    (0..len).map(|at| (number * 31 + at * 7 + at / 512) as u8).collect()
}

async fn write(fs: &Fs, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let new = NewInode { file_type: FileType::File, permissions: 0o600, uid: 0, gid: 0, device: 0 };
        let inode = fs.create(ROOT, format!("file {number}").as_bytes(), new).await.unwrap().inode;
        let data = IoBuf::copy_of(&content(number)).freeze();
        fs.write(inode, 0, data).await.unwrap();
        fs.fsync(inode).await.unwrap();
        fs.forget(inode, 1).await;
    }
}

async fn read(fs: &Fs) -> Result<(), FsError> {
    for number in 0..FILES {
        let inode = fs.lookup(ROOT, format!("file {number}").as_bytes()).await?.inode;
        let read = fs.read(inode, 0, 1 << 20).await?;
        assert!(read[..] == content(number), "file {number} has other bytes");
        fs.forget(inode, 1).await;
    }
    Ok(())
}

/// Writes garbage over all data of a member, behind the array's back.
async fn spoil(member: &MemoryDevice) {
    let mut garbage = IoBuf::with_len((BYTES - DATA_OFFSET_BYTES) as usize);
    let mut rng = fastrand::Rng::with_seed(5);
    rng.fill(&mut garbage);
    member.write(DATA_OFFSET_BYTES, smallvec![garbage.freeze()], WriteFlags::default()).await.unwrap();
}

/// Half of the files are in the tree, and the others in the journal when a member begins to lie.
fn heals(level: Level, count: usize, order: Order, liar: usize) {
    let (world, what) = (World::new(1), format!("{level:?}, member {liar} of {count} lies"));
    let env = world.env();
    world.run(async move {
        let ground = make(env.clone(), level, count, order).await;
        let array = &ground.array;
        let fs = Fs::mount(env.clone(), volume(array), MountOptions::default()).await.unwrap();
        write(&fs, 0..FILES / 2).await;
        fs.checkpoint().await.unwrap();
        write(&fs, FILES / 2..FILES).await;
        drop(fs);
        env.sleep(Duration::from_secs(60)).await;
        spoil(&ground.members[liar]).await;

        let mounted = Fs::mount(env.clone(), volume(array), MountOptions::default()).await;
        let fs = mounted.unwrap_or_else(|error| panic!("{what}: {error}"));
        read(&fs).await.unwrap_or_else(|error| panic!("{what}: {error}"));
        let healed = fs.counters().await.healed_blocks;
        fs.unmount().await.unwrap();

        // All that was read was healed: nothing of it is damaged any more.
        let fs = Fs::mount(env, volume(array), MountOptions::default()).await.unwrap();
        read(&fs).await.unwrap();
        // Of level 4, the last member has parity alone, which nobody reads.
        let is_read = level != Level::Raid4 || liar + 1 < count;
        assert_eq!(healed > 0, is_read, "{what}, and {healed} blocks were healed");
        assert_eq!(fs.counters().await.healed_blocks, 0, "{what}");
        fs.unmount().await.unwrap();
    });
}

#[test]
fn what_a_member_lies_about_is_healed() {
    for (level, count) in [(Level::Raid4, 4), (Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid1, 2)] {
        for liar in 0..count {
            for order in [Order::Rows, Order::Columns] {
                heals(level, count, order, liar);
            }
        }
    }
}
