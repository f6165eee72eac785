//! The arrays that are measured: over members in memory, whole or with one member lost.

use std::sync::Arc;

use stripewise_device::{
    Device, WriteFlags, ZeroFlags,
    memory::{MemoryDevice, NullDevice},
    uring::Runtime,
};
use stripewise_engine::{
    Array, ArrayError, AssembleOptions, CacheKind, CacheSettings, SpeedLimits, assemble,
    geometry::MemberIndex,
    locking::{CounterLocks, Locking},
    plan::selection::Policy,
};
use stripewise_format::{md::default_data_offset_sectors, media::SECTOR_BYTES};

use super::{
    BenchError, BitmapMode, LockSetting, MemberKind, Options,
    case::HIT_BYTES,
    client::{self, Held},
    memory,
};

/// The member that is lost.
const LOST: usize = 1;

/// What is compared: an array with its locks, its bitmap and its cache, and a policy on it.
pub(super) struct Variant {
    pub(super) locks: LockSetting,
    pub(super) policy: &'static Policy,
    pub(super) bitmap: BitmapMode,
    pub(super) cache: CacheKind,
    pub(super) array: Array,
}

impl Variant {
    /// Whether this is the other one without a cache.
    pub(super) fn is_uncached(&self, other: &Self) -> bool {
        self.cache == CacheKind::None
            && (&self.locks, self.bitmap, self.policy.name) == (&other.locks, other.bitmap, other.policy.name)
    }
}

/// All that were asked for, over so many members of their own but where only the policy differs.
pub(super) fn variants(
    options: &Options,
    members: usize,
    runtime: &Runtime,
) -> Result<Vec<Variant>, BenchError> {
    let mut variants = Vec::new();
    for locks in &options.locks {
        for bitmap in options.bitmaps.iter().copied() {
            for cache in options.caches.iter().copied() {
                let array = new_array(options, members, runtime, (locks, bitmap, cache))?;
                let variant =
                    |policy| Variant { locks: locks.clone(), policy, bitmap, cache, array: array.clone() };
                variants.extend(options.policies.iter().copied().map(variant));
            }
        }
    }
    Ok(variants)
}

fn new_array(
    options: &Options,
    members: usize,
    runtime: &Runtime,
    (locks, bitmap, cache): (&LockSetting, BitmapMode, CacheKind),
) -> Result<Array, BenchError> {
    let members: Vec<_> = (0..members).map(|i| new_member(options, &i.to_string())).collect();
    let (chunk_bytes, region_bytes) = (options.chunk_bytes, options.region_bytes);
    let mut array =
        memory::create(runtime, options.level, chunk_bytes, members.clone(), locks, region_bytes)?;
    let locking = match bitmap {
        BitmapMode::Internal => locks.locking(),
        BitmapMode::None => Locking { counter_locks: CounterLocks::Uncounted, ..locks.locking() },
    };
    if locking != locks.preset().locking || cache != CacheKind::None {
        let cache = CacheSettings::new(cache, options.cache_bytes(&array.geometry()));
        let open = AssembleOptions::default().locking(Some(locking)).cache(cache);
        let env = runtime.env();
        array = runtime.block_on(async move {
            array.stop().await?;
            Ok::<_, BenchError>(assemble(env, members, &open).await?)
        })?;
    }
    array.set_speed_limits(SpeedLimits { min_bytes_per_s: u64::MAX, max_bytes_per_s: u64::MAX });
    memory::touch_all(runtime, &array)?;
    if cache != CacheKind::None {
        touch_cache(runtime, &array, options.cache_bytes(&array.geometry()))?;
    }
    Ok(array)
}

fn new_member(options: &Options, name: &str) -> Arc<dyn Device> {
    let bytes = options.member_bytes;
    match options.members {
        MemberKind::Memory => Arc::new(MemoryDevice::new(format!("memory{name}"), bytes)),
        MemberKind::Null => {
            // No more: what is kept is copied, as in memory.
            let chunk_sectors = options.chunk_bytes / SECTOR_BYTES as u32;
            let data_offset_sectors = default_data_offset_sectors(bytes / SECTOR_BYTES, chunk_sectors);
            let kept_bytes = data_offset_sectors * SECTOR_BYTES;
            Arc::new(NullDevice::new(format!("null{name}"), bytes, kept_bytes))
        }
    }
}

/// Chooses the policy of a variant; its array may have that of another.
pub(super) fn choose(runtime: &Runtime, variant: &Variant) -> Result<(), ArrayError> {
    let (array, policy) = (variant.array.clone(), variant.policy);
    runtime.block_on(async move { array.set_policy(policy).await })
}

/// Writes once what hits are to find in the cache.
pub(super) fn fill(runtime: &Runtime, array: &Array, held_bytes: u64) -> Result<(), ArrayError> {
    let array = array.clone();
    runtime.block_on(async move {
        let (data, held) = (client::source(HIT_BYTES), Held::of(&array.geometry(), held_bytes, HIT_BYTES));
        for index in 0..held.count {
            array.write(held.place(index), data.clone(), WriteFlags::default()).await?;
        }
        Ok(())
    })
}

/// Fills a cache once, so that no page fault of its memory falls into the measurement.
fn touch_cache(runtime: &Runtime, array: &Array, cache_bytes: u64) -> Result<(), ArrayError> {
    fill(runtime, array, cache_bytes.min(array.geometry().capacity_bytes()))?;
    let array = array.clone();
    runtime.block_on(async move { array.flush().await })
}

/// Loses a member, if none is lost yet.
pub(super) fn degrade(runtime: &Runtime, array: &Array) -> Result<(), ArrayError> {
    let array = array.clone();
    runtime.block_on(async move {
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
pub(super) async fn new_spare(options: &Options, number: u64) -> Arc<dyn Device> {
    let spare = new_member(options, &format!("-spare{number}"));
    let _ = spare.write_zeroes(0, options.member_bytes, ZeroFlags::default()).await;
    spare
}
