//! A volume of 16 TiB, all of which is taken but for what is kept for checkpoints, is opened. What that takes is printed:
//! `cargo test --release -p stripewise-rafs --lib full_volume -- --ignored --nocapture`.

use std::{collections::BTreeMap, ops::Range, sync::Arc, time::Instant};

use parking_lot::Mutex;
use stripewise_device::{Completion, IoBuf, IoError, IoFuture, ReadBufs, ReadDone, SharedBuf};
use stripewise_format::rafs::space::GroupKind;
use uuid::Uuid;

use super::{Ground, MakeOptions, Purpose, Store, make};
use crate::{
    shape::{BLOCK_BYTES, BlockNo, Cell, Geometry, Order, StripeNo},
    test_volume::now,
    volume::Volume,
};

/// Four data columns of 16 rows.
const STRIPES: u64 = 1 << 26;
/// One group of so many has small files.
const SMALL_ONE_IN: u64 = 16;

/// A volume in memory that has only those blocks that were written.
struct Sparse {
    geometry: Geometry,
    blocks: Mutex<BTreeMap<u64, SharedBuf>>,
    reads: Mutex<u64>,
}

impl Sparse {
    fn block(&self, offset_bytes: u64) -> IoBuf {
        let block = self.blocks.lock().get(&(offset_bytes / BLOCK_BYTES as u64)).cloned();
        block.map_or_else(|| IoBuf::zeroed(BLOCK_BYTES), |block| IoBuf::copy_of(&block))
    }

    fn offset_bytes(&self, stripe: StripeNo, cell: Cell) -> u64 {
        let block = self.geometry.block(stripe, self.geometry.slot(Order::Columns, cell));
        self.geometry.offset_bytes(Order::Columns, block)
    }
}

impl Volume for Sparse {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&self, offset_bytes: u64, mut into: ReadBufs) -> IoFuture<ReadDone> {
        let mut at = offset_bytes;
        for buf in &mut into {
            for part in buf.chunks_mut(BLOCK_BYTES) {
                part.copy_from_slice(&self.block(at)[..part.len()]);
                at += part.len() as u64;
            }
        }
        *self.reads.lock() += 1;
        IoFuture::ready(ReadDone { result: Ok(()), bufs: into })
    }

    fn read_rows(&self, stripe: StripeNo, rows: Range<u32>) -> IoFuture<Result<Vec<IoBuf>, IoError>> {
        let columns = self.geometry.data_columns();
        let cells = rows.flat_map(|row| (0..columns).map(move |column| Cell { row, column }));
        IoFuture::ready(Ok(cells.map(|cell| self.block(self.offset_bytes(stripe, cell))).collect()))
    }

    fn write_rows(&self, stripe: StripeNo, first: u32, blocks: &[SharedBuf]) -> Completion {
        let columns = self.geometry.data_columns();
        let cell = |at: u32| Cell { row: first + at / columns, column: at % columns };
        let cells: Vec<_> = (0..).map(cell).zip(blocks.iter().cloned()).collect();
        self.write_blocks(stripe, &cells)
    }

    fn write_blocks(&self, stripe: StripeNo, blocks: &[(Cell, SharedBuf)]) -> Completion {
        for (cell, block) in blocks {
            let number = self.offset_bytes(stripe, *cell) / BLOCK_BYTES as u64;
            self.blocks.lock().insert(number, block.clone());
        }
        IoFuture::ready(Ok(()))
    }

    fn flush(&self) -> Completion {
        IoFuture::ready(Ok(()))
    }

    fn discard(&self, _stripes: Range<StripeNo>) -> Completion {
        IoFuture::ready(Ok(()))
    }
}

#[test]
#[ignore = "takes a minute, and prints how long a part of it takes"]
#[expect(clippy::disallowed_methods, reason = "real time is what it is about")]
fn a_full_volume_of_16_tib_is_opened() {
    let geometry = Geometry::new(4, 16, STRIPES).unwrap();
    let volume = Arc::new(Sparse { geometry, blocks: Mutex::default(), reads: Mutex::default() });
    let as_volume: Arc<dyn Volume> = volume.clone();
    let options = MakeOptions {
        uuid: Uuid::from_u128(16),
        label: String::new(),
        created_us: 1,
        order: Order::Columns,
        journal_stripes: None,
        hash_seed: 7,
    };
    now(make(&as_volume, &options)).unwrap();
    let open = || {
        let ground = now(Ground::read(&*as_volume)).unwrap();
        now(Store::open(as_volume.clone(), ground, 1 << 14, Purpose::Write)).unwrap().0
    };
    let mut store = open();
    let (first, of_group) = (store.superblock.first_group_stripe(), store.superblock.group_stripes);
    let (groups, blocks) =
        (store.superblock.groups(), u64::from(of_group) * u64::from(geometry.stripe_blocks()));
    // Some groups are left for the tree.
    for group in 0..groups - 64 {
        let start = first * u64::from(geometry.stripe_blocks()) + group * blocks;
        let kind = if group.is_multiple_of(SMALL_ONE_IN) { GroupKind::Small } else { GroupKind::Large };
        store.take(kind, BlockNo(start)..BlockNo(start + blocks)).unwrap();
    }
    now(store.checkpoint()).unwrap();
    let free = store.free_blocks();
    drop(store);
    *volume.reads.lock() = 0;
    let began = Instant::now();
    let store = open();
    println!("{groups} groups are taken up in {:?}, with {} reads", began.elapsed(), volume.reads.lock());
    assert_eq!(store.free_blocks(), free);
}
