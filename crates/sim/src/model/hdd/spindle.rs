//! What tells the spindles of equal drives apart: the angle they stand at, and how fast they turn.
//!
//! Drives turn freely. None knows the angle of another's discs, so a request that waits for two drives waits
//! for the later of two independent angles: 2/3 of a turn on average, not the 1/2 of drives in lockstep.

use super::params::HddParams;

/// One drive's spindle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spindle {
    /// The angle under the heads at time 0, in parts of 2^32 of a turn.
    angle: u32,
    /// How much faster than nominal it turns, in millionths.
    faster_ppm: i32,
}

/// How far a drive's speed is from nominal at most. An assumption: makers' manuals have tolerances of 0.1 to
/// 0.5 %, and none was looked up for the drives of the presets. Any such amount lets two drives slip a turn
/// against one another within seconds, so that results depend little on it. The draw is uniform, as DiskSim's
/// is ("Percent error in rpms").
const FASTER_PPM_MAX: i32 = 2000;

impl Spindle {
    /// As the data sheet has it, at angle 0: for a drive alone, whose angle to others means nothing.
    pub const NOMINAL: Self = Self { angle: 0, faster_ppm: 0 };

    /// One of many: `random` gives a number below its argument, each as often as another.
    pub fn draw(mut random: impl FnMut(u64) -> u64) -> Self {
        let angle = random(1 << 32) as u32;
        let speeds = 2 * FASTER_PPM_MAX as u64 + 1;
        Self { angle, faster_ppm: random(speeds) as i32 - FASTER_PPM_MAX }
    }

    /// The drive as it turns on this spindle. Skews are angles: they pass as much faster.
    pub(super) fn turning(self, params: HddParams) -> HddParams {
        let passing = |nominal_ns: u32| {
            let faster = (1_000_000 + self.faster_ppm) as u64;
            ((u64::from(nominal_ns) * 1_000_000 + faster / 2) / faster) as u32
        };
        HddParams {
            revolution_ns: passing(params.revolution_ns),
            track_skew_ns: passing(params.track_skew_ns),
            cylinder_skew_ns: passing(params.cylinder_skew_ns),
            ..params
        }
    }

    /// The angle at time 0, as the time since the index mark passed.
    pub(super) fn angle_ns(self, revolution_ns: u32) -> u32 {
        ((u64::from(self.angle) * u64::from(revolution_ns)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    #[test]
    fn angles_lie_anywhere_in_a_turn_and_speeds_within_the_tolerance() {
        let mut rng = Rng::with_seed(1);
        let nominal = HddParams::wd_caviar_black_640();
        let mut quarters = [0; 4];
        let (mut slowest, mut fastest) = (0, u32::MAX);
        for _ in 0..4000 {
            let spindle = Spindle::draw(|below| rng.u64(..below));
            let turn_ns = spindle.turning(nominal.clone()).revolution_ns;
            let angle_ns = spindle.angle_ns(turn_ns);
            assert!(angle_ns < turn_ns);
            quarters[(u64::from(angle_ns) * 4 / u64::from(turn_ns)) as usize] += 1;
            (slowest, fastest) = (slowest.max(turn_ns), fastest.min(turn_ns));
        }
        assert!(quarters.iter().all(|count| (900..1100).contains(count)), "{quarters:?}");
        // 8,333,333 ns, longer and shorter by 0.2 %.
        assert!((8_349_000..=8_350_034).contains(&slowest), "{slowest}");
        assert!((8_316_699..=8_317_700).contains(&fastest), "{fastest}");
    }

    #[test]
    fn a_nominal_spindle_changes_nothing() {
        for params in [HddParams::wd_caviar_black_640(), HddParams::seagate_cheetah_15k4_73()] {
            assert_eq!(Spindle::NOMINAL.turning(params.clone()), params);
            assert_eq!(Spindle::NOMINAL.angle_ns(params.revolution_ns), 0);
        }
    }
}
