//! Deliberate bugs, one of which a test can switch on: checkers that never fail prove nothing.
//!
//! Only with the feature `mutants`, which no shipped build has; without it every question is answered "no" at
//! compile time. The switch is per thread, so that simulations on several threads can try several mutants.

/// A deliberate bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// The intent of a write is not written to the bitmap.
    SkipIntent,
    /// The bitmap page is written without FUA.
    IntentNotDurable,
    /// The superblocks are not marked dirty before the first write.
    SkipDirtyMark,
    /// Regions are cleared without a flush of the members.
    ClearWithoutFlush,
    /// Regions are cleared while they are written to.
    ClearBusyRegion,
    /// Parity is computed and not written.
    DropParityWrite,
    /// A read-modify-write leaves parity as it was.
    ParityNotUpdated,
    /// Q is updated with the coefficient of a neighbour.
    WrongQCoefficient,
    /// Parity is made without the last data column.
    ColumnForgotten,
    /// Where Q alone is left, P is computed in its place.
    QTakenForP,
    /// P moves the wrong way after the first rotation.
    WrongParityRotation,
    /// Writes with a lost data column do not keep parity up to date.
    DegradedParityForgotten,
    /// What a partly written block held before is lost.
    PartialBlockZeroed,
    /// Parity that a crash left wrong is modified in place.
    StaleParityTrusted,
    /// Zeroed stripes leave parity as it was.
    ZeroSkipsParity,
    /// Writes with FUA are sent without.
    AcknowledgeBeforeFua,
    /// A flush leaves the first member out.
    FlushSkipsMember,
    /// Rows are not locked.
    ForgetRowLock,
    /// The last of several writes that are written as one is left out.
    GatheredPartLost,
    /// Several writes are written as one as the first of them was to be.
    GatheredFuaForgotten,
    /// Nobody wakes the writes that wait for one in the stripe before.
    GatheredNotWoken,
    /// A member that failed is dropped, and that is not written down.
    FailureNotRecorded,
    /// Members that are not current are taken for current.
    UseStaleMember,
    /// The event count stays as it is.
    EventsNotRaised,
    /// Members that a crash left an event behind are not brought level.
    NoCatchUp,
    /// At an opening superblocks may be ours before the pages of the bitmap are.
    SuperblocksBeforePages,
    /// A scrub that is stopped while it gives way goes on at the next opening.
    StoppedScrubNoted,
    /// A resync that could not read all is not tried again.
    ResyncGivenUp,
    /// A spare that comes during a scrub waits for its end.
    SpareComesUnseen,
    /// A device that a failed array refuses is blanked before.
    FailedBlanks,
    /// Writes pass by a member that is being filled.
    WritesPassIncoming,
    /// A member that is being filled is read everywhere.
    ReadIncompleteMember,
    /// A rebuild is resumed behind where it stood.
    ResumeRebuildAhead,
    /// A rebuild locks no rows.
    RebuildUnlocked,
    /// A filled member takes over without a flush.
    PromoteWithoutFlush,
    /// A resync passes over every other region.
    ResyncSkipsRegion,
    /// A block that cannot be read is healed with zeroes.
    HealWithZeroes,
    /// A check finds nothing.
    BlindCheck,
    /// A repair counts what disagrees, and leaves it as it is.
    RepairMendsNothing,
    /// Bitmap pages are damaged when they are written.
    DamagedPages,
    /// A member is left out of whose header one copy cannot be read.
    BothHeadersNeeded,
    /// A member that is current is left out when the array is opened.
    CurrentMemberLeftOut,
    /// An array that was not stopped cleanly is refused although no member is missing.
    DirtyRefused,
    /// Stripes that are zeroed are not announced in the bitmap.
    ZeroIntentForgotten,
    /// The rows of a filled batch are free before the rebuild counts it.
    FilledRowsFreed,
    /// A rebuild writes down where it stands, and flushes the member afterwards.
    OffsetBeforeFlush,
    /// A rebuild leaves out the short last stripe of mirrors.
    TailLeftUnfilled,
    /// A member that knows no zero-write is not written zeroes.
    RefusedZeroesLost,
    /// The data of every member is looked for where that of the freshest begins.
    OffsetOfAnother,
    /// A resync passes over all groups of regions but the first.
    ResyncOfFirstGroup,
    /// A member goes on saying that it replaces one that has failed.
    ReplacementFlagKept,
    /// A page of the bitmap is written over its newest copy.
    PageOverNewest,
    /// Members that come to hold the bitmap get its first page alone.
    NewHoldersLackPages,
    /// Zeroes pass by a member that is being filled.
    ZeroPassesIncoming,
    /// A member that was being filled when power failed is not filled again where a resync is due.
    HoldBackForgotten,
    /// What another program wrote is taken for ours, the bitmap too.
    ForeignTrusted,
    /// An interrupted scrub goes on one stripe too far.
    ScrubResumesLate,
    /// What a missing member had is said to be a hole.
    HolesOfMissing,
    /// The buffers of a write change places.
    PartsSwapped,
    /// A write that is done at once is acknowledged over a member whose failure is not recorded yet.
    UnrecordedAcknowledged,
    /// What fails at once is taken for done.
    FailedAtOnceUnseen,
    /// Whether parity can be relied on is asked of the stripe before.
    TrustOfNeighbour,
    /// A resync that is stopped takes what it was at for done.
    StoppedResyncForgets,
    /// A write locks none of its rows behind the 64th.
    WideRowsUnseen,
    /// A write updates Q with a wrong coefficient from the sixth column on.
    FarColumnInQ,
    /// A superblock is written before the header that names it.
    SuperblockBeforeHeader,
    /// Two halves of an array that went on apart are taken for one.
    SplitUnseen,
    /// Of a write no more stripes are written once sixteen wait for members.
    StripesCut,
    /// No member can be replaced.
    ReplaceRefused,
    /// Superblocks are written in sectors, to members of longer blocks too.
    ShortSuperblockWrite,
    /// What is zeroed in several writes is zeroed where the first of them goes.
    ZeroesStuck,
    /// At an opening each member keeps the options that its own header has.
    OptionsApart,
    /// An array that is read-only reconstructs what a crash may have left half written.
    ReadOnlyRecovers,
    /// What a member's bad-block log lists is read as if it were good.
    ListedRead,
    /// What was written is taken off the bad-block log before a flush.
    UnlistedBeforeFlush,
    /// A flush leaves what was written on the bad-block log.
    ListedAfterFlush,
    /// A write with FUA leaves what it wrote on the bad-block log.
    ListedAfterFua,
    /// What a rebuild cannot recover is not listed.
    LostNotListed,
    /// An array that has failed recovers what it can still read the others of.
    FailedRecovers,
    /// An array that has failed goes on writing pages of the bitmap.
    FailedAnnounces,
    /// Jobs of an array that has failed go on with their next batch.
    FailedJobsGoOn,
    /// Chunks of listed blocks are looked for as if the member's data began at its first byte.
    ListedElsewhere,
    /// A member that fails while an array is open read-only is recorded as failed.
    ReadOnlyRecords,
    /// An array that is made with a member missing is called in sync.
    MissingInSync,
    /// More blocks are listed than a member's bad-block log has room for.
    LogRoomForgotten,
    /// Batches behind one that could not be filled count as filled.
    UnfilledBatchPassed,
    /// A member stays, however many reads it fails.
    ReadErrorsUncounted,
    /// A member that fails while it is being filled counts as one more loss.
    IncomingCountsAsLoss,
    /// A scrub that gave way forgets what it had found.
    FindingsForgotten,
    /// A repair ends before what it mended is on the medium.
    RepairNotFlushed,
    /// What a job mends is not written to a member that is being filled.
    RepairPassesIncoming,
    /// A role that is being filled is given to a second spare.
    RoleGivenTwice,
    /// What was written to a member before an opening is not counted any more.
    WrittenForgotten,
    /// A member that is added to an array with a bitmap of md's own gets none.
    KernelBitmapMissing,
    /// Of equally many members that disagree the first that are given count.
    FirstGivenCounts,
    /// A member stays on record as replaced although its replacement failed.
    ReplacedStaysFaulty,
    /// A region is cleared although a write came and went during the flush.
    UsedRegionCleared,
    /// The older copy of a page counts where the newer one cannot be read.
    OlderPageTrusted,
    /// A resync passes over everything while a member is missing, also where redundancy is left to spare.
    DegradedResyncSkipped,
    /// A bad block where a resync is due is forgotten, and counts anew.
    UnsyncedForgotten,
    /// A write where a resync is due takes whole columns from the others once a block of them cannot be read.
    DoubtfulPlannedAround,
    /// A block that goes bad in a chunk that is being healed, behind where that is, is forgotten.
    HealingForgets,
    /// A write across bad blocks of several members, each in a row of its own, is refused.
    BadRowsNotMended,
    /// Blocks that a member did not keep do not count against it.
    UnkeptUncounted,
    /// A later writer takes rows for which another one waits.
    WaitersPassed,
}

