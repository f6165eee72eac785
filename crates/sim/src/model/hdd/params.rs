//! What a modelled hard disk is made of: numbers from data sheets, manuals and papers, and where each is
//! from.

use super::{geometry::Geometry, queue::QUEUE_DEPTH_MAX};

/// Published seek times of one kind of access, without controller overhead and rotation, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeekTimes {
    /// To the neighbouring cylinder, settling included.
    pub single_track_ns: u32,
    /// Mean over all pairs of cylinders.
    pub average_ns: u32,
    /// From the outermost to the innermost cylinder.
    pub full_stroke_ns: u32,
}

/// When a drive goes on reading into its buffer what was not asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadAhead {
    /// Never.
    Off,
    /// After each read that found the mechanism otherwise idle.
    Always,
    /// As `Always`, but only after a read that began where an earlier one had ended.
    AfterSequential,
}

/// Everything that makes one model of disk differ from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HddParams {
    /// The maker's name for it.
    pub name: &'static str,
    /// User sectors of 512 bytes.
    pub sectors: u64,
    /// One revolution, in nanoseconds: 60e9 / rpm.
    pub revolution_ns: u32,
    /// Recording surfaces.
    pub heads: u32,
    /// Zones of equal width, over which sectors per track fall evenly from outer to inner.
    pub zones: u32,
    /// Sectors on a track of the outermost zone.
    pub outer_track_sectors: u32,
    /// Sectors on a track of the innermost zone.
    pub inner_track_sectors: u32,
    /// Seeks that end in a read.
    pub read_seek: SeekTimes,
    /// Seeks that end in a write, which needs finer settling.
    pub write_seek: SeekTimes,
    /// To another head of the same cylinder before a read. Writes take as much longer as their single-track
    /// seek does.
    pub head_switch_ns: u32,
    /// How much later the first sector of a track comes than that of the track before, on the same cylinder.
    /// At least a head switch before a write, or each crossing would cost a revolution.
    pub track_skew_ns: u32,
    /// The same from a cylinder's last track to the next cylinder's first.
    pub cylinder_skew_ns: u32,
    /// Firmware's time for each command's arrival, one command after another.
    pub command_ns: u32,
    /// From the end of one access to the medium until the mechanism can begin another that does not just go
    /// on: the cause of missed rotations in msc-ct Fig. 2.
    pub setup_ns: u32,
    /// From the end of an access until the host has the status.
    pub status_ns: u32,
    /// Rate of the host interface.
    pub interface_bytes_per_s: u64,
    /// Commands the drive holds and orders by itself; more wait at the host.
    pub queue_depth: usize,
    /// Segments of the buffer that hold data read, one per sequential stream.
    pub read_segments: usize,
    /// Sectors of one segment, and the farthest that is read ahead.
    pub segment_sectors: u64,
    /// When to read ahead.
    pub read_ahead: ReadAhead,
    /// Writes complete when they are in the buffer.
    pub write_cache: bool,
    /// Sectors of the buffer that data to be written may take.
    pub write_cache_sectors: u64,
}

impl HddParams {
    /// The same drive with its write cache on or off.
    pub fn with_write_cache(self, write_cache: bool) -> Self {
        Self { write_cache, ..self }
    }

    /// The same drive with another queue depth.
    pub fn with_queue_depth(self, queue_depth: usize) -> Self {
        Self { queue_depth, ..self }
    }

    /// Sectors on the track that holds this one.
    pub fn track_sectors_at(&self, sector: u64) -> u32 {
        Geometry::new(self).locate(sector).track_sectors
    }

    /// How much longer a write takes to settle after a head switch.
    pub(super) fn write_settle_ns(&self) -> u32 {
        self.write_seek.single_track_ns - self.read_seek.single_track_ns
    }

    /// # Panics
    /// If the numbers contradict one another.
    pub(super) fn check(&self) {
        assert!(
            self.write_seek.single_track_ns >= self.read_seek.single_track_ns,
            "a write settles no sooner than a read"
        );
        let write_switch_ns = self.head_switch_ns + self.write_settle_ns();
        assert!(self.heads > 0 && self.zones > 0 && self.queue_depth > 0 && self.read_segments > 0);
        assert!(
            self.queue_depth <= QUEUE_DEPTH_MAX,
            "a queue of {} is more than is told apart",
            self.queue_depth
        );
        assert!(self.inner_track_sectors > 0 && self.inner_track_sectors <= self.outer_track_sectors);
        assert!(
            self.track_skew_ns >= write_switch_ns,
            "a write over the track's end would miss its rotation"
        );
        assert!(self.cylinder_skew_ns >= self.write_seek.single_track_ns, "so would one over the cylinder's");
        assert!(self.track_skew_ns < self.revolution_ns && self.cylinder_skew_ns < self.revolution_ns);
    }
}
