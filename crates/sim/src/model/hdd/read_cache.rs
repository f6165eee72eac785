//! The part of the buffer that holds what was read: segments, each a run of sectors, the least recently used
//! reused.

/// Segments of one drive.
pub(super) struct ReadCache {
    segments: Vec<Segment>,
    /// The segments, the least recently used first.
    by_use: Vec<usize>,
    segment_sectors: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Segment {
    start: u64,
    len: u64,
}

// One comparison for both bounds, here and below: of all segments hardly any holds a sector, but which bound
// it is beyond is chance, and a processor guesses that wrong.
impl Segment {
    fn end(&self) -> u64 {
        self.start + self.len
    }

    fn holds(&self, lba: u64) -> bool {
        lba.wrapping_sub(self.start) < self.len
    }

    fn overlaps(&self, lba: u64, end: u64) -> bool {
        self.holds(lba) || self.start.wrapping_sub(lba) < end - lba
    }

    /// What lies before a sector is held no more.
    fn drop_before(&mut self, lba: u64) {
        if lba > self.start {
            (self.start, self.len) = (lba, self.end() - lba);
        }
    }
}

/// What a read left behind.
pub(super) struct Stored {
    pub(super) segment: usize,
    /// It went on where an earlier read had ended, or begun inside it.
    pub(super) sequential: bool,
}

impl ReadCache {
    pub(super) fn new(segments: usize, segment_sectors: u64) -> Self {
        Self {
            segments: vec![Segment::default(); segments],
            by_use: (0..segments).collect(),
            segment_sectors,
        }
    }

    /// The segment that holds the sector, and where it ends.
    pub(super) fn find(&mut self, lba: u64) -> Option<(usize, u64)> {
        let index = self.segments.iter().position(|segment| segment.holds(lba))?;
        self.touch(index);
        Some((index, self.segments[index].end()))
    }

    /// Where a segment's run begins.
    pub(super) fn start_of(&self, segment: usize) -> u64 {
        self.segments[segment].start
    }

    /// Where a segment's run ends.
    pub(super) fn end_of(&self, segment: usize) -> u64 {
        self.segments[segment].end()
    }

    /// A host read ended: its data goes to the segment it continues, or to a new one.
    pub(super) fn store(&mut self, lba: u64, end: u64) -> Stored {
        let goes_on = |segment: &Segment| lba.wrapping_sub(segment.start) <= segment.len && segment.end() > 0;
        let continued = self.segments.iter().position(goes_on);
        match continued {
            Some(segment) => {
                self.extend_to(segment, end);
                self.touch(segment);
                Stored { segment, sequential: true }
            }
            None => {
                let segment = self.oldest();
                self.segments[segment] = Segment { start: lba, len: 0 };
                self.extend_to(segment, end);
                self.touch(segment);
                Stored { segment, sequential: false }
            }
        }
    }

    /// The segment's run reaches up to `end` now; its beginning makes room.
    pub(super) fn extend_to(&mut self, segment: usize, end: u64) {
        let segment = &mut self.segments[segment];
        segment.len = segment.len.max(end.saturating_sub(segment.start));
        segment.drop_before(segment.end().saturating_sub(self.segment_sectors));
    }

    /// The range is being overwritten. What lies before it stays, or if that is nothing, what lies behind.
    pub(super) fn overwrite(&mut self, lba: u64, end: u64) {
        for segment in &mut self.segments {
            if segment.overlaps(lba, end) {
                if lba > segment.start {
                    segment.len = lba - segment.start;
                } else {
                    segment.drop_before(end.min(segment.end()));
                }
            }
        }
    }

    fn touch(&mut self, index: usize) {
        let place = self.by_use.iter().position(|own| *own == index).expect("every segment is listed");
        self.by_use[place..].rotate_left(1);
    }

    fn oldest(&self) -> usize {
        *self.by_use.first().expect("a drive has at least one segment")
    }
}
