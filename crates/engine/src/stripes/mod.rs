//! What is done to stripes: client requests, and the blocks that are mended behind them.

mod around;
pub(crate) mod detached;
mod execute;
mod extents;
mod flush;
mod gather;
mod healing;
pub(crate) mod pending;
mod read;
mod recover;
mod selection;
mod settle;
pub(crate) mod trace;
mod wait;
mod write;
mod zero;

pub(crate) use detached::Promise;
pub(crate) use execute::Extent;
pub(crate) use healing::Healing;
pub(crate) use recover::Asks;
#[cfg(test)]
pub(crate) use write::touched_rows;
