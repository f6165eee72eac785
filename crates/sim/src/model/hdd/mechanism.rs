//! Arm and spindle: how soon a sector can be under the head, and what moving there took.

use super::{
    counters::Counters,
    geometry::{Geometry, Place},
    params::HddParams,
    seek::SeekCurve,
};

/// A range of sectors to be accessed in one go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target {
    pub(super) lba: u64,
    pub(super) end: u64,
    pub(super) write: bool,
    /// Not before this time: the data must be in the buffer.
    pub(super) earliest: u64,
    place: Place,
    angle_ns: u32,
}

impl Target {
    pub(super) fn sectors(&self) -> u64 {
        self.end - self.lba
    }
}

/// The access that went on until a moment could go on from here without a new start.
#[derive(Debug, Clone, Copy)]
struct Stream {
    lba: u64,
    /// When the sector before `lba` had passed.
    at: u64,
    write: bool,
    /// From `lba` on, so many sectors are in its way: the next one, or more if it goes on by itself as
    /// read-ahead.
    span: u64,
}

/// The arm, the heads and the turning discs.
pub(super) struct Mechanism {
    geometry: Geometry,
    read_curve: SeekCurve,
    write_curve: SeekCurve,
    revolution_ns: u32,
    /// The angle under the heads at time 0.
    angle_at_0_ns: u32,
    setup_ns: u32,
    head_switch_ns: u32,
    write_settle_ns: u32,
    cylinder: u32,
    head: u32,
    stream: Option<Stream>,
}

/// A moment, with the angle that is then under the heads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: u64,
    phase_ns: u32,
}

impl Mechanism {
    pub(super) fn new(params: &HddParams, angle_at_0_ns: u32) -> Self {
        let geometry = Geometry::new(params);
        let cylinders = geometry.cylinders();
        Self {
            geometry,
            read_curve: SeekCurve::fit(&params.read_seek, cylinders),
            write_curve: SeekCurve::fit(&params.write_seek, cylinders),
            revolution_ns: params.revolution_ns,
            angle_at_0_ns,
            setup_ns: params.setup_ns,
            head_switch_ns: params.head_switch_ns,
            write_settle_ns: params.write_settle_ns(),
            cylinder: 0,
            head: 0,
            stream: None,
        }
    }

    pub(super) fn target(&self, lba: u64, end: u64, write: bool, earliest: u64) -> Target {
        let place = self.geometry.locate(lba);
        Target { lba, end, write, earliest, angle_ns: self.geometry.angle_ns(&place), place }
    }

    /// How long the range takes to pass under the heads.
    pub(super) fn pass_ns(&self, target: &Target) -> u64 {
        self.geometry.pass_ns(&target.place, target.sectors())
    }

    pub(super) fn moment(&self, now: u64) -> Moment {
        let turned = now + u64::from(self.angle_at_0_ns);
        Moment { now, phase_ns: (turned % u64::from(self.revolution_ns)) as u32 }
    }

    /// When the target's first sector can come under the head, if the mechanism sets out now. Inlined, since
    /// every choice asks it of a dozen targets, between which the mechanism stays as it is.
    #[inline(always)]
    pub(super) fn reach(&self, moment: &Moment, target: &Target) -> u64 {
        if let Some(at) = self.goes_on(moment, target) {
            return at + u64::from(self.wait_ns(self.moment(at).phase_ns, target.angle_ns));
        }
        let away_ns = self.setup_ns + self.move_ns(target);
        let moved = moment.now + u64::from(away_ns);
        if target.earliest <= moved {
            // A short division instead of a long one.
            let phase_ns = (moment.phase_ns + away_ns) % self.revolution_ns;
            return moved + u64::from(self.wait_ns(phase_ns, target.angle_ns));
        }
        // Data that many others precede on the wire may come much later.
        target.earliest + u64::from(self.wait_ns(self.moment(target.earliest).phase_ns, target.angle_ns))
    }

