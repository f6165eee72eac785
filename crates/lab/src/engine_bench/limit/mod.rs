//! The limit: bare loops, one for each thread, that do only the memory traffic and the parity arithmetic that
//! the engine cannot avoid, on buffers of the same sizes. Each of their buffers begins at its own line of a
//! page; the engine's all begin with a page. A member's content is copied before use, as a device returns it.
//! With several threads all of them check or rebuild, where the engine has one task for a job.

mod degraded;
mod jobs;
mod large;
#[cfg(test)]
mod tests;

use std::{sync::Barrier, thread};

use fastrand::Rng;
use memmap2::{Advice, MmapMut};
use stripewise_device::{IoBuf, SharedBuf, memory};
use stripewise_engine::geometry::{Geometry, Level};
use stripewise_parity as parity;

use super::{
    affinity::Cores,
    case::{Places, Work},
    client::slice,
    turn::{Turn, per_second},
};

/// The loops of all threads, each with its part of the members.
pub(super) struct Limit {
    loops: Vec<BareArray>,
    cores: Cores,
}

impl Limit {
    /// A loop for each source of data.
    pub(super) fn new(geometry: &Geometry, member_bytes: usize, sources: &[SharedBuf], cores: Cores) -> Self {
        let part = (member_bytes / sources.len()).max(geometry.chunk_bytes());
        let loops = sources.iter().map(|source| BareArray::new(geometry, part, source.clone())).collect();
        Self { loops, cores }
    }

    /// Operations a second of one turn; none if the loops do not know the operation.
    pub(super) fn turn(&mut self, turn: &Turn) -> Option<f64> {
        let Self { loops, cores } = self;
        if !loops[0].knows(turn) {
            return None;
        }
        let of_each = |bytes: u64| bytes / loops.len() as u64;
        let turn =
            &Turn { held_bytes: of_each(turn.held_bytes), span_bytes: of_each(turn.span_bytes), ..*turn };
        let start = Barrier::new(loops.len());
        let run = |number: usize, bare: &mut BareArray| {
            cores.keep_to(number);
            start.wait();
            bare.turn(turn)
        };
        let per_s = thread::scope(|scope| {
            let spawned =
                loops.iter_mut().enumerate().map(|(number, bare)| scope.spawn(move || run(number, bare)));
            let running: Vec<_> = spawned.collect();
            running.into_iter().map(|one| one.join().expect("a bare loop does not fail")).sum()
        });
        Some(per_s)
    }
}

/// Members as plain memory, and the working buffers of one writer.
struct BareArray {
    /// Data columns, then redundant ones: a bare loop does not care which member holds which column.
    members: Vec<MmapMut>,
    data_columns: usize,
    chunk_bytes: usize,
    /// The bytes that a job covers on each member of the whole array, of which this has a part.
    job_bytes: usize,
    /// Whether the lost member always holds data.
    fixed_parity: bool,
    source: SharedBuf,
    /// Old content, by column.
    old: Vec<IoBuf>,
    /// The results computed from it, by redundant column.
    made: [IoBuf; 2],
    /// A stripe of which parts are written one after the other.
    collected: Vec<u8>,
}

/// Memory with pages of the same size as a memory member's. It is written once, so that no page fault falls
/// into the measurement; with zeros, whose parity is zeros.
fn member(bytes: usize) -> MmapMut {
    let mut memory = MmapMut::map_anon(bytes).expect("address space for a member");
    let _ = memory.advise(Advice::HugePage);
    memory.fill(0);
    memory
}

/// A working buffer. Each of some dozens begins at another line of its page, so that they do not share the
/// same sets of a cache.
fn working(bytes: usize, place: usize) -> IoBuf {
    let apart = 64 * (place % 63 + 1);
    IoBuf::zeroed(apart + bytes).split_off(apart)
}

impl BareArray {
    fn new(geometry: &Geometry, member_bytes: usize, source: SharedBuf) -> Self {
        let (chunk_bytes, count) = (geometry.chunk_bytes(), geometry.members());
        Self {
            members: (0..count).map(|_| member(member_bytes)).collect(),
            data_columns: geometry.data_columns(),
            chunk_bytes,
            job_bytes: geometry.member_bytes() as usize,
            fixed_parity: geometry.level() == Level::Raid4,
            source,
            old: (0..count).map(|column| working(chunk_bytes, column)).collect(),
            made: [count, count + 1].map(|place| working(chunk_bytes, place)),
            collected: vec![0; chunk_bytes * geometry.data_columns()],
        }
    }

