//! The locks of measured arrays: presets, and presets with some settings replaced, so that each setting can
//! be measured by itself.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use stripewise_engine::locking::{CounterLocks, Locking, PRESETS, Preset, StripeLocks};
use stripewise_format::extension::MapKind;
use thiserror::Error;

/// A table has as many buckets as locks, and each takes two lines of a cache.
const STRIPE_LOCKS: RangeInclusive<u32> = 1..=1 << 16;

/// A preset, with its replaced settings; on the command line as `orig+counters=atomic`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockSetting {
    name: String,
    preset: &'static Preset,
    locking: Locking,
    map: MapKind,
}

/// Why a text is not a [`LockSetting`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LockSettingError {
    /// It does not begin with a preset.
    #[error("'{0}' is no preset of locks: give one of {names}", names = preset_names())]
    Preset(String),
    /// The part after the preset is not known.
    #[error(
        "'{0}': behind a preset give +stripes=buckets or +stripes=COUNT (1 to 65536, a power of two), +counters=global, \
         +counters=per-counter or +counters=atomic, +map=linear or +map=distributed"
    )]
    Change(String),
}

fn preset_names() -> String {
    PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ")
}

impl LockSetting {
    /// The name, as on the command line.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The preset it begins with.
    pub fn preset(&self) -> &'static Preset {
        self.preset
    }

    /// Its locks.
    pub fn locking(&self) -> Locking {
        self.locking
    }

    /// The map of its bitmap.
    pub fn map(&self) -> MapKind {
        self.map
    }

    /// Applies a change such as `counters=atomic`.
    fn change(&mut self, change: &str) -> Option<()> {
        match change.split_once('=')? {
            ("stripes", locks) => self.locking.stripe_locks = stripe_locks(locks)?,
            ("counters", locks) => self.locking.counter_locks = counter_locks(locks)?,
            ("map", "linear") => self.map = MapKind::Linear,
            ("map", "distributed") => self.map = MapKind::Distributed,
            _ => return None,
        }
        Some(())
    }
}

fn stripe_locks(name: &str) -> Option<StripeLocks> {
    if name == "buckets" {
        return Some(StripeLocks::PerBucket);
    }
    let count = name.parse().ok().filter(|count| STRIPE_LOCKS.contains(count) && count.is_power_of_two())?;
    Some(StripeLocks::Few(count))
}

fn counter_locks(name: &str) -> Option<CounterLocks> {
    match name {
        "global" => Some(CounterLocks::Global),
        "per-counter" => Some(CounterLocks::PerCounter),
        "atomic" => Some(CounterLocks::Atomic),
        _ => None,
    }
}

impl Default for LockSetting {
    fn default() -> Self {
        Self::from(&PRESETS[0])
    }
}

impl From<&'static Preset> for LockSetting {
    fn from(preset: &'static Preset) -> Self {
        Self { name: preset.name.to_owned(), preset, locking: preset.locking, map: preset.map }
    }
}

impl FromStr for LockSetting {
    type Err = LockSettingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split('+');
        let name = words.next().unwrap_or_default();
        let preset = Preset::named(name).ok_or_else(|| LockSettingError::Preset(name.to_owned()))?;
        let mut setting = Self::from(preset);
        for word in words {
            setting.change(word).ok_or_else(|| LockSettingError::Change(word.to_owned()))?;
        }
        setting.name = text.to_owned();
        Ok(setting)
    }
}

impl fmt::Display for LockSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_of_a_preset_can_be_replaced() {
        for preset in PRESETS {
            let setting: LockSetting = preset.name.parse().unwrap();
            assert_eq!((&setting, setting.preset()), (&preset.into(), preset));
        }
        let setting: LockSetting = "orig+counters=per-counter+stripes=64+map=distributed".parse().unwrap();
        assert_eq!(setting.preset().name, "orig");
        let locking = Locking { stripe_locks: StripeLocks::Few(64), counter_locks: CounterLocks::PerCounter };
        assert_eq!((setting.locking(), setting.map()), (locking, MapKind::Distributed));
        let ours: LockSetting = "scala+stripes=buckets+counters=atomic+map=linear".parse().unwrap();
        assert_eq!((ours.locking(), ours.map()), (Locking::default(), MapKind::Linear));
        let replaced = |text: &str| text.parse::<LockSetting>().unwrap().locking().counter_locks;
        assert_eq!(replaced("default+counters=global"), CounterLocks::Global);
    }

    #[test]
    fn what_is_no_setting_is_named() {
        for (text, wrong) in [("", "''"), ("md", "'md'"), ("Orig", "'Orig'")] {
            let said = text.parse::<LockSetting>().unwrap_err().to_string();
            assert!(said.starts_with(wrong) && said.ends_with("default, orig, hemi, scala"), "{said}");
        }
        for change in
            ["", "stripes", "stripes=0", "stripes=3", "stripes=131072", "counters=none", "map=", "orig"]
        {
            let error = format!("orig+{change}").parse::<LockSetting>().unwrap_err();
            assert_eq!(error, LockSettingError::Change(change.to_owned()));
        }
    }
}