impl Mutant {
    /// Every mutant.
    pub const ALL: [Self; 105] = [
        Self::SkipIntent,
        Self::IntentNotDurable,
        Self::SkipDirtyMark,
        Self::ClearWithoutFlush,
        Self::ClearBusyRegion,
        Self::DropParityWrite,
        Self::ParityNotUpdated,
        Self::WrongQCoefficient,
        Self::ColumnForgotten,
        Self::QTakenForP,
        Self::WrongParityRotation,
        Self::DegradedParityForgotten,
        Self::PartialBlockZeroed,
        Self::StaleParityTrusted,
        Self::ZeroSkipsParity,
        Self::AcknowledgeBeforeFua,
        Self::FlushSkipsMember,
        Self::ForgetRowLock,
        Self::GatheredPartLost,
        Self::GatheredFuaForgotten,
        Self::GatheredNotWoken,
        Self::FailureNotRecorded,
        Self::UseStaleMember,
        Self::EventsNotRaised,
        Self::NoCatchUp,
        Self::SuperblocksBeforePages,
        Self::StoppedScrubNoted,
        Self::ResyncGivenUp,
        Self::SpareComesUnseen,
        Self::FailedBlanks,
        Self::WritesPassIncoming,
        Self::ReadIncompleteMember,
        Self::ResumeRebuildAhead,
        Self::RebuildUnlocked,
        Self::PromoteWithoutFlush,
        Self::ResyncSkipsRegion,
        Self::HealWithZeroes,
        Self::BlindCheck,
        Self::RepairMendsNothing,
        Self::DamagedPages,
        Self::BothHeadersNeeded,
        Self::CurrentMemberLeftOut,
        Self::DirtyRefused,
        Self::ZeroIntentForgotten,
        Self::FilledRowsFreed,
        Self::OffsetBeforeFlush,
        Self::TailLeftUnfilled,
        Self::RefusedZeroesLost,
        Self::OffsetOfAnother,
        Self::ResyncOfFirstGroup,
        Self::ReplacementFlagKept,
        Self::PageOverNewest,
        Self::NewHoldersLackPages,
        Self::ZeroPassesIncoming,
        Self::HoldBackForgotten,
        Self::ForeignTrusted,
        Self::ScrubResumesLate,
        Self::HolesOfMissing,
        Self::PartsSwapped,
        Self::WideRowsUnseen,
        Self::FarColumnInQ,
        Self::SuperblockBeforeHeader,
        Self::SplitUnseen,
        Self::StripesCut,
        Self::UnrecordedAcknowledged,
        Self::FailedAtOnceUnseen,
        Self::TrustOfNeighbour,
        Self::StoppedResyncForgets,
        Self::ReplaceRefused,
        Self::ShortSuperblockWrite,
        Self::ZeroesStuck,
        Self::OptionsApart,
        Self::ReadOnlyRecovers,
        Self::ListedRead,
        Self::UnlistedBeforeFlush,
        Self::ListedAfterFlush,
        Self::ListedAfterFua,
        Self::LostNotListed,
        Self::FailedRecovers,
        Self::FailedAnnounces,
        Self::FailedJobsGoOn,
        Self::ListedElsewhere,
        Self::ReadOnlyRecords,
        Self::MissingInSync,
        Self::LogRoomForgotten,
        Self::UnfilledBatchPassed,
        Self::ReadErrorsUncounted,
        Self::IncomingCountsAsLoss,
        Self::FindingsForgotten,
        Self::RepairNotFlushed,
        Self::RepairPassesIncoming,
        Self::RoleGivenTwice,
        Self::WrittenForgotten,
        Self::KernelBitmapMissing,
        Self::FirstGivenCounts,
        Self::ReplacedStaysFaulty,
        Self::UsedRegionCleared,
        Self::OlderPageTrusted,
        Self::DegradedResyncSkipped,
        Self::UnsyncedForgotten,
        Self::DoubtfulPlannedAround,
        Self::HealingForgets,
        Self::BadRowsNotMended,
        Self::UnkeptUncounted,
        Self::WaitersPassed,
    ];
}

#[cfg(feature = "mutants")]
thread_local! {
    static LIVE: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Switches a mutant on for arrays that run on this thread, or all off.
#[cfg(feature = "mutants")]
pub fn set(mutant: Option<Mutant>) {
    LIVE.with(|live| live.set(mutant));
}

/// Whether a mutant lives.
#[cfg(feature = "mutants")]
pub(crate) fn lives(mutant: Mutant) -> bool {
    LIVE.with(|live| live.get()) == Some(mutant)
}

/// What a stripe's rows are locked under: the stripe, or for [`Mutant::ForgetRowLock`] a number that no other
/// stripe has.
#[cfg(feature = "mutants")]
pub(crate) fn lock_key(stripe: u64) -> u64 {
    static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(u64::MAX / 2);
    if !lives(Mutant::ForgetRowLock) {
        return stripe;
    }
    LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// What a stripe's rows are locked under.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn lock_key(stripe: u64) -> u64 {
    stripe
}

/// Whether a mutant lives: without the feature, none does.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn lives(_: Mutant) -> bool {
    false
}
