//! md's bad-block log: sectors of one member that do not hold what they should (`super_1_load`, `super_1_sync`).
//!
//! Entries are 64-bit little-endian words, 54 bits of start and 10 of length, in units of `512 << shift` bytes from
//! the member's first sector (not from its data). A word of all ones ends the log.

use super::superblock::SectorExtent;

const LENGTH_BITS: u32 = 10;
const END: u64 = u64::MAX;

/// The extents of `log`, which is the log's bytes as read; `shift` is the superblock's `bblog_shift`.
///
/// Extents that no member can have (a start beyond 2^63 sectors) are clamped rather than refused: taking too much
/// for bad costs a reconstruction, taking too little gives wrong data. Entries of no length say nothing.
pub fn decode(log: &[u8], shift: u8) -> impl Iterator<Item = SectorExtent> {
    let words = log
        .chunks_exact(8)
        .map(|word| word.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)));
    words.take_while(|word| *word != END).filter_map(move |word| {
        let extent = SectorExtent {
            start_sector: scaled(word >> LENGTH_BITS, shift),
            length_sectors: scaled(word & ((1 << LENGTH_BITS) - 1), shift),
        };
        (extent.length_sectors > 0).then_some(extent)
    })
}

fn scaled(units: u64, shift: u8) -> u64 {
    if units == 0 {
        return 0;
    }
    if u32::from(shift) > units.leading_zeros() { u64::MAX } else { units.unbounded_shl(u32::from(shift)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn log(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn reads_up_to_the_end_mark() {
        let bytes = log(&[2064 << 10 | 8, 5 << 10, 4096 << 10 | 512, END, 1 << 10 | 1]);
        let extents: Vec<_> =
            decode(&bytes, 0).map(|extent| (extent.start_sector, extent.length_sectors)).collect();
        assert_eq!(extents, [(2064, 8), (4096, 512)]);
        let shifted: Vec<_> =
            decode(&bytes, 3).map(|extent| (extent.start_sector, extent.length_sectors)).collect();
        assert_eq!(shifted, [(2064 * 8, 64), (4096 * 8, 4096)]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..600), shift: u8) {
            let sectors = decode(&bytes, shift).count();
            prop_assert!(sectors <= bytes.len() / 8);
        }
    }
}
