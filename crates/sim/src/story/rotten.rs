//! A block rots in calm times: its member gives other content than was written to it, and does not say so. The array gives
//! the right content back from the others, and heals the block, without a trace in redundancy.

use stripewise_engine::{ArrayError, Recovered, geometry::StripeIndex};

use super::Story;
use crate::check::{Checker, SECTOR_BYTES, Violation, layout::ROW_BYTES};

/// Where the block is.
struct Rotten {
    column: usize,
    stripe: StripeIndex,
    row: usize,
    unit: usize,
    /// On the unit.
    at: u64,
}

impl Story {
    /// A block of clients rots, is recovered, and is healed.
    pub(super) fn rot_and_heal(&mut self) -> Result<(), Violation> {
        // What is dirty may be destaged over it.
        if self.was_cached {
            self.flush_all()?;
        }
        let Some(block) = self.draw_block() else { return Ok(()) };
        let sim = self.units[block.unit].sim.clone();
        let bytes = block.at as usize..block.at as usize + ROW_BYTES;
        let right = sim.bytes()[bytes.clone()].to_vec();
        let rotten: Vec<u8> = right.iter().map(|byte| !byte).collect();
        self.say(|story| format!("a block of {} rots at {}", story.units[block.unit].name(), block.at));
        sim.poke(block.at, &rotten);
        let (array, column, stripe, row) = (self.array().clone(), block.column, block.stripe, block.row);
        let reading = async move { array.read_without(column, stripe, row..row + 1).await };
        let content = match self.finish(reading, "a read without a column")? {
            Ok(Recovered { mut blocks, is_in_doubt: false }) => blocks.remove(0),
            // A resync is still due, or another member cannot read its block.
            Ok(_) | Err(ArrayError::Unreadable { .. }) => {
                sim.poke(block.at, &right);
                return Ok(());
            }
            Err(error) => {
                return Err(Checker::Service.violation(format!("a read without a column: {error}")));
            }
        };
        if content[..] != right[..] {
            return Err(Checker::Sectors.violation("a read without a rotten column gives other content"));
        }
        let (array, content) = (self.array().clone(), content.freeze());
        let healing = async move { array.heal_block(column, stripe, row, content).await };
        match self.finish(healing, "healing a block")? {
            Ok(true) => {}
            other => {
                return Err(Checker::Service.violation(format!("healing a rotten block: {other:?}")));
            }
        }
        if sim.bytes()[bytes] != right[..] {
            return Err(Checker::Sectors.violation("a rotten block was healed, and is not"));
        }
        // Before that, power that fails may bring back what has rotted.
        self.flush_all()?;
        self.check_redundancy()
    }

    /// A whole block that clients use.
    fn draw_block(&mut self) -> Option<Rotten> {
        let layout = self.layout();
        let window = self.desk.windows[self.rng.usize(..self.desk.windows.len())].clone();
        let blocks = window.start * SECTOR_BYTES / ROW_BYTES..window.end * SECTOR_BYTES / ROW_BYTES;
        let block = self.rng.usize(blocks) * ROW_BYTES;
        let place = layout.place(block);
        let in_stripe = block % layout.stripe_bytes();
        // Any mirror may rot.
        let is_mirror = layout.level == 1;
        let role = if is_mirror { self.rng.usize(..layout.members) } else { place.role };
        let unit = *self.units_by_role().get(role)?;
        Some(Rotten {
            column: if is_mirror { role } else { in_stripe / layout.chunk_bytes },
            stripe: StripeIndex((block / layout.stripe_bytes()) as u64),
            row: in_stripe % layout.chunk_bytes / ROW_BYTES,
            unit,
            at: self.units[unit].data_offset_bytes + place.offset_bytes as u64,
        })
    }
}
