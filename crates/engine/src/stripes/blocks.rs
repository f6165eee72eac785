//! Whole blocks of one stripe: rows and blocks in many buffers, written under one lock of rows and by one recipe, and
//! rows that are read. A client that knows of stripes, such as a file system, asks for these.
//!
//! With a cache, whole rows go past it, as whole stripes do: there is nothing to wait for. Blocks go by way of it, or past
//! it where the writes of their stripe do.

use std::{ops::Range, sync::Arc};

use stripewise_device::{Block, IoBuf, SharedBuf, WriteFlags, sync::Reader};

use super::{
    Stripes,
    piece::Piece,
    steps::{Progress, Rest, StripeWrite},
};
use crate::{
    compute::{CachedCells, Data},
    error::ArrayError,
    life::{detached::Detached, step::step},
    plan::recipe::Span,
    shape::{
        geometry::{Geometry, StripeIndex},
        rows::BLOCK_BYTES,
    },
};

impl Stripes {
    /// Serves a write of whole rows, whose blocks come row by row.
    pub(crate) fn start_write_rows(
        &self,
        stripe: StripeIndex,
        first_row: usize,
        blocks: &[SharedBuf],
    ) -> Detached<Result<(), ArrayError>> {
        let request = self.requests.enter();
        let geometry = &self.members.get(&request).value().geometry;
        let data_columns = geometry.data_columns();
        let end = first_row.saturating_add(blocks.len() / data_columns);
        let taken = self.check_change(geometry, 0, 0).and_then(|()| {
            if !blocks.len().is_multiple_of(data_columns) {
                return Err(refused(stripe, "rows are written as a whole"));
            }
            check_rows(geometry, stripe, &(first_row..end))?;
            blocks.iter().map(|buf| block_of(geometry, stripe, buf)).collect::<Result<Vec<_>, _>>()
        });
        let blocks = match taken {
            Ok(blocks) if blocks.is_empty() => return Detached::done(Ok(())),
            Ok(blocks) => blocks,
            Err(error) => return Detached::done(Err(error)),
        };
        let cells = Arc::new(CachedCells::of_rows(first_row, data_columns, &blocks));
        self.stats.count_write(cells.new_bytes());
        self.start_blocks(
            request,
            StripeWrite::of_blocks(stripe, cells.clone(), Some((first_row..end).into())),
            &cells,
        )
    }

    /// Serves a write of blocks, given by row and data column.
    pub(crate) fn start_write_blocks(
        &self,
        stripe: StripeIndex,
        blocks: &[(usize, usize, SharedBuf)],
    ) -> Detached<Result<(), ArrayError>> {
        let request = self.requests.enter();
        let geometry = &self.members.get(&request).value().geometry;
        let taken = self.check_change(geometry, 0, 0).and_then(|()| {
            let block = |(row, column, buf): &(usize, usize, SharedBuf)| {
                check_column(geometry, stripe, *column, geometry.data_columns())?;
                check_rows(geometry, stripe, &(*row..row.saturating_add(1)))?;
                Ok((*row, *column, block_of(geometry, stripe, buf)?))
            };
            blocks.iter().map(block).collect::<Result<Vec<_>, _>>()
        });
        let blocks = match taken {
            Ok(blocks) if blocks.is_empty() => return Detached::done(Ok(())),
            Ok(blocks) => blocks,
            Err(error) => return Detached::done(Err(error)),
        };
        let cells = Arc::new(CachedCells::of_blocks(blocks.into_iter()));
        self.stats.count_write(cells.new_bytes());
        match self.cache.get(&request).value() {
            Some(cache) if !cache.passes(stripe) => self.start_putting(request, stripe, cells),
            _ => self.start_blocks(request, StripeWrite::of_blocks(stripe, cells.clone(), None), &cells),
        }
    }

    /// Writes blocks to members, past a cache if there is one.
    fn start_blocks(
        &self,
        request: Reader<'_>,
        mut write: StripeWrite,
        cells: &Arc<CachedCells>,
    ) -> Detached<Result<(), ArrayError>> {
        if self.members.get(&request).failed {
            return Detached::done(Err(ArrayError::Failed));
        }
        if let Some(cache) = self.cache.get(&request).value() {
            let are_rows = write.content.whole_rows().is_some();
            write.ending = Some(cache.begin_pass_of(write.stripe, cells.clone(), are_rows));
        }
        let env = self.life.env();
        let rest = if env.is_here() {
            match step(env, || self.begin_blocks(&request, write)) {
                Progress::Done(result) => return Detached::done(result),
                Progress::Waits(rest) => rest,
            }
        } else {
            Rest::Rows(write)
        };
        let (stripes, kept) = (self.handle(), request.keep());
        Detached::start(env, async move {
            let _request = stripes.requests.resume(kept);
            stripes.finish_stripe(rest).await
        })
    }

