//! Reads of several pieces of a stripe of which a member is missing: what is left of the stripe is read once, and what is lost is
//! computed from it.

use std::ops::Range;

use smallvec::{SmallVec, smallvec};
use stripewise_device::{IoBuf, IoFuture, ReadDone};

use super::{Stripes, piece::Piece};
use crate::{
    compute::recovery::{self, Sources},
    members::{meter::IoClass, topology::Topology},
    shape::{geometry::StripeIndex, rows::RowSet},
};

/// Pieces of a read by their indices, with the buffers that they go to.
pub(super) type Pieces = Vec<(usize, IoBuf)>;

/// Bytes of a column that are being read, for a piece or as a source of those that are lost.
struct Asked {
    piece: Option<usize>,
    column: usize,
    bytes: Range<usize>,
    io: IoFuture<ReadDone>,
}

/// Bytes of a column that were read.
struct Found {
    piece: Option<usize>,
    column: usize,
    bytes: Range<usize>,
    buf: IoBuf,
}

impl Found {
    fn part(&self, column: usize, wanted: &Range<usize>) -> Option<&[u8]> {
        let is_here = self.column == column && covers(&self.bytes, wanted);
        is_here.then(|| &self.buf[wanted.start - self.bytes.start..wanted.end - self.bytes.start])
    }
}

impl Stripes {
    /// Reads pieces of one stripe, some of which are lost. Gives all of them back unread if a read fails, if a resync is due, or if
    /// no piece is lost any more: the caller then reads each alone.
    pub(super) async fn read_around(&self, all: &[Piece], pieces: Pieces) -> Result<Pieces, Pieces> {
        let of = |index: usize| &all[index];
        let stripe = of(pieces[0].0).stripe;
        let rows = pieces.iter().map(|(index, _)| RowSet::touching(of(*index).bytes.clone()));
        let _rows = self.locks.lock(stripe, rows.fold(RowSet::EMPTY, |all, rows| all | rows)).await;
        // Only now that no task writes these rows: a member that left before lacks their latest writes.
        let topology = self.members.load();
        if topology.failed || !self.is_trusted(stripe) {
            return Err(pieces);
        }
        let is_readable = |column: usize| topology.reader(stripe, column).is_some();
        let is_lost = |index: usize| !is_readable(of(index).column);
        let lost: SmallVec<[&Piece; 2]> =
            pieces.iter().filter(|(index, _)| is_lost(*index)).map(|(index, _)| of(*index)).collect();
        let Some(bytes) = hull(&lost) else { return Err(pieces) };
        let Some(sources) = Sources::choose(&topology.geometry, lost[0].column, is_readable) else {
            return Err(pieces);
        };
        let (mut asked, mut unread) = (Vec::new(), Pieces::new());
        for (index, buf) in pieces {
            let Piece { column, bytes, .. } = of(index);
            match is_lost(index) {
                true => unread.push((index, buf)),
                false => asked.push(self.ask(&topology, stripe, (Some(index), *column), bytes.clone(), buf)),
            }
        }
        for column in &sources.read {
            if !asked.iter().any(|asked| asked.column == *column && covers(&asked.bytes, &bytes)) {
                let buf = IoBuf::with_len(bytes.len());
                asked.push(self.ask(&topology, stripe, (None, *column), bytes.clone(), buf));
            }
        }
        let (found, is_whole) = take(asked).await;
        if is_whole {
            for (index, buf) in &mut unread {
                self.compute_lost(&topology, of(*index), &sources, &found, buf);
            }
        }
        let read = found.into_iter().filter_map(|found| Some((found.piece?, found.buf)));
        let pieces = read.chain(unread).collect();
        if is_whole { Ok(pieces) } else { Err(pieces) }
    }

    fn ask(
        &self,
        topology: &Topology,
        stripe: StripeIndex,
        (piece, column): (Option<usize>, usize),
        bytes: Range<usize>,
        buf: IoBuf,
    ) -> Asked {
        let member = topology.reader(stripe, column).expect("what is asked for is readable");
        let at = topology.geometry.chunk_start(stripe) + bytes.start as u64;
        Asked { piece, column, bytes, io: member.read_as(IoClass::Other, at, smallvec![buf]) }
    }

    /// Computes a lost piece from what was found of the others.
    fn compute_lost(
        &self,
        topology: &Topology,
        piece: &Piece,
        sources: &Sources,
        found: &[Found],
        into: &mut [u8],
    ) {
        let of = |column: &usize| found.iter().find_map(|found| found.part(*column, &piece.bytes));
        let read: SmallVec<[&[u8]; 8]> =
            sources.read.iter().map(|column| of(column).expect("every source was read")).collect();
        self.stats.count_recovered();
        recovery::solve(&topology.geometry, piece.column, sources, &read, into);
    }
}

/// Waits for all, and tells whether all could be read.
async fn take(asked: Vec<Asked>) -> (Vec<Found>, bool) {
    let (mut found, mut is_whole) = (Vec::with_capacity(asked.len()), true);
    for Asked { piece, column, bytes, io } in asked {
        let (result, buf) = io.await.with_buf(bytes.len());
        is_whole &= result.is_ok();
        found.push(Found { piece, column, bytes, buf });
    }
    (found, is_whole)
}

/// The bytes of a chunk from the first to the last of some pieces; none without pieces.
fn hull(pieces: &[&Piece]) -> Option<Range<usize>> {
    let start = pieces.iter().map(|piece| piece.bytes.start).min()?;
    Some(start..pieces.iter().map(|piece| piece.bytes.end).max()?)
}

fn covers(bytes: &Range<usize>, wanted: &Range<usize>) -> bool {
    bytes.start <= wanted.start && wanted.end <= bytes.end
}
