//! What the commands refuse, with words that help; and damage, which fsck tells of.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
};

use super::common::{MIB, Sandbox};

const NONE: [&str; 0] = [];

#[test]
fn mkfs_overwrites_nothing_by_mistake() {
    let sandbox = Sandbox::new();
    let (blank, target) = (sandbox.member("blank", 32 * MIB), sandbox.member("ext", 32 * MIB));
    File::options().write(true).open(&target).unwrap().write_all_at(&[0x53, 0xef], 0x438).unwrap();
    sandbox.fails(1, &format!("mkfs {target}"), &NONE, &["ext2/3/4", "--force"]);
    sandbox.done(&format!("mkfs {target} --force"));
    sandbox.fails(1, &format!("mkfs {target}"), &NONE, &["a RAFS file system", "--force"]);
    sandbox.fails(1, &format!("examine {target}"), &NONE, &["a RAFS file system"]);
    sandbox.fails(1, &format!("mkfs {blank} --size 1G"), &NONE, &["leave out --size"]);
    let absent = sandbox.path("absent");
    sandbox.fails(1, &format!("mkfs {absent}"), &NONE, &["--size makes a file"]);
    sandbox.fails(1, &format!("mkfs {absent} --size 1M"), &NONE, &["needs at least"]);
    assert!(!fs::exists(&absent).unwrap(), "the file goes if nothing is made in it");
    sandbox.fails(1, &format!("mkfs {blank} --geometry 4x64M"), &NONE, &["give another --geometry"]);
    sandbox.fails(2, &format!("mkfs {blank} --geometry 4x1000"), &NONE, &["no multiple of 4K"]);
    let hint = "mount it with --buffer 128M";
    let said = sandbox.run(&format!("mkfs {absent} --size 2G --geometry 4x8M"), &NONE);
    assert!(said.code == Some(0) && said.err.contains(hint), "{said:?}");
    sandbox.done(&format!("df {absent}"));
}

#[test]
fn what_is_no_file_system_is_not_mounted_and_damage_is_told() {
    let sandbox = Sandbox::new();
    let (blank, target) = (sandbox.member("blank", 32 * MIB), sandbox.member("disk", 32 * MIB));
    fs::create_dir(sandbox.path("mnt")).unwrap();
    let point = sandbox.path("mnt");
    sandbox.fails(1, &format!("mount {blank} {point}"), &NONE, &["no RAFS file system"]);
    sandbox.fails(1, &format!("mount {blank} {point}/none"), &NONE, &["No such file"]);
    sandbox.fails(1, &format!("mount {blank} {point} -o ro,odd"), &NONE, &["-o odd", "known are"]);
    sandbox.fails(1, &format!("umount {point}"), &NONE, &["no RAFS file system is mounted there"]);
    sandbox.fails(
        8,
        &format!("fsck {blank}"),
        &NONE,
        &["no RAFS file system (its first block is no superblock)"],
    );
    sandbox.fails(16, "fsck", &NONE, &["TARGET"]);
    sandbox.fails(16, "fsck --odd", &[&target], &["--odd"]);
    sandbox.done(&format!("mkfs {target}"));
    sandbox.fails(1, &format!("mount {target} {point} --buffer 16K"), &NONE, &["buffer"]);
    assert_eq!(sandbox.run(&format!("fsck -n {target}"), &NONE).code, Some(0));
    // The first copy of the superblock: the others do, and it is made again.
    File::options().write(true).open(&target).unwrap().write_all_at(&[0xff; 4096], 0).unwrap();
    assert_eq!(sandbox.run(&format!("fsck {target}"), &NONE).code, Some(4));
    assert_eq!(sandbox.run(&format!("fsck -y {target}"), &NONE).code, Some(1));
    assert_eq!(sandbox.run(&format!("fsck {target}"), &NONE).code, Some(0));
    sandbox.fails(16, &format!("fsck -n -y {target}"), &NONE, &["-n", "-y"]);
    // The tree's only node.
    let mut bytes = fs::read(&target).unwrap();
    let nodes: Vec<_> =
        (0..bytes.len()).step_by(4096).filter(|at| bytes[*at..].starts_with(b"RAFSnode")).collect();
    assert!(!nodes.is_empty());
    for node in nodes {
        bytes[node + 100] ^= 1;
    }
    fs::write(&target, &bytes).unwrap();
    let said = sandbox.run(&format!("fsck {target}"), &NONE);
    assert_eq!(said.code, Some(4), "{said:?}");
    // Nobody is asked where nobody is, and nothing changes without -y.
    assert!(fs::read(&target).unwrap() == bytes);
    assert_eq!(sandbox.run(&format!("fsck -p {target}"), &NONE).code, Some(1));
    assert_eq!(sandbox.run(&format!("fsck -a {target}"), &NONE).code, Some(0));
}
