//! What libblkid finds, through `wipefs`.
//!
//! `wipefs` lists every signature where `blkid` gives up on two that contradict each other. It is a program of util-linux, as
//! `mount` is, so it is there where arrays are used; nothing is linked or loaded, and the parsers of foreign superblocks run in
//! a process of their own. It is given the open file itself, never a path that may lead elsewhere by then.

use std::{
    fs::File,
    io,
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use serde::Deserialize;

/// The child's standard input: a link to the open file.
const OWN_INPUT: &str = "/proc/self/fd/0";

/// How long it may take.
const ANSWER_MAX: Duration = Duration::from_secs(20);

#[derive(Deserialize)]
struct Listed {
    signatures: Vec<Signature>,
}

#[derive(Deserialize)]
struct Signature {
    #[serde(rename = "type")]
    kind: String,
}

/// What is found; nothing where there is no `wipefs`, or it does not know either.
pub(super) fn find(file: &File) -> Vec<String> {
    match list(file) {
        Ok(kinds) => kinds.iter().map(|kind| told(kind)).collect(),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            tracing::warn!("wipefs does not answer; our own list of signatures stands alone");
            Vec::new()
        }
        Err(error) => {
            tracing::debug!(%error, "wipefs cannot be asked; our own list of signatures stands alone");
            Vec::new()
        }
    }
}

fn list(file: &File) -> io::Result<Vec<String>> {
    let child = Command::new("wipefs")
        .args(["--no-act", "--json", "--output", "TYPE", OWN_INPUT])
        .stdin(Stdio::from(file.try_clone()?))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let output = output_within(child, ANSWER_MAX)?;
    if !output.status.success() {
        return Err(io::Error::other(output.status.to_string()));
    }
    // Some versions print nothing at all where nothing is found.
    if output.stdout.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    let listed: Listed = serde_json::from_slice(&output.stdout)?;
    Ok(listed.signatures.into_iter().map(|signature| signature.kind).collect())
}

/// What a process prints, which may hang: on the device, or on a file of a server that hangs.
fn output_within(child: Child, limit: Duration) -> io::Result<Output> {
    let (sender, receiver) = mpsc::channel();
    let wait = move || drop(sender.send(child.wait_with_output()));
    thread::Builder::new().name("stripewise-probe".into()).spawn(wait)?;
    receiver.recv_timeout(limit).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// libblkid's name in our words, which are those of our own list where both know it.
fn told(kind: &str) -> String {
    let known = match kind {
        "ext2" | "ext3" | "ext4" | "ext4dev" | "jbd" => "an ext2/3/4 file system",
        "xfs" => "an XFS file system",
        "btrfs" => "a btrfs file system",
        "f2fs" => "an F2FS file system",
        "bcache" | "bcachefs" => "a bcache or bcachefs device",
        "squashfs" => "a squashfs image",
        "erofs" => "an EROFS image",
        "iso9660" => "an ISO 9660 image",
        "ntfs" => "an NTFS file system",
        "exfat" => "an exFAT file system",
        "vfat" => "a FAT file system",
        "BitLocker" => "a BitLocker volume",
        "ReFS" => "a ReFS file system",
        "apfs" => "an APFS container",
        "hfs" | "hfsplus" => "an HFS or HFS+ file system",
        "reiserfs" => "a ReiserFS file system",
        "jfs" => "a JFS file system",
        "gfs2" => "a GFS2 file system",
        "nilfs2" => "a NILFS2 file system",
        "ocfs2" => "an OCFS2 file system",
        "VMFS" => "a VMFS file system",
        "VMFS_volume_member" => "a VMFS volume member",
        "ufs" => "a UFS file system",
        "minix" => "a minix file system",
        "crypto_LUKS" => "a LUKS volume",
        "LVM2_member" => "an LVM physical volume",
        "zfs_member" => "a ZFS pool member",
        "vdo" => "a vdo volume",
        "ceph_bluestore" => "a Ceph BlueStore device",
        "swap" => "swap space",
        "gpt" => "a GPT partition table",
        "dos" | "PMBR" => "an MBR partition table or boot sector",
        "isw_raid_member" => "an Intel RAID (IMSM) member",
        "ddf_raid_member" => "a DDF RAID member",
        "drbd" => "a DRBD device",
        "linux_raid_member" => MD_MEMBER,
        other => return format!("{} (as libblkid names it)", other.escape_default()),
    };
    known.to_owned()
}

/// Our own list tells the version.
pub(super) const MD_MEMBER: &str = "an md array member";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_hangs_is_waited_for_no_longer_than_it_may() {
        let run = |program: &str, argument: &str| {
            Command::new(program).arg(argument).stdout(Stdio::piped()).spawn().unwrap()
        };
        let late = output_within(run("sleep", "20"), Duration::from_millis(50)).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        assert_eq!(output_within(run("echo", "x"), ANSWER_MAX).unwrap().stdout, b"x\n");
    }
}
