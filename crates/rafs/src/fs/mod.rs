//! The file system: operations on inodes, over a store and a buffer. What serves it to a kernel, and what tests it, calls [`Fs`].
//!
//! All state lies behind one asynchronous lock. Operations that change something run as tasks, to their end, whatever becomes of
//! their callers. A change looks first at all that may refuse it, and then changes; if that fails halfway, no more is written.
//!
//! **Names** are those of a prefix of the operations after a crash, since a commit takes all that was changed. **Bytes** of files wait
//! in the buffer, and the length that the tree tells of a file does not pass the first block that a crash would lose.
//!
//! * `state`: all that operations share; `journaled`: blocks that are durable in the journal only;
//! * `entries`, `rename`, `names`: folders; `attributes`: extended attributes;
//! * `map`: extents; `read`, `write`: bytes;
//! * `write_out`: from the buffer to stripes; `pieces`: what moves there; `commit`: to the journal; `sync`: both, with their locks;
//! * `turn`: one task at a time writes out;
//! * `cleaning`: what is left in half-empty stripes moves together;
//! * `discards`: the volume is told of stripes that nobody needs any more;
//! * `background`: what goes on by itself; `mount`: mkfs, mount and unmount; `pace`: when it is written out;
//! * `held`: the tree of the last checkpoint, for a look at it while clients go on;
//! * `policy`: which of the paper's techniques a mount uses, and how it journals;
//! * `attr`, `error`, `counters`: what callers see.

mod attr;
mod attributes;
mod background;
mod cleaning;
mod commit;
mod counters;
mod discards;
mod entries;
mod error;
mod held;
mod journaled;
mod map;
mod mount;
mod names;
mod operations;
mod pace;
mod pieces;
mod policy;
mod read;
mod rename;
mod state;
mod sync;
mod turn;
mod write;
mod write_out;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::lock::Mutex as AsyncMutex;
use parking_lot::Mutex;
use stripewise_device::{EnvHandle, sync::Event};

pub use self::{
    attr::{Attr, FolderEntry, NewInode, SetAttr, Usage},
    attributes::SetAttribute,
    counters::{Counters, Stripes},
    error::FsError,
    mount::{BUFFERED_STRIPES_MIN, MountError, MountOptions},
    pace::Pace,
    policy::{JournalMode, Preset, Technique, UnknownWord, Without},
    rename::Rename,
    write::FILE_BYTES_MAX,
};
use self::{background::Kick, state::State, sync::Ticket, turn::Turn};
pub(crate) use self::{map::Mapped, names::FIRST_NUMBER, write::FILE_BLOCKS_MAX};
use crate::{
    healing::Healing,
    journal::ReplayError,
    volume::{ParityUpdates, Volume},
};

/// The number of the folder in which all others are.
pub const ROOT: u64 = 1;

/// A file system that is mounted. Clones are the same one. If all of them are dropped without an [unmount](Fs::unmount), nothing more is
/// written: what was not synced is lost, as in a crash.
#[derive(Clone)]
pub struct Fs {
    shared: Arc<Shared>,
    _used: Arc<Used>,
}

/// Ends the background when the last clone is dropped.
struct Used(Arc<Shared>);

impl Drop for Used {
    fn drop(&mut self) {
        self.0.is_ending.store(true, Ordering::Release);
        self.0.kick.want();
    }
}

struct Shared {
    env: EnvHandle,
    volume: Arc<dyn Volume>,
    healing: Arc<Healing>,
    options: MountOptions,
    /// What the volume had counted when it was mounted.
    parity_before: Option<ParityUpdates>,
    /// T_f and T_t as they are now.
    pace: Mutex<Pace>,
    state: AsyncMutex<State>,
    /// One write-out at a time. Taken before the state.
    turn: Turn,
    /// Held by a look at the tree of the last checkpoint.
    looking: Arc<AsyncMutex<()>>,
    /// Held while a batch of discards keeps stripes from writers.
    discarding: AsyncMutex<()>,
    /// Tasks that wait in fsync for a commit.
    syncs: Mutex<Vec<Ticket>>,
    kick: Kick,
    is_ending: AtomicBool,
    has_ended: Event<()>,
    /// Why the journal was not repeated to its end.
    rotten: Option<ReplayError>,
}

#[cfg(test)]
mod tests;
