//! Loads that change while they run: phases of unlike requests, one after another, on the same array.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use stripewise_load::{Load, Offsets, Sizes, Stop};

/// A load in phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Changing {
    /// The phases of a round, in their order.
    pub phases: &'static [Phase],
    /// Rounds.
    pub rounds: u32,
    /// Spans and requests are smaller by this factor.
    pub part: u64,
    /// Phases have fewer requests by this factor, too.
    pub shorter: u64,
}

/// Requests of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// Its name in tables and plots.
    pub name: &'static str,
    /// How many.
    pub requests: u64,
    /// Bytes of each, and its alignment.
    pub request_bytes: u64,
    /// The part of the array that they go to, in bytes from its start.
    pub span_bytes: u64,
    /// One after another; or anywhere in the span.
    pub sequential: bool,
    /// How many of a hundred read.
    pub read_percent: u8,
    /// Writes are complete only when durable.
    pub durable: bool,
    /// Requests under way.
    pub under_way: u32,
}

/// What a phase came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PhaseOutcome {
    /// From its first request to the end of its last, in nanoseconds.
    pub ns: u64,
    /// Bytes read and written by clients.
    pub bytes: u64,
    /// Parts of stripes that writes sent past the cache.
    pub passed: u64,
    /// When writes began to go another way.
    pub changes: Vec<WayChange>,
    /// Why writes went the way that they went, in words, and in how many looks: one every 200 ms.
    pub reasons: BTreeMap<String, u64>,
    /// How long members were thought to be occupied by a KiB past the cache and by way of it when the phase ended, in
    /// nanoseconds; if that was known.
    pub costs_ns: Option<[u64; 2]>,
}

/// Writes began to go past the cache, or by way of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayChange {
    /// From the phase's beginning, in nanoseconds.
    pub after_ns: u64,
    /// Past the cache.
    pub past: bool,
    /// Why, in words.
    pub why: String,
    /// How long members are occupied by a KiB past the cache and by way of it, in nanoseconds; if that is known.
    pub costs_ns: Option<[u64; 2]>,
}

/// How often the way that writes go is looked at: as often as `auto` sums up what members were occupied for.
pub(crate) const LOOKS: Duration = Duration::from_millis(200);

/// How long a client works between two requests of its own: without, a phase that fits the cache would take no time.
const THINK: Duration = Duration::from_millis(1);

impl Phase {
    fn key(&self) -> String {
        let Self { name, requests, request_bytes, span_bytes, sequential, read_percent, durable, under_way } =
            self;
        let places = if *sequential { "sequential" } else { "random" };
        let durable = if *durable { " durable" } else { "" };
        format!(
            "{name}: {requests} of {request_bytes} {places} in {span_bytes} reads={read_percent}{durable} at-once={under_way}"
        )
    }
}

impl Changing {
    /// In keys.
    pub(super) fn key(&self) -> String {
        let phases: Vec<_> = self.phases.iter().map(Phase::key).collect();
        format!("{} rounds / {} / {} of [{}]", self.rounds, self.part, self.shorter, phases.join("; "))
    }

    /// All phases of all rounds, in their order.
    pub fn all(&self) -> impl Iterator<Item = &'static Phase> {
        (0..self.rounds).flat_map(|_| self.phases)
    }

    /// Requests of a phase.
    pub fn requests(&self, phase: &Phase) -> u64 {
        phase.requests / self.part / self.shorter
    }

    /// Bytes that clients read or write.
    pub fn bytes(&self) -> u64 {
        self.all().map(|phase| self.requests(phase) * phase.request_bytes).sum()
    }

    /// A load for each phase of each round.
    pub(super) fn loads(&self, seed: u64) -> Vec<Load> {
        self.all().zip(0..).map(|(phase, number)| self.load(phase, seed.wrapping_add(number))).collect()
    }

    fn load(&self, phase: &Phase, seed: u64) -> Load {
        Load {
            depth: phase.under_way,
            think: THINK,
            offsets: if phase.sequential { Offsets::Sequential } else { Offsets::Uniform },
            sizes: Sizes::Fixed(phase.request_bytes),
            unit_bytes: phase.request_bytes,
            span_bytes: Some(phase.span_bytes / self.part),
            read_percent: phase.read_percent,
            fua: phase.durable,
            stop: Stop::Requests(self.requests(phase)),
            seed: Some(seed),
            ..Load::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_shorter_phases_has_fewer_requests_in_smaller_spans() {
        const ONE: Phase = Phase {
            name: "one",
            requests: 800,
            request_bytes: 4096,
            span_bytes: 80 << 20,
            sequential: false,
            read_percent: 0,
            durable: false,
            under_way: 3,
        };
        static PHASES: [Phase; 2] = [ONE, Phase { name: "two", requests: 1600, ..ONE }];
        let changing = Changing { phases: &PHASES, rounds: 2, part: 8, shorter: 10 };
        let loads = changing.loads(7);
        let counts: Vec<_> = loads.iter().map(|load| load.stop).collect();
        assert_eq!(counts, [10, 20, 10, 20].map(Stop::Requests));
        assert_eq!((loads[0].span_bytes, changing.bytes()), (Some(10 << 20), 60 * 4096));
        assert!(loads[0].seed != loads[2].seed, "rounds differ");
    }
}
