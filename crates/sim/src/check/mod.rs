//! Checkers: what must hold of an array, whatever happened to it. They share no code with the engine or the
//! format crate; their knowledge comes from `docs/on-disk-format.md`, md(4) and arithmetic of their own.
//!
//! * [`Sectors`]: what each sector of the array may hold.
//! * [`layout`]: where a sector lies, and whether the members' redundancy agrees.
//! * [`listed`]: which sectors a member's bad-block log lists.
//! * [`md_bitmap`]: the bitmap that the kernel's md keeps, and whether the kernel may believe it.
//! * [`image`]: what a crash left on the members: superblocks, roles, bitmap, and whether they tell the
//!   truth.

pub mod image;
pub mod layout;
pub mod listed;
pub mod md_bitmap;
mod sectors;
pub mod superblock;

use std::fmt;

pub use sectors::{Moment, ReadTicket, SECTOR_BYTES, Sectors, WriteTicket};

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The checker that found it.
    pub checker: Checker,
    /// What it found.
    pub what: String,
    /// The sector of the array that is wrong, if it is one.
    pub sector: Option<usize>,
}

/// The checker that found a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Checker {
    /// A sector holds content that it may not hold.
    Sectors,
    /// Data and redundancy disagree where they must agree.
    Redundancy,
    /// Superblocks or extension headers that cannot be read, or contradict each other.
    Metadata,
    /// The superblocks say clean and the members disagree: another md would trust wrong parity.
    Kernel,
    /// Rows disagree outside the regions that the bitmap marks.
    Bitmap,
    /// A member that is not current was taken for current.
    Currency,
    /// A command, request or job that had to succeed failed, or one that had to fail succeeded.
    Service,
    /// A scrub reported what is not there, or missed what is.
    Scrub,
    /// The engine's own assertions, and worlds that no longer move.
    Engine,
}

impl Checker {
    /// Every checker; each story runs all of them.
    pub const ALL: [Self; 9] = [
        Self::Sectors,
        Self::Redundancy,
        Self::Metadata,
        Self::Kernel,
        Self::Bitmap,
        Self::Currency,
        Self::Service,
        Self::Scrub,
        Self::Engine,
    ];

    /// The checker's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sectors => "sectors",
            Self::Redundancy => "redundancy",
            Self::Metadata => "metadata",
            Self::Kernel => "kernel",
            Self::Bitmap => "bitmap",
            Self::Currency => "currency",
            Self::Service => "service",
            Self::Scrub => "scrub",
            Self::Engine => "engine",
        }
    }

    /// A violation that this checker found.
    pub fn violation(self, what: impl Into<String>) -> Violation {
        Violation { checker: self, what: what.into(), sector: None }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.checker.name(), self.what)
    }
}
