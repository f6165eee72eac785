//! An array whose bitmap has several pages.
//!
//! A page stands for 32,448 regions, so members have a quarter of a gigabyte, most of which is never touched.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures_util::future::join_all;
use stripewise_device::{Device, IoBuf, WriteFlags};
use stripewise_engine::{Array, CreateOptions, examine, geometry::Level, locking::Preset};
use stripewise_format::{
    bitmap::{REGIONS_PER_PAGE, Slot, newest, slot_offset_bytes},
    extension::{BitmapDescriptor, MapKind},
};
use stripewise_sim::{SimMember, World};
use uuid::Uuid;

use super::devices;

/// A chunk, a region of each member, a row, and what is written at once.
pub const BLOCK_BYTES: u64 = 4096;
/// More than two pages stand for, of linear and of distributed regions.
pub const STRIPES: u64 = 70_000;
pub const PAGES: u32 = 3;
/// Of a stripe.
pub const DATA_BLOCKS: u64 = 2;
/// Blocks written at a time whose regions are on the same page.
pub const PER_PAGE: usize = 8;

/// An array of so many regions, and what is in it.
pub struct Wide {
    pub world: World,
    pub members: Vec<Arc<SimMember>>,
    pub array: Array,
    pub bitmap: BitmapDescriptor,
    pub uuid: Uuid,
    pub data_offset_bytes: u64,
    /// Blocks of the array that are not zeroes.
    pub blocks: BTreeMap<u64, Vec<u8>>,
}

pub fn filled(byte: u8) -> Vec<u8> {
    vec![byte; BLOCK_BYTES as usize]
}

impl Wide {
    pub fn new(seed: u64, preset: &'static Preset) -> Self {
        let mut world = World::new(seed);
        world.keep_events();
        let member_bytes = STRIPES * BLOCK_BYTES;
        let members: Vec<_> =
            (0..=DATA_BLOCKS).map(|i| world.add_member(format!("m{i}"), member_bytes + (16 << 20))).collect();
        let mut options = CreateOptions::new("sim:wide", Level::Raid5, devices(&members));
        options.chunk_bytes = BLOCK_BYTES as u32;
        options.region_bytes = Some(BLOCK_BYTES);
        options.member_bytes = Some(member_bytes);
        options.assume_clean = true;
        options.preset = preset;
        let (env, device) = (world.env(), members[0].clone() as Arc<dyn Device>);
        let array = world.run(async move { Array::create(env, options).await }).unwrap();
        let examined = world.run(async move { examine(device).await }).unwrap();
        let bitmap = examined.extension.unwrap().0.bitmap;
        assert_eq!(bitmap.page_count, PAGES);
        let superblock = examined.superblock;
        Self {
            world,
            members,
            array,
            bitmap,
            uuid: superblock.array_uuid,
            data_offset_bytes: superblock.data_offset_sectors * 512,
            blocks: BTreeMap::new(),
        }
    }

    pub fn region_of(&self, stripe: u64) -> u64 {
        match self.bitmap.map_kind {
            MapKind::Linear => stripe,
            MapKind::Distributed => stripe % self.bitmap.region_count,
        }
    }

    /// Any stripe of a region on that page.
    pub fn draw_stripe(&self, page: u32) -> u64 {
        let regions = self.bitmap.region_count;
        let first = u64::from(page * REGIONS_PER_PAGE);
        let region = first + self.world.random((regions - first).min(u64::from(REGIONS_PER_PAGE)));
        let laps = (STRIPES - region).div_ceil(regions);
        region + regions * self.world.random(laps)
    }

    /// Blocks, as many on each page.
    pub fn draw_blocks(&self) -> BTreeSet<u64> {
        let pages = (0..PAGES).flat_map(|page| std::iter::repeat_n(page, PER_PAGE));
        pages.map(|page| self.draw_stripe(page) * DATA_BLOCKS + self.world.random(DATA_BLOCKS)).collect()
    }

    pub fn regions_of(&self, blocks: &BTreeSet<u64>) -> BTreeSet<u64> {
        blocks.iter().map(|block| self.region_of(block / DATA_BLOCKS)).collect()
    }

    /// Starts to write blocks, all at once.
    pub fn start_writes(
        &self,
        blocks: &BTreeSet<u64>,
        byte: u8,
    ) -> impl Future<Output = ()> + Send + 'static {
        let array = self.array.clone();
        let writes: Vec<_> = blocks.iter().copied().collect();
        async move {
            let write = |block| {
                array.write(
                    block * BLOCK_BYTES,
                    IoBuf::copy_of(&filled(byte)).freeze(),
                    WriteFlags::default(),
                )
            };
            join_all(writes.into_iter().map(write)).await.into_iter().for_each(|written| written.unwrap());
        }
    }

    /// Writes blocks, all at once, for good.
    pub fn write_durably(&mut self, blocks: &BTreeSet<u64>, byte: u8) {
        let (writes, array) = (self.start_writes(blocks, byte), self.array.clone());
        self.world.run(async move {
            writes.await;
            array.flush().await.unwrap();
        });
        self.blocks.extend(blocks.iter().map(|block| (*block, filled(byte))));
    }

    /// The regions that the newest pages on the members mark.
    pub fn marked(&self) -> BTreeSet<u64> {
        let all: Vec<usize> = (0..self.members.len()).collect();
        self.marked_on(&all).expect("somebody has a copy of each page")
    }

    /// The same, of what some members have. None: there is a page of which they have no copy.
    pub fn marked_on(&self, members: &[usize]) -> Option<BTreeSet<u64>> {
        let members: Vec<_> = members.iter().map(|member| self.members[*member].bytes()).collect();
        let slot = |bytes: &'_ [u8], page, slot| {
            let at = (self.bitmap.offset_bytes + slot_offset_bytes(page, slot)) as usize;
            bytes[at..at + BLOCK_BYTES as usize].to_vec()
        };
        let mut marked = BTreeSet::new();
        for page in 0..PAGES {
            let copies = members.iter().filter_map(|bytes| {
                newest(&slot(bytes, page, Slot::A), &slot(bytes, page, Slot::B), self.uuid, page).ok()
            });
            let newest = copies.map(|copy| copy.page).reduce(|mut known, page| {
                if page.generation() > known.generation() {
                    return page;
                }
                if page.generation() == known.generation() {
                    known.merge(&page);
                }
                known
            });
            let regions: Vec<u32> = newest?.regions().collect();
            marked.extend(regions.into_iter().map(|region| u64::from(page * REGIONS_PER_PAGE + region)));
        }
        Some(marked)
    }
}
