//! Which writes of an array wait for which: named settings of its locks and of its bitmap's map.
//!
//! `orig`, `hemi` and `scala` are the systems that the ScalaRAID paper compares (section IV); `default` is
//! ours.

use stripewise_format::extension::MapKind;

pub use super::counters::CounterLocks;

/// How many locks guard the table of active stripes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StripeLocks {
    /// This many, chosen by a hash of the stripe: md has 8, HemiRAID 128.
    Few(u32),
    /// One for each bucket of a table so large that two writers seldom meet.
    #[default]
    PerBucket,
}

/// The locks of an open array; none of this is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Locking {
    /// The locks of active stripes.
    pub stripe_locks: StripeLocks,
    /// The locks of the bitmap's counters.
    pub counter_locks: CounterLocks,
}

/// A named setting.
#[derive(Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// The number stored on disk. Arrays made without a choice have 0.
    pub number: u8,
    /// A description in one line.
    pub about: &'static str,
    /// Its locks.
    pub locking: Locking,
    /// The map of the bitmap, for arrays made with this preset.
    pub map: MapKind,
}

/// All presets.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "default",
        number: 0,
        about: "a lock for each bucket of stripes, atomic counters, linear regions",
        locking: Locking { stripe_locks: StripeLocks::PerBucket, counter_locks: CounterLocks::Atomic },
        map: MapKind::Linear,
    },
    Preset {
        name: "orig",
        number: 1,
        about: "md's: 8 stripe locks, one lock for all counters, linear regions",
        locking: Locking { stripe_locks: StripeLocks::Few(8), counter_locks: CounterLocks::Global },
        map: MapKind::Linear,
    },
    Preset {
        name: "hemi",
        number: 2,
        about: "HemiRAID: orig with 128 stripe locks",
        locking: Locking { stripe_locks: StripeLocks::Few(128), counter_locks: CounterLocks::Global },
        map: MapKind::Linear,
    },
    Preset {
        name: "scala",
        number: 3,
        about: "ScalaRAID: hemi with a lock for each counter, distributed regions",
        locking: Locking { stripe_locks: StripeLocks::Few(128), counter_locks: CounterLocks::PerCounter },
        map: MapKind::Distributed,
    },
];

impl Preset {
    /// The preset of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// The preset of that number. A number that this version does not know gives the default, since any
    /// preset serves any array.
    pub fn numbered(number: u8) -> &'static Self {
        PRESETS.iter().find(|preset| preset.number == number).unwrap_or(&PRESETS[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_found_by_name_and_number() {
        for preset in PRESETS {
            assert_eq!(Preset::named(preset.name), Some(preset));
            assert_eq!(Preset::numbered(preset.number), preset);
        }
        assert_eq!(Preset::numbered(0).locking, Locking::default());
        assert_eq!(Preset::numbered(250).name, "default");
        assert_eq!(Preset::named("none"), None);
    }
}
