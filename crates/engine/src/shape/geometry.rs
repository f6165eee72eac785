//! Where a byte of the array lies: stripes, columns and members, by pure functions of the array's shape.
//!
//! A stripe's chunks are its *columns*: data columns first, in the order of the array's bytes, then P, then Q
//! (for level 1: the one data column, then its mirrors). The layout says which member holds which column of a
//! stripe: Linux md's left-symmetric for levels 5 and 6, parity on the last role for level 4
//! (`raid5_compute_sector`).

use std::ops::Range;

use thiserror::Error;

pub use super::level::Level;
use super::rows::{BLOCK_BYTES, ROWS_MAX, RowSet};
use crate::mutants::{Mutant, lives};

/// The index of a stripe, from the start of the members' data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StripeIndex(pub u64);

/// A member's role in the array: md's `raid_disk`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberIndex(pub usize);

/// Smallest chunk: one block.
pub const CHUNK_BYTES_MIN: u32 = 4096;
/// Largest chunk: the rows of a stripe fit a [`crate::shape::rows::RowSet`].
pub const CHUNK_BYTES_MAX: u32 = 1 << 20;
/// The default chunk.
pub const CHUNK_BYTES_DEFAULT: u32 = 64 << 10;
/// Level 1 has no chunk; locks and plans cut its members into stripes of this size.
pub const MIRROR_STRIPE_BYTES: u32 = 64 << 10;
/// The most members that an md v1 superblock's role table can name: (4096 - 256) / 2.
pub const MEMBERS_MAX: usize = 1920;
/// The most data members of levels with parity: GF(2^8) has 255 distinct non-zero coefficients, and no array
/// should have one parity for more.
pub const DATA_COLUMNS_MAX: usize = stripewise_parity::DATA_COLUMNS_MAX;

const _: () = assert!(CHUNK_BYTES_MAX as usize / BLOCK_BYTES == ROWS_MAX);

/// Why a shape cannot be an array.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GeometryError {
    /// Too few or too many members.
    #[error("level {level} needs {min} to {max} members, not {given}")]
    Members {
        /// The level's number.
        level: i32,
        /// Fewest.
        min: usize,
        /// Most.
        max: usize,
        /// As given.
        given: usize,
    },
    /// The chunk is not a power of two in range.
    #[error("chunk of {0} bytes: give a power of two from 4K to 1M")]
    Chunk(u32),
    /// A member's data would not hold one stripe.
    #[error("a member holds {given_bytes} bytes of data, at least one chunk of {chunk_bytes} is needed")]
    TooSmall {
        /// As given.
        given_bytes: u64,
        /// The chunk.
        chunk_bytes: u32,
    },
    /// More than a device can hold.
    #[error("{given_bytes} bytes of each of {members} members: an array has less than 8 EiB")]
    TooLarge {
        /// As given, of each member.
        given_bytes: u64,
        /// As given.
        members: usize,
    },
    /// The logical block is neither 512 nor 4096.
    #[error("logical block of {0} bytes: members must have 512 or 4096")]
    LogicalBlock(u32),
}

/// The shape of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    level: Level,
    members: usize,
    chunk_bytes: u32,
    member_bytes: u64,
    logical_block_bytes: u32,
    /// From the level's row of the table, kept at hand because every request asks.
    data_columns: usize,
    rotates: bool,
}

