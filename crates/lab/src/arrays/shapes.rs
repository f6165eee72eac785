//! Which arrays there are: level and members. Level 4 keeps its parity on the last.

use stripewise_engine::geometry::Level;

use super::drives::{Drive, MEMBER_BYTES};

/// An array of an experiment.
#[derive(Debug, PartialEq, Eq)]
pub struct Shape {
    /// A word for it, in files.
    pub id: &'static str,
    /// Its name in tables and plots.
    pub name: &'static str,
    /// Its members, in a line of text.
    pub what: &'static str,
    /// The level.
    pub level: Level,
    /// Its members, by role.
    pub drives: &'static [Drive],
    /// Bytes of each member that hold data and parity, if not all.
    pub member_bytes: Option<u64>,
}

use Drive::{Cheetah, Hdd, SlowHdd, Ssd, SteadySsd, WornSsd};

const fn shape(
    (id, name, what): (&'static str, &'static str, &'static str),
    level: Level,
    drives: &'static [Drive],
) -> Shape {
    Shape { id, name, what, level, drives, member_bytes: Some(MEMBER_BYTES) }
}

/// Striping without redundancy over as many disks as the others have for data.
pub static RAID0: Shape = shape(("raid0", "RAID0", "level 0 of 4 HDDs"), Level::Raid0, &[Hdd, Hdd, Hdd, Hdd]);

/// raid4s-slides, "Experimental Setup".
pub static RAID4: Shape =
    shape(("raid4", "RAID4", "level 4 of 5 HDDs"), Level::Raid4, &[Hdd, Hdd, Hdd, Hdd, Hdd]);

/// Parity on the SSD (raid4s-modthresh Fig. 10).
pub static RAID4S: Shape = shape(
    ("raid4s", "RAID4S", "level 4 of 4 HDDs, parity on an SSD"),
    Level::Raid4,
    &[Hdd, Hdd, Hdd, Hdd, Ssd],
);

/// As RAID4S, with a parity SSD that is worn in.
pub static RAID4S_WORN: Shape = shape(
    (
        "raid4s-worn",
        "RAID4S (worn SSD)",
        "level 4 of 4 HDDs, parity on an SSD that is full and in its steady state",
    ),
    Level::Raid4,
    &[Hdd, Hdd, Hdd, Hdd, WornSsd],
);

/// The SSD holds data, and parity is on a disk (raid4s-slides).
pub static RAID4STUPID: Shape = shape(
    ("raid4stupid", "RAID4STUPID", "level 4 of 4 HDDs and an SSD that holds data"),
    Level::Raid4,
    &[Ssd, Hdd, Hdd, Hdd, Hdd],
);

/// raid4s-slides and raid4s-modthresh.
pub static RAID5: Shape =
    shape(("raid5", "RAID5", "level 5 of 5 HDDs"), Level::Raid5, &[Hdd, Hdd, Hdd, Hdd, Hdd]);

/// RAID5S as in the slides, where there is one SSD.
pub static RAID5S: Shape = shape(
    ("raid5s", "RAID5S (1 SSD)", "level 5 of 4 HDDs and an SSD"),
    Level::Raid5,
    &[Hdd, Hdd, Hdd, Hdd, Ssd],
);

/// RAID5S as raid4s-modthresh Fig. 10 has it.
pub static RAID5S_ALL: Shape =
    shape(("raid5s-all", "RAID5S (all SSD)", "level 5 of 5 SSDs"), Level::Raid5, &[Ssd, Ssd, Ssd, Ssd, Ssd]);

/// All members SSDs that are worn in and full.
pub static RAID5_STEADY: Shape = Shape {
    member_bytes: None,
    ..shape(
        ("raid5-steady-ssd", "RAID5 (SSDs, steady)", "level 5 of 5 SSDs, full and in their steady state"),
        Level::Raid5,
        &[SteadySsd, SteadySsd, SteadySsd, SteadySsd, SteadySsd],
    )
};

/// One disk on which everything that moves takes twice as long.
pub static RAID5_SLOW: Shape = shape(
    ("raid5-slow", "RAID5 (1 slow)", "level 5 of 5 HDDs, one of half the speed"),
    Level::Raid5,
    &[Hdd, Hdd, Hdd, Hdd, SlowHdd],
);

/// msc-ct IV-A.
pub static MSC: Shape = Shape {
    member_bytes: None,
    ..shape(
        ("msc", "RAID5 (ST373454LC)", "level 5 of 5 ST373454LC"),
        Level::Raid5,
        &[Cheetah, Cheetah, Cheetah, Cheetah, Cheetah],
    )
};

/// Double parity over disks and SSDs.
pub static RAID6_HYBRID: Shape = shape(
    ("raid6-hybrid", "RAID6 (4 HDD + 2 SSD)", "level 6, 4+2, of 4 HDDs and 2 SSDs"),
    Level::Raid6,
    &[Hdd, Hdd, Hdd, Hdd, Ssd, Ssd],
);

impl Shape {
    /// Whether its members differ in speed.
    pub fn is_hybrid(&self) -> bool {
        self.drives.iter().any(|drive| *drive != self.drives[0])
    }
}
