//! Short histories of an array: its operations, in words that fit on a command line.

use std::{fmt, str::FromStr};

use stripewise_engine::{
    CacheKind, CacheSettings, MapKind,
    geometry::Level,
    plan::selection::{Policy, policy},
};

/// Bytes of a chunk: two rows.
pub(super) const CHUNK_BYTES: u64 = 8192;
/// Stripes of an array.
const STRIPES: u64 = 4;
/// Stripes that a cache has room for: fewer than the longest writes touch.
const CACHED_STRIPES: u64 = 2;
/// Bytes that a cache takes beside blocks.
const CACHE_TABLES_BYTES: u64 = 16 << 10;
/// Bytes of a stripe of level 1, on each member.
const MIRROR_STRIPE_BYTES: u64 = 64 << 10;

/// An array's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// 1, 4, 5 or 6.
    pub level: Level,
    /// Roles.
    pub members: usize,
    /// The cache, which is small.
    pub cache: CacheKind,
}

impl Shape {
    /// The shapes of all histories.
    pub const ALL: [Self; 9] = [
        Self::plain(Level::Raid5, 3),
        Self::plain(Level::Raid5, 4),
        Self::plain(Level::Raid6, 4),
        Self::plain(Level::Raid6, 5),
        Self::plain(Level::Raid4, 4),
        Self::plain(Level::Raid1, 3),
        Self::plain(Level::Raid5, 6),
        Self { cache: CacheKind::Stripe, ..Self::plain(Level::Raid5, 4) },
        Self { cache: CacheKind::Pbg, ..Self::plain(Level::Raid6, 5) },
    ];

    const fn plain(level: Level, members: usize) -> Self {
        Self { level, members, cache: CacheKind::None }
    }

    pub(super) fn cache(self) -> CacheSettings {
        // A block takes a little more than its bytes.
        let size_bytes = CACHED_STRIPES * self.stripe_bytes() * 5 / 4 + CACHE_TABLES_BYTES;
        CacheSettings::new(self.cache, size_bytes)
    }

    pub(super) fn data_columns(self) -> u64 {
        match self.level {
            Level::Raid1 => 1,
            Level::Raid6 => self.members as u64 - 2,
            _ => self.members as u64 - 1,
        }
    }

    /// Bytes of a stripe on each member.
    pub(super) fn chunk_bytes(self) -> u64 {
        if self.level == Level::Raid1 { MIRROR_STRIPE_BYTES } else { CHUNK_BYTES }
    }

    pub(super) fn stripe_bytes(self) -> u64 {
        self.data_columns() * self.chunk_bytes()
    }

    /// Bytes of data on each member.
    pub(super) fn data_bytes(self) -> u64 {
        STRIPES * self.chunk_bytes()
    }

    /// Bytes of the array.
    pub(super) fn capacity_bytes(self) -> u64 {
        STRIPES * self.stripe_bytes()
    }

    /// How partly written rows are written: by reading the blocks that are overwritten, or by `classic`,
    /// which mostly reads the other blocks in arrays this small.
    pub(super) fn policy(self) -> Option<&'static Policy> {
        let name = if self.members.is_multiple_of(2) { "classic" } else { "modified" };
        (self.level != Level::Raid1).then(|| policy(name).expect("it is one of the policies"))
    }

    /// Both kinds are used.
    pub(super) fn map(self) -> MapKind {
        if self.members.is_multiple_of(2) { MapKind::Distributed } else { MapKind::Linear }
    }
}

/// The length of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// 512 bytes.
    Sector,
    /// 4 KiB.
    Block,
    /// A chunk; of mirrors as much.
    Chunk,
    /// A whole stripe.
    Stripe,
    /// As much as two stripes, from the middle of a chunk on: two partial stripes and all between them.
    TwoStripes,
}

/// An operation on an array, or an event that befalls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// A write.
    Write {
        /// How much.
        size: Size,
        /// Whether it must be durable when it is done.
        fua: bool,
        /// One chunk further than other writes.
        beside: bool,
    },
    /// As much as two stripes is zeroed.
    Zero,
    /// Everything done becomes durable.
    Flush,
    /// Three seconds pass: regions are cleared, and the array becomes clean.
    Rest,
    /// The member with the first data vanishes. It is back after the power failure.
    Lose,
}

const SIZES: [(Size, &str); 5] = [
    (Size::Sector, "512"),
    (Size::Block, "4k"),
    (Size::Chunk, "chunk"),
    (Size::Stripe, "stripe"),
    (Size::TwoStripes, "2stripes"),
];

impl Op {
    /// Every operation that histories begin with.
    pub fn first() -> impl Iterator<Item = Self> {
        Self::writes(false).chain([Self::Zero, Self::Flush, Self::Rest])
    }

