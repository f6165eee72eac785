//! One point of an experiment: an array, a policy and a load; and its outcome.

mod cache;
mod changing;
mod measure;
mod outcome;
mod script;
#[cfg(test)]
mod tests;

use serde::Serialize;
use stripewise_engine::plan::selection::Policy;
use xxhash_rust::xxh3::xxh3_64;

pub use cache::{CacheSetting, CacheWay, Destage};
pub(crate) use changing::LOOKS;
pub use changing::{Changing, Phase, PhaseOutcome, WayChange};
pub use measure::measure;
pub use outcome::{MemberOutcome, Outcome};
pub use script::{Pieces, Script};

use crate::arrays::{HddSetting, Shape};

/// An array under a load.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// The array.
    pub shape: &'static Shape,
    /// The policy for partly written rows.
    pub policy: &'static Policy,
    /// The load.
    pub load: WriteLoad,
    /// How its disks are set up.
    pub hdd: HddSetting,
    /// Bytes of a chunk, if not the default.
    pub chunk_bytes: Option<u32>,
    /// Its cache, if it has one.
    pub cache: Option<CacheSetting>,
    /// The smallest stride that the contiguity transform does not fill, in blocks; if not as measured.
    pub stride_max: Option<u16>,
    /// What is measured.
    pub measured: Measured,
}

/// What is measured of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measured {
    /// The steady state: passes after a warm-up, and after writes that fill the drives' caches.
    Steady,
    /// One pass from a new array to the end of a flush after it. Scripts and loads that change are measured so.
    Whole,
}

/// What clients write before anything counts, over the total size of the drives' write caches. As long as
/// there is room in the caches, writes cost next to nothing: the first 64 MiB of random writes on four disks
/// go thirty times as fast as all later ones. The slowest to settle are four disks with parity elsewhere, at
/// 1.2; with parity beside the data it is less.
const LEAD_CACHES: f64 = 1.5;

/// An allowance for the models and the script of a point. It is estimated, not measured.
const MODELS_BYTES: u64 = 256 << 20;

/// Writes of one length, one pass after another over the same array; sequential ones continue where the
/// previous pass ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WriteLoad {
    /// Where they go.
    pub places: Places,
    /// Bytes of each.
    pub write_bytes: u64,
    /// The alignment of writes: their size, as with XDD, unless set otherwise.
    pub unit_bytes: u64,
    /// The part of the array that they go to, from its start; all if not given.
    pub span_bytes: Option<u64>,
    /// Writes under way.
    pub depth: u32,
    /// Bytes of a pass; at least one write.
    pub pass_bytes: u64,
    /// Passes.
    pub passes: u32,
}

/// Where writes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Places {
    /// Anywhere.
    Random,
    /// One after another.
    Sequential,
    /// In ascending order over places that are drawn so many at a time, as a page cache writes back.
    Sweeps(u64),
    /// In ascending order, at exponentially distributed strides with this mean and limit, in multiples of the unit.
    Skips {
        /// The mean, without the limit.
        mean: u64,
        /// The longest.
        max: u64,
    },
    /// Where a script says, which says also how long requests are, and whether they read.
    Script(Script),
    /// As each phase of a load that changes has it, with lengths and reads.
    Changing(Changing),
}

impl Measured {
    /// In files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Whole => "whole",
        }
    }
}

impl Places {
    /// In files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Sequential => "sequential",
            Self::Sweeps(_) => "sweeps",
            Self::Skips { .. } => "skips",
            Self::Script(_) => "script",
            Self::Changing(_) => "changing",
        }
    }
}

impl WriteLoad {
    /// Random writes as XDD sends them.
    pub fn random(write_bytes: u64, depth: u32, pass_bytes: u64, passes: u32) -> Self {
        let (places, unit_bytes) = (Places::Random, write_bytes);
        Self { places, write_bytes, unit_bytes, span_bytes: None, depth, pass_bytes, passes }
    }

    /// A script, once, with so many writes under way. Its writes are mostly of a block.
    pub fn script(script: Script, depth: u32) -> Self {
        Self { places: Places::Script(script), ..Self::random(4096, depth, script.bytes(), 1) }
    }

