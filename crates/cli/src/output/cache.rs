//! The cache as people read it.

use std::time::Duration;

use stripewise_wire::{ArrayStatus, CacheStatus, WayStatus};

use crate::{
    sizes::format_size,
    times::{format_nanoseconds, format_time},
};

/// In a line, as `status` has it; none without a cache.
pub(super) fn line(status: &ArrayStatus) -> Option<String> {
    let cache = status.cache.as_ref().filter(|cache| cache.kind != "none")?;
    let mut parts = vec![format!(
        "cache: {}, {} of {} dirty",
        cache.kind,
        format_size(cache.dirty_bytes),
        format_size(cache.size_bytes)
    )];
    parts.extend(hits(cache).map(|hits| format!("{hits} of reads hit")));
    let rate =
        cache.destaged_bytes_per_s.map_or(String::new(), |rate| format!(" at {}/s", format_size(rate)));
    parts.extend(flush(cache).map(|time| format!("a flush takes {time}{rate}")));
    if cache.is_draining {
        parts.push("being emptied".to_owned());
    }
    Some(parts.join(", "))
}

/// By label, as `detail` has it.
pub(super) fn lines(cache: &CacheStatus) -> Vec<(&'static str, String)> {
    let mut lines = vec![("Cache", kind(cache))];
    if cache.kind == "none" {
        return lines;
    }
    let used = format!(
        "{} dirty (limit {}), {} clean, {} of memory",
        format_size(cache.dirty_bytes),
        format_size(cache.dirty_max_bytes),
        format_size(cache.clean_bytes),
        format_size(cache.used_bytes)
    );
    lines.push(("Cached", used));
    lines.push(("Destage", settings(cache)));
    if let Some(rate) = cache.destaged_bytes_per_s {
        let flush = flush(cache).map_or(String::new(), |time| format!("; a flush takes {time}"));
        lines.push(("Destage Rate", format!("{}/s{flush}", format_size(rate))));
    }
    let destaged = cache.destaged.iter().filter(|(_, destaged)| destaged.writes > 0);
    let destaged: Vec<_> = destaged
        .map(|(reason, d)| format!("{reason} {} in {} writes", format_size(d.bytes), d.writes))
        .collect();
    if !destaged.is_empty() {
        lines.push(("Destaged", destaged.join(", ")));
    }
    let reads = cache.read_hits + cache.read_part_hits + cache.read_misses;
    if reads > 0 {
        let (all, part) = (cache.read_hits, cache.read_part_hits);
        lines.push(("Cache Reads", format!("{all} hits, {part} in part, {} misses", cache.read_misses)));
    }
    if cache.ahead_bytes > 0 {
        lines.push(("Cache Read Ahead", format_size(cache.ahead_bytes)));
    }
    if cache.waits > 0 {
        lines.push(("Cache Waits", format!("{} for memory", cache.waits)));
    }
    lines.extend(cache.way.as_ref().map(|way| ("Cache Writes", way_text(way))));
    if cache.passed > 0 {
        lines.push(("Cache Passed", format!("by {} writes", cache.passed)));
    }
    lines
}

/// Which way writes go, and why.
pub(crate) fn way_text(way: &WayStatus) -> String {
    let how = if way.is_past { "past it" } else { "by way of it" };
    let mut text = format!("{how}, since {}", way.why);
    if let (Some(past), Some(cached)) = (way.past_ns_per_byte, way.cached_ns_per_byte) {
        text +=
            &format!(" (a KiB occupies members for {} past it, ", format_nanoseconds((past * 1024.0) as u64));
        text += &format!("{} by way of it)", format_nanoseconds((cached * 1024.0) as u64));
    }
    if way.sample > 0.0 {
        text += &format!("; 1 of {:.0} stripes goes the other way, to compare", 1.0 / way.sample);
    }
    text
}

fn kind(cache: &CacheStatus) -> String {
    match cache.kind.as_str() {
        "none" => "none".to_owned(),
        kind => format!("{kind}, {}", format_size(cache.size_bytes)),
    }
}

/// The settings in a line.
pub(crate) fn settings(cache: &CacheStatus) -> String {
    let time = |ms: Option<u64>| ms.map_or("off".to_owned(), |ms| format_time(Duration::from_millis(ms)));
    let limit = |given: Option<u32>| given.map_or("measured".to_owned(), |blocks| blocks.to_string());
    format!(
        "when {} ({} to {} %), what {}, age {}, idle {}, flush {}, read {}, alloc {}, past {}, gaps {}, s-max-read {}, \
         s-max-write {}",
        cache.when,
        cache.low_percent,
        cache.high_percent,
        cache.what,
        time(cache.age_ms),
        time(cache.idle_ms),
        time(cache.flush_ms),
        cache.read,
        cache.alloc,
        cache.past,
        cache.gaps,
        limit(cache.s_max_read),
        limit(cache.s_max_write)
    )
}

fn flush(cache: &CacheStatus) -> Option<String> {
    cache.flush_s.filter(|time| *time > 0.0).map(|time| format_nanoseconds((time * 1e9) as u64))
}

/// The share of reads that the cache served.
fn hits(cache: &CacheStatus) -> Option<String> {
    let reads = cache.read_hits + cache.read_part_hits + cache.read_misses;
    (reads > 0).then(|| format!("{:.0} %", cache.read_hits as f64 * 100.0 / reads as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> CacheStatus {
        CacheStatus {
            kind: "stripe".into(),
            size_bytes: 512 << 20,
            dirty_bytes: 3 << 20,
            dirty_max_bytes: 400 << 20,
            destaged_bytes_per_s: Some(1 << 20),
            flush_s: Some(3.0),
            read_hits: 3,
            read_misses: 1,
            when: "lt".into(),
            what: "gain".into(),
            low_percent: 85,
            high_percent: 95,
            age_ms: Some(30_000),
            idle_ms: None,
            flush_ms: Some(1500),
            read: "ahead".into(),
            alloc: "block".into(),
            past: "measured".into(),
            gaps: "weighed".into(),
            s_max_write: Some(9),
            ..CacheStatus::default()
        }
    }

    #[test]
    fn a_cache_reads_in_a_line() {
        let status = |cache| ArrayStatus { cache: Some(cache), ..ArrayStatus::default() };
        assert_eq!(
            line(&status(cache())).unwrap_or_default(),
            "cache: stripe, 3 MiB of 512 MiB dirty, 75 % of reads hit, a flush takes 3.00 s at 1 MiB/s"
        );
        assert_eq!(line(&status(CacheStatus { kind: "none".into(), ..cache() })), None);
    }

    #[test]
    fn settings_read_as_they_are_given() {
        let expected = "when lt (85 to 95 %), what gain, age 30s, idle off, flush 1500ms, read ahead, alloc block, past measured, \
                        gaps weighed, s-max-read measured, s-max-write 9";
        assert_eq!(settings(&cache()), expected);
    }
}