    /// Every operation that comes after another one.
    pub fn later() -> impl Iterator<Item = Self> {
        Self::first().chain(Self::writes(true).filter(|op| {
            // Larger ones touch the same rows wherever they begin.
            matches!(op, Self::Write { size: Size::Sector | Size::Block, .. })
        }))
    }

    fn writes(beside: bool) -> impl Iterator<Item = Self> {
        SIZES
            .into_iter()
            .flat_map(move |(size, _)| [false, true].map(|fua| Self::Write { size, fua, beside }))
    }

    /// Whether it writes.
    pub fn writes_data(self) -> bool {
        matches!(self, Self::Write { .. } | Self::Zero)
    }

    /// Where it goes: offset and length.
    pub(super) fn range(self, shape: Shape) -> (u64, u64) {
        let (stripe, chunk) = (shape.stripe_bytes(), CHUNK_BYTES);
        match self {
            Self::Write { size, beside, .. } => {
                let start = stripe + if beside { chunk } else { 0 };
                match size {
                    Size::Sector => (start + 512, 512),
                    Size::Block => (start, 4096),
                    Size::Chunk => (start + chunk / 2, chunk),
                    Size::Stripe => (stripe, stripe),
                    Size::TwoStripes => (stripe - chunk / 2, 2 * stripe),
                }
            }
            Self::Zero => (stripe - chunk / 2, 2 * stripe),
            Self::Flush | Self::Rest | Self::Lose => (0, 0),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { size, fua, beside } => {
                let name = SIZES.iter().find(|(known, _)| known == size).map_or("", |(_, name)| name);
                let (fua, beside) = (if *fua { ".fua" } else { "" }, if *beside { ".beside" } else { "" });
                write!(f, "{name}{fua}{beside}")
            }
            Self::Zero => f.write_str("zero"),
            Self::Flush => f.write_str("flush"),
            Self::Rest => f.write_str("rest"),
            Self::Lose => f.write_str("lose"),
        }
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Self::writes(false).chain(Self::writes(true)).chain([
            Self::Zero,
            Self::Flush,
            Self::Rest,
            Self::Lose,
        ]);
        all.find(|op| op.to_string() == text).ok_or_else(|| {
            format!("no operation {text}: give 512, 4k, chunk, stripe or 2stripes, each perhaps with .fua or .beside; zero, flush, rest or lose")
        })
    }
}

/// An array and its operations: steps one after the other, the operations of a step at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The array.
    pub shape: Shape,
    /// Determines which ready task goes next, and how long I/O takes.
    pub seed: u64,
    /// The operations.
    pub steps: Vec<Vec<Op>>,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cache = match self.cache {
            CacheKind::None => "",
            CacheKind::Stripe => ".sc",
            CacheKind::StripeCt => ".ct",
            CacheKind::Auto => ".auto",
            CacheKind::Pbg => ".pbg",
        };
        write!(f, "{}x{}{cache}", self.level.number(), self.members)
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(|shape| shape.to_string()).join(", ");
        let named = Self::ALL.into_iter().find(|shape| shape.to_string() == text);
        named.ok_or_else(|| format!("no array {text}; there are {}", names()))
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = |step: &Vec<Op>| step.iter().map(Op::to_string).collect::<Vec<_>>().join("+");
        let steps: Vec<String> = self.steps.iter().map(step).collect();
        write!(f, "{}:{}:{}", self.shape, self.seed, steps.join(","))
    }
}

impl FromStr for History {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "give SHAPE:SEED:STEPS, such as 5x3:0:4k.fua,lose,4k+flush".to_owned();
        let mut parts = text.splitn(3, ':');
        let (shape, seed, steps) = (parts.next(), parts.next(), parts.next());
        let shape = shape.ok_or_else(wrong)?.parse()?;
        let seed = seed.and_then(|seed| seed.parse().ok()).ok_or_else(wrong)?;
        let steps = steps.ok_or_else(wrong)?;
        let step = |step: &str| step.split('+').map(str::parse).collect::<Result<Vec<Op>, _>>();
        Ok(Self { shape, seed, steps: steps.split(',').map(step).collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_what_its_words_say() {
        let text = "6x4:17:512.fua.beside,lose,2stripes+flush,rest,zero";
        assert_eq!(text.parse::<History>().map(|history| history.to_string()), Ok(text.to_owned()));
        for op in Op::later() {
            assert_eq!(op.to_string().parse(), Ok(op));
        }
        for wrong in ["", "5x3", "5x3:0", "5x3:0:", "5x7:0:4k", "5x3:x:4k", "5x3:0:5k", "0x4:0:4k"] {
            assert!(wrong.parse::<History>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn operations_lie_within_the_array() {
        for (shape, op) in Shape::ALL.into_iter().flat_map(|shape| Op::later().map(move |op| (shape, op))) {
            let (offset, len) = op.range(shape);
            assert!(offset + len <= shape.capacity_bytes(), "{op} of {shape:?}");
            assert_eq!((offset % 512, len % 512), (0, 0));
        }
    }
}