impl Geometry {
    /// Checks a shape. `member_bytes` is what each member gives to data; it is rounded down to whole chunks
    /// (level 1: whole logical blocks). Level 1 ignores `chunk_bytes`.
    ///
    /// # Errors
    /// [`GeometryError`].
    pub fn new(
        level: Level,
        members: usize,
        chunk_bytes: u32,
        member_bytes: u64,
        logical_block_bytes: u32,
    ) -> Result<Self, GeometryError> {
        let mirror = level == Level::Raid1;
        let chunk_bytes = if mirror { MIRROR_STRIPE_BYTES } else { chunk_bytes };
        let max = match level.parity() {
            0 => MEMBERS_MAX,
            parity => DATA_COLUMNS_MAX + parity,
        };
        let min = level.members_min();
        if !(min..=max).contains(&members) {
            return Err(GeometryError::Members { level: level.number(), min, max, given: members });
        }
        if !chunk_bytes.is_power_of_two() || !(CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&chunk_bytes) {
            return Err(GeometryError::Chunk(chunk_bytes));
        }
        if ![512, 4096].contains(&logical_block_bytes) {
            return Err(GeometryError::LogicalBlock(logical_block_bytes));
        }
        let grain = u64::from(if mirror { logical_block_bytes } else { chunk_bytes });
        let rounded = member_bytes / grain * grain;
        if rounded == 0 {
            return Err(GeometryError::TooSmall { given_bytes: member_bytes, chunk_bytes });
        }
        let geometry = Self {
            level,
            members,
            chunk_bytes,
            member_bytes: rounded,
            logical_block_bytes,
            data_columns: level.data_columns(members),
            rotates: level.rotates(),
        };
        // Offsets are signed where the kernel takes them.
        match rounded.checked_mul(geometry.data_columns() as u64) {
            Some(bytes) if bytes <= i64::MAX as u64 => Ok(geometry),
            _ => Err(GeometryError::TooLarge { given_bytes: member_bytes, members }),
        }
    }

    /// The level.
    pub fn level(&self) -> Level {
        self.level
    }

    /// How many members the complete array has.
    pub fn members(&self) -> usize {
        self.members
    }

    /// Bytes of one chunk.
    pub fn chunk_bytes(&self) -> usize {
        self.chunk_bytes as usize
    }

    /// Bytes each member gives to the array's stripes.
    pub fn member_bytes(&self) -> u64 {
        self.member_bytes
    }

    /// The array's smallest unit of I/O.
    pub fn logical_block_bytes(&self) -> u32 {
        self.logical_block_bytes
    }

    /// Data columns of a stripe.
    #[inline]
    pub fn data_columns(&self) -> usize {
        self.data_columns
    }

    /// Parity (level 1: further mirror) columns of a stripe.
    pub fn parity_columns(&self) -> usize {
        self.members - self.data_columns()
    }

    /// Whether the redundant columns are computed (levels 4, 5, 6) rather than copied or absent.
    pub fn has_parity(&self) -> bool {
        self.level.has_parity()
    }

    /// Whether all data is there although some members are lost.
    pub fn survives(&self, is_lost: impl Fn(MemberIndex) -> bool) -> bool {
        self.level.spare(self.members, |member| is_lost(MemberIndex(member))).is_some()
    }

    /// How many more members may be lost, whichever they are, if some are lost already.
    pub fn spare(&self, is_lost: impl Fn(MemberIndex) -> bool) -> usize {
        self.level.spare(self.members, |member| is_lost(MemberIndex(member))).unwrap_or(0)
    }

    /// How many members may be lost, whichever they are.
    pub fn tolerance(&self) -> usize {
        self.spare(|_| false)
    }

    /// Whether the members can be split into two sides that both have all the data.
    pub fn may_split(&self) -> bool {
        self.level.may_split(self.members)
    }

    /// The columns that hold the same bytes as this one, itself among them.
    pub fn copies_of(&self, column: usize) -> Range<usize> {
        self.level.copies_of(self.members, column)
    }

    /// The bytes a client sees.
    pub fn capacity_bytes(&self) -> u64 {
        self.member_bytes * self.data_columns() as u64
    }

    /// Bytes of client data in a full stripe.
    pub fn stripe_bytes(&self) -> u64 {
        u64::from(self.chunk_bytes) * self.data_columns() as u64
    }

    /// How many stripes there are; the last of level 1 may be short.
    pub fn stripes(&self) -> u64 {
        self.member_bytes.div_ceil(u64::from(self.chunk_bytes))
    }

    /// Where a stripe's chunk starts on each member, from the start of its data.
    pub fn chunk_start(&self, stripe: StripeIndex) -> u64 {
        stripe.0 * u64::from(self.chunk_bytes)
    }

    /// The bytes of a stripe's chunk that exist: a whole chunk, except at the tail of level 1.
    pub fn chunk_len(&self, stripe: StripeIndex) -> usize {
        (self.member_bytes - self.chunk_start(stripe)).min(u64::from(self.chunk_bytes)) as usize
    }

    /// All rows of a stripe.
    pub fn rows_of(&self, stripe: StripeIndex) -> RowSet {
        RowSet::touching(0..self.chunk_len(stripe))
    }

