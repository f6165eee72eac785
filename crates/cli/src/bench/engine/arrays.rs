//! The arrays that are measured: over members in memory, whole or with one member lost.

use std::sync::Arc;

use clap::ValueEnum;
use stripewise::{
    Array, ArrayError, AssembleOptions, Device, Host, SpeedLimits, ZeroFlags, assemble,
    geometry::MemberIndex,
    locking::{CounterLocks, Locking, PRESETS, Preset},
    memory::{MemoryDevice, NullDevice},
    plan::selection::{DEFAULT_POLICY, Policy},
};

use super::{EngineBench, MemberKind};
use crate::bench::memory;

/// More than metadata takes of a null member.
const METADATA_BYTES: u64 = 8 << 20;
/// The member that is lost.
const LOST: usize = 1;

/// Whether writes are noted region by region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BitmapMode {
    /// In the write-intent bitmap.
    Internal,
    /// Not at all: the whole array is to be resynced after a crash.
    None,
}

impl BitmapMode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::None => "none",
        }
    }
}

/// What is compared: an array with its locks and its bitmap, and a policy on it.
pub(super) struct Variant {
    pub(super) preset: &'static Preset,
    pub(super) policy: &'static Policy,
    pub(super) bitmap: BitmapMode,
    pub(super) array: Array,
}

/// All that were asked for, over members of their own but where only the policy differs.
pub(super) fn variants(options: &EngineBench, host: &Host) -> anyhow::Result<Vec<Variant>> {
    let policies = or_default(&options.policy, DEFAULT_POLICY);
    let mut variants = Vec::new();
    for preset in or_default(&options.locking, &PRESETS[0]) {
        for bitmap in or_default(&options.bitmap, BitmapMode::Internal) {
            let array = new_array(options, host, preset, bitmap)?;
            let variant = |policy| Variant { preset, policy, bitmap, array: array.clone() };
            variants.extend(policies.iter().copied().map(variant));
        }
    }
    Ok(variants)
}

fn or_default<T: Copy>(given: &[T], default: T) -> Vec<T> {
    if given.is_empty() { vec![default] } else { given.to_vec() }
}

fn new_array(
    options: &EngineBench,
    host: &Host,
    preset: &'static Preset,
    bitmap: BitmapMode,
) -> anyhow::Result<Array> {
    let members: Vec<_> = (0..options.raid_devices).map(|i| new_member(options, &i.to_string())).collect();
    let mut array =
        memory::create(host, options.level()?, u32::try_from(options.chunk)?, members.clone(), preset)?;
    if bitmap == BitmapMode::None {
        let locking = Locking { counter_locks: CounterLocks::Uncounted, ..preset.locking };
        let open = AssembleOptions { locking: Some(locking), ..AssembleOptions::default() };
        let env = host.env();
        array = host.block_on(async move {
            array.stop().await?;
            anyhow::Ok(assemble(env, members, &open).await?)
        })?;
    }
    array.set_speed_limits(SpeedLimits { min_bytes_per_s: u64::MAX, max_bytes_per_s: u64::MAX });
    memory::touch_all(host, &array)?;
    Ok(array)
}

fn new_member(options: &EngineBench, name: &str) -> Arc<dyn Device> {
    match options.members {
        MemberKind::Memory => Arc::new(MemoryDevice::new(format!("memory{name}"), options.size)),
        MemberKind::Null => Arc::new(NullDevice::new(format!("null{name}"), options.size, METADATA_BYTES)),
    }
}

/// Chooses the policy of a variant; its array may have that of another.
pub(super) fn choose(host: &Host, variant: &Variant) -> Result<(), ArrayError> {
    let (array, policy) = (variant.array.clone(), variant.policy);
    host.block_on(async move { array.set_policy(policy).await })
}

/// Loses a member, if none is lost yet.
pub(super) fn degrade(host: &Host, array: &Array) -> Result<(), ArrayError> {
    let array = array.clone();
    host.block_on(async move {
        let report = array.report().await;
        if report.members.len() < array.geometry().members() {
            return Ok(());
        }
        let lost = report
            .members
            .iter()
            .filter(|member| member.slot == Some(MemberIndex(LOST)))
            .map(|m| m.name.clone());
        for name in lost.collect::<Vec<_>>() {
            array.fail(&name).await?;
            array.remove(&name).await?;
        }
        Ok(())
    })
}

/// A new member in place of the lost one, all of it written once.
pub(super) async fn new_spare(options: &EngineBench, number: u64) -> Arc<dyn Device> {
    let spare = new_member(options, &format!("-spare{number}"));
    let _ = spare.write_zeroes(0, options.size, ZeroFlags::default()).await;
    spare
}
