//! `feature_map`: what a superblock says beyond the basics, one bit each.

use std::fmt;

/// The superblock's `feature_map`. Unknown bits are kept: `check_supported` refuses them, `examine` shows
/// them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Features(u32);

impl Features {
    /// `bitmap_offset` is meaningful: an internal bitmap exists.
    pub const BITMAP_OFFSET: Self = Self(1);
    /// `recovery_offset` is meaningful: this member holds good data only before it.
    pub const RECOVERY_OFFSET: Self = Self(2);
    /// A reshape is under way.
    pub const RESHAPE_ACTIVE: Self = Self(4);
    /// The bad-block log is not empty.
    pub const BAD_BLOCKS: Self = Self(8);
    /// This member is being filled to replace the one in the same role.
    pub const REPLACEMENT: Self = Self(16);
    /// The reshape runs from the end to the start.
    pub const RESHAPE_BACKWARDS: Self = Self(32);
    /// `new_offset` is meaningful: the reshape moves the data's start.
    pub const NEW_OFFSET: Self = Self(64);
    /// The recovery under way follows the bitmap.
    pub const RECOVERY_BITMAP: Self = Self(128);
    /// Several hosts run the array; bitmaps are versioned.
    pub const CLUSTERED: Self = Self(256);
    /// A journal member holds writes the others lack.
    pub const JOURNAL: Self = Self(512);
    /// A partial-parity log lies where the bitmap would.
    pub const PPL: Self = Self(1024);
    /// The partial-parity log's space holds several in turn.
    pub const MULTIPLE_PPLS: Self = Self(2048);
    /// `layout` is meaningful for level 0.
    pub const RAID0_LAYOUT: Self = Self(4096);

    const NAMES: [(Self, &'static str); 13] = [
        (Self::BITMAP_OFFSET, "bitmap-offset"),
        (Self::RECOVERY_OFFSET, "recovery-offset"),
        (Self::RESHAPE_ACTIVE, "reshape-active"),
        (Self::BAD_BLOCKS, "bad-blocks"),
        (Self::REPLACEMENT, "replacement"),
        (Self::RESHAPE_BACKWARDS, "reshape-backwards"),
        (Self::NEW_OFFSET, "new-offset"),
        (Self::RECOVERY_BITMAP, "recovery-bitmap"),
        (Self::CLUSTERED, "clustered"),
        (Self::JOURNAL, "journal"),
        (Self::PPL, "ppl"),
        (Self::MULTIPLE_PPLS, "multiple-ppls"),
        (Self::RAID0_LAYOUT, "raid0-layout"),
    ];

    /// The map with exactly these bits, known or not.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The map as md keeps it.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all of `other`'s bits are set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The map with `other`'s bits set as well.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The map with `other`'s bits cleared.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The bits that have no name here.
    #[must_use]
    pub fn unknown(self) -> u32 {
        Self::NAMES.iter().fold(self, |rest, (known, _)| rest.without(*known)).0
    }

    /// The names of the known bits that are set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(feature, _)| self.contains(*feature)).map(|(_, name)| name)
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<String> = self.names().map(String::from).collect();
        if self.unknown() != 0 {
            names.push(format!("unknown {:#x}", self.unknown()));
        }
        f.write_str(if names.is_empty() { "none".to_owned() } else { names.join(", ") }.as_str())
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Features({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_names_and_what_has_none() {
        assert_eq!(Features::default().to_string(), "none");
        let map = Features::PPL.with(Features::from_bits(1 << 20));
        assert_eq!(map.to_string(), "ppl, unknown 0x100000");
        assert_eq!(Features::from_bits(8191).unknown(), 0);
    }
}