    /// Where the chunks of some consecutive stripes lie on each member, from the start of its data.
    pub fn member_range(&self, stripes: &Range<u64>) -> Range<u64> {
        let last = StripeIndex(stripes.end - 1);
        self.chunk_start(StripeIndex(stripes.start))..self.chunk_start(last) + self.chunk_len(last) as u64
    }

    /// Sectors of 512 bytes of each member below a stripe.
    pub fn sectors_before(&self, stripe: StripeIndex) -> u64 {
        self.chunk_start(stripe).min(self.member_bytes) / 512
    }

    /// Where in the array a byte of a column lies; for parity, where its stripe starts.
    pub fn array_offset(&self, stripe: StripeIndex, column: usize, in_chunk: usize) -> u64 {
        let in_stripe = match column {
            column if column < self.data_columns() => column * self.chunk_bytes() + in_chunk,
            _ if self.has_parity() => 0,
            _ => in_chunk,
        };
        stripe.0 * self.stripe_bytes() + in_stripe as u64
    }

    /// How many stripes lie wholly in the first `bytes` bytes of a member's data.
    pub fn stripes_in(&self, bytes: u64) -> u64 {
        // The last one of level 1 may be short.
        if bytes >= self.member_bytes { self.stripes() } else { bytes / u64::from(self.chunk_bytes) }
    }

    /// The member that holds a column of a stripe.
    pub fn member_of(&self, stripe: StripeIndex, column: usize) -> MemberIndex {
        debug_assert!(column < self.members);
        let n = self.members;
        if !self.rotates {
            return MemberIndex(column);
        }
        let first_data = self.p_member(stripe) + self.parity_columns();
        // The columns follow one another around the members: data, then P (and Q).
        let place = first_data + column;
        let place = if place >= n { place - n } else { place };
        MemberIndex(if place >= n { place - n } else { place })
    }

    /// The column that a member holds in a stripe.
    pub fn column_of(&self, stripe: StripeIndex, member: MemberIndex) -> usize {
        let first = self.member_of(stripe, 0).0;
        (member.0 + self.members - first) % self.members
    }

    fn p_member(&self, stripe: StripeIndex) -> usize {
        if lives(Mutant::WrongParityRotation) && stripe.0 >= self.members as u64 {
            return (stripe.0 % self.members as u64) as usize;
        }
        self.members - 1 - (stripe.0 % self.members as u64) as usize
    }

    /// Cuts a range of the array's bytes into the parts that lie in one stripe each.
    pub fn split(&self, range_bytes: Range<u64>) -> impl Iterator<Item = StripeSpan> + use<> {
        let stripe_bytes = self.stripe_bytes();
        let mut at = range_bytes.start;
        std::iter::from_fn(move || {
            if at >= range_bytes.end {
                return None;
            }
            let stripe = at / stripe_bytes;
            let end = ((stripe + 1) * stripe_bytes).min(range_bytes.end);
            let start_in_stripe = (at - stripe * stripe_bytes) as usize;
            let span = StripeSpan {
                stripe: StripeIndex(stripe),
                start: start_in_stripe,
                len: (end - at) as usize,
                request_offset: (at - range_bytes.start) as usize,
            };
            at = end;
            Some(span)
        })
    }
}

/// The part of a request that lies in one stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StripeSpan {
    /// The stripe.
    pub stripe: StripeIndex,
    /// Where the part starts in the stripe's data bytes.
    pub start: usize,
    /// Its length in bytes.
    pub len: usize,
    /// Where the part starts in the request's bytes.
    pub request_offset: usize,
}

impl StripeSpan {
    /// The bytes of a data column's chunk that the part covers (perhaps none), and where they start in the
    /// request.
    pub fn in_column(&self, column: usize, chunk_bytes: usize) -> (Range<usize>, usize) {
        let column_start = column * chunk_bytes;
        let from = self.start.clamp(column_start, column_start + chunk_bytes);
        let to = (self.start + self.len).clamp(column_start, column_start + chunk_bytes);
        let range = from - column_start..to - column_start;
        (range, self.request_offset + from.saturating_sub(self.start))
    }