    fn turn(&mut self, turn: &Turn) -> f64 {
        let (mut rng, source) = (Rng::with_seed(turn.seed), self.source.clone());
        match turn.work {
            Work::Write { bytes, places } => per_second(turn.length, |done| {
                let (at, first) = self.place(turn, done, (bytes, places), &mut rng);
                let data = slice(&source, done, bytes);
                match turn.is_degraded {
                    _ if places == Places::Held => self.members[0][at..at + bytes].copy_from_slice(&data),
                    _ if places == Places::Sequential && bytes < self.stripe_bytes() => {
                        self.collect(done as usize * bytes, &data);
                    }
                    _ if bytes > self.stripe_bytes() => {
                        self.write_stripes(turn.is_degraded.then_some(&mut rng), at, &data);
                    }
                    true => self.write_without(self.lost_column(&mut rng), at, first, &data),
                    false => self.write(at, first, &data),
                }
            }),
            Work::Read { bytes, places } => {
                let mut block = working(bytes, self.members.len() + 2);
                let per_s = per_second(turn.length, |done| {
                    let (at, first) = self.place(turn, done, (bytes, places), &mut rng);
                    match turn.is_degraded {
                        true if bytes > self.stripe_bytes() => self.read_stripes(&mut rng, at, &mut block),
                        true => self.read_without(self.lost_column(&mut rng), at, first, &mut block),
                        false => self.read(at, first, &mut block),
                    }
                });
                std::hint::black_box(&block);
                per_s
            }
            Work::Check => self.all_stripes_per_second(turn.length, |bare, stripe| {
                std::hint::black_box(bare.check(stripe));
            }),
            Work::Rebuild => self.all_stripes_per_second(turn.length, |bare, stripe| bare.rebuild(stripe)),
        }
    }

    /// Whether the loops know an operation: it must consist of whole stripes or of whole chunks of one, or
    /// fit into a chunk; with a member lost, of several whole stripes, or fit into a chunk.
    fn knows(&self, turn: &Turn) -> bool {
        let is_large = |bytes: usize| bytes > self.stripe_bytes();
        let fits = |bytes: usize| {
            bytes.is_multiple_of(self.stripe_bytes()) && bytes / self.data_columns < self.members[0].len()
        };
        match turn.work {
            // Random ones would pass the end of the members.
            Work::Write { bytes, places } if is_large(bytes) => places == Places::Sequential && fits(bytes),
            Work::Read { bytes, places } if is_large(bytes) && turn.is_degraded => {
                places == Places::Sequential && fits(bytes)
            }
            Work::Write { bytes, .. } | Work::Read { bytes, .. } if turn.is_degraded => {
                self.chunk_bytes.is_multiple_of(bytes)
            }
            Work::Write { bytes, .. } => {
                let fits = bytes <= self.chunk_bytes * self.data_columns;
                fits && (self.chunk_bytes.is_multiple_of(bytes) || bytes.is_multiple_of(self.chunk_bytes))
            }
            // A read of several stripes needs as many.
            Work::Read { bytes, .. } => bytes <= self.members[0].len(),
            Work::Check | Work::Rebuild => true,
        }
    }

    /// Where an operation goes: the place in the members, and its first column.
    fn place(
        &self,
        turn: &Turn,
        index: u64,
        (bytes, places): (usize, Places),
        rng: &mut Rng,
    ) -> (usize, usize) {
        let len = bytes.min(self.chunk_bytes);
        let columns = bytes.div_ceil(self.chunk_bytes);
        let rows = self.members[0].len() / len;
        match places {
            Places::Sequential => {
                let stripes = columns.div_ceil(self.data_columns);
                ((index as usize * stripes) % (rows - stripes).max(1) * len, 0)
            }
            Places::Held => (rng.usize(..(turn.held_bytes as usize / len).clamp(1, rows)) * len, 0),
            Places::Random => {
                // Members are a little larger than what the array takes of them.
                let of_column = turn.span_bytes as usize / self.data_columns / len;
                let rows = of_column.clamp(1, rows);
                (rng.usize(..rows) * len, rng.usize(..(self.data_columns / columns).max(1)) * columns)
            }
        }
    }

