//! What already lies on a device that is about to become a member: file systems, partition tables, other arrays.
//!
//! Signatures by their magic numbers and places, as libblkid knows them. The aim is to never overwrite something by
//! mistake, so anything known is reported; what it is exactly does not matter.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::FileTypeExt,
    path::Path,
};

/// A magic number at a place.
struct Signature {
    name: &'static str,
    offset: u64,
    magic: &'static [u8],
}

const fn at(offset: u64, magic: &'static [u8], name: &'static str) -> Signature {
    Signature { name, offset, magic }
}

/// Known signatures, by their place from the start.
const SIGNATURES: [Signature; 24] = [
    at(0x438, &[0x53, 0xef], "an ext2/3/4 file system"),
    at(0, b"XFSB", "an XFS file system"),
    at(0x10040, b"_BHRfS_M", "a btrfs file system"),
    at(1024, &[0x10, 0x20, 0xf5, 0xf2], "an F2FS file system"),
    at(4096 + 24, &[0xc6, 0x85, 0x73, 0xf6], "a bcache or bcachefs device"),
    at(0, b"hsqs", "a squashfs image"),
    at(32769, b"CD001", "an ISO 9660 image"),
    at(3, b"NTFS    ", "an NTFS file system"),
    at(3, b"EXFAT   ", "an exFAT file system"),
    at(54, b"FAT1", "a FAT file system"),
    at(82, b"FAT32", "a FAT file system"),
    at(0x10034, b"ReIsEr", "a ReiserFS file system"),
    at(0x8000, b"JFS1", "a JFS file system"),
    at(4086, b"SWAPSPACE2", "swap space"),
    at(4086, b"SWAP-SPACE", "swap space"),
    at(0, b"LUKS\xba\xbe", "a LUKS volume"),
    at(512, b"LABELONE", "an LVM physical volume"),
    at(512, b"EFI PART", "a GPT partition table"),
    at(4096, b"EFI PART", "a GPT partition table"),
    at(510, &[0x55, 0xaa], "an MBR partition table or boot sector"),
    at(4096, &[0xfc, 0x4e, 0x2b, 0xa9], "an md array member (metadata 1.2)"),
    at(0, &[0xfc, 0x4e, 0x2b, 0xa9], "an md array member (metadata 1.1)"),
    at(0x20000, &[0x0c, 0xb1, 0xba, 0], "a ZFS pool member"),
    at(0x400, b"\x1e\x0b\x90\xfe", "a vdo volume"),
];

/// Bytes read from the start: beyond the last signature.
const HEAD_BYTES: usize = 0x21000;

/// What is found on a device or file; empty for a blank one, and for what cannot be a member: opening it as one tells
/// that better, and opening a FIFO here would wait for ever.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn probe(path: &Path) -> io::Result<Vec<&'static str>> {
    let kind = std::fs::metadata(path)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Ok(Vec::new());
    }
    let mut file = File::open(path)?;
    let mut head = Vec::with_capacity(HEAD_BYTES);
    file.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    let mut found: Vec<&'static str> = SIGNATURES
        .iter()
        .filter(|s| head.get(s.offset as usize..).is_some_and(|rest| rest.starts_with(s.magic)))
        .map(|s| s.name)
        .collect();
    if has_old_md_superblock(&mut file)? {
        found.push("an md array member (metadata 0.90)");
    }
    found.dedup();
    Ok(found)
}

/// Metadata 0.90 lies in the last whole 64 KiB.
fn has_old_md_superblock(file: &mut File) -> io::Result<bool> {
    let size = file.seek(SeekFrom::End(0))?;
    let Some(offset) = (size & !0xffff).checked_sub(0x10000) else { return Ok(false) };
    let mut magic = [0; 4];
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut magic)?;
    Ok(magic == [0xfc, 0x4e, 0x2b, 0xa9])
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn signatures_lie_in_what_is_read() {
        assert!(SIGNATURES.iter().all(|s| s.offset as usize + s.magic.len() <= HEAD_BYTES));
    }

    #[test]
    fn a_blank_file_is_blank_and_a_signature_is_found() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        assert_eq!(probe(file.path()).unwrap(), Vec::<&str>::new());
        file.seek(SeekFrom::Start(0x438)).unwrap();
        file.write_all(&[0x53, 0xef]).unwrap();
        assert_eq!(probe(file.path()).unwrap(), ["an ext2/3/4 file system"]);
    }
}