    /// The data columns that the part touches.
    pub fn columns(&self, chunk_bytes: usize) -> Range<usize> {
        self.start / chunk_bytes..(self.start + self.len).div_ceil(chunk_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(level: Level, members: usize) -> Geometry {
        Geometry::new(level, members, 64 << 10, 16 << 20, 512).unwrap()
    }

    /// A mirror that is filled to its end has its short last stripe, too.
    #[test]
    fn a_short_last_stripe_is_in_all_of_the_bytes() {
        let mirror = Geometry::new(Level::Raid1, 2, 0, (128 << 10) + 4096, 512).unwrap();
        assert_eq!(mirror.stripes(), 3);
        let stripes = [0, 65535, 65536, 128 << 10, (128 << 10) + 4095, (128 << 10) + 4096];
        assert_eq!(stripes.map(|bytes| mirror.stripes_in(bytes)), [0, 0, 1, 2, 2, 3]);
        assert_eq!(geometry(Level::Raid5, 5).stripes_in(16 << 20), 256);
    }

    /// md(4)'s left-symmetric table for 4+1: the member of D0..D3 and P in the first five stripes.
    #[test]
    fn raid5_is_left_symmetric() {
        let table = [[0, 1, 2, 3, 4], [4, 0, 1, 2, 3], [3, 4, 0, 1, 2], [2, 3, 4, 0, 1], [1, 2, 3, 4, 0]];
        let g = geometry(Level::Raid5, 5);
        for (stripe, members) in table.iter().enumerate() {
            for (column, member) in members.iter().enumerate() {
                assert_eq!(
                    g.member_of(StripeIndex(stripe as u64), column).0,
                    *member,
                    "stripe {stripe} column {column}"
                );
            }
        }
    }

    /// P and Q of 4+2: Q follows P, data follows Q.
    #[test]
    fn raid6_is_left_symmetric() {
        let table = [[1, 2, 3, 4, 5, 0], [0, 1, 2, 3, 4, 5], [5, 0, 1, 2, 3, 4]];
        let g = geometry(Level::Raid6, 6);
        for (stripe, members) in table.iter().enumerate() {
            let found: Vec<_> = (0..6).map(|c| g.member_of(StripeIndex(stripe as u64), c).0).collect();
            assert_eq!(found, members, "stripe {stripe}");
        }
    }

    #[test]
    fn columns_and_members_are_inverse() {
        for (level, members) in
            [(Level::Raid0, 3), (Level::Raid1, 2), (Level::Raid4, 5), (Level::Raid5, 4), (Level::Raid6, 7)]
        {
            let g = geometry(level, members);
            for stripe in (0..20).map(StripeIndex) {
                for column in 0..members {
                    assert_eq!(g.column_of(stripe, g.member_of(stripe, column)), column);
                }
            }
        }
    }

    #[test]
    fn a_request_is_cut_at_stripes_without_loss() {
        let g = geometry(Level::Raid5, 5);
        let spans: Vec<_> = g.split(200_704..1_000_448).collect();
        assert_eq!(spans.iter().map(|s| s.len as u64).sum::<u64>(), 1_000_448 - 200_704);
        assert_eq!(
            spans[0],
            StripeSpan { stripe: StripeIndex(0), start: 200_704, len: 61_440, request_offset: 0 }
        );
        let (range, at) = spans[1].in_column(1, g.chunk_bytes());
        assert_eq!((range, at), (0..65_536, 61_440 + 65_536));
        let (range, at) = spans[0].in_column(3, g.chunk_bytes());
        assert_eq!((range, at), (4096..65_536, 0));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(matches!(
            Geometry::new(Level::Raid6, 3, 65_536, 1 << 30, 512),
            Err(GeometryError::Members { .. })
        ));
        assert!(matches!(
            Geometry::new(Level::Raid5, 3, 5000, 1 << 30, 512),
            Err(GeometryError::Chunk(5000))
        ));
        assert!(matches!(
            Geometry::new(Level::Raid5, 3, 65_536, 4096, 512),
            Err(GeometryError::TooSmall { .. })
        ));
        assert!(matches!(
            Geometry::new(Level::Raid5, 3, 65_536, 1 << 30, 520),
            Err(GeometryError::LogicalBlock(520))
        ));
        assert!(Geometry::new(Level::Raid6, 257, 65_536, 1 << 30, 512).is_ok());
    }
}
