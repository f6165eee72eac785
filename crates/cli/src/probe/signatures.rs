//! Our own list of magic numbers and their places. It stands alone where `wipefs` is absent, and it finds
//! what libblkid does not name although it is there.
//!
//! libblkid checks whole superblocks, and misses what is damaged or lies where it does not look. Overwriting
//! that would be as final, so here a magic number is enough.

use std::{
    fs::File,
    io,
    os::unix::fs::{FileExt, FileTypeExt},
};

/// A magic number at a place.
struct Signature {
    name: &'static str,
    offset: u64,
    magic: &'static [u8],
}

/// What a member of an array as this program makes them is called.
pub(crate) const OWN_MEMBER: &str = "an md array member (metadata 1.2)";
/// What a file system of our own is called.
pub(crate) const RAFS: &str = "a RAFS file system";

const fn at(offset: u64, magic: &'static [u8], name: &'static str) -> Signature {
    Signature { name, offset, magic }
}

const MD_MAGIC: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];
const GPT: &str = "a GPT partition table";
const LVM: &str = "an LVM physical volume";
const LUKS: &str = "a LUKS volume";
const SWAP: &str = "swap space";
const UFS: &str = "a UFS file system";
const OCFS2: &str = "an OCFS2 file system";
const MINIX: &str = "a minix file system";
const HFS: &str = "an HFS or HFS+ file system";

/// Known signatures, by their place from the start.
#[rustfmt::skip]
const SIGNATURES: [Signature; 67] = [
    at(0x438, &[0x53, 0xef], "an ext2/3/4 file system"),
    at(0, b"XFSB", "an XFS file system"),
    at(0x10040, b"_BHRfS_M", "a btrfs file system"),
    at(1024, &[0x10, 0x20, 0xf5, 0xf2], "an F2FS file system"),
    at(4096 + 24, &[0xc6, 0x85, 0x73, 0xf6], "a bcache or bcachefs device"),
    at(0, b"hsqs", "a squashfs image"),
    at(1024, &[0xe2, 0xe1, 0xf5, 0xe0], "an EROFS image"),
    at(32769, b"CD001", "an ISO 9660 image"),
    at(3, b"NTFS    ", "an NTFS file system"),
    at(3, b"EXFAT   ", "an exFAT file system"),
    at(3, b"-FVE-FS-", "a BitLocker volume"),
    at(3, b"ReFS\0\0\0\0", "a ReFS file system"),
    at(32, b"NXSB", "an APFS container"),
    at(54, b"FAT1", "a FAT file system"),
    at(82, b"FAT32", "a FAT file system"),
    at(1024, b"H+\0\x04", HFS),
    at(1024, b"HX\0\x05", HFS),
    at(1024, b"BD", HFS),
    at(0x10034, b"ReIsEr", "a ReiserFS file system"),
    at(0x8000, b"JFS1", "a JFS file system"),
    at(0x10000, &[0x01, 0x16, 0x19, 0x70], "a GFS2 file system"),
    at(0x406, &[0x34, 0x34], "a NILFS2 file system"),
    at(1024, b"OCFSV2", OCFS2),
    at(2048, b"OCFSV2", OCFS2),
    at(4096, b"OCFSV2", OCFS2),
    at(8192, b"OCFSV2", OCFS2),
    at(0x10_0000, &[0x0d, 0xd0, 0x01, 0xc0], "a VMFS volume member"),
    at(0x20_0000, &[0x5e, 0xf1, 0xab, 0x2f], "a VMFS file system"),
    at(1372, &[0x54, 0x19, 0x01, 0x00], UFS),
    at(8192 + 1372, &[0x54, 0x19, 0x01, 0x00], UFS),
    at(8192 + 1372, &[0x19, 0x01, 0x54, 0x19], UFS),
    at(65536 + 1372, &[0x19, 0x01, 0x54, 0x19], UFS),
    at(0x410, &[0x7f, 0x13], MINIX),
    at(0x410, &[0x8f, 0x13], MINIX),
    at(0x410, &[0x68, 0x24], MINIX),
    at(0x410, &[0x78, 0x24], MINIX),
    at(0x418, &[0x5a, 0x4d], MINIX),
    at(0, b"LUKS\xba\xbe", LUKS),
    // The second header of LUKS2, at every place where the first may end.
    at(0x4000, b"SKUL\xba\xbe", LUKS),
    at(0x8000, b"SKUL\xba\xbe", LUKS),
    at(0x1_0000, b"SKUL\xba\xbe", LUKS),
    at(0x2_0000, b"SKUL\xba\xbe", LUKS),
    at(0x4_0000, b"SKUL\xba\xbe", LUKS),
    at(0x8_0000, b"SKUL\xba\xbe", LUKS),
    at(0x10_0000, b"SKUL\xba\xbe", LUKS),
    at(0x20_0000, b"SKUL\xba\xbe", LUKS),
    at(0x40_0000, b"SKUL\xba\xbe", LUKS),
    // LVM2 takes a label in any of the first four sectors.
    at(0, b"LABELONE", LVM),
    at(512, b"LABELONE", LVM),
    at(1024, b"LABELONE", LVM),
    at(1536, b"LABELONE", LVM),
    at(512, b"EFI PART", GPT),
    at(4096, b"EFI PART", GPT),
    at(510, &[0x55, 0xaa], "an MBR partition table or boot sector"),
    at(0, b"RAFSsupr", RAFS),
    at(4096, &MD_MAGIC, OWN_MEMBER),
    at(0, &MD_MAGIC, "an md array member (metadata 1.1)"),
    at(0x20000, &[0x0c, 0xb1, 0xba, 0], "a ZFS pool member"),
    at(0x400, b"\x1e\x0b\x90\xfe", "a vdo volume"),
    at(0, b"bluestore block device", "a Ceph BlueStore device"),
    // Swap space has its magic at the end of its first page, whose size depends on the machine that made it.
    at(0x1000 - 10, b"SWAPSPACE2", SWAP),
    at(0x1000 - 10, b"SWAP-SPACE", SWAP),
    at(0x2000 - 10, b"SWAPSPACE2", SWAP),
    at(0x4000 - 10, b"SWAPSPACE2", SWAP),
    at(0x8000 - 10, b"SWAPSPACE2", SWAP),
    at(0x1_0000 - 10, b"SWAPSPACE2", SWAP),
    at(0x10_0000 - 10, b"SWAPSPACE2", SWAP),
];

