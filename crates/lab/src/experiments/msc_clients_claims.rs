//! The claims of `msc-clients`: msc-ct IV-C, Fig. 13.

use super::{
    Effort, Results,
    msc::{self, AUTO, CT, Cache, NONE, OURS, PBGC, PBGC_BACK, SC},
    msc_clients::{Given, chunks, counts, with_chunks, with_clients},
};
use crate::{
    findings::{Claim, Judged},
    point::Point,
};

/// What counts as equal, and as no less than before.
const ALIKE: f64 = 0.03;

/// Points by the number of clients, or by chunk.
#[derive(Clone, Copy)]
struct Along {
    of: fn(Given, Cache, u64) -> Point,
    xs: fn(Effort) -> Vec<u64>,
    unit: &'static str,
    paper: &'static str,
}

const COUNTS: Along = Along { of: with_clients, xs: counts, unit: "clients", paper: "Fig. 13(a)" };
const CHUNKS: Along = Along { of: with_chunks, xs: chunks, unit: "KiB", paper: "Fig. 13(b)" };

impl Along {
    fn point(self, results: &Results, cache: Cache, x: u64) -> Point {
        (self.of)(Given::of(results), cache, x)
    }

    fn ratio(self, results: &Results, (of, over): (Cache, Cache), x: u64) -> Option<f64> {
        results.speed_up(&self.point(results, of, x), &self.point(results, over, x))
    }

    /// All ratios of two caches; none if a point is missing.
    fn ratios(self, results: &Results, pair: (Cache, Cache)) -> Option<Vec<(u64, f64)>> {
        let xs = (self.xs)(results.effort).into_iter();
        xs.map(|x| Some((x, self.ratio(results, pair, x)?))).collect()
    }

    /// Ratios in words.
    fn told(self, ratios: &[(u64, f64)]) -> String {
        let all: Vec<_> = ratios.iter().map(|(x, ratio)| format!("{ratio:.2}x at {x}")).collect();
        format!("{} {}", all.join(", "), self.unit)
    }

    fn work(self, results: &Results, (of, over): (Cache, Cache), x: u64) -> String {
        let named = [of, over].map(|cache| (cache.name.to_owned(), self.point(results, cache, x)));
        msc::work(results, named)
    }
}

/// All of them.
pub(super) fn all(results: &Results) -> Vec<Claim> {
    vec![
        alike(results, COUNTS, "With one client MSC-CT is as fast as SC (within 3 %)."),
        best(results, COUNTS, (CT, SC), 1.3),
        best(results, COUNTS, (CT, PBGC), 1.59),
        best(results, CHUNKS, (CT, PBGC), 1.8),
        alike(results, CHUNKS, "With chunks of 8 KiB MSC-CT is as fast as SC (within 3 %)."),
        gain_grows(results),
        sc_falls(results),
        sc_ahead(results, COUNTS, "SC is faster than PBGC with every number of clients."),
        sc_ahead(results, CHUNKS, "SC is faster than PBGC with chunks of every length."),
        ours(results, COUNTS, "number of clients"),
        ours(results, CHUNKS, "length of chunks"),
    ]
}

/// MSC-CT and SC at the least value.
fn alike(results: &Results, along: Along, statement: &str) -> Claim {
    let least = (along.xs)(results.effort)[0];
    let judged = along.ratio(results, (CT, SC), least).map(|ratio| {
        let judged = Judged::near(ratio, 1.0, ALIKE, format!("{ratio:.2}x"));
        judged.because(along.work(results, (CT, SC), least))
    });
    Claim::new(statement, along.paper, judged)
}

/// Where one cache is the furthest ahead of another.
fn best(results: &Results, along: Along, pair: (Cache, Cache), paper: f64) -> Claim {
    let (tolerance, (of, over)) = (msc::tolerance(paper), pair);
    let judged = along.ratios(results, pair).and_then(|ratios| {
        let (x, ratio) = ratios.iter().copied().max_by(|one, other| one.1.total_cmp(&other.1))?;
        let judged = Judged::near(ratio, paper, tolerance, along.told(&ratios));
        Some(judged.because(format!("At {x}: {}", along.work(results, pair, x))))
    });
    let percent = 100.0 * tolerance;
    let statement = format!(
        "At best {} is {paper}x as fast as {}, by {} (within {percent:.0} %).",
        of.name,
        over.name,
        if along.unit == COUNTS.unit { "clients" } else { "chunk" }
    );
    Claim::new(statement, along.paper, judged)
}

/// What each longer chunk makes of a figure, and the longest of that of the shortest.
fn steps(figures: &[(u64, f64)]) -> (Vec<f64>, f64) {
    let steps = figures.windows(2).map(|two| two[1].1 / two[0].1).collect();
    (steps, figures[figures.len() - 1].1 / figures[0].1)
}

fn gain_grows(results: &Results) -> Claim {
    let judged = CHUNKS.ratios(results, (CT, SC)).and_then(|gains| {
        let (told, (steps, all)) = (CHUNKS.told(&gains), steps(&gains));
        let steps = steps.into_iter().map(|step| Judged::above(step, 1.0 - ALIKE, &*told));
        Judged::of_all(steps.chain([Judged::above(all, 1.0 + ALIKE, &*told)]))
    });
    let statement =
        "With longer chunks the gain of MSC-CT over SC grows (never less by more than 3 %, and more in all).";
    Claim::new(statement, CHUNKS.paper, judged)
}