    /// If the target lies where the head goes on, or on the rest of the track that it is reading ahead: since
    /// when the head has been going on.
    pub(super) fn goes_on(&self, moment: &Moment, target: &Target) -> Option<u64> {
        let stream = self.stream.as_ref()?;
        // Asked of every candidate, and most are elsewhere: one comparison for both bounds.
        if target.lba.wrapping_sub(stream.lba) >= stream.span {
            return None;
        }
        let in_the_way = stream.lba == target.lba || self.is_on_track_of(target);
        (in_the_way && stream.write == target.write && target.earliest <= moment.now).then_some(stream.at)
    }

    fn is_on_track_of(&self, target: &Target) -> bool {
        (target.place.cylinder, target.place.head) == (self.cylinder, self.head)
    }

    /// The read that just ended goes on up to a sector.
    pub(super) fn read_through(&mut self, through: u64) {
        if let Some(stream) = &mut self.stream {
            stream.span = through.saturating_sub(stream.lba).max(1);
        }
    }

    fn wait_ns(&self, phase_ns: u32, angle_ns: u32) -> u32 {
        if angle_ns >= phase_ns { angle_ns - phase_ns } else { angle_ns + self.revolution_ns - phase_ns }
    }

    /// Seek or head switch, with settling.
    fn move_ns(&self, target: &Target) -> u32 {
        let distance = target.place.cylinder.abs_diff(self.cylinder);
        if distance > 0 {
            let curve = if target.write { &self.write_curve } else { &self.read_curve };
            curve.time_ns(distance)
        } else if target.place.head != self.head {
            self.head_switch_ns + if target.write { self.write_settle_ns } else { 0 }
        } else {
            0
        }
    }

    /// Moves to the target and over it; returns when its last sector has passed.
    pub(super) fn access(&mut self, moment: &Moment, target: &Target, counters: &mut Counters) -> u64 {
        let begin = self.reach(moment, target);
        self.count(moment, target, begin, counters);
        let end = begin + self.pass_ns(target);
        let left = u64::from(target.place.track_sectors - target.place.sector);
        let last = if target.sectors() <= left { target.place } else { self.geometry.locate(target.end - 1) };
        self.settle_at(&last, target.end, end, target.write);
        counters.transfer_ns += end - begin;
        end
    }

    fn count(&self, moment: &Moment, target: &Target, begin: u64, counters: &mut Counters) {
        if self.goes_on(moment, target).is_some() {
            return;
        }
        let moving = u64::from(self.move_ns(target));
        let distance = target.place.cylinder.abs_diff(self.cylinder);
        counters.seeks += u64::from(distance > 0);
        counters.seek_ns += moving;
        let waiting = begin.saturating_sub(moment.now + moving);
        counters.rotation_ns += waiting;
        // On the cylinder where the head is, all but the whole wait for a revolution came from setting up too
        // late.
        let could = u64::from(self.wait_ns(moment.phase_ns, target.angle_ns));
        let missed = distance == 0 && begin - moment.now >= could + u64::from(self.revolution_ns);
        counters.missed_rotations += u64::from(missed);
    }

    /// The head is on the track of `last`, where the sector before `lba` has passed.
    fn settle_at(&mut self, last: &Place, lba: u64, at: u64, write: bool) {
        self.cylinder = last.cylinder;
        self.head = last.head;
        self.stream = Some(Stream { lba, at, write, span: 1 });
    }

    /// The head goes on reading since its last access: how many more sectors have passed by `now`, at most
    /// `max`.
    pub(super) fn read_on(&mut self, now: u64, max: u64) -> u64 {
        let Some(stream) = self.stream else { return 0 };
        if now <= stream.at || max == 0 {
            return 0;
        }
        let place = self.geometry.locate(stream.lba);
        let crossing = self.wait_ns(self.moment(stream.at).phase_ns, self.geometry.angle_ns(&place));
        let Some(time_ns) = (now - stream.at).checked_sub(u64::from(crossing)) else { return 0 };
        let (count, spent) = self.geometry.passed(&place, time_ns, max);
        if count > 0 {
            let last = self.geometry.locate(stream.lba + count - 1);
            self.settle_at(&last, stream.lba + count, stream.at + u64::from(crossing) + spent, false);
            self.read_through(stream.lba + stream.span);
        }
        count
    }

    /// The last access cannot be gone on with any more.
    pub(super) fn lose_stream_before(&mut self, now: u64) {
        self.stream = self.stream.filter(|stream| stream.at >= now);
    }
}
