//! Requests for whole rows and blocks of one stripe. They are held to what ordinary requests promise: each block by
//! itself, as a sector may be of another request than its neighbour.

use std::{collections::BTreeSet, ops::Range};

use stripewise_device::{IoBuf, SharedBuf};
use stripewise_engine::{ArrayError, geometry::StripeIndex};

use super::{BLOCK_SECTORS, Client, Written};
use crate::{
    check::{ReadTicket, SECTOR_BYTES, WriteTicket},
    world::elsewhere,
};

/// The most rows of a request.
const ROWS_MAX: usize = 8;
/// The most blocks of a write that is not of whole rows.
const BLOCKS_MAX: usize = 6;
const BLOCK_BYTES: usize = BLOCK_SECTORS * SECTOR_BYTES;

/// Rows of a stripe.
type Rows = (StripeIndex, Range<usize>);

impl Client {
    /// Writes whole rows near a sector; the range itself where clients may not use all of them.
    pub(super) async fn write_rows(&mut self, first: usize, count: usize) -> Written {
        let Some((stripe, rows)) = self.rows_near(first) else { return self.write(first, count).await };
        let columns = self.array.geometry().data_columns();
        let places = rows.clone().flat_map(|row| (0..columns).map(move |column| (row, column)));
        let begun = places.map(|(row, column)| self.begin_block(self.sector_of(stripe, row, column)));
        let (tickets, blocks): (Vec<_>, Vec<_>) = begun.collect();
        let (is_elsewhere, array) = (self.is_elsewhere(), self.array.clone());
        let written = elsewhere(is_elsewhere, || array.write_rows(stripe, rows.start, &blocks)).await;
        self.end_blocks(tickets, written)
    }

    /// Writes some blocks of rows near a sector; the range itself where clients may not use all of the rows.
    pub(super) async fn write_blocks(&mut self, first: usize, count: usize) -> Written {
        let Some((stripe, rows)) = self.rows_near(first) else { return self.write(first, count).await };
        let columns = self.array.geometry().data_columns();
        let place = |_| (self.rng.usize(rows.clone()), self.rng.usize(..columns));
        let places: BTreeSet<_> = (0..BLOCKS_MAX).map(place).collect();
        let mut tickets = Vec::new();
        let mut blocks = Vec::new();
        for (row, column) in places.into_iter().take(self.rng.usize(1..=BLOCKS_MAX)) {
            let (ticket, block) = self.begin_block(self.sector_of(stripe, row, column));
            tickets.push(ticket);
            blocks.push((row, column, block));
        }
        let (is_elsewhere, array) = (self.is_elsewhere(), self.array.clone());
        let written = elsewhere(is_elsewhere, || array.write_blocks(stripe, &blocks)).await;
        self.end_blocks(tickets, written)
    }

    /// Reads whole rows near a sector; the range itself where clients may not use all of them.
    pub(super) async fn read_rows(&mut self, first: usize, count: usize) -> Result<(), ArrayError> {
        let Some((stripe, rows)) = self.rows_near(first) else { return self.read(first, count).await };
        let columns = self.array.geometry().data_columns();
        let places = rows.clone().flat_map(|row| (0..columns).map(move |column| (row, column)));
        let sectors = places.map(|(row, column)| self.sector_of(stripe, row, column)).collect();
        let tickets = self.begin_reads(sectors);
        let read = elsewhere(self.is_elsewhere(), || self.array.read_rows(stripe, rows)).await;
        self.end_reads(tickets, read)
    }

