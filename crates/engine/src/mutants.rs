//! Deliberate bugs that a test can switch on, one at a time: a checker that never fails proves nothing.
//!
//! They exist only with the feature `mutants`, which no shipped build has. Without it, `lives` is always
//! false, at compile time. The switch is per thread, so that simulations on several threads can try several
//! mutants.

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
    /// Parity is computed without the last data column.
    ColumnForgotten,
    /// Where Q alone is left, P is computed in its place.
    QTakenForP,
    /// P moves the wrong way after the first rotation.
    WrongParityRotation,
    /// Writes with a lost data column do not keep parity up to date.
    DegradedParityForgotten,
    /// The old content of a partly written block is lost.
    PartialBlockZeroed,
    /// Parity that a crash left wrong is modified in place.
    StaleParityTrusted,
    /// Zeroing a stripe leaves its parity as it was.
    ZeroSkipsParity,
    /// Writes with FUA are sent without it.
    AcknowledgeBeforeFua,
    /// A flush leaves the first member out.
    FlushSkipsMember,
    /// Rows are not locked.
    ForgetRowLock,
    /// Of several writes that are gathered into one, the last is written as zeroes.
    GatheredPartLost,
    /// Several writes that are gathered into one are durable only if the first had to be.
    GatheredFuaForgotten,
    /// A write that ends does not wake the gathered writes that wait for it in the next stripe.
    GatheredNotWoken,
    /// A failed member is dropped, but its failure is not recorded.
    FailureNotRecorded,
    /// Members that are not current are taken for current.
    UseStaleMember,
    /// The event count stays as it is.
    EventsNotRaised,
    /// Members that a crash left an event behind are not brought level.
    NoCatchUp,
    /// What was filled where a resync was stopped counts as equal to the rest.
    FilledNotCompared,
    /// A failure is recorded on members that are still an event behind.
    FailedBeforeCatchUp,
    /// At an opening, superblocks may become ours before the pages of the bitmap do.
    SuperblocksBeforePages,
    /// A scrub that is stopped while it gives way resumes at the next opening.
    StoppedScrubNoted,
    /// A resync that could not read everything is not tried again.
    ResyncGivenUp,
    /// A spare that is added during a scrub waits until the scrub ends.
    SpareComesUnseen,
    /// A failed array blanks a device before it refuses it.
    FailedBlanks,
    /// Writes skip a member that is being filled.
    WritesPassIncoming,
    /// A member that is being filled is read everywhere.
    ReadIncompleteMember,
    /// A rebuild resumes beyond the point that it had reached.
    ResumeRebuildAhead,
    /// A rebuild locks no rows.
    RebuildUnlocked,
    /// A filled member takes over without a flush.
    PromoteWithoutFlush,
    /// A resync skips every other region.
    ResyncSkipsRegion,
    /// A block that cannot be read is healed with zeroes.
    HealWithZeroes,
    /// A check finds nothing.
    BlindCheck,
    /// A repair counts rows that disagree, and leaves them as they are.
    RepairMendsNothing,
    /// Bitmap pages are damaged when they are written.
    DamagedPages,
    /// A member is left out if one copy of its header cannot be read.
    BothHeadersNeeded,
    /// A member that is current is left out when the array is opened.
    CurrentMemberLeftOut,
    /// An array that was not stopped cleanly is refused although no member is missing.
    DirtyRefused,
    /// Zeroed stripes are not announced in the bitmap.
    ZeroIntentForgotten,
    /// The rows of a filled batch are unlocked before the rebuild counts the batch.
    FilledRowsFreed,
    /// A rebuild records its position before it flushes the member.
    OffsetBeforeFlush,
    /// A rebuild leaves out the short last stripe of mirrors.
    TailLeftUnfilled,
    /// A member that does not know zero-writes gets no zeroes at all.
    RefusedZeroesLost,
    /// Every member's data is taken to begin where the freshest member's does.
    OffsetOfAnother,
    /// A resync skips all groups of regions but the first.
    ResyncOfFirstGroup,
    /// A member still says that it replaces another after the other has failed.
    ReplacementFlagKept,
    /// A page of the bitmap is written over its newest copy.
    PageOverNewest,
    /// Members that become holders of the bitmap get only its first page.
    NewHoldersLackPages,
    /// Zeroing skips a member that is being filled.
    ZeroPassesIncoming,
    /// A member that was being filled when power failed is not filled again where a resync is due.
    HoldBackForgotten,
    /// What another program wrote is taken for ours, and the bitmap is trusted.
    ForeignTrusted,
    /// An interrupted scrub resumes one stripe too far.
    ScrubResumesLate,
    /// A missing member's data is reported as a hole.
    HolesOfMissing,
    /// The buffers of a write are reversed.
    PartsSwapped,
    /// A write that completes at once is acknowledged although the failure of a member is not recorded yet.
    UnrecordedAcknowledged,
    /// A write that fails at once is taken for done.
    FailedAtOnceUnseen,
    /// Whether parity can be trusted is looked up for the stripe before.
    TrustOfNeighbour,
    /// A resync that is stopped counts the regions it was working on as done.
    StoppedResyncForgets,
    /// A write locks none of its rows beyond the 64th.
    WideRowsUnseen,
    /// A write updates Q with a wrong coefficient from the sixth column on.
    FarColumnInQ,
    /// A superblock is written before the header that names it.
    SuperblockBeforeHeader,
    /// Two halves of an array that were written to separately are taken for one array.
    SplitUnseen,
    /// A write drops its remaining stripes once sixteen wait for members.
    StripesCut,
    /// No member can be replaced.
    ReplaceRefused,
    /// Superblocks are written in sectors, even to members with longer blocks.
    ShortSuperblockWrite,
    /// If zeroing takes several writes, all of them go to the place of the first.
    ZeroesStuck,
    /// At an opening, each member keeps the options of its own header.
    OptionsApart,
    /// An array that is read-only reconstructs what a crash may have left half written.
    ReadOnlyRecovers,
    /// Blocks that a member's bad-block log lists are read as if they were good.
    ListedRead,
    /// Written blocks are taken off the bad-block log before a flush.
    UnlistedBeforeFlush,
    /// A flush leaves written blocks on the bad-block log.
    ListedAfterFlush,
    /// A write with FUA leaves the blocks that it wrote on the bad-block log.
    ListedAfterFua,
    /// Blocks that a rebuild cannot recover are not listed as bad.
    LostNotListed,
    /// A failed array recovers a block if it can still read the other columns.
    FailedRecovers,
    /// A failed array still writes pages of the bitmap.
    FailedAnnounces,
    /// Jobs of a failed array start their next batch.
    FailedJobsGoOn,
    /// Chunks of listed blocks are looked for as if the member's data began at its first byte.
    ListedElsewhere,
    /// A member that fails while an array is open read-only is recorded as failed.
    ReadOnlyRecords,
    /// An array that is made with a member missing is marked in sync.
    MissingInSync,
    /// More blocks are listed than a member's bad-block log has room for.
    LogRoomForgotten,
    /// Batches after one that could not be filled count as filled.
    UnfilledBatchPassed,
    /// A member stays, however many reads it fails.
    ReadErrorsUncounted,
    /// A member that fails while it is being filled counts as one more loss.
    IncomingCountsAsLoss,
    /// A scrub that gave way forgets its findings.
    FindingsForgotten,
    /// A repair ends before what it mended is on the medium.
    RepairNotFlushed,
    /// A region counts as resynced before what was mended there is on the medium.
    ResyncNotFlushed,
    /// A job's repairs are not written to a member that is being filled.
    RepairPassesIncoming,
    /// A role that is being filled is given to a second spare.
    RoleGivenTwice,
    /// The amount written to a member before an opening is forgotten.
    WrittenForgotten,
    /// A member that is added to an array with md's own bitmap does not get that bitmap.
    KernelBitmapMissing,
    /// If equally many members disagree, those given first count.
    FirstGivenCounts,
    /// A member stays on record as replaced although its replacement failed.
    ReplacedStaysFaulty,
    /// A region is cleared although a write came and went during the flush.
    UsedRegionCleared,
    /// The older copy of a page counts where the newer one cannot be read.
    OlderPageTrusted,
    /// A resync skips everything while a member is missing, even if redundancy is left.
    DegradedResyncSkipped,
    /// A bad block where a resync is due is forgotten, and counts again.
    UnsyncedForgotten,
    /// Where a resync is due, a write recovers a whole column from the others once one of its blocks cannot
    /// be read.
    DoubtfulPlannedAround,
    /// A block that goes bad in a chunk that is being healed, after the healing has passed it, is forgotten.
    HealingForgets,
    /// A write across bad blocks of several members is refused, even if each is in a different row.
    BadRowsNotMended,
    /// Blocks that a member did not keep do not count against it.
    UnkeptUncounted,
    /// A later writer takes rows for which another writer waits.
    WaitersPassed,
    /// The cache takes memory beyond its bound.
    CacheOverBudget,
    /// Dirty cells are evicted as clean ones are.
    DirtyEvicted,
    /// A write of some sectors of a cached block loses the others.
    SectorsLost,
    /// The cache forgets that only some sectors of a block are new.
    SectorMaskLost,
    /// A whole stripe is written beside clean cells, which stay.
    PassedStaysClean,
    /// A whole stripe is written beside older dirty cells, which stay and are destaged later.
    PassedStaysDirty,
    /// Readers without a lock find blocks that the cache has dropped.
    DroppedStaysShown,
    /// A stripe is read ahead though its rows are being written.
    AheadWithoutRows,
    /// What is read ahead takes the place of what clients wrote meanwhile.
    AheadOverNewer,
    /// What becomes dirty is not found when dirty cells are looked for.
    DirtyUnmarked,
    /// A destage that has ended keeps the memory that it worked with.
    ReserveKept,
    /// A cell that was rewritten during its destage is made clean.
    RewrittenMadeClean,
    /// A destage that failed makes its cells clean.
    CleanOnError,
    /// A flush passes over dirty cells.
    FlushSkipsDirty,
    /// A flush passes over what is being destaged.
    FlushSkipsDestaging,
    /// A write with FUA is acknowledged when it is in the cache.
    FuaInCache,
    /// A write with FUA takes its row's destage for its own, though only other cells of the row were dirty still.
    FuaOfAnother,
    /// Stopping forgets dirty cells.
    StopDropsDirty,
    /// Zeroes leave what is cached of their stripes.
    ZeroLeavesCells,
    /// A read takes from members what is dirty in the cache.
    ReadPastDirty,
    /// A read of a block of which some sectors are new takes all of it from the cache.
    PartReadWhole,
    /// A lost column is recovered from dirty cells of others.
    RecoverFromDirty,
    /// A cache is replaced before members have what is dirty in it.
    SwitchDropsDirty,
    /// A write passes a dirty cell by: its older bytes reach the members later.
    DirtyPassedBy,
    /// Gathered writes go past the cache, though it has to write some of their blocks.
    GatheredPastDirty,
    /// A clean cell stays when a write passes it by.
    PassedByStaysClean,
    /// A gap between writes is filled though not all of its content is in hand.
    EmptyGapFilled,
    /// What has become dirty in a gap is written with the gap, without its parity.
    ForeignGapFilled,
    /// Where a gap between writes cannot be filled, what lies behind it is not written, though its parity is.
    GapEndsWrite,
    /// Gaps are filled without their rows' locks.
    GapsUnlocked,
    /// What a destage has read takes the place of newer content.
    ReadOverNewer,
    /// A write of whole rows locks only the first of them.
    FirstRowLocked,
    /// A write of blocks is planned as if it had only those of the first column.
    FirstColumnPlanned,
    /// Whole rows are written beside older dirty cells, which stay and are destaged later.
    RowsLeaveDirty,
    /// A recovery that is not to believe a column reads it.
    ColumnBelieved,
}

