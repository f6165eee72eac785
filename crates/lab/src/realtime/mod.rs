//! A point of a real-time experiment: arrays that differ only in their locks, under the same load in turns,
//! on this machine; and its outcome.
//!
//! Unlike a [`Point`](crate::point::Point) on modelled disks it takes real time, it must not share the
//! machine with the rest of the run, and no seed repeats it. The machine is part of its identity.

mod outcome;

use std::time::Duration;

use stripewise_engine::geometry::Level;

#[cfg(test)]
pub(crate) use self::outcome::MadeUp;
pub use self::outcome::{PresetOutcome, RealTimeOutcome};
use crate::{
    engine_bench::{self, BenchError, Case, Options},
    machine::Machine,
};

/// The arrays that take turns, by the names of their locks: those of scalaraid and ours.
pub const COMPARED: [&str; 4] = ["orig", "hemi", "scala", "default"];

/// Arrays of one shape under sequential writes of whole stripes, in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RealTimePoint {
    /// Members: data, and one of parity.
    pub raid_devices: usize,
    /// Bytes of a chunk.
    pub chunk_bytes: u32,
    /// Bytes of each member.
    pub member_bytes: u64,
    /// Worker threads.
    pub threads: usize,
    /// Writes under way for each thread.
    pub queue: usize,
    /// Whether a sampler looks at which parts the workers are in; if not, the time of each write is measured.
    pub parts: bool,
    /// Length of a turn, in milliseconds.
    pub turn_ms: u64,
    /// Turns of each array that count.
    pub turns: usize,
}

/// The work of a second, in the unit of [`Point::weight`](crate::point::Point::weight): two cores simulate so
/// much in it.
const WEIGHT_PER_S: u64 = 700_000;

impl RealTimePoint {
    /// Everything that defines the point, as text; on another machine it is another point.
    pub fn key(&self, machine: &Machine) -> String {
        let Self { raid_devices, chunk_bytes, member_bytes, threads, queue, parts, turn_ms, turns } = self;
        let data = raid_devices - 1;
        let taken = if *parts { "parts" } else { "latency" };
        format!(
            "real-time {data}+1 full-stripe chunk={chunk_bytes} member={member_bytes} threads={threads} queue={queue} {taken} \
             turns={turns}x{turn_ms}ms machine={}",
            machine.id()
        )
    }

    /// Its share of a run, compared with modelled points.
    pub fn weight(&self) -> u64 {
        // A turn of each array and of the limit, and one more that warms up.
        let ms = self.turn_ms * (self.turns as u64 + 1) * (COMPARED.len() as u64 + 1);
        (ms * WEIGHT_PER_S / 1000).max(1)
    }

    /// Measures it. Nothing else of the run may be at work meanwhile.
    ///
    /// # Errors [`BenchError`]: the arrays or their workers cannot be made.
    pub fn measure(&self) -> Result<RealTimeOutcome, BenchError> {
        let figures = engine_bench::run(&self.options(), |_| {})?;
        Ok(RealTimeOutcome::of(&figures))
    }

    fn options(&self) -> Options {
        let locks = |name: &str| name.parse().expect("the engine has the presets of the paper");
        Options {
            level: Level::Raid5,
            raid_devices: vec![self.raid_devices],
            chunk_bytes: self.chunk_bytes,
            member_bytes: self.member_bytes,
            threads: vec![self.threads],
            queue: self.queue,
            turn: Duration::from_millis(self.turn_ms),
            turns: self.turns,
            cases: vec![Case::FullStripe],
            locks: COMPARED.map(locks).to_vec(),
            latency: !self.parts,
            parts: self.parts,
            ..Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn tiny(parts: bool) -> RealTimePoint {
        RealTimePoint {
            raid_devices: 3,
            chunk_bytes: 4096,
            member_bytes: 16 << 20,
            threads: 2,
            queue: 4,
            parts,
            turn_ms: 20,
            turns: 2,
        }
    }

    #[test]
    fn all_that_are_compared_take_turns_in_a_point() {
        for parts in [false, true] {
            let outcome = tiny(parts).measure().unwrap();
            let names: Vec<_> = outcome.presets.iter().map(|preset| preset.name.as_str()).collect();
            assert_eq!((names, outcome.bytes_per_operation), (COMPARED.to_vec(), 8192));
            assert!(outcome.limit_bytes_per_s > 0);
            for preset in &outcome.presets {
                assert!(preset.turn_bytes_per_s.len() == 2 && preset.bytes_per_s() > 0.0, "{preset:?}");
                let (timed, looked) = (preset.operations > 0, !preset.parts_ppm.is_empty());
                assert_eq!((timed, looked), (!parts, parts), "{preset:?}");
                let copies = preset.parts_ppm.get("copy");
                assert!(copies.is_none_or(|ppm| *ppm > 0), "whole stripes are mostly copies: {preset:?}");
            }
            let text = serde_json::to_string(&outcome).unwrap();
            assert_eq!(serde_json::from_str::<RealTimeOutcome>(&text).unwrap(), outcome);
        }
    }

    #[test]
    fn a_point_of_another_machine_is_another_one() {
        let here = Machine::here();
        let other = Machine { kernel: "2.4".to_owned(), ..here.clone() };
        assert_ne!(tiny(false).key(&here), tiny(false).key(&other));
        assert_ne!(tiny(false).key(&here), tiny(true).key(&here));
        assert_eq!(tiny(false).weight(), 20 * 3 * 5 * 700);
    }
}
