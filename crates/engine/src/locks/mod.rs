//! Row locks: writes to different rows of one stripe run together; waiting is a future, never a blocked
//! thread.
//!
//! A table of buckets holds the active stripes. Each stripe has a bit set of locked rows and a queue. The
//! queue is first come, first served where rows overlap, so small writes do not starve a rebuild that wants a
//! whole stripe. Of the locks that writes take, only the row bits are held across I/O. The table knows which writes are under way, so
//! it also [gathers](gather) writes that lie behind one another.

mod claim;
mod gather;
mod rows;
mod stream;
mod stripe;
mod table;

pub(crate) use claim::Place;
pub(crate) use gather::{Due, Gathered, Until};
pub(crate) use rows::{Entry, KeptRows, RowGuard};
pub(crate) use table::RowLocks;
