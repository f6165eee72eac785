//! A member: a device, where the array's data lies on it, and what it has done so far.

use std::{
    ops::Range,
    sync::{Arc, atomic::AtomicU32},
};

use parking_lot::RwLock;
use stripewise_device::{
    Completion, Device, IoError, IoErrorKind, IoFuture, ReadBufs, ReadDone, WriteBufs, WriteFlags, ZeroFlags,
    bufs_len,
    parts::{Part, within},
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
    mutants::{Mutant, lives},
    plan::{
        costs::MemberCost,
        passes::{GapRule, MemberStrides},
    },
};

/// An open member: a device, and where the array's data lies on it.
pub(crate) struct Member {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) data_offset_bytes: u64,
    pub(crate) dev_number: u32,
    pub(crate) uuid: Uuid,
    /// Zeroing a range of it frees the range, at a fraction of the cost of writing.
    pub(crate) unmaps: bool,
    class: RwLock<MemberClass>,
    /// As measured when it became a member.
    pub(crate) times: ServiceTimes,
    /// By rule.
    strides: RwLock<[MemberStrides; GapRule::ALL.len()]>,
    /// Bytes written to it before it was opened.
    pub(crate) written_before: u64,
    /// Failed reads counted since the member was opened. Of a chunk that waits to be healed, only the first
    /// counts.
    pub(crate) read_errors: AtomicU32,
    pub(crate) bad_blocks: Arc<BadBlocks>,
    pub(crate) stats: MemberStats,
    pub(crate) meter: Arc<Meter>,
}

/// What a header tells of the gaps to fill, by rule.
fn strides_of(header: &Header) -> [MemberStrides; GapRule::ALL.len()] {
    GapRule::ALL.map(|rule| MemberStrides::of(header, rule))
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
            strides: RwLock::new(header.map(strides_of).unwrap_or_default()),
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

    /// An operator says what kind it is. If its times were not measured, its costs are assumed to be those of
    /// that kind.
    pub(crate) fn set_class(&self, class: MemberClass) {
        *self.class.write() = class;
        self.meter.set_class(class);
        if !self.times.is_known() {
            self.meter.believe(cost_of(class, &self.times));
        }
    }

    /// The gaps that a contiguity transform fills on it.
    pub(crate) fn strides(&self, rule: GapRule) -> MemberStrides {
        self.strides.read()[rule as usize]
    }

    /// Fills the gaps that its header now tells.
    pub(crate) fn set_strides(&self, header: &Header) {
        *self.strides.write() = strides_of(header);
    }

    pub(crate) fn name(&self) -> &str {
        &self.device.info().name
    }

    /// Bytes written to it since counting began.
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
        self.read_as(IoClass::Read, Cause::Reader, offset_bytes, into)
    }

    /// As [`Member::read`], for I/O of a given class and cause.
    pub(crate) fn read_as(
        &self,
        class: IoClass,
        cause: Cause,
        offset_bytes: u64,
        into: ReadBufs,
    ) -> IoFuture<ReadDone> {
        let _part = within(Part::Submit);
        let bytes = bufs_len(&into);
        let at = self.data_offset_bytes + offset_bytes;
        if self.lists(offset_bytes..offset_bytes + bytes as u64) {
            let result = Err(IoError::new(IoErrorKind::BadBlock));
            return IoFuture::ready(ReadDone { result, bufs: into });
        }
        self.stats.count_read(bytes as u64);
        if !self.meter.is_on() {
            // The future is built in place and not moved.
            return self.device.read(at, into);
        }
        self.meter
            .watch((class, cause), bytes, self.device.read(at, into), |done: &ReadDone| done.result.is_ok())
    }

    /// Writes at an offset of the member's data, for a client.
    pub(crate) fn write(&self, offset_bytes: u64, from: WriteBufs, flags: WriteFlags) -> Completion {
        self.write_as(IoClass::Write, Cause::Whole, offset_bytes, from, flags)
    }

    /// As [`Member::write`], for a given class and cause. If members are memory, a rewrite goes through the
    /// processor's caches, because its target was just read. All other writes bypass the caches.
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
        let asked = if self.meter.is_on() {
            self.meter.watch((class, cause), bytes, asked, Result::is_ok)
        } else {
            asked
        };
        self.make_good(at..at + bytes as u64, asked)
    }

    /// Once a write of listed sectors is done, they hold what they should.
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

    /// Counts zeroes that it has taken as written, unless it has unmapped them.
    pub(crate) fn count_zeroed(&self, len_bytes: u64, flags: ZeroFlags) {
        if !(self.unmaps && flags.may_unmap) {
            self.stats.count_write(Cause::Whole, len_bytes);
        }
    }
}

/// Whether zeroing unmaps, according to the trial when the device became a member and to what the operating
/// system says now.
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
