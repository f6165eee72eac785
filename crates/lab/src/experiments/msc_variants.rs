//! What msc-ct leaves open of its random writes: the length of chunks, the writes under way, and S_max, which is in a
//! picture only (Fig. 9). A few points are run with
//! other settings, too, to see which verdicts depend on them.

use super::{
    Results,
    msc::{CT, Cache, PBGC, SC},
};
use crate::{
    findings::{Judged, Table},
    point::{Point, WriteLoad},
};

/// Caches that are run with other settings.
const CACHES: [Cache; 3] = [PBGC, SC, CT];

/// Another setting of a point.
#[derive(Debug, Clone, Copy)]
pub(super) enum Variant {
    /// Bytes of a chunk.
    Chunk(u32),
    /// Writes under way.
    Depth(u32),
    /// S_max, in blocks.
    StrideMax(u16),
}

impl Variant {
    /// In words.
    fn name(self) -> String {
        match self {
            Self::Chunk(bytes) => format!("chunks of {} KiB", bytes >> 10),
            Self::Depth(depth) => format!("{depth} under way"),
            Self::StrideMax(blocks) => format!("S_max of {blocks} given"),
        }
    }

    /// Whether it changes anything for a cache.
    fn concerns(self, cache: Cache) -> bool {
        cache == CT || !matches!(self, Self::StrideMax(_))
    }

    fn of(self, cache: Cache, point: Point) -> Point {
        match self {
            Self::Chunk(bytes) => Point { chunk_bytes: Some(bytes), ..point },
            Self::Depth(depth) => Point { load: WriteLoad { depth, ..point.load }, ..point },
            Self::StrideMax(_) if !self.concerns(cache) => point,
            Self::StrideMax(blocks) => Point { stride_max: Some(blocks), ..point },
        }
    }
}

/// Chunks of half and of twice the length, one write under way for each thread, a drive's queue of them, and half a chunk's
/// blocks as S_max.
fn all(threads: u32) -> [Variant; 5] {
    [
        Variant::Chunk(64 << 10),
        Variant::Chunk(256 << 10),
        Variant::Depth(threads),
        Variant::Depth(32),
        Variant::StrideMax(16),
    ]
}

/// A point of each cache, and what its variants need to know of it.
pub(super) struct Varied<'a> {
    /// Tiobench's threads.
    pub(super) threads: u32,
    /// As it is run elsewhere.
    pub(super) point: &'a dyn Fn(Cache) -> Point,
}

impl Varied<'_> {
    /// The points with other settings.
    pub(super) fn points(&self) -> Vec<Point> {
        let of = |variant: Variant| {
            let caches = CACHES.into_iter().filter(move |cache| variant.concerns(*cache));
            caches.map(move |cache| variant.of(cache, (self.point)(cache)))
        };
        all(self.threads).into_iter().flat_map(of).collect()
    }

    /// How much faster one cache is than another, by setting.
    fn speed_ups(&self, results: &Results, (of, over): (Cache, Cache)) -> Vec<(String, f64)> {
        let ratio = |variant: Variant| {
            let [of, over] = [of, over].map(|cache| variant.of(cache, (self.point)(cache)));
            Some((variant.name(), results.speed_up(&of, &over)?))
        };
        all(self.threads).into_iter().filter_map(ratio).collect()
    }

    /// Adds to a claim's reason with which settings its verdict would be another one.
    pub(super) fn told(
        &self,
        judged: Judged,
        results: &Results,
        pair: (Cache, Cache),
        (paper, tolerance): (f64, f64),
    ) -> Judged {
        let all = self.speed_ups(results, pair);
        let is_near = |ratio: f64| (ratio / paper - 1.0).abs() <= tolerance;
        let turning: Vec<_> = all.iter().filter(|(_, ratio)| is_near(*ratio) != judged.holds).collect();
        let text = |of: &[&(String, f64)]| {
            of.iter().map(|(name, ratio)| format!("{ratio:.2}x with {name}")).collect::<Vec<_>>().join(", ")
        };
        let more = match (all.is_empty(), turning.is_empty()) {
            (true, _) => return judged,
            (_, true) => "No other setting that was run turns the verdict.".to_owned(),
            (_, false) => format!("Other settings turn the verdict: {}.", text(&turning)),
        };
        let reason = format!("{} {more}", judged.reason);
        judged.because(reason.trim_start())
    }

    /// Throughput with each setting.
    pub(super) fn table(&self, results: &Results, what: &str) -> Table {
        let names = CACHES.map(|cache| cache.name);
        let headings: Vec<_> = ["setting"].into_iter().chain(names).collect();
        let mut table = Table::new(format!("what the paper leaves open, {what}; MB/s"), &headings);
        let settings = all(self.threads).map(Some).into_iter();
        for variant in std::iter::once(None).chain(settings) {
            let name = variant.map_or_else(|| "as above".to_owned(), Variant::name);
            let cell = |cache: Cache| {
                let point = (self.point)(cache);
                let rate = match variant {
                    Some(variant) if !variant.concerns(cache) => None,
                    Some(variant) => results.mb_per_s(&variant.of(cache, point)),
                    None => results.mb_per_s(&point),
                };
                rate.map_or_else(String::new, |rate| format!("{rate:.2}"))
            };
            table.rows.push(std::iter::once(name).chain(CACHES.map(cell)).collect());
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        experiments::{Effort, with_id},
        findings::Claim,
    };

    #[test]
    fn settings_that_turn_a_verdict_are_told() {
        let experiment = with_id("msc-random").unwrap();
        let point = |cache| super::super::msc::point(Effort::Quick, cache, 1 << 30, 160_000, 128);
        let varied = Varied { threads: 1, point: &point };
        let rate = |point: &Point| {
            let is_ct = point.key().contains("stripe+ct");
            if is_ct && point.chunk_bytes == Some(64 << 10) { 20.0 } else { 10.0 }
        };
        let results = Results::made_up(experiment, Effort::Quick, rate);
        let told = |paper: f64| {
            let judged = Judged::near(1.0, paper, 0.2, "");
            let judged = varied.told(judged, &results, (CT, SC), (paper, 0.2));
            Claim::new("", "", Some(judged)).reason
        };
        assert_eq!(told(2.0), "Other settings turn the verdict: 2.00x with chunks of 64 KiB.");
        assert_eq!(told(1.0), "Other settings turn the verdict: 2.00x with chunks of 64 KiB.");
        assert_eq!(told(3.0), "No other setting that was run turns the verdict.");
        assert_eq!(varied.points().len(), 13);
    }
}
