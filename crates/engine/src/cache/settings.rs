//! What an operator chooses about the cache, and what members keep of it.

use std::time::Duration;

use stripewise_format::extension::{ArrayOptions, CacheOptions};
use thiserror::Error;

use crate::{
    destage::{PAST, PastPolicy, WHAT, WHEN, WhatPolicy, WhenPolicy, numbered},
    plan::passes::GapRule,
    shape::geometry::{Geometry, Level},
    sizes::format_size,
};

/// Which cache an array has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheKind {
    /// None: a write is acknowledged when members have it.
    #[default]
    None,
    /// By rows, as md's stripe cache is (msc-ct's PBGC): rows are destaged one by one.
    Pbg,
    /// By stripes (msc-ct's SC): what is dirty in a stripe is destaged together.
    Stripe,
    /// By stripes, and short gaps between what is destaged are filled (MSC-CT).
    StripeCt,
    /// As [`StripeCt`](Self::StripeCt), and writes go past it while that occupies members for a shorter time, as it
    /// measures.
    Auto,
}

impl CacheKind {
    /// All of them. Members keep the number of a kind, which is its place here.
    pub const ALL: [Self; 5] = [Self::None, Self::Pbg, Self::Stripe, Self::StripeCt, Self::Auto];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pbg => "pbg",
            Self::Stripe => "stripe",
            Self::StripeCt => "stripe+ct",
            Self::Auto => "auto",
        }
    }

    /// The cache of a new array of this level for which none was chosen: `auto` where a member was measured to rotate.
    pub fn for_members(level: Level, rotates: bool) -> Self {
        if rotates && level.has_parity() { Self::Auto } else { Self::None }
    }

    /// Whether short gaps between what is destaged are filled.
    pub fn fills_gaps(self) -> bool {
        matches!(self, Self::StripeCt | Self::Auto)
    }

    /// Which of its writes go past it.
    pub(crate) fn past(self) -> &'static PastPolicy {
        PAST[usize::from(self == Self::Auto)]
    }

    /// Whether it looks at how long members are occupied.
    pub(crate) fn needs_costs(self) -> bool {
        self == Self::Auto
    }
}

/// What the cache keeps for readers, in the memory that dirty blocks leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadCache {
    /// What was written, until it is evicted.
    Written,
    /// Nothing: what members hold is dropped.
    Nothing,
    /// What was written, and the next stripe of sequential reads, while that is faster as measured.
    #[default]
    Ahead,
}

impl ReadCache {
    /// All of them. Members keep the number, which is one more than the place here.
    pub const ALL: [Self; 3] = [Self::Written, Self::Nothing, Self::Ahead];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ahead => "ahead",
            Self::Written => "written",
            Self::Nothing => "none",
        }
    }
}

/// What the cache takes memory for (msc-ct III-E).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CacheAlloc {
    /// For the blocks that are cached.
    #[default]
    Block,
    /// For all blocks of a stripe, or of a row, as soon as one of them is cached: fewer allocations, and memory that
    /// scattered blocks leave unused.
    Stripe,
}

impl CacheAlloc {
    /// All of them. Members keep the number, which is one more than the place here.
    pub const ALL: [Self; 2] = [Self::Block, Self::Stripe];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Stripe => "stripe",
        }
    }
}

/// Which writes of parts of stripes go past the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CachePast {
    /// Those for which that is better, as is measured while the cache is full or flushed all the time.
    #[default]
    Measured,
    /// None, as in msc-ct's driver.
    Never,
}

impl CachePast {
    /// All of them. Members keep the number, which is one more than the place here.
    pub const ALL: [Self; 2] = [Self::Measured, Self::Never];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Never => "never",
        }
    }
}

