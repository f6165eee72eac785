//! Which members the array has right now. A topology never changes; a new one replaces it.

use std::{
    ops::Range,
    sync::{Arc, atomic::AtomicU32},
};

use parking_lot::RwLock;
use stripewise_device::{
    Completion, Device, IoError, IoErrorKind, IoFuture, ReadBufs, ReadDone, WriteBufs, WriteFlags, ZeroFlags,
    bufs_len,
    parts::{Part, within},
    sync::{
        Event,
        seam::atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use stripewise_format::extension::{Header, MemberClass, Zeroing};
use uuid::Uuid;

use super::{
    bad_blocks::BadBlocks,
    measure::{ServiceTimes, class_of},
    meter::{IoClass, Meter},
    stats::{Cause, MemberStats},
};
use crate::{
    error::ArrayError,
    mutants::{Mutant, lives},
    plan::{Presence, costs::MemberCost},
    shape::geometry::{Geometry, MemberIndex, StripeIndex},
};

/// An open member: a device, and where the array's data lies on it.
pub(crate) struct Member {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) data_offset_bytes: u64,
    pub(crate) dev_number: u32,
    pub(crate) uuid: Uuid,
    /// Zeroing a range of it frees the range, at a small part of what writing costs.
    pub(crate) unmaps: bool,
    class: RwLock<MemberClass>,
    /// As measured when it became a member.
    pub(crate) times: ServiceTimes,
    /// Bytes written to it before it was opened.
    pub(crate) written_before: u64,
    /// Failed reads that count since the member was opened: of a chunk that waits to be healed, the first.
    pub(crate) read_errors: AtomicU32,
    pub(crate) bad_blocks: Arc<BadBlocks>,
    pub(crate) stats: MemberStats,
    pub(crate) meter: Arc<Meter>,
}

impl Member {
    pub(crate) fn new(
        device: Arc<dyn Device>,
        data_offset_bytes: u64,
        dev_number: u32,
        uuid: Uuid,
        header: Option<&Header>,
        bad_blocks: BadBlocks,
    ) -> Arc<Self> {
        let kept = header.map_or(MemberClass::Unknown, |header| header.member_class);
        let times = header.map_or(ServiceTimes::default(), |h| ServiceTimes::from_header(h.service_time_ns));
        let class = if kept == MemberClass::Unknown { class_of(device.info().media, &times) } else { kept };
        let meter = Meter::new(class, cost_of(class, &times));
        let unmaps = unmaps(header.map_or(Zeroing::NotTried, |header| header.zeroing), device.info().unmaps);
        Arc::new(Self {
            unmaps,
            device,
            data_offset_bytes,
            dev_number,
            uuid,
            class: RwLock::new(class),
            times,
            written_before: header.map_or(0, |header| header.endurance.written_bytes),
            read_errors: AtomicU32::new(0),
            bad_blocks: Arc::new(bad_blocks),
            stats: MemberStats::default(),
            meter,
        })
    }

    /// What kind of medium it is.
    pub(crate) fn class(&self) -> MemberClass {
        *self.class.read()
    }

    /// An operator says what kind it is. Where its times were not measured, its costs are taken to be that kind's.
    pub(crate) fn set_class(&self, class: MemberClass) {
        *self.class.write() = class;
        self.meter.set_class(class);
        if !self.times.is_known() {
            self.meter.believe(cost_of(class, &self.times));
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.device.info().name
    }

    /// Bytes written to it since they are counted.
    pub(crate) fn written_bytes(&self) -> u64 {
        let before = if lives(Mutant::WrittenForgotten) { 0 } else { self.written_before };
        before.saturating_add(self.stats.report().wearing_bytes())
    }

    /// Whether its log lists some of these bytes of its data, so that they must not be read.
    pub(crate) fn lists(&self, in_data: Range<u64>) -> bool {
        let start = self.data_offset_bytes;
        self.bad_blocks.touch(start + in_data.start..start + in_data.end)
    }

    /// Reads at an offset of the member's data.
    pub(crate) fn read(&self, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        self.read_as(IoClass::Read, offset_bytes, into)
    }

    /// As [`Member::read`], and says what for.
    pub(crate) fn read_as(&self, class: IoClass, offset_bytes: u64, into: ReadBufs) -> IoFuture<ReadDone> {
        let _part = within(Part::Submit);
        let bytes = bufs_len(&into);
        let at = self.data_offset_bytes + offset_bytes;
        if self.lists(offset_bytes..offset_bytes + bytes as u64) {
            let result = Err(IoError::new(IoErrorKind::BadBlock));
            return IoFuture::ready(ReadDone { result, bufs: into });
        }
        self.stats.count_read(bytes as u64);
        if !self.meter.is_on() {
            // What comes is made where it goes, and not moved.
            return self.device.read(at, into);
        }
        self.meter.watch(class, bytes, self.device.read(at, into), |done: &ReadDone| done.result.is_ok())
    }

    /// Writes at an offset of the member's data, for a client.
    pub(crate) fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        self.write_as(IoClass::Write, Cause::Client, offset_bytes, from, flags)
    }

    /// As [`Member::write`], and says what for. A rewrite goes to what has just been read, so through the processor's caches, if
    /// members are memory; all else goes past them.
    pub(crate) fn write_as(
        &self,
        class: IoClass,
        cause: Cause,
        offset_bytes: u64,
        from: WriteBufs,
        flags: WriteFlags,
    ) -> Completion {
        let _part = within(Part::Submit);
        let (bytes, at) = (bufs_len(&from), self.data_offset_bytes + offset_bytes);
        self.stats.count_write(cause, bytes as u64);
        let ask = match class {
            IoClass::Rewrite => Device::write,
            _ => Device::write_uncached,
        };
        let asked = ask(&*self.device, at, from, flags);
        let asked =
            if self.meter.is_on() { self.meter.watch(class, bytes, asked, Result::is_ok) } else { asked };
        self.make_good(at..at + bytes as u64, asked)
    }

    /// Once a write of listed sectors is done they hold what they should.
    fn make_good(&self, bytes: Range<u64>, write: Completion) -> Completion {
        if !self.bad_blocks.touch(bytes.clone()) {
            return write;
        }
        let bad_blocks = self.bad_blocks.clone();
        IoFuture::boxed(async move {
            let result = write.await;
            if result.is_ok() {
                bad_blocks.written(bytes);
            }
            result
        })
    }

    /// Zeroes a range of the member's data.
    pub(crate) fn write_zeroes(&self, offset_bytes: u64, len_bytes: u64, flags: ZeroFlags) -> Completion {
        let at = self.data_offset_bytes + offset_bytes;
        self.make_good(at..at + len_bytes, self.device.write_zeroes(at, len_bytes, flags))
    }

    /// Counts zeroes that it has taken: as written, unless it has unmapped them.
    pub(crate) fn count_zeroed(&self, len_bytes: u64, flags: ZeroFlags) {
        if !(self.unmaps && flags.may_unmap) {
            self.stats.count_write(Cause::Client, len_bytes);
        }
    }
}

/// Whether zeroing unmaps, by what was tried when the device became a member and what the operating system says now.
fn unmaps(tried: Zeroing, told: Option<bool>) -> bool {
    match tried {
        Zeroing::NotTried => told == Some(true),
        Zeroing::Writes => false,
        Zeroing::Unmaps => told != Some(false),
    }
}

/// What a member costs before anything is learned of it.
fn cost_of(class: MemberClass, times: &ServiceTimes) -> MemberCost {
    match class {
        _ if times.is_known() => times.cost(),
        MemberClass::Hdd => MemberCost::HDD,
        MemberClass::Ssd | MemberClass::Unknown => MemberCost::SSD,
    }
}

/// A member that is being filled, to become the one of its slot.
pub(crate) struct Incoming {
    pub(crate) member: Arc<Member>,
    /// Stripes below are complete on it. Moves only while the rows that it passes are locked.
    done_stripes: AtomicU64,
}

impl Incoming {
    pub(crate) fn new(member: Arc<Member>, done_stripes: u64) -> Arc<Self> {
        Arc::new(Self { member, done_stripes: AtomicU64::new(done_stripes) })
    }

    pub(crate) fn done_stripes(&self) -> u64 {
        self.done_stripes.load(Ordering::Acquire)
    }

    pub(crate) fn advance(&self, done_stripes: u64) {
        let before = self.done_stripes.swap(done_stripes, Ordering::AcqRel);
        debug_assert!(before <= done_stripes, "a rebuild moves forward");
    }

    fn covers(&self, stripe: StripeIndex) -> bool {
        lives(Mutant::ReadIncompleteMember) || stripe.0 < self.done_stripes()
    }
}

/// One role of the array.
#[derive(Clone, Default)]
pub(crate) struct SlotState {
    /// The member in sync.
    pub(crate) primary: Option<Arc<Member>>,
    /// The member being filled.
    pub(crate) incoming: Option<Arc<Incoming>>,
}

/// Whether the superblocks already say what a topology says. A write that passes over a failed member is
/// acknowledged only after they do: else that member could come back as current after a crash.
#[derive(Clone)]
pub(crate) struct Recorded {
    done: Arc<AtomicBool>,
    event: Event<()>,
}

impl Recorded {
    pub(crate) fn pending() -> Self {
        Self { done: Arc::new(AtomicBool::new(false)), event: Event::default() }
    }

    pub(crate) fn already() -> Self {
        let recorded = Self::pending();
        recorded.set();
        recorded
    }

    pub(crate) fn set(&self) {
        self.done.store(true, Ordering::Release);
        self.event.set(());
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// What a request that relied on this is told, once it may be: first all is written down, and only then is looked whether the
    /// array has failed. It may have failed while that was being written down; then nothing was.
    pub(crate) fn acknowledgement(
        &self,
        has_failed: impl FnOnce() -> bool,
    ) -> Option<Result<(), ArrayError>> {
        self.is_done().then(|| if has_failed() { Err(ArrayError::Failed) } else { Ok(()) })
    }

    pub(crate) async fn wait(&self) {
        if !self.is_done() {
            self.event.wait().await;
        }
    }
}

/// The members of an array at one moment.
#[derive(Clone)]
pub(crate) struct Topology {
    pub(crate) slots: Vec<SlotState>,
    /// More members are lost than the level tolerates: nothing is written any more.
    pub(crate) failed: bool,
    pub(crate) recorded: Recorded,
}

/// Where a member stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Primary(MemberIndex),
    Incoming(MemberIndex),
}

impl Topology {
    /// Who holds a column of a stripe.
    fn slot(&self, geometry: &Geometry, stripe: StripeIndex, column: usize) -> &SlotState {
        &self.slots[geometry.member_of(stripe, column).0]
    }

    /// The member to read a column of a stripe from.
    pub(crate) fn reader(
        &self,
        geometry: &Geometry,
        stripe: StripeIndex,
        column: usize,
    ) -> Option<&Arc<Member>> {
        let slot = self.slot(geometry, stripe, column);
        let incoming = || slot.incoming.as_ref().filter(|incoming| incoming.covers(stripe));
        slot.primary.as_ref().or_else(|| incoming().map(|incoming| &incoming.member))
    }

    /// The members to write a column of a stripe to: the one in sync, and one being filled that is past the stripe.
    pub(crate) fn writers(
        &self,
        geometry: &Geometry,
        stripe: StripeIndex,
        column: usize,
    ) -> impl Iterator<Item = &Arc<Member>> + use<'_> {
        let (primary, incoming) = self.writers_by_place(geometry, stripe, column);
        primary.into_iter().chain(incoming)
    }

    /// As [`Topology::writers`]: the one in sync, and the one being filled.
    #[inline]
    pub(crate) fn writers_by_place(
        &self,
        geometry: &Geometry,
        stripe: StripeIndex,
        column: usize,
    ) -> (Option<&Arc<Member>>, Option<&Arc<Member>>) {
        let slot = self.slot(geometry, stripe, column);
        let incoming = slot.incoming.as_ref().filter(move |incoming| incoming.covers(stripe));
        let incoming = incoming.filter(|_| !lives(Mutant::WritesPassIncoming));
        (slot.primary.as_ref(), incoming.map(|incoming| &incoming.member))
    }

    /// The members to write whole chunks of a role to, for some consecutive stripes, and for which of them: the one in sync, and
    /// one being filled as far as it is past them.
    pub(crate) fn writers_of_run(
        &self,
        slot: usize,
        stripes: &Range<u64>,
    ) -> impl Iterator<Item = (&Arc<Member>, Range<u64>)> {
        let SlotState { primary, incoming } = &self.slots[slot];
        let incoming = incoming.iter().filter_map(|incoming| {
            let filled = stripes.start..stripes.end.min(incoming.done_stripes());
            let passes_by = lives(Mutant::WritesPassIncoming) || lives(Mutant::ZeroPassesIncoming);
            (!filled.is_empty() && !passes_by).then_some((&incoming.member, filled))
        });
        primary.iter().map(|member| (member, stripes.clone())).chain(incoming)
    }

    /// Whether every slot has a member in sync, so that every column of every stripe can be used.
    pub(crate) fn has_all(&self) -> bool {
        self.slots.iter().all(|slot| slot.primary.is_some())
    }

    /// Whether a column of a stripe can be used.
    pub(crate) fn presence(&self, geometry: &Geometry, stripe: StripeIndex, column: usize) -> Presence {
        if self.reader(geometry, stripe, column).is_some() { Presence::Present } else { Presence::Missing }
    }

    /// All members in sync.
    pub(crate) fn primaries(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.slots.iter().filter_map(|slot| slot.primary.as_ref())
    }

    /// All members that hold current data, wholly or up to some stripe.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.slots
            .iter()
            .flat_map(|slot| slot.primary.iter().chain(slot.incoming.as_ref().map(|i| &i.member)))
    }

    /// Slots without a member in sync.
    pub(crate) fn degraded(&self) -> usize {
        self.slots.iter().filter(|slot| slot.primary.is_none()).count()
    }

    /// Where a member stands, if it is still part of the array.
    pub(crate) fn place_of(&self, member: &Arc<Member>) -> Option<Place> {
        self.slots.iter().enumerate().find_map(|(index, slot)| {
            if slot.primary.as_ref().is_some_and(|m| Arc::ptr_eq(m, member)) {
                return Some(Place::Primary(MemberIndex(index)));
            }
            let incoming = slot.incoming.as_ref().is_some_and(|i| Arc::ptr_eq(&i.member, member));
            incoming.then_some(Place::Incoming(MemberIndex(index)))
        })
    }

    /// Takes the member at `place` out.
    pub(crate) fn remove(&mut self, place: Place) {
        match place {
            Place::Primary(slot) => self.slots[slot.0].primary = None,
            Place::Incoming(slot) => self.slots[slot.0].incoming = None,
        }
    }

    /// With another member in sync for a slot, and none being filled.
    pub(crate) fn with_primary(&self, slot: MemberIndex, member: &Arc<Member>) -> Self {
        let mut next = self.clone();
        next.slots[slot.0] = SlotState { primary: Some(member.clone()), incoming: None };
        next
    }

    /// Whether this is the incoming member of that role.
    pub(crate) fn is_incoming(&self, slot: MemberIndex, incoming: &Arc<Incoming>) -> bool {
        self.slots[slot.0].incoming.as_ref().is_some_and(|current| Arc::ptr_eq(current, incoming))
    }
}
