//! High and low mark (msc-ct IV-A): at the high mark it destages as fast as members can, until less than the low mark
//! is dirty. The paper's introduction has the marks the other way round; its section on the implementation does not.

use super::{Fill, When, WhenPolicy};

pub(super) static POLICY: WhenPolicy = WhenPolicy {
    name: "hlm",
    number: 2,
    summary: "nothing until the high mark, then as fast as members can until below the low mark",
    make: || Box::new(HighLowMark { makes_room: false }),
};

struct HighLowMark {
    makes_room: bool,
}

impl When for HighLowMark {
    fn in_flight(&mut self, fill: Fill, most: usize) -> usize {
        if fill.dirty >= fill.high {
            self.makes_room = true;
        } else if fill.dirty < fill.low {
            self.makes_room = false;
        }
        if self.makes_room { most } else { 0 }
    }

    /// Marks alone decide.
    fn takes_full_from(&self, _: Fill, _: bool) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_until_the_low_mark() {
        let mut marks = HighLowMark { makes_room: false };
        let mut count = |dirty| marks.in_flight(Fill { dirty, low: 85, high: 95 }, 8);
        assert_eq!([84, 90, 94, 95, 90, 85, 84, 90].map(&mut count), [0, 0, 0, 8, 8, 8, 0, 0]);
        assert_eq!(marks.low_mark(Fill { dirty: 1, low: 85, high: 95 }, 1.0), 85, "as in the paper");
    }
}
