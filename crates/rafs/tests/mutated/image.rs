//! A whole small image, changed at places that an input chooses: it is looked at, mended, looked at again, mounted and read. The fuzz target
//! `rafs_image` runs the same.

use std::{future::Future, ops::Range, sync::Arc};

use smallvec::smallvec;
use stripewise_device::{Device, IoBuf, WriteFlags, memory::MemoryDevice};
use stripewise_format::rafs::{
    block::{BlockKind, HEAD_LEN, Head, seal},
    inode::FileType,
};
use stripewise_rafs::{
    check::{Progress, check},
    fs::{Fs, FsError, MountOptions, NewInode, ROOT, SetAttribute},
    repair::{RepairError, Repaired, repair},
    shape::Order,
    store::MakeOptions,
    volume::{DeviceVolume, Volume},
};
use stripewise_sim::World;
use uuid::Uuid;

const BLOCK: usize = 4096;
/// Data columns, blocks of a chunk, and stripes.
const COLUMNS: u32 = 3;
const ROWS: u32 = 4;
const STRIPES: usize = 40;
const BYTES: usize = STRIPES * (COLUMNS * ROWS) as usize * BLOCK;
/// Bytes of the input for one change, and changes at most.
const CHANGE_LEN: usize = 8;
const CHANGES_MAX: usize = 16;
/// Steps of one task at most.
const STEPS_MAX: u64 = 5_000_000;
/// Bytes that are read of a file, and entries of a folder.
const READ_MAX: usize = 1 << 20;
const ENTRIES_MAX: usize = 10_000;

/// Where a head has what it says of its block.
const PLACE: Range<usize> = 16..24;
const UUID: Range<usize> = 24..40;
const GENERATION: Range<usize> = 40..48;

/// An image.
pub(crate) struct Image(Vec<u8>);

/// A world with a device that has some bytes.
struct Ground {
    world: World,
    device: Arc<MemoryDevice>,
}

impl Ground {
    fn new(bytes: Option<&[u8]>) -> Self {
        let ground =
            Self { world: World::new(1), device: Arc::new(MemoryDevice::new("image", BYTES as u64)) };
        if let Some(bytes) = bytes {
            let (device, bytes) = (ground.device.clone(), IoBuf::copy_of(bytes).freeze());
            ground
                .run(async move { device.write(0, smallvec![bytes], WriteFlags::default()).await })
                .expect("memory can be written");
        }
        ground
    }

    fn run<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> T {
        self.world.run_within(STEPS_MAX, task).expect("it comes to an end")
    }

    fn volume(&self) -> Arc<dyn Volume> {
        let device: Arc<dyn Device> = self.device.clone();
        Arc::new(DeviceVolume::new(device, COLUMNS, ROWS).expect("it has whole stripes"))
    }

    fn mount(&self) -> Fs {
        let options = MountOptions { buffer_blocks: 128, cached_nodes: 64, ..MountOptions::default() };
        let (env, volume) = (self.world.env(), self.volume());
        self.run(async move { Fs::mount(env, volume, options).await }).expect("it can be mounted")
    }

    fn mend(&self) -> Result<Repaired, RepairError> {
        let volume = self.volume();
        self.run(async move { repair(&volume, 1, &Progress::silent()).await })
    }

    /// fsck finds nothing.
    fn assert_clean(&self, when: &str) {
        let volume = self.volume();
        let report = self.run(async move { check(&volume).await }).expect("it can be looked at");
        assert!(report.problems.is_empty() && report.notes.is_empty(), "{when}: {report:?}");
    }
}

impl Image {
    /// Files of all kinds, of which some are only in the journal.
    pub(crate) fn make() -> Self {
        let ground = Ground::new(None);
        let options = MakeOptions {
            uuid: Uuid::from_u128(7),
            label: "image".to_owned(),
            created_us: 1,
            order: Order::Rows,
            journal_stripes: Some(4),
            hash_seed: 3,
        };
        let volume = ground.volume();
        ground.run(async move { Fs::make(&volume, &options, (0, 0)).await }).expect("it can be made");
        let fs = ground.mount();
        let used = fs.clone();
        ground.run(async move { fill(&used).await }).expect("there is room");
        drop(fs);
        ground.world.crash();
        let device = ground.device.clone();
        let read = ground.run(async move { device.read(0, smallvec![IoBuf::with_len(BYTES)]).await });
        Self(read.into_one().expect("memory can be read").to_vec())
    }

    /// Changes the image as the input says, mends it and looks at all of it. Whatever the input says, nothing panics, and nothing is wrong
    /// after a repair. Returns whether something was mended.
    pub(crate) fn try_input(&self, input: &[u8]) -> bool {
        let mut bytes = self.0.clone();
        let used: Vec<usize> = (0..bytes.len() / BLOCK).filter(|block| is_used(&bytes, *block)).collect();
        let is_head = |block: &usize| kind(&bytes[block * BLOCK..]).is_some();
        let heads: Vec<usize> = used.iter().copied().filter(is_head).collect();
        for change in input.chunks_exact(CHANGE_LEN).take(CHANGES_MAX) {
            self.change(&mut bytes, [&used, &heads], change);
        }
        let ground = Ground::new(Some(&bytes));
        let is_changed = match ground.mend() {
            Ok(repaired) => repaired.is_changed,
            Err(RepairError::Open(_) | RepairError::NoSpace { .. }) => return false,
            Err(error) => panic!("{error}"),
        };
        ground.assert_clean("after a repair");
        assert!(
            !ground.mend().expect("it was mended before").is_changed,
            "a second repair changes something"
        );
        let fs = ground.mount();
        let read = fs.clone();
        ground.run(async move { walk(&read).await });
        let unmounted = ground.run(async move { fs.unmount().await });
        unmounted.expect("it can be unmounted");
        ground.assert_clean("after an unmount");
        is_changed
    }

