//! msc-ct IV-C, Fig. 13. What is claimed is in `msc_clients_claims`.

use super::{
    Effort, Experiment, Points, Results,
    msc::{self, CACHES, CT, Cache, PBGC, SC},
    msc_clients_claims as claims, pick,
};
use crate::{
    ext3::{Clients, DBench, LeftOut, Loadfile, Made},
    findings::{Findings, Table},
    plot::{Axis, Plot},
    point::{Outcome, Point, Script, WriteLoad},
};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "msc-clients",
    title: "Clients that work on small files",
    source: "msc-ct IV-C, Fig. 13",
    setting: &[
        "The paper: DBench with 1 to 256 clients, and with 128 on chunks of 8 to 256 KiB; level 5 of five ST373454LC, caches of 512 \
         MiB. Its hardware RAID is left out.",
        "The mix is our own unless `--loadfile` gives DBench's list of calls, which is no part of this program. Each client has a directory with 64 files of 4 KiB to \
         1 MiB, whose logarithms are distributed evenly. It writes one file after another in parts of 4 to 64 KiB, each in place of \
         one that it deletes. A quarter of the files are renamed, one of eight is flushed, and after every second the client reads \
         one of its files. Clients take turns at random, a part each. The writing of 2 GiB by all together is measured, on clients \
         that have their files.",
        "The file system is a model of the ext3 of Linux 2.6.11, the paper's kernel (docs/experiments.md), on the whole array. Files that \
         grow at the same time have windows of their own, which lie between one another. Processors take no time: a transaction \
         ends when all clients wait for a flush, or when 40 % of about 450 MB of page cache are dirty. A file is read from \
         the array if more than the 450 MB were written and read since it was used last.",
        "Left open by the paper, and here: chunks of 128 KiB where clients vary; 128 writes of a block under way; the drives' write \
         caches off; PBGC is the paper's md: a write is acknowledged when members have it. DBench does not count what is left in \
         caches; here a last flush counts, and the caches are empty at first. Throughput is that of the files' data written. With \
         64 clients PBGC, SC and MSC-CT also run without flushes, and without reads. A quick run has an eighth of the caches, of the \
         file system, of what is written and of each client's files (with a loadfile, not of its files).",
        "With a loadfile: each client makes its files first. What counts begins with its first read. A client that flushes waits, as above;          questions, locks and what the server refused change nothing. A file that the page cache does not hold any more is read whole.          A written block counts whole, whatever part of it a call writes.",
    ],
    points: Points::Clients(points),
    findings,
};

/// Left open by the paper.
const WRITTEN_BYTES: u64 = 2 << 30;
/// Nearly all of four disks of 73.4 GB.
const FILE_SYSTEM_BYTES: u64 = 270 << 30;
/// Files of a client.
const HELD: u64 = 64;
/// msc-ct IV-C: the clients where chunks vary.
const CHUNK_CLIENTS: u64 = 128;
/// The clients that also leave something out.
const VARIED_CLIENTS: u64 = 64;
/// Caches that are run with what is left out.
const VARIED: [Cache; 3] = [PBGC, SC, CT];
const LEFT_OUT: [LeftOut; 2] = [LeftOut::Flushes, LeftOut::Reads];
/// Where clients vary.
const CHUNK_KIB: u64 = 128;

pub(super) fn counts(effort: Effort) -> Vec<u64> {
    pick(effort, vec![1, 4, 16, 64, 256], (0..=8).map(|doublings| 1 << doublings).collect())
}

pub(super) fn chunks(effort: Effort) -> Vec<u64> {
    pick(effort, vec![8, 32, CHUNK_KIB, 256], vec![8, 16, 32, 64, CHUNK_KIB, 256])
}

/// What a run was given: how much is run, and what clients repeat.
#[derive(Clone, Copy)]
pub(super) struct Given {
    pub(super) effort: Effort,
    loadfile: Option<Loadfile>,
}

impl Given {
    /// Our own mix.
    pub(super) fn own_mix(effort: Effort) -> Self {
        Self { effort, loadfile: None }
    }

    pub(super) fn of(results: &Results) -> Self {
        Self { effort: results.effort, loadfile: results.loadfile }
    }

    fn script(self, made: Made, count: u32, without: Option<LeftOut>) -> Script {
        let written_bytes = msc::part(self.effort, WRITTEN_BYTES);
        let held = msc::part(self.effort, HELD) as u32;
        match self.loadfile {
            Some(loadfile) => Script::DBench(DBench { made, count, loadfile, written_bytes, without }),
            None => Script::Clients(Clients { made, count, held, written_bytes, without }),
        }
    }
}

fn point(given: Given, cache: Cache, count: u64, chunk_kib: u64, without: Option<LeftOut>) -> Point {
    let effort = given.effort;
    let made = Made {
        size_bytes: msc::part(effort, FILE_SYSTEM_BYTES),
        journal_blocks: msc::part(effort, msc::JOURNAL_BLOCKS),
        dirty_blocks: msc::part(effort, msc::DIRTY_BLOCKS),
    };
    let load = WriteLoad::script(given.script(made, count as u32, without), msc::WRITES_UNDER_WAY);
    Point { chunk_bytes: Some((chunk_kib << 10) as u32), ..msc::scripted(effort, cache, load) }
}

