//! Where a sector lies: zone, cylinder, head, sector, and the angle at which it comes under the head.
//!
//! Angles are times: nanoseconds after the index mark passed the head. A point at angle a is under the heads
//! at every time t with (t + the drive's angle at time 0) mod revolution = a.

use super::params::HddParams;

/// Zones, tracks and skews of a drive.
#[derive(Debug, Clone)]
pub(super) struct Geometry {
    zones: Vec<Zone>,
    heads: u32,
    cylinders: u32,
    revolution_ns: u64,
    track_skew_ns: u64,
    /// From a cylinder's first track to the next cylinder's first.
    whole_cylinder_skew_ns: u64,
    cylinder_skew_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Zone {
    first_sector: u64,
    first_cylinder: u32,
    track_sectors: u32,
}

/// A sector's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) cylinder: u32,
    pub(super) head: u32,
    pub(super) sector: u32,
    /// Sectors on its track.
    pub(super) track_sectors: u32,
}

impl Geometry {
    /// As many cylinders of each zone's tracks as the drive's sectors need.
    pub(super) fn new(params: &HddParams) -> Self {
        let track_sectors = |zone: u32| {
            let fall = params.outer_track_sectors - params.inner_track_sectors;
            params.outer_track_sectors - fall * zone / (params.zones - 1).max(1)
        };
        let per_cylinder_of_each: u64 =
            (0..params.zones).map(|zone| u64::from(track_sectors(zone) * params.heads)).sum();
        let zone_cylinders = params.sectors.div_ceil(per_cylinder_of_each) as u32;
        let mut zones = Vec::new();
        let mut first_sector = 0;
        for zone in 0..params.zones {
            let track_sectors = track_sectors(zone);
            zones.push(Zone { first_sector, first_cylinder: zone * zone_cylinders, track_sectors });
            first_sector += u64::from(zone_cylinders) * u64::from(track_sectors * params.heads);
        }
        let track_skew_ns = u64::from(params.track_skew_ns);
        let cylinder_skew_ns = u64::from(params.cylinder_skew_ns);
        Self {
            zones,
            heads: params.heads,
            cylinders: zone_cylinders * params.zones,
            revolution_ns: u64::from(params.revolution_ns),
            track_skew_ns,
            whole_cylinder_skew_ns: u64::from(params.heads - 1) * track_skew_ns + cylinder_skew_ns,
            cylinder_skew_ns,
        }
    }

    pub(super) fn cylinders(&self) -> u32 {
        self.cylinders
    }

    pub(super) fn locate(&self, lba: u64) -> Place {
        let zone = &self.zones[self.zones.partition_point(|zone| zone.first_sector <= lba) - 1];
        let track_sectors = u64::from(zone.track_sectors);
        let in_zone = lba - zone.first_sector;
        let track = in_zone / track_sectors;
        Place {
            cylinder: zone.first_cylinder + (track / u64::from(self.heads)) as u32,
            head: (track % u64::from(self.heads)) as u32,
            sector: (in_zone % track_sectors) as u32,
            track_sectors: zone.track_sectors,
        }
    }

    /// The angle at which a sector begins.
    pub(super) fn angle_ns(&self, place: &Place) -> u32 {
        let skew = u64::from(place.cylinder) * self.whole_cylinder_skew_ns
            + u64::from(place.head) * self.track_skew_ns;
        let in_track = self.in_track_ns(place.sector, place.track_sectors);
        ((skew + in_track) % self.revolution_ns) as u32
    }

    /// The time from a track's start to the start of one of its sectors. Rounded down there, so that the
    /// times of neighbouring transfers add up without drift.
    fn in_track_ns(&self, sector: u32, track_sectors: u32) -> u64 {
        u64::from(sector) * self.revolution_ns / u64::from(track_sectors)
    }

    /// How long `count` sectors take to pass from the start of the one at `place` on, with the skews between
    /// tracks.
    pub(super) fn pass_ns(&self, place: &Place, count: u64) -> u64 {
        let whole = u64::from(place.sector) + count;
        if whole <= u64::from(place.track_sectors) {
            return self.in_track_ns(whole as u32, place.track_sectors)
                - self.in_track_ns(place.sector, place.track_sectors);
        }
        let mut walk = Walk { geometry: self, place: *place };
        let (mut left, mut time) = (count, 0);
        loop {
            let (sectors, passing, crossing) = walk.track();
            if left <= sectors {
                return time + self.pass_ns(&walk.place, left);
            }
            left -= sectors;
            time += passing + crossing;
            walk.cross();
        }
    }

    /// How many whole sectors pass in a time, from the start of the one at `place` on, at most `max`; and the
    /// time they take.
    pub(super) fn passed(&self, place: &Place, time_ns: u64, max: u64) -> (u64, u64) {
        let mut walk = Walk { geometry: self, place: *place };
        let (mut count, mut spent) = (0, 0);
        while count < max {
            let (sectors, passing, crossing) = walk.track();
            if sectors > max - count || spent + passing > time_ns {
                let part = self.sectors_in(&walk.place, time_ns - spent).min(max - count);
                return (count + part, spent + self.pass_ns(&walk.place, part));
            }
            count += sectors;
            spent += passing;
            if count == max || spent + crossing > time_ns {
                break;
            }
            spent += crossing;
            walk.cross();
        }
        (count, spent)
    }

    /// Whole sectors of one track that pass within a time shorter than the rest of the track.
    fn sectors_in(&self, place: &Place, time_ns: u64) -> u64 {
        let start = self.in_track_ns(place.sector, place.track_sectors);
        let reached = (start + time_ns + 1) * u64::from(place.track_sectors) - 1;
        (reached / self.revolution_ns).saturating_sub(u64::from(place.sector))
    }
}

/// Steps along consecutive tracks.
struct Walk<'a> {
    geometry: &'a Geometry,
    place: Place,
}

impl Walk<'_> {
    /// Sectors left on this track, the time they take, and the time from there to the next track's first
    /// sector.
    fn track(&self) -> (u64, u64, u64) {
        let place = &self.place;
        let passing =
            self.geometry.revolution_ns - self.geometry.in_track_ns(place.sector, place.track_sectors);
        let last = place.head + 1 == self.geometry.heads;
        let crossing = if last { self.geometry.cylinder_skew_ns } else { self.geometry.track_skew_ns };
        (u64::from(place.track_sectors - place.sector), passing, crossing)
    }

    fn cross(&mut self) {
        self.place.sector = 0;
        self.place.head += 1;
        if self.place.head == self.geometry.heads {
            self.place.head = 0;
            self.place.cylinder += 1;
            let zones = &self.geometry.zones;
            let zone = zones.partition_point(|zone| zone.first_cylinder <= self.place.cylinder) - 1;
            self.place.track_sectors = zones[zone].track_sectors;
        }
    }
}

#[cfg(test)]
mod tests;
