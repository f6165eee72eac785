//! What the tests against the real kernel md and mdadm share: scratch files, and the guest that runs scripts.

// Not every test binary uses all of it.
#![allow(dead_code)]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use stripewise_format::md::{SUPERBLOCK_SECTOR, Superblock};
use stripewise_format::media::{BLOCK_LEN, Block, SECTOR_BYTES};
use stripewise_testkit::{Need, can_run, guest};

/// A folder of member files that goes away with the test.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// A new one, named for the test.
    pub(crate) fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("stripewise-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A sparse file of this size.
    pub(crate) fn member(&self, name: &str, bytes: u64) -> PathBuf {
        let path = self.0.join(name);
        File::create(&path).unwrap().set_len(bytes).unwrap();
        path
    }

    /// A file with these contents.
    pub(crate) fn file(&self, name: &str, contents: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        File::create(&path).unwrap().write_all(contents).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The bytes of a member from there.
pub(crate) fn read_at(member: &Path, offset_bytes: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    File::open(member).unwrap().read_exact_at(&mut bytes, offset_bytes).unwrap();
    bytes
}

/// Writes into a member.
pub(crate) fn write_at(member: &Path, offset_bytes: u64, bytes: &[u8]) {
    OpenOptions::new().write(true).open(member).unwrap().write_all_at(bytes, offset_bytes).unwrap();
}

/// The block a member's superblock lies in.
pub(crate) fn superblock_block(member: &Path) -> Block {
    read_at(member, SUPERBLOCK_SECTOR * SECTOR_BYTES, BLOCK_LEN).try_into().unwrap()
}

/// A member's superblock; a test must not go on without.
pub(crate) fn superblock(member: &Path) -> Superblock {
    Superblock::decode(&superblock_block(member), SUPERBLOCK_SECTOR).unwrap()
}

/// Whether the guest can run here; if not, the test is recorded as skipped.
#[track_caller]
pub(crate) fn guest_is_here() -> bool {
    can_run(&[Need::Guest])
}

/// Runs `script` under a real kernel over these members; what it printed. Fails the test if the script does.
pub(crate) fn guest(scratch: &Scratch, members: &[PathBuf], script: &str) -> String {
    let script = scratch.file("script", format!("set -e\n{script}").as_bytes());
    let job = guest::Job { members: members.to_vec(), ..guest::Job::default() };
    let said = guest::run(&job, &script, Duration::from_secs(300));
    assert_eq!(said.code, Some(0), "{}\n{}", said.out, said.err);
    said.out
}

/// What mdadm says of a member file.
pub(crate) fn examine(member: &Path) -> String {
    let output = Command::new("/usr/sbin/mdadm").arg("--examine").arg(member).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The value after `field : ` in mdadm's output.
pub(crate) fn field<'a>(report: &'a str, field: &str) -> &'a str {
    let line = report.lines().find(|line| line.trim_start().starts_with(&format!("{field} : ")));
    line.and_then(|line| line.split_once(" : ")).unwrap_or_else(|| panic!("no {field} in\n{report}")).1.trim()
}

/// Bytes that differ everywhere: a multiplicative sequence of 64-bit words.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (1_u64..).flat_map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).take(length).collect()
}