/// The cache of an array. [`CacheSettings::default`] is no cache, and what is best otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheSettings {
    /// Which one.
    pub kind: CacheKind,
    /// Bytes of memory that it takes: blocks, and all that it keeps about them. If none are given,
    /// [`SIZE_DEFAULT`](Self::SIZE_DEFAULT), and no more than a quarter of the machine's memory.
    pub size_bytes: Option<u64>,
    /// When room is made.
    pub when: &'static WhenPolicy,
    /// What is destaged first.
    pub what: &'static WhatPolicy,
    /// The share of dirty blocks, in hundredths, below which no room is made.
    pub low_percent: u8,
    /// The share from which on members do all that they can.
    pub high_percent: u8,
    /// The longest that a write stays off the members, under load too; for ever, if none is given.
    pub age: Option<Duration>,
    /// After so long without requests, everything is destaged; never, if none is given.
    pub idle: Option<Duration>,
    /// No more is dirty than members write in this time, as measured; without limit, if none is given.
    pub flush_time: Option<Duration>,
    /// What is kept for readers.
    pub read: ReadCache,
    /// What memory is taken for.
    pub alloc: CacheAlloc,
    /// Which writes go past it.
    pub past: CachePast,
    /// By which rule gaps are filled, if they are.
    pub gaps: GapRule,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            kind: CacheKind::None,
            size_bytes: None,
            when: WHEN[0],
            what: WHAT[0],
            low_percent: 85,
            high_percent: 95,
            age: Some(Duration::from_secs(30)),
            idle: Some(Duration::from_secs(1)),
            flush_time: Some(Duration::from_secs(10)),
            read: ReadCache::Ahead,
            alloc: CacheAlloc::Block,
            past: CachePast::Measured,
            gaps: GapRule::Weighed,
        }
    }
}

/// Why an array cannot have a cache.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The level has no parity.
    #[error("level {0} has no parity that a write would wait for, and takes no cache; levels 4, 5 and 6 do")]
    Level(i32),
    /// It does not hold two stripes, or the machine has not that much memory.
    #[error(
        "a cache of {}: give a size from {}K, into which two stripes of this array fit, to {}M, the memory that the daemon has (a \
         quarter of that is enough); or choose the cache `none`",
        format_size(*size_bytes), kib(*min_bytes), memory_bytes >> 20
    )]
    Size {
        /// The size as given.
        size_bytes: u64,
        /// The least.
        min_bytes: u64,
        /// What memory there is.
        memory_bytes: u64,
    },
    /// The marks are out of order.
    #[error("the low mark, {low} %, must be below the high mark, {high} %: give percents from 1 to 100")]
    Marks {
        /// The low mark as given.
        low: u8,
        /// The high mark as given.
        high: u8,
    },
    /// Members cannot keep a time.
    #[error("members cannot keep a time of {time:?}: give one from 1ms to 49d, or `off`")]
    Time {
        /// As given.
        time: Duration,
    },
    /// The system gave no memory.
    #[error("the system has no {} of address space for a cache; give it less", format_size(*size_bytes))]
    NoMemory {
        /// The size that was wanted.
        size_bytes: u64,
    },
}

/// As many KiB as hold these bytes.
fn kib(bytes: u64) -> u64 {
    bytes.div_ceil(1024)
}

/// The number of a time without limit.
const NO_LIMIT_MS: u32 = u32::MAX;

impl CacheSettings {
    /// The size of a cache for which none is given.
    pub const SIZE_DEFAULT: u64 = 512 << 20;

    /// A cache of this kind and size, with everything else by default.
    pub fn new(kind: CacheKind, size_bytes: u64) -> Self {
        Self { kind, size_bytes: Some(size_bytes), ..Self::default() }
    }

    /// The least bytes that a cache of an array of this shape needs: two stripes, and what it keeps about them.
    pub fn min_bytes(geometry: &Geometry) -> u64 {
        2 * geometry.stripe_bytes() * 5 / 4 + (16 << 10)
    }

    /// The bytes that it takes on a machine with so much memory.
    pub fn size_on(&self, memory_bytes: u64) -> u64 {
        self.size_bytes.unwrap_or(Self::SIZE_DEFAULT.min(memory_bytes / 4))
    }

