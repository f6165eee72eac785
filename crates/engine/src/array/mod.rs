//! The array: the handle that clients and operators hold.

mod add;
mod blocks;
pub(crate) mod cache;
mod commands;
pub(crate) mod device;
mod policy;
mod report;
mod reporting;
mod requests;

use std::sync::{Arc, OnceLock};

use stripewise_device::EnvHandle;
use stripewise_format::md::ArrayName;
use uuid::Uuid;

pub use add::AddOptions;
pub use report::{ArrayReport, BitmapReport, MemberReport, MemberState, StripeReport};

use self::cache::CacheChoice;
use crate::{
    jobs::{JobBoard, Jobs},
    life::Life,
    members::stats::Stats,
    opening::candidates::Excluded,
    roster::Roster,
    shape::geometry::Geometry,
    stripes::Stripes,
};

/// An open array. Clones are handles to the same array.
///
/// If the last handle is dropped without [`Array::stop`], requests under way complete and background work
/// ends; then the members are free. They are left as after a crash: the next opening resyncs what the bitmap
/// marks.
///
/// # Commands
/// A command that changes the array runs to its end even if its future is dropped. Besides its own errors it
/// returns [`ArrayError::ReadOnly`] if the array was opened so, [`ArrayError::Failed`] if more members are lost
/// than the level tolerates, [`ArrayError::Closed`] once the array stops, and [`ArrayError::Io`] if the change
/// cannot be recorded on the members.
///
/// [`ArrayError::ReadOnly`]: crate::error::ArrayError::ReadOnly
/// [`ArrayError::Failed`]: crate::error::ArrayError::Failed
/// [`ArrayError::Closed`]: crate::error::ArrayError::Closed
/// [`ArrayError::Io`]: crate::error::ArrayError::Io
#[derive(Clone)]
pub struct Array {
    parts: Arc<Parts>,
}

/// What an array is made of.
pub(crate) struct Parts {
    pub(crate) life: Arc<Life>,
    pub(crate) stripes: Arc<Stripes>,
    pub(crate) roster: Arc<Roster>,
    /// The only lasting strong reference: without a handle there are no jobs.
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) board: Arc<JobBoard>,
    pub(crate) cache: CacheChoice,
    pub(crate) uuid: Uuid,
    pub(crate) name: ArrayName,
    /// Devices that were given but take no part, for display.
    pub(crate) excluded: Vec<Excluded>,
    /// Members that were taken by force although they are not current, for display.
    pub(crate) forced: Vec<Excluded>,
    /// What the array looked like when it was stopped.
    pub(crate) last: OnceLock<ArrayReport>,
}

/// The last handle is gone: the array's own work ends.
impl Drop for Parts {
    fn drop(&mut self) {
        self.life.close();
        self.board.poke();
        self.board.listeners().end();
    }
}

impl Array {
    pub(crate) fn of(parts: Parts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    /// Its parts, for the engine's own tests.
    #[cfg(test)]
    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The array's shape now.
    pub fn geometry(&self) -> Geometry {
        self.parts.stripes.geometry()
    }

    /// The array's identity.
    pub fn uuid(&self) -> Uuid {
        self.parts.uuid
    }

    /// The array's name as in the superblocks, by convention `host:name`.
    pub fn name(&self) -> String {
        self.parts.name.to_string()
    }

    /// Whether more members are lost than the level tolerates.
    pub fn has_failed(&self) -> bool {
        self.parts.roster.has_failed()
    }

    /// Whether a member is missing, or is being filled.
    pub fn is_degraded(&self) -> bool {
        self.parts.roster.is_degraded()
    }

    /// Whether the array takes no writes.
    pub fn is_read_only(&self) -> bool {
        self.parts.life.is_read_only()
    }

    /// The environment the array runs in.
    pub fn env(&self) -> &EnvHandle {
        self.parts.life.env()
    }

    /// What the array has done since it was opened.
    pub fn stats(&self) -> &Stats {
        self.parts.stripes.stats()
    }
}