/// The longest magic number.
const MAGIC_BYTES_MAX: usize = 24;

/// Signatures by their distance from the end of a device: metadata of disk sets, and backups of tables.
const ENDINGS: [(u64, &[u8], &str); 8] = [
    (512, b"EFI PART", GPT),
    (4096, b"EFI PART", GPT),
    (1024, b"Intel Raid ISM Cfg Sig. ", "an Intel RAID (IMSM) member"),
    (512, &[0xde, 0x11, 0xde, 0x11], "a DDF RAID member"),
    (257 * 512, &[0xde, 0x11, 0xde, 0x11], "a DDF RAID member"),
    (4096 - 60, &[0x83, 0x74, 0x02, 0x67], "a DRBD device"),
    (4096 - 60, &[0x83, 0x74, 0x02, 0x6b], "a DRBD device"),
    (4096 - 60, &[0x83, 0x74, 0x02, 0x6d], "a DRBD device"),
];

/// The signatures found in a device or file of this size.
pub(super) fn find(file: &File, size_bytes: u64) -> io::Result<Vec<&'static str>> {
    let mut found = Vec::new();
    let mut add = |name| {
        if !found.contains(&name) {
            found.push(name);
        }
    };
    for signature in &SIGNATURES {
        if is_there(file, size_bytes, signature.offset, signature.magic)? {
            add(signature.name);
        }
    }
    for (from_end, magic, name) in ENDINGS {
        if let Some(offset) = size_bytes.checked_sub(from_end)
            && is_there(file, size_bytes, offset, magic)?
        {
            add(name);
        }
    }
    for (offset, name) in md_ends(size_bytes) {
        if is_there(file, size_bytes, offset, &MD_MAGIC)? {
            add(name);
        }
    }
    Ok(found)
}

/// Where md's superblocks at the end of a device lie: 1.0 at 8 KiB before the end, rounded down to 4 KiB;
/// 0.90 in the last whole 64 KiB.
fn md_ends(size_bytes: u64) -> impl Iterator<Item = (u64, &'static str)> {
    let v1 = size_bytes.checked_sub(8192).map(|offset| (offset & !4095, "an md array member (metadata 1.0)"));
    let v0 = (size_bytes & !0xffff).checked_sub(0x10000);
    v1.into_iter().chain(v0.map(|offset| (offset, "an md array member (metadata 0.90)")))
}

fn is_there(file: &File, size_bytes: u64, offset: u64, magic: &[u8]) -> io::Result<bool> {
    let mut bytes = [0; MAGIC_BYTES_MAX];
    let bytes = &mut bytes[..magic.len()];
    if offset.checked_add(magic.len() as u64).is_none_or(|end| end > size_bytes) {
        return Ok(false);
    }
    file.read_exact_at(bytes, offset)?;
    Ok(bytes == magic)
}

/// The size of a device or file.
pub(super) fn size_of(file: &File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    match metadata.file_type().is_block_device() {
        true => Ok(rustix::fs::seek(file, rustix::fs::SeekFrom::End(0))?),
        false => Ok(metadata.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blank(size_bytes: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size_bytes).unwrap();
        file
    }

    #[test]
    fn every_signature_is_found_where_it_lies_and_nothing_in_a_blank_file() {
        const SIZE: u64 = 8 << 20;
        assert_eq!(find(&blank(SIZE), SIZE).unwrap(), [""; 0]);
        let ends = ENDINGS.iter().map(|(from_end, magic, name)| (SIZE - from_end, *magic, *name));
        let md = md_ends(SIZE).map(|(offset, name)| (offset, &MD_MAGIC[..], name));
        for (offset, magic, name) in
            SIGNATURES.iter().map(|s| (s.offset, s.magic, s.name)).chain(ends).chain(md)
        {
            assert!(magic.len() <= MAGIC_BYTES_MAX, "{name}");
            let file = blank(SIZE);
            file.write_all_at(magic, offset).unwrap();
            assert!(find(&file, SIZE).unwrap().contains(&name), "{name} at {offset:#x}");
        }
    }

    #[test]
    fn what_is_shorter_than_a_place_is_looked_at_as_far_as_it_goes() {
        for size in [0, 1, 511, 512, 4096, 8192, 65_535, 65_536] {
            assert_eq!(find(&blank(size), size).unwrap(), [""; 0], "{size}");
        }
    }
}