    /// Checks that an array of this shape can have such a cache on a machine with so much memory.
    ///
    /// # Errors
    /// [`CacheError`].
    pub fn check(&self, geometry: &Geometry, memory_bytes: u64) -> Result<(), CacheError> {
        let Self { low_percent: low, high_percent: high, .. } = *self;
        if low == 0 || low >= high || high > 100 {
            return Err(CacheError::Marks { low, high });
        }
        let unkept = [self.age, self.idle, self.flush_time].into_iter().flatten().find(|time| {
            let ms = time.as_nanos().div_ceil(1_000_000);
            ms == 0 || ms >= u128::from(NO_LIMIT_MS)
        });
        if let Some(time) = unkept {
            return Err(CacheError::Time { time });
        }
        if self.kind == CacheKind::None {
            return Ok(());
        }
        if !geometry.has_parity() {
            return Err(CacheError::Level(geometry.level().number()));
        }
        self.check_size(geometry, memory_bytes)
    }

    /// As [`CacheSettings::check`], for what an operator chooses now: a size must be possible even before there is a
    /// cache.
    ///
    /// # Errors
    /// [`CacheError`].
    pub(crate) fn check_chosen(&self, geometry: &Geometry, memory_bytes: u64) -> Result<(), CacheError> {
        self.check(geometry, memory_bytes)?;
        // Without parity there is none to come.
        let is_given = self.size_bytes.is_some() && geometry.has_parity();
        if is_given { self.check_size(geometry, memory_bytes) } else { Ok(()) }
    }

    fn check_size(&self, geometry: &Geometry, memory_bytes: u64) -> Result<(), CacheError> {
        let (size_bytes, min_bytes) = (self.size_on(memory_bytes), Self::min_bytes(geometry));
        let fits = (min_bytes..=memory_bytes).contains(&size_bytes);
        if fits { Ok(()) } else { Err(CacheError::Size { size_bytes, min_bytes, memory_bytes }) }
    }

    /// Enters the settings into what members keep. What is so by default is 0.
    pub(crate) fn keep(&self, options: &mut ArrayOptions) {
        let default = Self::default();
        let percent = |own: u8, default: u8| if own == default { 0 } else { own };
        let time = |own: Option<Duration>, default: Option<Duration>| match own {
            _ if own == default => 0,
            Some(time) => time.as_millis().clamp(1, u128::from(NO_LIMIT_MS) - 1) as u32,
            None => NO_LIMIT_MS,
        };
        let place = CacheKind::ALL.iter().position(|kind| *kind == self.kind);
        options.cache_policy = place.unwrap_or_default() as u8;
        options.cache = CacheOptions {
            size_bytes: self.size_bytes.unwrap_or(0),
            age_ms: time(self.age, default.age),
            idle_ms: time(self.idle, default.idle),
            flush_ms: time(self.flush_time, default.flush_time),
            when: if self.when == default.when { 0 } else { self.when.number },
            what: if self.what == default.what { 0 } else { self.what.number },
            high_percent: percent(self.high_percent, default.high_percent),
            low_percent: percent(self.low_percent, default.low_percent),
            read: number_of(&ReadCache::ALL, self.read),
            alloc: number_of(&CacheAlloc::ALL, self.alloc),
            past: number_of(&CachePast::ALL, self.past),
            gaps: number_of(&GapRule::ALL, self.gaps),
            is_open: options.cache.is_open,
        };
    }