impl Mutant {
    /// Every mutant.
    pub const ALL: [Self; 111] = [
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
        Self::FailedBeforeCatchUp,
        Self::FilledNotCompared,
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
        Self::ResyncNotFlushed,
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
        Self::FirstRowLocked,
        Self::FirstColumnPlanned,
        Self::ColumnBelieved,
    ];

    /// Those of the cache, which only stories with caches can find.
    pub const CACHE: [Self; 32] = [
        Self::CacheOverBudget,
        Self::DirtyEvicted,
        Self::SectorsLost,
        Self::SectorMaskLost,
        Self::PassedStaysClean,
        Self::PassedStaysDirty,
        Self::DroppedStaysShown,
        Self::AheadWithoutRows,
        Self::AheadOverNewer,
        Self::DirtyUnmarked,
        Self::ReserveKept,
        Self::RewrittenMadeClean,
        Self::CleanOnError,
        Self::FlushSkipsDirty,
        Self::FlushSkipsDestaging,
        Self::FuaInCache,
        Self::FuaOfAnother,
        Self::StopDropsDirty,
        Self::ZeroLeavesCells,
        Self::ReadPastDirty,
        Self::PartReadWhole,
        Self::RecoverFromDirty,
        Self::SwitchDropsDirty,
        Self::DirtyPassedBy,
        Self::GatheredPastDirty,
        Self::PassedByStaysClean,
        Self::EmptyGapFilled,
        Self::ForeignGapFilled,
        Self::GapEndsWrite,
        Self::GapsUnlocked,
        Self::ReadOverNewer,
        Self::RowsLeaveDirty,
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

/// The key that a stripe's rows are locked under: the stripe, or for [`Mutant::ForgetRowLock`] a number that
/// is never used twice.
#[cfg(feature = "mutants")]
pub(crate) fn lock_key(stripe: u64) -> u64 {
    static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(u64::MAX / 2);
    if !lives(Mutant::ForgetRowLock) {
        return stripe;
    }
    LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// The key that a stripe's rows are locked under.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn lock_key(stripe: u64) -> u64 {
    stripe
}

/// Whether a mutant lives: without the feature, none does.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn lives(_: Mutant) -> bool {
    false
}
