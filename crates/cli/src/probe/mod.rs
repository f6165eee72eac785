//! What already lies on a device that is about to become a member: file systems, partition tables, other
//! arrays.
//!
//! The aim is never to overwrite something by mistake, so anything known is reported; what exactly it is does
//! not matter. libblkid knows most ([`wipefs`]); our own list ([`signatures`]) knows what libblkid misses.
//! Both look at an open file, so what they find is on the very file that is written later, whatever has
//! become of its path.

mod signatures;
mod wipefs;

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::FileTypeExt,
    },
    path::Path,
};

pub(crate) use signatures::{OWN_MEMBER, RAFS};

/// What is found on an open device or file; empty for a blank one.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn probe(file: &File) -> io::Result<Vec<String>> {
    let size_bytes = signatures::size_of(file)?;
    let own = signatures::find(file, size_bytes)?;
    let mut found: Vec<String> = own.into_iter().map(str::to_owned).collect();
    for name in wipefs::find(file) {
        if !found.contains(&name) {
            found.push(name);
        }
    }
    let is_versioned = |name: &String| name.starts_with(wipefs::MD_MEMBER) && name != wipefs::MD_MEMBER;
    if found.iter().any(is_versioned) {
        found.retain(|name| name != wipefs::MD_MEMBER);
    }
    Ok(found)
}

/// What is found on a file that is open in another way, such as for direct I/O.
///
/// # Errors
/// As [`probe`].
pub(crate) fn probe_opened(opened: impl AsFd) -> io::Result<Vec<String>> {
    // The link leads to the open file itself, not to what its path leads to now.
    probe(&File::open(format!("/proc/self/fd/{}", opened.as_fd().as_raw_fd()))?)
}

/// Opens what could be a member, to look at it. Returns None for what cannot be one: opening it as a member
/// gives a better error, and opening a FIFO here would wait for ever.
///
/// # Errors
/// When it cannot be opened.
pub(crate) fn open_to_look(path: &Path) -> io::Result<Option<File>> {
    let kind = std::fs::metadata(path)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Ok(None);
    }
    File::open(path).map(Some)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_blank_file_is_blank_and_what_both_know_is_told_once() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        assert_eq!(probe(&file).unwrap(), [""; 0]);
        file.write_all_at(b"hsqs", 0).unwrap();
        file.write_all_at(&[4, 0], 28).unwrap();
        assert_eq!(probe(&file).unwrap(), ["a squashfs image"]);
    }

    #[test]
    fn the_open_file_is_looked_at_and_not_what_has_taken_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let file = File::create_new(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(b"XFSB", 0).unwrap();
        std::fs::rename(&path, folder.path().join("away")).unwrap();
        File::create_new(&path).unwrap().set_len(1 << 20).unwrap();
        assert_eq!(probe_opened(&file).unwrap(), ["an XFS file system"]);
    }
}