fn sc_falls(results: &Results) -> Claim {
    let rates = chunks(results.effort).into_iter();
    let rate = |kib| Some((kib, results.mb_per_s(&CHUNKS.point(results, SC, kib))?));
    let judged = rates.map(rate).collect::<Option<Vec<_>>>().and_then(|rates| {
        let (shortest, (steps, all)) = (rates[0].1, steps(&rates));
        let parts: Vec<_> = rates.iter().map(|(kib, rate)| (*kib, rate / shortest)).collect();
        let told = CHUNKS.told(&parts);
        let steps = steps.into_iter().map(|step| Judged::at_most(step, 1.0 + ALIKE, &*told));
        Judged::of_all(steps.chain([Judged::at_most(all, 1.0 - ALIKE, &*told)]))
    });
    let statement =
        "With longer chunks SC becomes slower (never faster by more than 3 %, and slower in all).";
    Claim::new(statement, CHUNKS.paper, judged)
}

/// SC and PBGC; that PBGC acknowledges from its cache, too, is told.
fn sc_ahead(results: &Results, along: Along, statement: &str) -> Claim {
    let both = along.ratios(results, (SC, PBGC)).zip(along.ratios(results, (SC, PBGC_BACK)));
    let judged = both.and_then(|(ratios, back)| {
        let told = along.told(&ratios);
        let judged = Judged::of_all(ratios.iter().map(|(_, ratio)| Judged::above(*ratio, 1.0, &*told)))?;
        Some(judged.because(format!("Over PBGC (back): {}.", along.told(&back))))
    });
    Claim::new(statement, along.paper, judged)
}

fn ours(results: &Results, along: Along, of_what: &str) -> Claim {
    let at = |x: u64| {
        let rate = |cache: &Cache| results.mb_per_s(&along.point(results, *cache, x));
        let others = [NONE, PBGC, PBGC_BACK, SC, CT, OURS].iter().map(rate).collect::<Option<Vec<_>>>()?;
        Some((x, rate(&AUTO)? / others.into_iter().fold(0.0, f64::max)))
    };
    let ratios = (along.xs)(results.effort).into_iter().map(at).collect::<Option<Vec<_>>>();
    let judged = ratios.and_then(|ratios| {
        let told = along.told(&ratios);
        Judged::of_all(ratios.iter().map(|(_, ratio)| Judged::above(*ratio, 1.0 - ALIKE, &*told)))
    });
    let statement = format!(
        "auto, the default on disks, is never slower than the best of the others, whatever the {of_what} (within 3 %)."
    );
    Claim::new(statement, "", judged)
}

#[cfg(test)]
mod tests {
    use stripewise_engine::CacheKind;

    use super::{super::msc_clients::EXPERIMENT, *};
    use crate::{
        ext3::loadfile::tests as loadfile,
        findings::ClaimVerdict::{self, NotReproduced, Reproduced},
        machine::Machine,
        point::{CacheWay, Outcome, Places, Script},
    };

    fn verdicts(mb_per_s: impl Fn(&Point) -> f64) -> Vec<ClaimVerdict> {
        let results = Results::made_up(&EXPERIMENT, Effort::Full, mb_per_s);
        all(&results).iter().map(|claim| claim.verdict).collect()
    }

    /// Throughput as the paper's text has it, as far as it does.
    fn as_in_the_paper(point: &Point) -> f64 {
        let Places::Script(Script::Clients(clients)) = point.load.places else { panic!("other loads") };
        let (sc, gain) = match point.chunk_bytes.unwrap() >> 10 {
            8 => (14.5, 1.0),
            16 => (14.0, 1.05),
            32 => (13.5, 1.1),
            64 => (13.0, 1.2),
            128 => (12.23, if clients.count == 1 { 1.0 } else { 1.3 }),
            _ => (12.0, 1.5),
        };
        match point.cache.map(|cache| (cache.kind, cache.way)) {
            Some((CacheKind::Stripe, _)) => sc,
            Some((CacheKind::StripeCt, CacheWay::Paper)) => sc * gain,
            Some((CacheKind::Auto, _)) => 30.0,
            _ => 10.0,
        }
    }

    #[test]
    fn the_papers_figures_are_what_is_claimed() {
        assert!(verdicts(as_in_the_paper).iter().all(|verdict| *verdict == Reproduced));
    }

    #[test]
    fn a_loadfile_takes_the_place_of_our_own_mix_in_all_points() {
        let loadfile = Some(loadfile::of(loadfile::LINES).unwrap());
        let keys = |loadfile| EXPERIMENT.keys(Effort::Quick, loadfile, &Machine::here());
        let (own, theirs) = (keys(None), keys(loadfile));
        assert_eq!(own.len(), theirs.len());
        assert!(own.iter().all(|key| !key.contains("dbench=")), "{own:?}");
        assert!(theirs.iter().all(|key| key.contains("dbench=")), "{theirs:?}");
        let outcomes = EXPERIMENT.modelled(Effort::Quick, loadfile).into_iter();
        let outcomes = outcomes.map(|point| (point.key(), Outcome::made_up(&point, 10.0).into())).collect();
        let results = Results::new(Effort::Quick, Machine::here(), outcomes).with_loadfile(loadfile);
        assert!(all(&results).iter().all(|claim| !claim.measured.is_empty()), "no claim lacks a point");
        let told = (EXPERIMENT.findings)(&results).tables.iter().map(ToString::to_string).collect::<String>();
        assert!(told.contains("DBench's loadfile"), "{told}");
    }

    #[test]
    fn where_all_caches_are_alike_only_what_is_equal_is_reproduced() {
        let expected = [
            Reproduced,
            NotReproduced,
            NotReproduced,
            NotReproduced,
            Reproduced,
            NotReproduced,
            NotReproduced,
            NotReproduced,
            NotReproduced,
            Reproduced,
            Reproduced,
        ];
        assert_eq!(verdicts(|_| 10.0), expected);
    }
}