    /// One change of the input: which block, where in it, what becomes of the bytes, and whether its CRC is made right.
    fn change(&self, bytes: &mut [u8], [used, heads]: [&[usize]; 2], change: &[u8]) {
        let number = |at: usize| usize::from(u16::from_le_bytes([change[at], change[at + 1]]));
        let block = |at: usize| {
            // Mostly metadata.
            let among = if change[at + 1] & 0xc0 > 0 { heads } else { used };
            let block = among[number(at) % among.len()];
            block * BLOCK..(block + 1) * BLOCK
        };
        let (place, at, how) = (block(0), number(2) % BLOCK, change[4]);
        let mut new = bytes[place.clone()].to_vec();
        let end = (at + 8).min(BLOCK);
        match how % 6 {
            0 => new[at] ^= change[5] | 1,
            1 => new[at] = change[5],
            2 => new[at..end].fill(change[5]),
            3 => new[at..end].copy_from_slice(&u64::from(change[5]).to_le_bytes()[..end - at]),
            4 => new.copy_from_slice(&bytes[block(6)]),
            _ => new.fill(change[5]),
        }
        if how & 0x80 > 0 {
            seal_again(&mut new);
        }
        // Superblocks and anchors fill rows with copies.
        let old = &self.0[place.clone()];
        let is_copy = |block: &usize| how & 0x40 > 0 && self.0[block * BLOCK..(block + 1) * BLOCK] == *old;
        for copy in used.iter().filter(|block| is_copy(block)) {
            bytes[copy * BLOCK..(copy + 1) * BLOCK].copy_from_slice(&new);
        }
        bytes[place].copy_from_slice(&new);
    }
}

fn is_used(bytes: &[u8], block: usize) -> bool {
    bytes[block * BLOCK..(block + 1) * BLOCK].iter().any(|byte| *byte != 0)
}

/// What a block says that it is.
fn kind(block: &[u8]) -> Option<BlockKind> {
    let kinds = [BlockKind::Superblock, BlockKind::Anchor, BlockKind::Node];
    kinds.into_iter().find(|kind| block.starts_with(&kind.magic()))
}

/// Makes the CRC of a metadata block right.
fn seal_again(block: &mut [u8]) {
    let Some(kind) = kind(block) else { return };
    let number = |range: Range<usize>| u64::from_le_bytes(block[range].try_into().expect("it has 8 bytes"));
    let uuid = Uuid::from_slice(&block[UUID]).expect("it has 16 bytes");
    let head = Head { place: number(PLACE), uuid, generation: number(GENERATION) };
    seal(block, kind, &head);
}
const _: () = assert!(HEAD_LEN == GENERATION.end);

async fn fill(fs: &Fs) -> Result<(), FsError> {
    let new = |file_type| NewInode { file_type, permissions: 0o644, uid: 0, gid: 0, device: 0 };
    let mut folder = ROOT;
    for number in 0..24_u64 {
        if number.is_multiple_of(6) {
            folder =
                fs.create(folder, format!("folder {number}").as_bytes(), new(FileType::Folder)).await?.inode;
        }
        let name = format!("file {number}");
        let file = fs.create(folder, name.as_bytes(), new(FileType::File)).await?.inode;
        let len = [700, 5000, 17_000, 60_000][number as usize % 4];
        let bytes: Vec<u8> = (0..len).map(|at| (number * 31 + at * 7 + at / 512) as u8).collect();
        fs.write(file, 0, IoBuf::copy_of(&bytes).freeze()).await?;
        match number % 5 {
            0 => fs.set_attribute(file, b"user.image", b"value", SetAttribute::Either).await?,
            1 => drop(fs.link(file, ROOT, format!("other {number}").as_bytes()).await?),
            2 => drop(
                fs.symlink(folder, format!("link {number}").as_bytes(), name.as_bytes(), new(FileType::Link))
                    .await?,
            ),
            3 => fs.unlink(folder, name.as_bytes()).await?,
            _ => fs.fsync(file).await?,
        }
        match number {
            8 | 17 => fs.checkpoint().await?,
            _ => {}
        }
    }
    fs.sync().await
}

/// Reads all that has a name. Only bytes of files may be damaged.
async fn walk(fs: &Fs) {
    let mut open = vec![ROOT];
    while let Some(folder) = open.pop() {
        let entries = fs.read_folder(folder, 0, ENTRIES_MAX).await.expect("a folder can be read");
        for entry in entries {
            let attr = fs.lookup(folder, &entry.name).await.expect("what a folder tells is there");
            match attr.file_type {
                FileType::Folder => open.push(attr.inode),
                FileType::File => match fs.read(attr.inode, 0, READ_MAX).await {
                    Ok(_) | Err(FsError::Damaged { .. }) => {}
                    Err(error) => panic!("{error}"),
                },
                FileType::Link => drop(fs.read_link(attr.inode).await.expect("a link can be read")),
                _ => {}
            }
            drop(fs.attributes(attr.inode).await.expect("attributes can be read"));
            fs.forget(attr.inode, 1).await;
        }
    }
}
