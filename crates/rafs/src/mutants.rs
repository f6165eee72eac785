//! Deliberate bugs of the file system that a test can switch on, one at a time: a checker that never fails proves nothing.
//!
//! They exist only with the feature `mutants`, which no shipped build has. Without it, `lives` is always false, at compile time.
//! The switch is per thread.

macro_rules! mutants {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A deliberate bug.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mutant {
            $($(#[$doc])* $name,)*
        }

        impl Mutant {
            /// Every mutant.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

mutants! {
    /// A commit does not flush the file blocks that its record refers to.
    DataNotFlushed,
    /// A record is not flushed.
    RecordNotFlushed,
    /// Records after a checkpoint belong to the epoch before it.
    EpochStays,
    /// A checkpoint gives the journal free as a whole, with records that its anchor needs.
    JournalFreedEarly,
    /// An anchor is written before its tree is durable.
    AnchorBeforeNodes,
    /// An anchor is not flushed.
    AnchorNotFlushed,
    /// An anchor does not tell the next inode's number.
    InodeNumberForgotten,
    /// Blocks of files are free before the record that frees them is durable.
    FreedAtOnce,
    /// A checkpoint reuses nodes of the tree that is durable.
    NodesReused,
    /// A checkpoint reuses nodes of a tree that is being looked at.
    HeldReused,
    /// A mount does not renew the anchors, nor flush the records that it has repeated.
    AnchorsNotRenewed,
    /// A replay takes records of an earlier lap of the ring.
    LastLapReplayed,
    /// A replay hands out blocks of files that were written out later.
    ReplayForgetsNothing,
    /// What a replay hands out counts as written out.
    ReplayedNotJournaled,
    /// The record that tells the new places of journaled blocks does not say that they have left the journal.
    LeftNotTold,
    /// The same of blocks that a file has lost.
    LostNotTold,
    /// A checkpoint is made before all that only the journal has is written out.
    JournaledNotWrittenOut,
    /// The tree tells lengths of files past what a crash would lose.
    LengthTooEarly,
    /// The length in the tree does not follow what is written out.
    LengthNotPut,
    /// What lies behind a file's end in its last block is seen when the file grows.
    TailSeen,
    /// Blocks that a crash left behind a file's end are seen when the file grows.
    LeftOversSeen,
    /// An overwrite of a journaled block counts as journaled.
    OverwriteJournaled,
    /// A sync forgets what was overwritten before it was written out.
    OvertakenForgotten,
    /// A write-out settles blocks that were overwritten meanwhile.
    StaleSettled,
    /// A whole piece is taken in part.
    LargeInPart,
    /// Rows are written as a whole over live neighbours.
    NeighboursZeroed,
    /// An overwrite in place is not flushed before the next commit.
    OverwriteNotFlushed,
    /// Blocks are overwritten in place while a member is missing.
    OverwriteDegraded,
    /// A file that has become shorter is overwritten in place before that is durable, zeroes behind its new end included.
    ShrunkOverwritten,
    /// A read gives what it has read, though the places were given away meanwhile.
    PlacesNotLookedAt,
    /// The old places of a file's blocks stay in the tree.
    OldExtentsStay,
    /// The old places of a file's blocks stay taken.
    OldPlacesLeak,
    /// Of an extent that is cut in the middle, the rest behind the cut is lost.
    ExtentTailLost,
    /// The CRCs of an extent's rest are those of its begin.
    CrcsNotCut,
    /// A file that has grown keeps its bytes in the tree, too.
    InlineStays,
    /// A rename over a file leaves that file with a link, and no name.
    ReplacedStays,
    /// A rename leaves the old entry's number.
    OldNumberStays,
    /// A file that loses its last name is not noted as an orphan.
    OrphanNotNoted,
    /// What was freed of an orphan is not all that it had.
    OrphanFreedInPart,
    /// Space is not looked at when a write is accepted.
    SpaceNotReserved,
    /// A replay frees what its records free once it has ended.
    ReplayFreesLate,
    /// A part of an extent is cut where it begins only.
    PartNotCut,
    /// Stripes may be filled while they are discarded.
    DiscardNotKept,
    /// A record may become durable before blocks that are in the place of others.
    ReplacedTrails,
    /// A rename over a file leaves the bytes of the new one behind.
    ReplacingLeftBehind,
    /// What is overwritten where it lies need not be in the journal, though all data goes there.
    OverwriteNotJournaled,
    /// A stripe that is being filled is filled by another write-out, too.
    FilledTwice,
    /// A block that is not what was written is not looked for in redundancy.
    RedundancyNotAsked,
    /// Of what redundancy has of a block, the first content is taken, whatever it is.
    AnyCopyTaken,
    /// Attributes that were set do not go to the tree.
    AttributesForgotten,
    /// An unmount does not wake the background that is to end.
    EndNotHeard,
}

#[cfg(feature = "mutants")]
thread_local! {
    static LIVE: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Switches a mutant on for file systems that run on this thread, or all off.
#[cfg(feature = "mutants")]
pub fn set(mutant: Option<Mutant>) {
    LIVE.with(|live| live.set(mutant));
}

/// Whether a mutant lives.
#[cfg(feature = "mutants")]
pub(crate) fn lives(mutant: Mutant) -> bool {
    LIVE.with(|live| live.get()) == Some(mutant)
}

/// Whether a mutant lives: without the feature, none does.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn lives(_: Mutant) -> bool {
    false
}
