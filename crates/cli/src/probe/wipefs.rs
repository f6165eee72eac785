//! What libblkid finds, through `wipefs`.
//!
//! `wipefs` lists every signature, where `blkid` gives up on two that contradict each other. Like `mount`, it
//! is a program of util-linux, so it is there where arrays are used. Nothing is linked or loaded, and the
//! parsers of foreign superblocks run in a separate process. That process gets the open file itself, never a
//! path that may lead elsewhere by then.

use std::{
    fs::File,
    io::{self, Read},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;

/// The child's standard input: a link to the open file.
const OWN_INPUT: &str = "/proc/self/fd/0";

/// How long `wipefs` may take.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// How long `wipefs` may take to die, once killed.
const DEATH_WAIT: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(5);

#[derive(Deserialize)]
struct Listed {
    signatures: Vec<Signature>,
}

#[derive(Deserialize)]
struct Signature {
    #[serde(rename = "type")]
    kind: String,
}

/// What `wipefs` finds. Empty if there is no `wipefs`, or if it knows nothing of what is there. If it does
/// not answer, that counts as contents: they may be precious.
pub(super) fn find(file: &File) -> Vec<String> {
    found(list(file))
}

fn found(listed: io::Result<Vec<String>>) -> Vec<String> {
    match listed {
        Ok(kinds) => kinds.iter().map(|kind| told(kind)).collect(),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => vec![UNTOLD.to_owned()],
        Err(error) => {
            tracing::debug!(%error, "wipefs cannot be asked; our own list of signatures stands alone");
            Vec::new()
        }
    }
}

/// The contents reported if `wipefs` does not answer.
const UNTOLD: &str = "what cannot be told (`wipefs` does not answer)";

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
    // Some versions print nothing at all if nothing is found.
    if output.stdout.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    let listed: Listed = serde_json::from_slice(&output.stdout)?;
    Ok(listed.signatures.into_iter().map(|signature| signature.kind).collect())
}

/// The output of a process that may hang, on the device or on a file of a server that hangs. It is killed
/// then, so that it does not keep the device open.
fn output_within(mut child: Child, limit: Duration) -> io::Result<Output> {
    let deadline = Instant::now() + limit;
    let printed = child.stdout.take();
    let (sender, receiver) = mpsc::channel();
    let read = move || {
        let mut stdout = Vec::new();
        let read = printed.map_or(Ok(0), |mut printed| printed.read_to_end(&mut stdout));
        drop(sender.send(read.map(|_| stdout)));
    };
    let begun = thread::Builder::new().name("stripewise-probe".into()).spawn(read);
    let received = begun.map(|_| receiver.recv_timeout(limit));
    let ended = received.and_then(|received| match received {
        Ok(stdout) => Ok((stdout?, status_until(&mut child, deadline)?)),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    });
    match ended {
        Ok((stdout, status)) => Ok(Output { status, stdout, stderr: Vec::new() }),
        Err(error) => {
            abandon(child);
            Err(error)
        }
    }
}

/// The exit status of a process that has printed everything.
fn status_until(child: &mut Child, deadline: Instant) -> io::Result<ExitStatus> {
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(status),
            None if Instant::now() < deadline => thread::sleep(POLL),
            None => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Kills a process. One that waits for a device may take long to die.
fn abandon(mut child: Child) {
    let _ = child.kill();
    let deadline = Instant::now() + DEATH_WAIT;
    if status_until(&mut child, deadline).is_err() {
        let collected = thread::Builder::new().name("stripewise-linger".into()).spawn(move || child.wait());
        if let Err(error) = collected {
            tracing::debug!(%error, "a process that hangs is not collected");
        }
    }
}

/// libblkid's name in our words, which are those of our own list if both know it.
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

/// An md member without the version, which our own list tells.
pub(super) const MD_MEMBER: &str = "an md array member";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_hangs_is_waited_for_no_longer_than_it_may_and_killed() {
        let run = |program: &str, argument: &str| {
            Command::new(program).arg(argument).stdout(Stdio::piped()).spawn().unwrap()
        };
        let hanging = run("sleep", "1000");
        let process = format!("/proc/{}/cmdline", hanging.id());
        let late = output_within(hanging, Duration::from_millis(50)).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        let deadline = Instant::now() + ANSWER_MAX;
        while std::fs::read(&process).is_ok_and(|line| !line.is_empty()) {
            assert!(Instant::now() < deadline, "it lives");
            thread::sleep(POLL);
        }
        assert_eq!(output_within(run("echo", "x"), ANSWER_MAX).unwrap().stdout, b"x\n");
    }

    #[test]
    fn one_that_does_not_answer_has_not_found_nothing() {
        assert_eq!(found(Err(io::ErrorKind::TimedOut.into())), [UNTOLD]);
        assert_eq!(found(Err(io::ErrorKind::NotFound.into())), [""; 0]);
        assert_eq!(found(Ok(vec!["xfs".into()])), ["an XFS file system"]);
    }
}