    /// The settings that members keep, and what of it is not known here: then there is no cache.
    pub(crate) fn kept(options: &ArrayOptions) -> (Self, Option<String>) {
        let (default, kept) = (Self::default(), &options.cache);
        let percent = |own: u8, default: u8| if own == 0 { default } else { own };
        let time = |ms: u32, default| match ms {
            0 => default,
            NO_LIMIT_MS => None,
            ms => Some(Duration::from_millis(ms.into())),
        };
        let kind = CacheKind::ALL.get(usize::from(options.cache_policy)).copied();
        let (when, what) = (numbered(WHEN, kept.when), numbered(WHAT, kept.what));
        let (read, alloc) = (of_number(&ReadCache::ALL, kept.read), of_number(&CacheAlloc::ALL, kept.alloc));
        let (past, gaps) = (of_number(&CachePast::ALL, kept.past), of_number(&GapRule::ALL, kept.gaps));
        let (low_percent, high_percent) = (
            percent(kept.low_percent, default.low_percent),
            percent(kept.high_percent, default.high_percent),
        );
        let unknown = [
            (kind.is_none(), "cache policy", options.cache_policy),
            (when.is_none(), "cache `when`", kept.when),
            (what.is_none(), "cache `what`", kept.what),
            (read.is_none(), "cache `read`", kept.read),
            (alloc.is_none(), "cache `alloc`", kept.alloc),
            (past.is_none(), "cache `past`", kept.past),
            (gaps.is_none(), "cache `gaps`", kept.gaps),
            (high_percent > 100, "cache high mark", high_percent),
            (low_percent >= high_percent, "cache low mark", low_percent),
        ];
        let unknown = unknown.into_iter().find(|(is_unknown, ..)| *is_unknown);
        let problem =
            unknown.map(|(_, field, number)| format!("{field} {number}, which makes no sense here"));
        let settings = Self {
            kind: kind.filter(|_| problem.is_none()).unwrap_or_default(),
            size_bytes: Some(kept.size_bytes).filter(|size| *size > 0),
            when: when.unwrap_or(default.when),
            what: what.unwrap_or(default.what),
            low_percent,
            high_percent,
            age: time(kept.age_ms, default.age),
            idle: time(kept.idle_ms, default.idle),
            flush_time: time(kept.flush_ms, default.flush_time),
            read: read.unwrap_or_default(),
            alloc: alloc.unwrap_or_default(),
            past: past.unwrap_or_default(),
            gaps: gaps.unwrap_or_default(),
        };
        if low_percent >= high_percent || high_percent > 100 {
            let (low_percent, high_percent) = (default.low_percent, default.high_percent);
            return (Self { low_percent, high_percent, ..settings }, problem);
        }
        (settings, problem)
    }
}

/// The number that members keep of a choice: 0 for the default, else one more than its place.
fn number_of<T: PartialEq + Default>(all: &[T], one: T) -> u8 {
    let place = all.iter().position(|other| *other == one).filter(|_| one != T::default());
    place.map_or(0, |place| place as u8 + 1)
}

