//! One point of an experiment: an array, a policy and a load; and what comes of it.

mod measure;
mod outcome;

use serde::Serialize;
use stripewise_engine::plan::selection::Policy;
use xxhash_rust::xxh3::xxh3_64;

pub use measure::measure;
pub use outcome::{MemberOutcome, Outcome};

use crate::arrays::{HddSetting, Shape};

/// An array under a load.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    /// The array.
    pub shape: &'static Shape,
    /// How it writes partly written rows.
    pub policy: &'static Policy,
    /// What it is asked.
    pub load: WriteLoad,
    /// How its disks are set up.
    pub hdd: HddSetting,
}

/// Writes of one length, one pass after another over the same array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WriteLoad {
    /// Where they go.
    pub places: Places,
    /// Bytes of each; they are at multiples of that, as XDD has it.
    pub write_bytes: u64,
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
}

impl WriteLoad {
    /// Random writes as XDD sends them.
    pub fn random(write_bytes: u64, depth: u32, pass_bytes: u64, passes: u32) -> Self {
        Self { places: Places::Random, write_bytes, depth, pass_bytes, passes }
    }

    /// Writes of a pass.
    pub fn requests(&self) -> u64 {
        (self.pass_bytes / self.write_bytes).max(1)
    }
}

impl Point {
    /// With disks as shipped.
    pub fn new(shape: &'static Shape, policy: &'static Policy, load: WriteLoad) -> Self {
        Self { shape, policy, load, hdd: HddSetting::default() }
    }

    /// Everything that makes the point what it is, as text: what results are found by, and tables name them by.
    pub fn key(&self) -> String {
        let Self { shape, policy, load, hdd } = self;
        let places = match load.places {
            Places::Random => "random",
            Places::Sequential => "sequential",
        };
        let cache = if hdd.write_cache { "cache" } else { "no-cache" };
        format!(
            "{} {} {places} {} depth={} pass={} passes={} {cache} ncq={}",
            shape.id,
            policy.name,
            load.write_bytes,
            load.depth,
            load.pass_bytes,
            load.passes,
            hdd.queue_depth
        )
    }

    /// The seed of its requests: arrays and policies under the same load are asked the same.
    pub fn load_seed(&self, seed: u64) -> u64 {
        xxh3_64(format!("{seed} {:?}", self.load).as_bytes())
    }
}
