//! The levels: one table that says what each one is.

use std::ops::Range;

/// A RAID level with its one supported layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Striping, no redundancy.
    Raid0,
    /// Mirroring.
    Raid1,
    /// Parity on the last role.
    Raid4,
    /// Rotating parity, left-symmetric.
    Raid5,
    /// Rotating P and Q, left-symmetric.
    Raid6,
}

/// What makes up for lost members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Redundancy {
    /// Every member has the same bytes.
    Copies,
    /// This many columns of each stripe are computed from its data columns.
    Parity(usize),
}

/// What a level is.
struct Traits {
    level: Level,
    number: i32,
    redundancy: Redundancy,
    /// The stripe's columns move by one member from stripe to stripe.
    rotates: bool,
    members_min: usize,
}

/// The table, in the order of [`Level`].
const LEVELS: [Traits; 5] = [
    Traits {
        level: Level::Raid0,
        number: 0,
        redundancy: Redundancy::Parity(0),
        rotates: false,
        members_min: 1,
    },
    Traits { level: Level::Raid1, number: 1, redundancy: Redundancy::Copies, rotates: false, members_min: 1 },
    Traits {
        level: Level::Raid4,
        number: 4,
        redundancy: Redundancy::Parity(1),
        rotates: false,
        members_min: 2,
    },
    Traits {
        level: Level::Raid5,
        number: 5,
        redundancy: Redundancy::Parity(1),
        rotates: true,
        members_min: 2,
    },
    Traits {
        level: Level::Raid6,
        number: 6,
        redundancy: Redundancy::Parity(2),
        rotates: true,
        members_min: 4,
    },
];

impl Level {
    #[inline]
    fn traits(self) -> &'static Traits {
        &LEVELS[self as usize]
    }

    /// The level's number.
    pub fn number(self) -> i32 {
        self.traits().number
    }

    /// The level of a number.
    pub fn from_number(number: i32) -> Option<Self> {
        LEVELS.iter().find(|traits| traits.number == number).map(|traits| traits.level)
    }

    /// Whether the level keeps parity, so that partly written rows can be written in more than one way.
    #[inline]
    pub fn has_parity(self) -> bool {
        matches!(self.traits().redundancy, Redundancy::Parity(1..))
    }

    /// The fewest members the level makes sense with.
    pub fn members_min(self) -> usize {
        self.traits().members_min
    }

    /// Parity columns of a stripe.
    #[inline]
    pub(super) fn parity(self) -> usize {
        match self.traits().redundancy {
            Redundancy::Copies => 0,
            Redundancy::Parity(columns) => columns,
        }
    }

    /// Whether the stripe's columns move by one member from stripe to stripe, md's left-symmetric layout.
    #[inline]
    pub(super) fn rotates(self) -> bool {
        self.traits().rotates
    }

    /// Data columns of a stripe over this many members.
    #[inline]
    pub(super) fn data_columns(self, members: usize) -> usize {
        match self.traits().redundancy {
            Redundancy::Copies => 1,
            Redundancy::Parity(columns) => members - columns,
        }
    }

    /// How many more members may be lost, whichever they are, if some are lost already. None if too many are
    /// lost.
    pub(super) fn spare(self, members: usize, is_lost: impl Fn(usize) -> bool) -> Option<usize> {
        let may_be_lost = match self.traits().redundancy {
            Redundancy::Copies => members - 1,
            Redundancy::Parity(columns) => columns,
        };
        may_be_lost.checked_sub((0..members).filter(|member| is_lost(*member)).count())
    }

    /// Whether the members can be split into two sides that both have all the data.
    pub(super) fn may_split(self, members: usize) -> bool {
        match self.traits().redundancy {
            Redundancy::Copies => members > 1,
            Redundancy::Parity(columns) => members <= 2 * columns,
        }
    }

    /// The columns that hold the same bytes as this one, itself among them.
    pub(super) fn copies_of(self, members: usize, column: usize) -> Range<usize> {
        match self.traits().redundancy {
            Redundancy::Copies => 0..members,
            Redundancy::Parity(_) => column..column + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_levels() {
        for traits in &LEVELS {
            assert_eq!(traits.level.number(), traits.number);
            assert_eq!(Level::from_number(traits.number), Some(traits.level));
        }
        assert_eq!(Level::from_number(10), None);
    }

    #[test]
    fn a_level_does_without_as_many_members_as_it_has_redundancy() {
        let spare = |level: Level, lost| level.spare(5, |member| member < lost);
        assert_eq!([0, 1].map(|lost| spare(Level::Raid0, lost)), [Some(0), None]);
        assert_eq!([0, 4, 5].map(|lost| spare(Level::Raid1, lost)), [Some(4), Some(0), None]);
        assert_eq!([0, 1, 2].map(|lost| spare(Level::Raid4, lost)), [Some(1), Some(0), None]);
        assert_eq!([0, 1, 2].map(|lost| spare(Level::Raid5, lost)), [Some(1), Some(0), None]);
        assert_eq!([1, 2, 3].map(|lost| spare(Level::Raid6, lost)), [Some(1), Some(0), None]);
    }
}
