//! CRC-32C (Castagnoli, as iSCSI and ext4 use it): the check on everything Stripewise itself writes.
//! md's own superblock has an additive checksum instead; see [`crate::md`].

use std::ops::Range;

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(bytes);
    value(&digest)
}

/// CRC-32C of `bytes` with the four bytes from `hole` taken as zero: the place where the value itself is
/// stored.
///
/// A hole that does not lie within `bytes` is ignored: all bytes are summed.
#[must_use]
pub fn crc32c_with_hole(bytes: &[u8], hole: usize) -> u32 {
    crc32c_with_hole_of(bytes, hole, &[] as &[&[u8]])
}

/// As [`crc32c_with_hole`], of `bytes` and then of `more`.
#[must_use]
pub fn crc32c_with_hole_of(bytes: &[u8], hole: usize, more: &[impl AsRef<[u8]>]) -> u32 {
    let Range { start, end } = hole..hole.saturating_add(4);
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    match (bytes.get(..start), bytes.get(end..)) {
        (Some(before), Some(after)) => {
            digest.update(before);
            digest.update(&[0; 4]);
            digest.update(after);
        }
        _ => digest.update(bytes),
    }
    more.iter().for_each(|part| digest.update(part.as_ref()));
    value(&digest)
}

/// A CRC for what lies in the data of an array. Parity that does not fit what lies beside it makes a block out of several versions of one: the
/// XOR of three that are valid, say. The CRC of that is the XOR of theirs, so that it would be valid, too. It is not once each is mixed
/// in a manner that XOR does not preserve. Distinct CRCs stay distinct (the last step of MurmurHash3).
#[must_use]
pub fn mixed(crc: u32) -> u32 {
    let mut mixed = crc ^ crc >> 16;
    mixed = mixed.wrapping_mul(0x85eb_ca6b);
    mixed ^= mixed >> 13;
    mixed = mixed.wrapping_mul(0xc2b2_ae35);
    mixed ^ mixed >> 16
}

fn value(digest: &Digest) -> u32 {
    // A 32-bit algorithm's value always fits; the library returns u64 for all of its algorithms.
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_vectors() {
        // RFC 3720 B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn what_xor_makes_of_valid_sums_is_none() {
        let versions = [b"version 1", b"version 2", b"version 7"];
        let xor: Vec<u8> = (0..9).map(|at| versions.iter().fold(0, |all, bytes| all ^ bytes[at])).collect();
        let sums = versions.map(|bytes| crc32c(bytes));
        assert_eq!(crc32c(&xor), sums[0] ^ sums[1] ^ sums[2], "a CRC alone does not tell");
        let [one, two, three] = sums.map(mixed);
        assert_ne!(mixed(crc32c(&xor)), one ^ two ^ three);
        assert_eq!((mixed(0), mixed(1)), (0, 0x514e_28b7));
    }

    #[test]
    fn hole_reads_as_zero() {
        let mut bytes: Vec<u8> = (0..=255).collect();
        let with_hole = crc32c_with_hole(&bytes, 16);
        bytes[16..20].fill(0);
        assert_eq!(with_hole, crc32c(&bytes));
        assert_eq!(with_hole, crc32c_with_hole_of(&bytes[..100], 16, &[&bytes[100..101], &bytes[101..]]));
        assert_eq!(crc32c_with_hole(&bytes, 254), crc32c(&bytes));
        assert_eq!(crc32c_with_hole(&bytes, usize::MAX), crc32c(&bytes));
    }
}
