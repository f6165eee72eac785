//! Reads of several pieces of a stripe with a missing member: what is left of the stripe is read once, and
//! what is lost is computed from it.

use std::ops::Range;

use stripewise_device::{IoBuf, ReadDone};

use super::{Stripes, piece::Piece, wait::Requested};
use crate::{
    compute::recovery::{self, Columns},
    members::{meter::IoClass, stats::Cause},
    plan::{
        Recipe,
        recipe::{Cells, Source},
        recover,
    },
    shape::{geometry::Geometry, rows::RowSet},
};

/// Pieces of a read by their indices, with the buffers that they go to.
pub(super) type Pieces = Vec<(usize, IoBuf)>;

/// Bytes of a column's chunk that are read: a piece, or what lost pieces are computed from.
struct Asked {
    piece: Option<usize>,
    column: usize,
    bytes: Range<usize>,
}

/// Bytes that were read.
struct Found {
    asked: Asked,
    buf: IoBuf,
}

impl Found {
    fn part(&self, column: usize, wanted: &Range<usize>) -> Option<&[u8]> {
        let Asked { column: own, bytes, .. } = &self.asked;
        let is_here = *own == column && covers(bytes, wanted);
        is_here.then(|| &self.buf[wanted.start - bytes.start..wanted.end - bytes.start])
    }
}

impl Stripes {
    /// Reads pieces of one stripe, some of which are lost. Gives all of them back unread if a read fails, if
    /// a resync is due, or if no piece is lost any more: the caller then reads each piece alone.
    pub(super) async fn read_around(&self, all: &[Piece], pieces: Pieces) -> Result<Pieces, Pieces> {
        let of = |index: usize| &all[index];
        let stripe = of(pieces[0].0).stripe;
        let rows = pieces.iter().map(|(index, _)| RowSet::touching(of(*index).bytes.clone()));
        let _rows = self.locks.lock(stripe, rows.fold(RowSet::EMPTY, |all, rows| all | rows)).await;
        // Taken only now that no task writes these rows: a member that left before lacks their latest writes.
        let topology = self.members.load();
        if topology.failed || !self.is_trusted(stripe) {
            return Err(pieces);
        }
        let is_readable = |column: usize| topology.reader(stripe, column).is_some();
        let parts = pieces.iter().map(|(index, _)| (of(*index).column, &of(*index).bytes));
        let Some(recipe) = recover::read_around(&topology.geometry, parts, is_readable) else {
            return Err(pieces);
        };
        let (mut asked, mut reads) = (Vec::with_capacity(recipe.reads.len()), Requested::new());
        let mut left: Vec<(usize, Option<IoBuf>)> =
            pieces.into_iter().map(|(index, buf)| (index, Some(buf))).collect();
        let part = |cells: &Cells| {
            let (column, bytes) = (usize::from(cells.column), cells.rows.bytes());
            // A piece that is all that is read of its column is read straight into its buffer.
            let is_all = |index: usize| of(index).column == column && of(index).bytes == bytes;
            let own = left.iter_mut().find(|(index, _)| is_all(*index));
            let (piece, buf) = own.map_or((None, None), |(index, buf)| (Some(*index), buf.take()));
            let (start, buf) = (bytes.start, buf.unwrap_or_else(|| IoBuf::with_len(bytes.len())));
            asked.push(Asked { piece, column, bytes });
            (start, buf)
        };
        self.ask_reads(&topology, stripe, (&recipe, IoClass::Other, Cause::Reader), part, &mut reads);
        let (found, is_whole) = take(asked, reads).await;
        let mut left: Pieces = left.into_iter().filter_map(|(index, buf)| Some((index, buf?))).collect();
        if is_whole {
            for (index, buf) in &mut left {
                if !is_readable(of(*index).column) {
                    self.stats.count_recovered();
                }
                give_back(&recipe, &topology.geometry, of(*index), &found, buf);
            }
        }
        left.extend(found.into_iter().filter_map(|Found { asked, buf }| Some((asked.piece?, buf))));
        if is_whole { Ok(left) } else { Err(left) }
    }
}

/// Fills a piece that was not read straight into its buffer, from what was found.
fn give_back(recipe: &Recipe, geometry: &Geometry, piece: &Piece, found: &[Found], into: &mut [u8]) {
    let of = |column| found.iter().find_map(|found| found.part(column, &piece.bytes));
    let columns: Columns<'_> = (0..geometry.members()).map(of).collect();
    recovery::content(recipe, Source::Old(piece.column as u16), geometry, &columns, into);
}

/// Waits for all, and tells whether all could be read.
async fn take(asked: Vec<Asked>, reads: Requested<ReadDone>) -> (Vec<Found>, bool) {
    let (mut found, mut is_whole) = (Vec::with_capacity(asked.len()), true);
    for (asked, io) in asked.into_iter().zip(reads) {
        let (result, buf) = io.await.with_buf(asked.bytes.len());
        is_whole &= result.is_ok();
        found.push(Found { asked, buf });
    }
    (found, is_whole)
}

fn covers(bytes: &Range<usize>, wanted: &Range<usize>) -> bool {
    bytes.start <= wanted.start && wanted.end <= bytes.end
}
