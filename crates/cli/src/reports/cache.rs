//! The cache in the words of the control socket, and the other way round.

use std::time::Duration;

use anyhow::{Context, anyhow};
use stripewise::{
    Array, CacheAlloc, CacheKind, CachePast, CacheReport, CacheSettings, DestageReason, MemberReport,
    ReadCache, StrideLimit, StrideLimits, StrideRecords,
    internals::{
        destage::{DestagePolicy, WHAT, WHEN, Weighed},
        format::extension::StrideRecord,
        plan::passes::GapRule,
    },
};
use stripewise_wire::{CacheChange, CacheStatus, DestagedStatus, WayStatus};

/// Bytes of a block of the cache.
const BLOCK_BYTES: u64 = 4096;

/// How the cache of an array on a machine with so much memory is. None where the level can have none.
pub(crate) fn cache_status(
    array: &Array,
    members: &[MemberReport],
    memory_bytes: u64,
) -> Option<CacheStatus> {
    if !array.geometry().has_parity() {
        return None;
    }
    let settings = array.cache_settings();
    Some(CacheStatus {
        chosen_bytes: settings.size_on(memory_bytes),
        s_max_read: least_given(members, |strides| &strides.read),
        s_max_write: least_given(members, |strides| &strides.write),
        ..status_of(&settings, array.cache())
    })
}

/// What only the cache holds.
pub(crate) fn cached_bytes(array: &Array) -> u64 {
    array.cache().map_or(0, |report| report.dirty_blocks * BLOCK_BYTES)
}

/// The least limit on strides that an operator gave.
fn least_given(members: &[MemberReport], of: fn(&StrideRecords) -> &StrideRecord) -> Option<u32> {
    let records = members.iter().map(|member| of(&member.strides));
    records.filter(|record| record.s_max_given).map(|record| record.s_max).min()
}

fn status_of(settings: &CacheSettings, report: Option<CacheReport>) -> CacheStatus {
    let (is_there, report) = (report.is_some(), report.unwrap_or_default());
    let bytes = |blocks: u64| blocks * BLOCK_BYTES;
    let reasons = DestageReason::ALL.iter().zip(&report.destaged).map(|(reason, destaged)| {
        let status = DestagedStatus { bytes: bytes(destaged.blocks), writes: destaged.writes };
        (reason.name().to_owned(), status)
    });
    let ms = |time: Option<Duration>| time.map(|time| time.as_millis() as u64);
    let rate = Some(report.blocks_per_s).filter(|rate| *rate > 0);
    CacheStatus {
        kind: if is_there { settings.kind } else { CacheKind::None }.name().to_owned(),
        size_bytes: report.size_bytes,
        used_bytes: report.used_bytes,
        dirty_bytes: bytes(report.dirty_blocks),
        dirty_max_bytes: bytes(report.dirty_max),
        clean_bytes: bytes(report.clean_blocks),
        destaged_bytes_per_s: rate.map(bytes),
        flush_s: rate.map(|rate| report.dirty_blocks as f64 / rate as f64),
        is_draining: report.is_draining,
        destaged: if is_there { reasons.collect() } else { Default::default() },
        read_hits: report.read_hits,
        read_part_hits: report.read_part_hits,
        read_misses: report.read_misses,
        ahead_bytes: bytes(report.ahead),
        waits: report.waits,
        passed: report.passed,
        way: is_there.then(|| way_status(&report.weighed)),
        when: settings.when.name.to_owned(),
        what: settings.what.name.to_owned(),
        low_percent: settings.low_percent,
        high_percent: settings.high_percent,
        age_ms: ms(settings.age),
        idle_ms: ms(settings.idle),
        flush_ms: ms(settings.flush_time),
        read: settings.read.name().to_owned(),
        alloc: settings.alloc.name().to_owned(),
        past: settings.past.name().to_owned(),
        gaps: settings.gaps.name().to_owned(),
        ..CacheStatus::default()
    }
}

fn way_status(weighed: &Weighed) -> WayStatus {
    WayStatus {
        is_past: weighed.passes,
        why: weighed.why.text().to_owned(),
        past_ns_per_byte: weighed.through_ns,
        cached_ns_per_byte: weighed.back_ns,
        sample: weighed.sample,
    }
}

/// The settings that a change makes of others.
pub(crate) fn changed(settings: CacheSettings, change: &CacheChange) -> anyhow::Result<CacheSettings> {
    let time = |given: Option<u64>, now: Option<Duration>| match given {
        None => now,
        Some(0) => None,
        Some(ms) => Some(Duration::from_millis(ms)),
    };
    let kind =
        change.kind.as_deref().map(|name| named(&CacheKind::ALL, CacheKind::name, name)).transpose()?;
    let read =
        change.read.as_deref().map(|name| named(&ReadCache::ALL, ReadCache::name, name)).transpose()?;
    let alloc =
        change.alloc.as_deref().map(|name| named(&CacheAlloc::ALL, CacheAlloc::name, name)).transpose()?;
    let past =
        change.past.as_deref().map(|name| named(&CachePast::ALL, CachePast::name, name)).transpose()?;
    let gaps = change.gaps.as_deref().map(|name| named(&GapRule::ALL, GapRule::name, name)).transpose()?;
    let (when, what) = (change.when.as_deref(), change.what.as_deref());
    Ok(CacheSettings {
        kind: kind.unwrap_or(settings.kind),
        size_bytes: change.size_bytes.or(settings.size_bytes),
        when: when.map(|name| policy(WHEN, name)).transpose()?.unwrap_or(settings.when),
        what: what.map(|name| policy(WHAT, name)).transpose()?.unwrap_or(settings.what),
        low_percent: change.low_percent.unwrap_or(settings.low_percent),
        high_percent: change.high_percent.unwrap_or(settings.high_percent),
        age: time(change.age_ms, settings.age),
        idle: time(change.idle_ms, settings.idle),
        flush_time: time(change.flush_ms, settings.flush_time),
        read: read.unwrap_or(settings.read),
        alloc: alloc.unwrap_or(settings.alloc),
        past: past.unwrap_or(settings.past),
        gaps: gaps.unwrap_or(settings.gaps),
    })
}

/// The bounds on strides that a change has.
pub(crate) fn stride_limits(change: &CacheChange) -> Option<StrideLimits> {
    let limit = |blocks: u16| if blocks == 0 { StrideLimit::Measured } else { StrideLimit::Blocks(blocks) };
    let limits = StrideLimits { read: change.s_max_read.map(limit), write: change.s_max_write.map(limit) };
    (limits != StrideLimits::default()).then_some(limits)
}

fn named<T: Copy>(all: &[T], name: fn(T) -> &'static str, given: &str) -> anyhow::Result<T> {
    let names = || all.iter().map(|one| name(*one)).collect::<Vec<_>>().join(", ");
    let found = all.iter().copied().find(|one| name(*one) == given);
    found.ok_or_else(|| anyhow!("there is no '{given}' of a cache; give one of {}", names()))
}

fn policy<P: ?Sized>(
    all: &'static [&'static DestagePolicy<P>],
    given: &str,
) -> anyhow::Result<&'static DestagePolicy<P>> {
    let names = || all.iter().map(|policy| policy.name).collect::<Vec<_>>().join(", ");
    let found = all.iter().copied().find(|policy| policy.name == given);
    found.with_context(|| format!("there is no destage policy '{given}'; give one of {}", names()))
}