    /// Writes data over one column or several whole chunks, by the cycle that reads less, or touches less on
    /// a tie.
    fn write(&mut self, at: usize, first: usize, data: &[u8]) {
        let len = data.len().min(self.chunk_bytes);
        let (k, columns) = (self.data_columns, first..first + data.len() / len);
        let is_rmw = columns.len() + self.members.len() - k <= k - columns.len();
        for column in 0..self.members.len() {
            let is_read = if column >= k { is_rmw } else { columns.contains(&column) == is_rmw };
            if is_read {
                self.load(column, at, len);
            }
        }
        let new: Vec<&[u8]> = data.chunks(len).collect();
        let (old, redundant) = self.old.split_at_mut(k);
        if is_rmw {
            update(redundant, old, &new, columns.clone(), len);
        } else {
            generate(redundant, old, &new, columns.clone(), len);
        }
        // As members in memory do: past the caches, if the overwritten place was not read.
        let store = if is_rmw {
            |from: &[u8], to: &mut [u8]| to.copy_from_slice(from)
        } else {
            memory::copy_uncached
        };
        for (column, chunk) in columns.zip(new) {
            store(chunk, &mut self.members[column][at..at + len]);
        }
        for (column, parity) in self.old.iter().enumerate().skip(k) {
            store(&parity[..len], &mut self.members[column][at..at + len]);
        }
    }

    /// Keeps the next part of a stripe. With its last part, it is written.
    fn collect(&mut self, at: usize, data: &[u8]) {
        let (stripe, in_stripe) = (at / self.stripe_bytes(), at % self.stripe_bytes());
        let end = in_stripe + data.len();
        self.collected[in_stripe..end].copy_from_slice(data);
        if end == self.stripe_bytes() {
            let collected = std::mem::take(&mut self.collected);
            let stripes = self.members[0].len() / self.chunk_bytes;
            self.write_stripe(None, stripe % stripes * self.chunk_bytes, &collected);
            self.collected = collected;
        }
    }

    /// Copies a column's old content.
    fn load(&mut self, column: usize, at: usize, len: usize) {
        memory::copy_out(&self.members[column][at..at + len], &mut self.old[column][..len]);
    }

    /// Reads chunk by chunk, from one column to the next.
    fn read(&self, at: usize, first: usize, into: &mut [u8]) {
        for (index, part) in into.chunks_mut(self.chunk_bytes).enumerate() {
            let (column, stripe) = ((first + index) % self.data_columns, (first + index) / self.data_columns);
            let at = at + stripe * self.chunk_bytes;
            memory::copy_out(&self.members[column][at..at + part.len()], part);
        }
    }
}

type Columns = std::ops::Range<usize>;

/// Read-modify-write of the parity.
fn update(redundant: &mut [IoBuf], old: &[IoBuf], new: &[&[u8]], columns: Columns, len: usize) {
    for (column, new) in columns.zip(new) {
        let old = &old[column][..len];
        match redundant {
            [p] => parity::p_update(&mut p[..len], old, new),
            [p, q] => parity::pq_update(&mut p[..len], &mut q[..len], column, old, new),
            _ => unreachable!("levels have one or two parity columns"),
        }
    }
}

/// Parity of all data, old and new.
fn generate(redundant: &mut [IoBuf], old: &[IoBuf], new: &[&[u8]], columns: Columns, len: usize) {
    let content = |column: usize| match column.checked_sub(columns.start).and_then(|index| new.get(index)) {
        Some(new) => *new,
        None => &old[column][..len],
    };
    let data: Vec<_> = (0..old.len()).map(|column| Some(content(column))).collect();
    match redundant {
        [p] => parity::p_gen(&data, &mut p[..len]),
        [p, q] => parity::pq_gen(&data, &mut p[..len], &mut q[..len]),
        _ => unreachable!("levels have one or two parity columns"),
    }
}
