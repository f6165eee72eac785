//! A tree of everything that a file system keeps, copied in, and compared before and after a second mount.

use std::{
    collections::BTreeMap,
    fs::{self, File, FileTimes, Permissions},
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, lchown, symlink},
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use stripewise_testkit::{Need, tool};

use super::common::{Disk, MIB, can_run, pattern};

/// What is compared of an inode.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    links: u64,
    rdev: u64,
    content: Vec<u8>,
    xattr: Option<Vec<u8>>,
}

fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("deep/er/and/deeper")).unwrap();
    for (name, len) in [("empty", 0), ("inline", 100), ("deep/odd", 4097), ("deep/er/large", 3 << 20)] {
        fs::write(root.join(name), pattern(len as u64, len)).unwrap();
    }
    let sparse = File::create(root.join("deep/sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", 5 << 20).unwrap();
    for number in 0..200 {
        let name = root.join(format!("deep/er/and/small{number}"));
        fs::write(&name, pattern(number, number as usize * 37)).unwrap();
        let time = UNIX_EPOCH + Duration::new(1_000_000_000 + number, 123_456_789);
        File::options()
            .write(true)
            .open(&name)
            .unwrap()
            .set_times(FileTimes::new().set_modified(time))
            .unwrap();
    }
    symlink("deep/er/large", root.join("link")).unwrap();
    symlink("x".repeat(1500), root.join("long-link")).unwrap();
    fs::hard_link(root.join("inline"), root.join("deep/same")).unwrap();
    tool("mkfifo", &[root.join("pipe").to_str().unwrap()]);
    tool("mknod", &[root.join("null").to_str().unwrap(), "c", "1", "3"]);
    fs::set_permissions(root.join("inline"), Permissions::from_mode(0o4751)).unwrap();
    fs::set_permissions(root.join("deep"), Permissions::from_mode(0o1777)).unwrap();
    lchown(root.join("deep/odd"), Some(1234), Some(70_000)).unwrap();
}

fn look(root: &Path) -> BTreeMap<String, Seen> {
    let mut all = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let is = fs::symlink_metadata(&path).unwrap();
            let kind = is.file_type();
            let content = if kind.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else if kind.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else if kind.is_file() {
                fs::read(&path).unwrap()
            } else {
                vec![u8::from(kind.is_fifo()), u8::from(kind.is_char_device())]
            };
            let mut value = [0; 100];
            let xattr = rustix::fs::lgetxattr(&path, "user.note", &mut value[..]).ok();
            let seen = Seen {
                mode: is.mode(),
                owner: (is.uid(), is.gid()),
                modified: (is.mtime(), is.mtime_nsec()),
                links: is.nlink(),
                rdev: is.rdev(),
                content,
                xattr: xattr.map(|len| value[..len].to_vec()),
            };
            all.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), seen);
        }
    }
    all
}

#[test]
fn a_tree_is_the_same_after_a_copy_and_after_a_second_mount() {
    if !can_run(&[Need::Tool("cp"), Need::Tool("tar"), Need::Tool("diff"), Need::Tool("mkfifo")]) {
        return;
    }
    let source = tempfile::tempdir().unwrap();
    make_tree(source.path());
    let before = look(source.path());
    let disk = Disk::new(128 * MIB);
    let mounted = disk.mount();
    let (from, root) = (source.path().to_str().unwrap(), mounted.root().to_str().unwrap().to_owned());
    tool("cp", &["-a", from, &format!("{root}/copy")]);
    tool("tar", &["-C", from, "-cf", &format!("{root}/tar"), "."]);
    fs::create_dir(mounted.path("out")).unwrap();
    tool("tar", &["-C", &format!("{root}/out"), "-xpf", &format!("{root}/tar")]);
    tool("diff", &["-r", "--no-dereference", &format!("{root}/copy/deep"), &format!("{root}/out/deep")]);
    let noted = mounted.path("copy/empty");
    rustix::fs::setxattr(&noted, "user.note", b"kept", rustix::fs::XattrFlags::CREATE).unwrap();
    let seen = look(&mounted.path("copy"));
    assert_eq!(seen["empty"].xattr.as_deref(), Some(&b"kept"[..]));
    for (name, is) in &seen {
        let was = &before[name];
        assert_eq!(
            (is.mode, is.owner, is.modified, is.rdev),
            (was.mode, was.owner, was.modified, was.rdev),
            "{name}"
        );
        assert!(is.content == was.content, "{name}");
        assert_eq!(is.links, was.links, "{name}");
    }
    assert_eq!(seen.len(), before.len());
    let unpacked = look(&mounted.path("out"));
    mounted.end();
    let inodes = disk.check();
    // Two trees, in each of which one inode has two names; two folders around them, and the archive; the root.
    assert_eq!(inodes as usize, 2 * (before.len() - 1) + 4);
    for is_read_only in [true, false] {
        let mounted = disk.mount_with(true, is_read_only);
        assert!(look(&mounted.path("copy")) == seen && look(&mounted.path("out")) == unpacked);
        mounted.end();
    }
    disk.check();
}
