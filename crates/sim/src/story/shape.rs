//! The shapes of arrays in stories: small, so that a whole array can be checked after every crash. Now and
//! then one is large enough for what small arrays lack: several pages of the bitmap, rows by the hundred.

use std::time::Duration;

use fastrand::Rng;
use stripewise_engine::{MapKind, Tuning, geometry::Level};

use crate::check::SECTOR_BYTES;

/// A stripe of level 1, which has no chunks.
const MIRROR_STRIPE_BYTES: u32 = 64 << 10;
/// One story in so many is of an array whose bitmap has several sectors, or pages.
const VAST_ONE_IN: u32 = 40;
/// One story in so many is of chunks from 64 KiB on.
const LONG_CHUNK_ONE_IN: u32 = 24;
/// One story in so many is of level 0.
const STRIPED_ONE_IN: u32 = 40;

/// An array's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The level.
    pub level: Level,
    /// Roles.
    pub members: usize,
    /// Bytes of a chunk.
    pub chunk_bytes: u32,
    /// Bytes of data on each member.
    pub data_bytes: u64,
    /// Bytes of a member that one bit of the bitmap stands for.
    pub region_bytes: u64,
    /// Which stripes a region stands for.
    pub map: MapKind,
    /// Smallest unit of I/O of one of the members.
    pub block_bytes: u32,
    /// The array is mostly unused: clients stay within windows, and only these are read as a whole.
    pub is_vast: bool,
    /// The steps of background work.
    pub tuning: Tuning,
}

impl Shape {
    /// A shape from a story's seed, of the given level if there is one.
    pub fn draw(rng: &mut Rng, level: Option<Level>) -> Self {
        let levels = [Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid5, Level::Raid6, Level::Raid6];
        let drawn = if rng.u32(..STRIPED_ONE_IN) == 0 { Level::Raid0 } else { levels[rng.usize(..6)] };
        let level = level.unwrap_or(drawn);
        let is_vast = level != Level::Raid1 && level != Level::Raid0 && rng.u32(..VAST_ONE_IN) == 0;
        let members = draw_members(rng, level, is_vast);
        let chunk_bytes = match level {
            Level::Raid1 => MIRROR_STRIPE_BYTES,
            _ if is_vast => 4096,
            _ if rng.u32(..LONG_CHUNK_ONE_IN) == 0 => 65536 << [0, 0, 1, 2, 3, 4][rng.usize(..6)],
            _ => [4096, 4096, 8192, 16384, 32768][rng.usize(..5)],
        };
        let block_bytes = if rng.u8(..8) == 0 { 4096 } else { SECTOR_BYTES as u32 };
        let stripes = if is_vast { draw_many(rng) } else { draw_few(rng, chunk_bytes) };
        let mut data_bytes = stripes * u64::from(chunk_bytes);
        if level == Level::Raid1 && rng.bool() {
            // The last stripe of mirrors is as short as they are.
            data_bytes -= rng.u64(1..u64::from(chunk_bytes / block_bytes)) * u64::from(block_bytes);
        }
        let region_shift = if is_vast { 0 } else { rng.u32(..3) };
        let map = if rng.bool() { MapKind::Distributed } else { MapKind::Linear };
        Self {
            level,
            members,
            chunk_bytes,
            data_bytes,
            region_bytes: u64::from(chunk_bytes) << region_shift,
            map,
            block_bytes,
            is_vast,
            tuning: draw_tuning(rng, chunk_bytes, is_vast),
        }
    }

    /// Where the data of such a small member begins: metadata and headroom of two chunks, in whole MiB.
    pub fn data_offset_bytes(&self) -> u64 {
        let headroom = if self.level == Level::Raid1 { 0 } else { 2 * u64::from(self.chunk_bytes) };
        (16384 + headroom).next_multiple_of(1 << 20)
    }

    /// The size of a member without spare room.
    pub fn member_bytes(&self) -> u64 {
        self.data_offset_bytes() + self.data_bytes
    }

    /// Stripes.
    pub fn stripes(&self) -> u64 {
        self.data_bytes.div_ceil(u64::from(self.chunk_bytes))
    }

    /// Columns of data.
    pub fn data_columns(&self) -> usize {
        if self.level == Level::Raid1 { 1 } else { self.members - self.tolerance() }
    }

    /// Members whose loss the level survives.
    pub fn tolerance(&self) -> usize {
        match self.level {
            Level::Raid0 => 0,
            Level::Raid1 => self.members - 1,
            Level::Raid6 => 2,
            Level::Raid4 | Level::Raid5 => 1,
        }
    }
}

fn draw_members(rng: &mut Rng, level: Level, is_vast: bool) -> usize {
    let many = !is_vast && rng.u8(..12) == 0;
    match level {
        Level::Raid0 => rng.usize(2..=4),
        Level::Raid1 if many => 4,
        Level::Raid1 => rng.usize(2..=3),
        Level::Raid6 if many => rng.usize(7..=12),
        Level::Raid6 => rng.usize(4..=if is_vast { 4 } else { 6 }),
        _ if many => rng.usize(6..=9),
        _ if rng.u8(..12) == 0 => 2,
        _ => rng.usize(3..=if is_vast { 3 } else { 5 }),
    }
}

fn draw_few(rng: &mut Rng, chunk_bytes: u32) -> u64 {
    match chunk_bytes {
        4096 | 8192 if rng.u8(..8) == 0 => rng.u64(17..=48),
        ..32768 => rng.u64(4..=12),
        32768..=65536 => rng.u64(2..=4),
        _ => 2,
    }
}

/// Stripes of a vast array. 3776 bits of a page lie in its first sector, and 32,448 on the first page.
fn draw_many(rng: &mut Rng) -> u64 {
    if rng.u8(..3) == 0 { rng.u64(33_000..34_000) } else { rng.u64(4_500..6_000) }
}

fn draw_tuning(rng: &mut Rng, chunk_bytes: u32, is_vast: bool) -> Tuning {
    if is_vast || rng.u8(..4) == 0 {
        return Tuning::PRODUCTION;
    }
    let chunk_bytes = u64::from(chunk_bytes);
    let batch_bytes = chunk_bytes << [0, 0, 1][rng.usize(..3)];
    Tuning {
        disk_batch_bytes: batch_bytes,
        flash_batch_bytes: batch_bytes,
        in_flight_bytes: batch_bytes,
        group_bytes: chunk_bytes << rng.u32(..3),
        checkpoint_interval: Duration::from_micros([0, 100, 1000][rng.usize(..3)]),
        housekeeping_interval: Duration::from_millis([2, 20, 1000][rng.usize(..3)]),
    }
}