    /// Reads rows near a sector of a column, without believing it; the range itself where clients may not use the rows. The
    /// others may not be enough. Where a resync is due nothing is promised.
    pub(super) async fn read_without(&mut self, first: usize, count: usize) -> Result<(), ArrayError> {
        let Some((stripe, rows)) = self.rows_near(first) else { return self.read(first, count).await };
        let geometry = self.array.geometry();
        let mirrors = geometry.copies_of(0).len();
        let columns = if mirrors > 1 { mirrors } else { geometry.data_columns() };
        let column = self.rng.usize(..columns);
        let of_data = if mirrors > 1 { 0 } else { column };
        let sectors = rows.clone().map(|row| self.sector_of(stripe, row, of_data)).collect();
        let tickets = self.begin_reads(sectors);
        let read = elsewhere(self.is_elsewhere(), || self.array.read_without(column, stripe, rows)).await;
        match read {
            Err(ArrayError::Unreadable { .. }) => self.give_up_reads(tickets),
            Ok(recovered) if recovered.is_in_doubt => self.give_up_reads(tickets),
            read => return self.end_reads(tickets, read.map(|recovered| recovered.blocks)),
        }
        Ok(())
    }

    /// Rows from that of a sector on, if clients may use all of their blocks.
    fn rows_near(&mut self, sector: usize) -> Option<Rows> {
        let geometry = self.array.geometry();
        let byte = (sector * SECTOR_BYTES) as u64;
        let stripe = StripeIndex(byte / geometry.stripe_bytes());
        let row = byte as usize % geometry.chunk_bytes() / BLOCK_BYTES;
        let end = (row + self.rng.usize(1..=ROWS_MAX)).min(geometry.chunk_len(stripe) / BLOCK_BYTES);
        let is_used = |column: usize| {
            let first = self.sector_of(stripe, row, column);
            let last = first + (end - row) * BLOCK_SECTORS;
            self.desk.windows.iter().any(|window| window.start <= first && last <= window.end)
        };
        let is_right = row < end && (0..geometry.data_columns()).all(is_used);
        is_right.then_some((stripe, row..end))
    }

    /// The first sector of a block.
    fn sector_of(&self, stripe: StripeIndex, row: usize, column: usize) -> usize {
        let geometry = self.array.geometry();
        let in_stripe = column * geometry.chunk_bytes() + row * BLOCK_BYTES;
        (stripe.0 as usize * geometry.stripe_bytes() as usize + in_stripe) / SECTOR_BYTES
    }

    /// New content of a block that is about to be written.
    fn begin_block(&self, sector: usize) -> (WriteTicket, SharedBuf) {
        let mut content = IoBuf::with_len(BLOCK_BYTES);
        let mut sectors = self.desk.sectors.lock();
        sectors.fill(sector, &mut content);
        (sectors.begin_write(sector, &content), content.freeze())
    }

    fn end_blocks(&self, tickets: Vec<WriteTicket>, written: Written) -> Written {
        let mut sectors = self.desk.sectors.lock();
        tickets.into_iter().for_each(|ticket| sectors.end_write(ticket, written.is_ok(), false));
        written
    }

    fn begin_reads(&self, sectors: Vec<usize>) -> Vec<(ReadTicket, usize)> {
        let mut model = self.desk.sectors.lock();
        sectors.into_iter().map(|sector| (model.begin_read(), sector)).collect()
    }

    fn give_up_reads(&self, tickets: Vec<(ReadTicket, usize)>) {
        let mut model = self.desk.sectors.lock();
        tickets.into_iter().for_each(|(ticket, _)| model.give_up_read(ticket));
    }

    /// Checks what was read, block by block.
    fn end_reads(
        &self,
        tickets: Vec<(ReadTicket, usize)>,
        read: Result<Vec<IoBuf>, ArrayError>,
    ) -> Result<(), ArrayError> {
        let blocks = match read {
            Ok(blocks) => blocks,
            Err(error) => {
                self.give_up_reads(tickets);
                return Err(error);
            }
        };
        assert_eq!(blocks.len(), tickets.len(), "as many blocks are read as were asked for");
        for ((ticket, sector), block) in tickets.into_iter().zip(blocks) {
            let checked = self.desk.sectors.lock().end_read(ticket, sector, &block);
            checked.err().into_iter().for_each(|violation| self.desk.report(violation));
        }
        Ok(())
    }
}
