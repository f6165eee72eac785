//! A whole small image, changed at places that an input chooses: it is mounted and used as it is; and it is looked at, mended, looked at
//! again, mounted and read. The fuzz target `rafs_image` runs the same.

use std::{collections::BTreeSet, future::Future, ops::Range, sync::Arc};

use smallvec::smallvec;
use stripewise_device::{Device, IoBuf, WriteFlags, memory::MemoryDevice};
use stripewise_format::{
    crc::{crc32c_with_hole, mixed},
    rafs::{
        block::{BlockKind, HEAD_LEN, Head, seal},
        inode::FileType,
        journal::RECORD_MAGIC,
    },
};
use stripewise_rafs::{
    check::{Progress, check},
    fs::{Fs, FsError, MountError, MountOptions, NewInode, ROOT, Rename, SetAttribute},
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

/// Where a record of the journal has its CRC, and how many blocks it has.
const RECORD_CRC: Range<usize> = 8..12;
const RECORD_BLOCKS: Range<usize> = 12..16;
/// Where a head has what it says of its block.
const PLACE: Range<usize> = 16..24;
const UUID: Range<usize> = 24..40;
const GENERATION: Range<usize> = 40..48;

/// An image.
pub(crate) struct Image(Vec<u8>);

/// What came of an input.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tried {
    /// The damaged image could be mounted for writing.
    pub(crate) is_mounted: bool,
    /// Something was mended.
    pub(crate) is_mended: bool,
}

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

    fn try_mount(&self, is_read_only: bool) -> Result<Fs, MountError> {
        let options =
            MountOptions { buffer_blocks: 128, cached_nodes: 64, is_read_only, ..MountOptions::default() };
        let (env, volume) = (self.world.env(), self.volume());
        self.run(async move { Fs::mount(env, volume, options).await })
    }

    fn mount(&self) -> Fs {
        self.try_mount(false).expect("it can be mounted")
    }

    /// Mounts it damaged, and reads and writes it. Any of this may be refused, or fail. Returns whether it was mounted.
    fn use_damaged(&self) -> bool {
        for is_read_only in [true, false] {
            let Ok(fs) = self.try_mount(is_read_only) else { return false };
            let used = fs.clone();
            self.run(async move {
                walk(&used, Walk::Damaged).await;
                let _ = write_some(&used).await;
            });
            let _ = self.run(async move { fs.unmount().await });
        }
        true
    }

    fn mend(&self) -> Result<Repaired, RepairError> {
        let volume = self.volume();
        self.run(async move { repair(&volume, 1, &Progress::silent()).await })
    }

    /// Mends it: nothing is wrong then, and a second repair changes nothing. Returns whether this one has; none if it cannot be mended.
    fn mend_for_good(&self) -> Option<bool> {
        let is_changed = match self.mend() {
            Ok(repaired) => repaired.is_changed,
            Err(RepairError::Open(_) | RepairError::NoSpace { .. }) => return None,
            Err(error) => panic!("{error}"),
        };
        self.assert_clean("after a repair");
        let again = self.mend().expect("it was mended before");
        assert!(!again.is_changed, "a second repair changes something");
        Some(is_changed)
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

    /// Changes the image as the input says, uses it, mends it and looks at all of it. Whatever the input says, nothing panics, and nothing
    /// is wrong after a repair.
    pub(crate) fn try_input(&self, input: &[u8]) -> Tried {
        let mut bytes = self.0.clone();
        let used: Vec<usize> = (0..bytes.len() / BLOCK).filter(|block| is_used(&bytes, *block)).collect();
        let is_head = |block: &usize| {
            let block = &bytes[block * BLOCK..];
            kind(block).is_some() || block.starts_with(&RECORD_MAGIC)
        };
        let heads: Vec<usize> = used.iter().copied().filter(is_head).collect();
        for change in input.chunks_exact(CHANGE_LEN).take(CHANGES_MAX) {
            self.change(&mut bytes, [&used, &heads], change);
        }
        let used = Ground::new(Some(&bytes));
        let is_mounted = used.use_damaged();
        if is_mounted {
            used.mend_for_good();
        }
        let ground = Ground::new(Some(&bytes));
        let Some(is_mended) = ground.mend_for_good() else { return Tried { is_mounted, ..Tried::default() } };
        let fs = ground.mount();
        let read = fs.clone();
        ground.run(async move { walk(&read, Walk::Mended).await });
        let unmounted = ground.run(async move { fs.unmount().await });
        unmounted.expect("it can be unmounted");
        ground.assert_clean("after an unmount");
        Tried { is_mounted, is_mended }
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
        let changed = place.start / BLOCK;
        bytes[place].copy_from_slice(&new);
        if how & 0x80 > 0 {
            seal_records(bytes, changed);
        }
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

/// Makes the CRCs right of records of the journal that have this block.
fn seal_records(bytes: &mut [u8], changed: usize) {
    for front in 0..bytes.len() / BLOCK {
        let blocks = record_at(bytes, front);
        if !blocks.contains(&changed) {
            continue;
        }
        let record: Vec<u8> =
            blocks.iter().flat_map(|block| &bytes[block * BLOCK..(block + 1) * BLOCK]).copied().collect();
        let crc = mixed(crc32c_with_hole(&record, RECORD_CRC.start));
        bytes[front * BLOCK..][RECORD_CRC].copy_from_slice(&crc.to_le_bytes());
    }
}

/// The blocks of the record that begins in this one; none if none does. They follow one another row by row.
fn record_at(bytes: &[u8], front: usize) -> Vec<usize> {
    let block = &bytes[front * BLOCK..];
    if !block.starts_with(&RECORD_MAGIC) {
        return Vec::new();
    }
    let count = u32::from_le_bytes(block[RECORD_BLOCKS].try_into().expect("it has 4 bytes"));
    let (columns, rows) = (COLUMNS as usize, ROWS as usize);
    let of_stripe = columns * rows;
    let (stripe, place) = (front / of_stripe, front % of_stripe);
    let first = stripe * of_stripe + place % rows * columns + place / rows;
    let last = first.saturating_add(count as usize).min(STRIPES * of_stripe);
    let at = |slot: usize| slot / of_stripe * of_stripe + slot % columns * rows + slot % of_stripe / columns;
    (first..last).map(at).collect()
}

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

/// Changes that meet most of what may be damaged.
async fn write_some(fs: &Fs) -> Result<(), FsError> {
    let new = NewInode { file_type: FileType::File, permissions: 0o600, uid: 1, gid: 1, device: 0 };
    for (number, len) in [600, 30_000, 90_000].into_iter().enumerate() {
        let name = format!("new {number}");
        let file = fs.create(ROOT, name.as_bytes(), new).await?.inode;
        fs.write(file, 0, IoBuf::copy_of(&vec![number as u8 + 1; len]).freeze()).await?;
        fs.fsync(file).await?;
    }
    // All that lies in the root goes, or moves, and the next checkpoint writes it out.
    for (number, entry) in fs.read_folder(ROOT, 0, ENTRIES_MAX).await?.iter().enumerate() {
        let _ = match number % 3 {
            0 => fs.unlink(ROOT, &entry.name).await,
            1 => {
                let moved = format!("moved {number}");
                fs.rename((ROOT, &entry.name), (ROOT, moved.as_bytes()), Rename::Refuse).await
            }
            _ => fs.punch(entry.inode, 3000..9000).await,
        };
    }
    fs.checkpoint().await
}

/// What is walked through.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Walk {
    /// Anything may be refused.
    Damaged,
    /// Only bytes of files may be damaged.
    Mended,
}

/// Reads all that has a name.
async fn walk(fs: &Fs, walk: Walk) {
    let (mut open, mut seen) = (vec![ROOT], BTreeSet::from([ROOT]));
    while let Some(folder) = open.pop() {
        let Some(entries) = walk.read(fs.read_folder(folder, 0, ENTRIES_MAX).await) else { continue };
        for entry in entries {
            let Some(attr) = walk.read(fs.lookup(folder, &entry.name).await) else { continue };
            match attr.file_type {
                // Damaged, it may lead in circles.
                FileType::Folder if !seen.insert(attr.inode) => assert!(walk == Walk::Damaged),
                FileType::Folder => open.push(attr.inode),
                FileType::File => match fs.read(attr.inode, 0, READ_MAX).await {
                    Ok(_) | Err(FsError::Damaged { .. }) => {}
                    other => drop(walk.read(other)),
                },
                FileType::Link => drop(walk.read(fs.read_link(attr.inode).await)),
                _ => {}
            }
            drop(walk.read(fs.attributes(attr.inode).await));
            fs.forget(attr.inode, 1).await;
        }
    }
}

impl Walk {
    /// What was read, if it could be.
    fn read<T>(self, read: Result<T, FsError>) -> Option<T> {
        read.inspect_err(|error| assert!(self == Self::Damaged, "{error}")).ok()
    }
}