/// The choice with a number that members keep, if it is known here.
fn of_number<T: Copy + Default>(all: &[T], number: u8) -> Option<T> {
    match number {
        0 => Some(T::default()),
        number => all.get(usize::from(number) - 1).copied(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::shape::geometry::Level;

    fn geometry(level: Level, members: usize) -> Geometry {
        Geometry::new(level, members, 65536, 1 << 30, 512).unwrap()
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let (raid5, raid1) = (geometry(Level::Raid5, 5), geometry(Level::Raid1, 2));
        let memory = 1 << 30;
        let sized = |size| CacheSettings::new(CacheKind::Stripe, size).check(&raid5, memory);
        let min_bytes = CacheSettings::min_bytes(&raid5);
        assert_eq!(min_bytes, 671_744);
        let refused = |size_bytes| Err(CacheError::Size { size_bytes, min_bytes, memory_bytes: memory });
        for size in [0, 1, 671_743] {
            assert_eq!(sized(size), refused(size));
        }
        assert_eq!(sized(min_bytes), Ok(()));
        assert_eq!(sized(memory), Ok(()));
        assert_eq!(sized(memory + 1), refused(memory + 1));
        let said = sized(1 << 40).unwrap_err().to_string();
        assert!(
            said.starts_with("a cache of 1 TiB: give a size from 656K, ") && said.contains(" to 1024M, "),
            "{said}"
        );
        let stripe = CacheSettings { kind: CacheKind::Stripe, ..CacheSettings::default() };
        assert_eq!(stripe.check(&raid1, memory), Err(CacheError::Level(1)));
        assert_eq!(CacheSettings::default().check(&raid1, memory), Ok(()));
        for (low, high) in [(0, 50), (60, 50), (50, 50), (50, 101)] {
            let marks = CacheSettings { low_percent: low, high_percent: high, ..stripe };
            assert_eq!(marks.check(&raid5, memory), Err(CacheError::Marks { low, high }));
        }
        // What is not used, and was perhaps kept by another machine, is in nobody's way.
        for size in [1024, memory + 1] {
            let unused = CacheSettings::new(CacheKind::None, size);
            assert_eq!(unused.check(&raid5, memory), Ok(()));
            assert!(unused.check_chosen(&raid5, memory).is_err(), "nobody chooses that");
        }
        let sized = |size| CacheSettings::new(CacheKind::None, size);
        assert_eq!(sized(min_bytes).check_chosen(&raid5, memory), Ok(()), "before there is a cache");
        assert_eq!(sized(1024).check_chosen(&raid1, memory), Ok(()), "there is none to come");
    }

    #[test]
    fn times_that_members_cannot_keep_are_refused() {
        let geometry = geometry(Level::Raid5, 5);
        let days = |days: u64| Duration::from_secs(days * 86_400);
        for (time, is_kept) in
            [(days(49), true), (days(50), false), (Duration::ZERO, false), (Duration::from_millis(1), true)]
        {
            let of = |settings: CacheSettings| settings.check(&geometry, 1 << 30);
            let (time, none) = (Some(time), CacheSettings::default());
            for settings in [
                CacheSettings { age: time, ..none },
                CacheSettings { idle: time, ..none },
                CacheSettings { flush_time: time, ..none },
            ] {
                assert_eq!(of(settings).is_ok(), is_kept, "{settings:?}");
            }
        }
    }

    #[test]
    fn a_size_that_is_not_given_leaves_memory_to_others() {
        let by_default = CacheSettings::default();
        assert_eq!(by_default.size_on(64 << 30), 512 << 20);
        assert_eq!(by_default.size_on(1 << 30), 256 << 20);
        assert_eq!(CacheSettings::new(CacheKind::Pbg, 7 << 20).size_on(1 << 20), 7 << 20);
    }

    #[test]
    fn an_array_that_never_had_a_cache_keeps_zeroes() {
        let mut options = ArrayOptions::default();
        CacheSettings::default().keep(&mut options);
        assert_eq!(options, ArrayOptions::default());
    }

    fn any_time() -> impl Strategy<Value = Option<Duration>> {
        prop::option::of((1..u64::from(NO_LIMIT_MS)).prop_map(Duration::from_millis))
    }

    proptest! {
        #[test]
        fn members_keep_every_setting(
            kind in 0..5_usize, size in prop::option::of(1..u64::MAX), policies in (0..2_usize, 0..3_usize),
            marks in (1..100_u8, 1..100_u8), times in (any_time(), any_time(), any_time()), kept in (0..3_usize, 0..2_usize, 0..2_usize, 0..2_usize),
        ) {
            let (low_percent, high_percent) = (marks.0.min(marks.1), marks.0.max(marks.1) + 1);
            let settings = CacheSettings {
                kind: CacheKind::ALL[kind], size_bytes: size, when: WHEN[policies.0], what: WHAT[policies.1],
                low_percent, high_percent, age: times.0, idle: times.1, flush_time: times.2,
                read: ReadCache::ALL[kept.0], alloc: CacheAlloc::ALL[kept.1], past: CachePast::ALL[kept.2],
                gaps: GapRule::ALL[kept.3],
            };
            let mut options = ArrayOptions::default();
            settings.keep(&mut options);
            prop_assert_eq!(CacheSettings::kept(&options), (settings, None));
        }

        /// Whatever a header says: settings that can be used, and no cache where something is not known.
        #[test]
        fn nonsense_is_told_and_harmless(
            policy: u8, size: u64, times: (u32, u32, u32), when: u8, what: u8, marks: (u8, u8), choices: (u8, u8, u8, u8),
        ) {
            let cache = CacheOptions {
                size_bytes: size, age_ms: times.0, idle_ms: times.1, flush_ms: times.2, when, what,
                high_percent: marks.0, low_percent: marks.1, read: choices.0, alloc: choices.1, past: choices.2, gaps: choices.3, is_open: false,
            };
            let (settings, problem) = CacheSettings::kept(&ArrayOptions { cache_policy: policy, cache, ..ArrayOptions::default() });
            prop_assert!(settings.low_percent < settings.high_percent && settings.high_percent <= 100);
            prop_assert!(problem.is_none() || settings.kind == CacheKind::None);
            prop_assert_eq!(problem.is_some(), policy > 4 || when > 2 || what > 3 || choices.0 > 3 || choices.1 > 2 || choices.2 > 2 || choices.3 > 2
                || { let (h, l) = (if marks.0 == 0 { 95 } else { marks.0 }, if marks.1 == 0 { 85 } else { marks.1 }); l >= h || h > 100 });
        }
    }
}
