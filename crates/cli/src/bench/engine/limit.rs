//! The limit: bare loops, one for each thread, that do only the memory traffic and the XOR that the engine cannot avoid,
//! on buffers of the same sizes.

use std::thread;

use fastrand::Rng;
use memmap2::{Advice, MmapMut};
use stripewise::parity;

use super::{
    BLOCK_BYTES as BLOCK, Case,
    turn::{Turn, per_second, slice, source},
};

/// The loops of all threads, each with its part of the members.
pub(super) struct Limit(Vec<BareArray>);

impl Limit {
    pub(super) fn new(threads: usize, members: usize, member_bytes: usize, chunk_bytes: usize) -> Self {
        let part = (member_bytes / threads).max(chunk_bytes);
        Self((0..threads).map(|_| BareArray::new(members, part, chunk_bytes)).collect())
    }

    /// Operations a second of one turn.
    pub(super) fn turn(&mut self, turn: &Turn) -> f64 {
        thread::scope(|scope| {
            let run = |bare: &'_ mut BareArray| bare.turn(turn);
            let loops: Vec<_> = self.0.iter_mut().map(|bare| scope.spawn(move || run(bare))).collect();
            loops.into_iter().map(|one| one.join().expect("a bare loop does not fail")).sum()
        })
    }
}

/// Members as plain memory, and the working buffers of one writer.
struct BareArray {
    members: Vec<MmapMut>,
    chunk_bytes: usize,
    parity: Vec<u8>,
    old: Vec<u8>,
}

/// Memory with pages of the same size as a memory member's. Written once, so that no page fault falls into the
/// measurement.
fn member(bytes: usize) -> MmapMut {
    let mut memory = MmapMut::map_anon(bytes).expect("address space for a member");
    let _ = memory.advise(Advice::HugePage);
    memory.fill(1);
    memory
}

impl BareArray {
    fn new(members: usize, member_bytes: usize, chunk_bytes: usize) -> Self {
        let members = (0..members).map(|_| member(member_bytes)).collect();
        Self { members, chunk_bytes, parity: vec![1; chunk_bytes], old: vec![1; BLOCK] }
    }

    fn turn(&mut self, turn: &Turn) -> f64 {
        let (mut rng, source, mut block) = (Rng::with_seed(turn.seed), source(), vec![0; BLOCK]);
        let stripe_bytes = self.chunk_bytes * (self.members.len() - 1);
        let per_s = per_second(turn.length, |done| match turn.case {
            Case::FullStripe => self.full_stripe(done as usize, &slice(&source, done, stripe_bytes)),
            Case::RandomWrite => self.small_write(&mut rng, &slice(&source, done, BLOCK)),
            Case::RandomRead => self.small_read(&mut rng, &mut block),
        });
        std::hint::black_box(&block);
        per_s
    }

    fn stripes(&self) -> usize {
        self.members[0].len() / self.chunk_bytes
    }

    /// A full-stripe write: XOR of the data, and every chunk copied to its member.
    fn full_stripe(&mut self, stripe: usize, data: &[u8]) {
        let chunks: Vec<&[u8]> = data.chunks(self.chunk_bytes).collect();
        parity::xor_gen(&mut self.parity, &chunks);
        let at = stripe % self.stripes() * self.chunk_bytes;
        let count = self.members.len();
        for (i, member) in self.members.iter_mut().enumerate() {
            let source = if i == count - 1 { &self.parity } else { chunks[i] };
            member[at..at + self.chunk_bytes].copy_from_slice(source);
        }
    }

    /// A small write: old data and parity copied out, XOR, new data and parity copied in.
    fn small_write(&mut self, rng: &mut Rng, data: &[u8]) {
        let count = self.members.len();
        let at = rng.usize(..self.members[0].len() / BLOCK) * BLOCK;
        let (column, parity) = (rng.usize(..count - 1), count - 1);
        self.old.copy_from_slice(&self.members[column][at..at + BLOCK]);
        self.parity[..BLOCK].copy_from_slice(&self.members[parity][at..at + BLOCK]);
        parity::p_update(&mut self.parity[..BLOCK], &self.old, data);
        self.members[column][at..at + BLOCK].copy_from_slice(data);
        self.members[parity][at..at + BLOCK].copy_from_slice(&self.parity[..BLOCK]);
    }

    /// A small read: one block copied out.
    fn small_read(&self, rng: &mut Rng, into: &mut [u8]) {
        let at = rng.usize(..self.members[0].len() / BLOCK) * BLOCK;
        into.copy_from_slice(&self.members[rng.usize(..self.members.len() - 1)][at..at + BLOCK]);
    }
}