    /// A load that changes, once. As its writes under way stand the most of a phase.
    pub fn changing(changing: Changing) -> Self {
        let depth = changing.all().map(|phase| phase.under_way).max().unwrap_or(1);
        Self { places: Places::Changing(changing), ..Self::random(4096, depth, changing.bytes(), 1) }
    }

    /// Writes of a pass.
    pub fn requests(&self) -> u64 {
        (self.pass_bytes / self.write_bytes).max(1)
    }
}

impl Point {
    /// With disks as shipped.
    pub fn new(shape: &'static Shape, policy: &'static Policy, load: WriteLoad) -> Self {
        let (hdd, measured) = (HddSetting::default(), Measured::Steady);
        Self { shape, policy, load, hdd, chunk_bytes: None, cache: None, stride_max: None, measured }
    }

    /// Everything that defines the point, as text: results are found by it, and tables name points by it.
    pub fn key(&self) -> String {
        let Self { shape, policy, load, hdd, chunk_bytes, cache, stride_max, measured } = self;
        let places = match load.places {
            Places::Sweeps(places) => format!("{} of {places}", load.places.word()),
            Places::Skips { mean, max } => format!("{} of {mean} to {max}", load.places.word()),
            Places::Script(script) => format!("{} {}", load.places.word(), script.key()),
            Places::Changing(changing) => format!("{} {}", load.places.word(), changing.key()),
            _ => load.places.word().to_owned(),
        };
        let drives = if hdd.write_cache { "cache" } else { "no-cache" };
        let WriteLoad { write_bytes, unit_bytes, span_bytes, depth, pass_bytes, passes, .. } = load;
        let span = span_bytes.map_or_else(|| "all".to_owned(), |bytes| bytes.to_string());
        let chunk = chunk_bytes.map_or_else(String::new, |bytes| format!(" chunk={bytes}"));
        let own = cache.map_or_else(String::new, |cache| format!(" {}", cache.key()));
        let stride_max = stride_max.map_or_else(String::new, |blocks| format!(" s-max={blocks}"));
        let whole = if *measured == Measured::Whole { " whole" } else { "" };
        format!(
            "{} {} {places} {write_bytes} unit={unit_bytes} span={span} depth={depth} pass={pass_bytes} passes={passes} \
             {drives} ncq={}{chunk}{own}{stride_max}{whole}",
            shape.id, policy.name, hdd.queue_depth
        )
    }

    /// Writes of the load before those that count: they bring the drives' caches to their steady state.
    pub fn lead_requests(&self) -> u64 {
        if self.measured == Measured::Whole {
            return 0;
        }
        let caches = self.shape.drives.iter().map(|drive| drive.write_cache_bytes(self.hdd)).sum::<u64>();
        (LEAD_CACHES * caches as f64 / self.load.write_bytes as f64).ceil() as u64
    }

    /// How much work it is to simulate: about the number of requests to members.
    pub fn weight(&self) -> u64 {
        let WriteLoad { write_bytes, passes, .. } = self.load;
        let counted = self.load.requests() * u64::from(passes);
        let requests = counted + self.lead_requests() + measure::WARM_UP_WRITES;
        // A read and a write on two members, and one on each more that a long write touches; bytes take time,
        // too.
        let by_length = write_bytes / (64 << 10) * 2;
        let conditioning: u64 = self.shape.drives.iter().map(|drive| drive.conditioning_writes()).sum();
        // A drive alone is simulated several times as fast as an array.
        requests * (4 + by_length) + conditioning / 4
    }

    /// About how much memory it takes to simulate it: its cache, whose blocks are real, and the models.
    pub fn memory_bytes(&self) -> u64 {
        MODELS_BYTES + self.cache.map_or(0, |cache| cache.size_bytes / 8 * 9)
    }

    /// The seed of its requests: arrays and policies under the same load get the same requests.
    pub fn load_seed(&self, seed: u64) -> u64 {
        xxh3_64(format!("{seed} {:?}", self.load).as_bytes())
    }
}