    /// Begins to write blocks, if their rows are free.
    fn begin_blocks(&self, request: &Reader<'_>, write: StripeWrite) -> Progress {
        let rows = write.content.rows(self.members.get(request).geometry.chunk_bytes());
        match self.locks.try_lock(write.stripe, rows) {
            Some(rows) => self.start_with_rows(request, write, rows),
            None => Progress::Waits(Rest::Rows(write)),
        }
    }

    /// Puts blocks into the cache, as other writes: each run of a column by itself.
    fn start_putting(
        &self,
        request: Reader<'_>,
        stripe: StripeIndex,
        cells: Arc<CachedCells>,
    ) -> Detached<Result<(), ArrayError>> {
        let (stripes, kept) = (self.handle(), request.keep());
        Detached::start(self.life.env(), async move {
            let _request = stripes.requests.resume(kept);
            let geometry = stripes.geometry();
            let mut result = Ok(());
            for (column, of) in cells.columns() {
                for rows in of.dirty().runs() {
                    let bytes = Span::from(rows).bytes();
                    let offset_bytes = geometry.array_offset(stripe, column, bytes.start);
                    let data = Data::of(cells.take(column, &bytes), offset_bytes);
                    result =
                        result.and(stripes.write_spans(offset_bytes, &data, WriteFlags::default()).await);
                }
            }
            result
        })
    }

    /// Serves a read of whole rows: one read of each member, if all are there and nothing is cached. The blocks come row
    /// by row.
    pub(crate) fn start_read_rows(
        &self,
        stripe: StripeIndex,
        rows: Range<usize>,
    ) -> Detached<Result<Vec<IoBuf>, ArrayError>> {
        let request = self.requests.enter();
        let geometry = self.members.get(&request).value().geometry;
        let checked = self.check_request(&geometry, 0, 0).and_then(|()| check_rows(&geometry, stripe, &rows));
        match checked {
            Ok(()) if rows.is_empty() => return Detached::done(Ok(Vec::new())),
            Ok(()) => {}
            Err(error) => return Detached::done(Err(error)),
        }
        let (bytes, columns) = (Span::from(rows.clone()).bytes(), geometry.data_columns());
        self.stats.count_read((bytes.len() * columns) as u64);
        let (stripes, kept) = (self.handle(), request.keep());
        Detached::start(self.life.env(), async move {
            let request = stripes.requests.resume(kept);
            let buf = IoBuf::with_len(bytes.len() * columns);
            let pieces = (0..columns).map(|column| Piece::of(stripe, column, bytes.clone())).collect();
            Ok(by_rows(stripes.read_uncut(&request, pieces, buf).await?, rows.len(), columns))
        })
    }
}

/// Cuts what was read column by column into blocks, row by row.
fn by_rows(mut read: IoBuf, rows: usize, columns: usize) -> Vec<IoBuf> {
    let mut of_columns: Vec<IoBuf> = (0..columns).map(|_| read.split_to(rows * BLOCK_BYTES)).collect();
    let mut blocks = Vec::with_capacity(rows * columns);
    for _ in 0..rows {
        blocks.extend(of_columns.iter_mut().map(|column| column.split_to(BLOCK_BYTES)));
    }
    blocks
}

/// A buffer as a block. It is copied only if it lies at an address that members refuse, as with other writes.
fn block_of(geometry: &Geometry, stripe: StripeIndex, buf: &SharedBuf) -> Result<Block, ArrayError> {
    let align = geometry.logical_block_bytes() as usize;
    let is_aligned = (buf.as_ptr() as usize).is_multiple_of(align);
    let buf = if is_aligned { buf.clone() } else { IoBuf::copy_of(buf).freeze() };
    Block::sharing(buf).map_err(|_| refused(stripe, "a block has 4096 bytes"))
}

/// Checks that a stripe has these whole rows.
pub(super) fn check_rows(
    geometry: &Geometry,
    stripe: StripeIndex,
    rows: &Range<usize>,
) -> Result<(), ArrayError> {
    if stripe.0 >= geometry.stripes() {
        return Err(refused(stripe, "the array has fewer stripes"));
    }
    let has_all = rows.start <= rows.end && rows.end <= geometry.chunk_len(stripe) / BLOCK_BYTES;
    if has_all { Ok(()) } else { Err(refused(stripe, "it has fewer whole rows")) }
}

/// Checks that a column is one of the first so many.
pub(super) fn check_column(
    geometry: &Geometry,
    stripe: StripeIndex,
    column: usize,
    end: usize,
) -> Result<(), ArrayError> {
    debug_assert!(end <= geometry.members());
    if column < end { Ok(()) } else { Err(refused(stripe, "it has fewer columns of data")) }
}

pub(super) fn refused(stripe: StripeIndex, problem: &'static str) -> ArrayError {
    ArrayError::Blocks { stripe: stripe.0, problem }
}
