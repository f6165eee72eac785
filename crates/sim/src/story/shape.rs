//! The shapes of arrays that stories are told of: small, so that a whole array can be checked after every crash.

use fastrand::Rng;
use stripewise_engine::{MapKind, geometry::Level};

/// Where the data of members this small begins.
const DATA_OFFSET_BYTES: u64 = 1 << 20;

/// An array's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// 1, 4, 5 or 6.
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
}

impl Shape {
    /// A shape from a story's seed, of the level asked for if one is.
    pub fn draw(rng: &mut Rng, level: Option<Level>) -> Self {
        let levels = [Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid5, Level::Raid6, Level::Raid6];
        let level = level.unwrap_or_else(|| levels[rng.usize(..levels.len())]);
        let members = match level {
            Level::Raid1 => rng.usize(2..=3),
            Level::Raid6 => rng.usize(4..=6),
            _ => rng.usize(3..=5),
        };
        let chunk_bytes: u32 = match level {
            Level::Raid1 => 65536,
            _ => [4096, 4096, 8192, 16384, 32768][rng.usize(..5)],
        };
        let stripes = if chunk_bytes >= 32768 { rng.u64(2..=4) } else { rng.u64(4..=12) };
        let region_bytes = u64::from(chunk_bytes) << rng.u32(..3);
        let map = if rng.bool() { MapKind::Distributed } else { MapKind::Linear };
        Self { level, members, chunk_bytes, data_bytes: stripes * u64::from(chunk_bytes), region_bytes, map }
    }

    /// The size of a member.
    pub fn member_bytes(&self) -> u64 {
        DATA_OFFSET_BYTES + self.data_bytes
    }

    /// Where a member's data begins.
    pub fn data_offset_bytes(&self) -> u64 {
        DATA_OFFSET_BYTES
    }

    /// Members whose loss the level survives.
    pub fn tolerance(&self) -> usize {
        match self.level {
            Level::Raid1 => self.members - 1,
            Level::Raid6 => 2,
            _ => 1,
        }
    }
}