/// So many clients.
pub(super) fn with_clients(given: Given, cache: Cache, count: u64) -> Point {
    point(given, cache, count, CHUNK_KIB, None)
}

/// Chunks of this length.
pub(super) fn with_chunks(given: Given, cache: Cache, kib: u64) -> Point {
    point(given, cache, CHUNK_CLIENTS, kib, None)
}

fn without(given: Given, cache: Cache, left_out: LeftOut) -> Point {
    point(given, cache, VARIED_CLIENTS, CHUNK_KIB, Some(left_out))
}

fn points(effort: Effort, loadfile: Option<Loadfile>) -> Vec<Point> {
    let given = Given { effort, loadfile };
    // Of 128 clients, chunks of 128 KiB are among those of `chunks`.
    let counts: Vec<_> = counts(effort).into_iter().filter(|count| *count != CHUNK_CLIENTS).collect();
    let of = |cache: Cache| {
        let chunks = chunks(effort).into_iter().map(move |kib| with_chunks(given, cache, kib));
        let counts = counts.iter().map(move |count| with_clients(given, cache, *count));
        counts.chain(chunks).collect::<Vec<_>>()
    };
    let varied = |left_out| VARIED.map(|cache| without(given, cache, left_out));
    CACHES.into_iter().flat_map(of).chain(LEFT_OUT.into_iter().flat_map(varied)).collect()
}

/// Throughput of the files' data, in 10^6 bytes a second.
fn rate(point: &Point, outcome: &Outcome) -> f64 {
    point.load.pass_bytes as f64 * 1e3 / outcome.pass_ns[0] as f64
}

fn findings(results: &Results) -> Findings {
    let mut tables = Vec::new();
    for (heading, xs, of) in axes(results.effort) {
        let rows: Vec<_> = xs.iter().map(|x| (*x, x.to_string())).collect();
        let of = |cache, x| of(Given::of(results), cache, x);
        tables.push(msc::table_of(&CACHES, "MB/s of data", heading, &rows, results, of, rate));
        let title = "requests to members for each";
        tables.push(msc::table(title, heading, &rows, results, of, msc::requests));
    }
    tables.push(left_out_table(results));
    tables.extend(results.loadfile.map(loadfile_table));
    Findings { claims: claims::all(results), plots: plots(results), tables }
}

/// A heading, values, and the points at them.
type Along = (&'static str, Vec<u64>, fn(Given, Cache, u64) -> Point);

fn axes(effort: Effort) -> [Along; 2] {
    [("clients", counts(effort), with_clients), ("chunk, KiB", chunks(effort), with_chunks)]
}

fn plots(results: &Results) -> Vec<Plot> {
    let named = [
        ("msc-clients-count", "Small files of 1 to 256 clients (Fig. 13(a))"),
        ("msc-clients-chunk", "Small files of 128 clients, by chunk (Fig. 13(b))"),
    ];
    let plot = |(named, (heading, xs, of)): ((&'static str, &str), Along)| {
        let axes = (Axis::log2(heading), Axis::from_zero("MB/s"));
        msc::plot_of(&CACHES, named, axes, &xs, results, |cache, x| of(Given::of(results), cache, x), rate)
    };
    named.into_iter().zip(axes(results.effort)).map(plot).collect()
}

/// What clients repeat.
fn loadfile_table(loadfile: Loadfile) -> Table {
    let mut table = Table::new(
        "DBench's loadfile",
        &["file", "XXH3", "calls that count", "blocks written in all of them"],
    );
    let (path, xxh3) = (loadfile.path().display().to_string(), format!("{:016x}", loadfile.xxh3()));
    table.rows.push(vec![
        path,
        xxh3,
        loadfile.calls_count().to_string(),
        loadfile.written_blocks().to_string(),
    ]);
    table
}

/// What depends on the mix.
fn left_out_table(results: &Results) -> Table {
    let names = VARIED.map(|cache| cache.name);
    let headings: Vec<_> = ["mix"].into_iter().chain(names).collect();
    let mut table = Table::new(format!("MB/s of data, other mixes, {VARIED_CLIENTS} clients"), &headings);
    for left_out in [None, Some(LEFT_OUT[0]), Some(LEFT_OUT[1])] {
        let cell = |cache: Cache| {
            let point = point(Given::of(results), cache, VARIED_CLIENTS, CHUNK_KIB, left_out);
            let rate = results.of(&point).map(|outcome| rate(&point, outcome));
            rate.map_or_else(String::new, |rate| format!("{rate:.2}"))
        };
        let name = left_out.map_or("as above", LeftOut::name).to_owned();
        table.rows.push(std::iter::once(name).chain(VARIED.map(cell)).collect());
    }
    table
}
