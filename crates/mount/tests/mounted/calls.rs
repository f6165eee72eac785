//! System calls that programs rarely make, and their errors.

use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    os::unix::{
        fs::{FileExt, MetadataExt},
        io::AsRawFd,
    },
    process::Command,
};

use rustix::{
    fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags, XattrFlags},
    io::Errno,
};
use stripewise_mount::report::{ATTRIBUTE, Report};
use stripewise_testkit::Need;

use super::common::{Disk, MIB, can_run, pattern};

#[test]
fn names_that_cannot_be_are_refused() {
    if !can_run(&[]) {
        return;
    }
    let disk = Disk::new(32 * MIB);
    let mounted = disk.mount();
    let code = |error: std::io::Error| Errno::from_io_error(&error).unwrap();
    let longest = mounted.path(&"n".repeat(255));
    fs::write(&longest, "x").unwrap();
    let too_long = mounted.path(&"n".repeat(256));
    assert_eq!(code(fs::write(&too_long, "x").unwrap_err()), Errno::NAMETOOLONG);
    assert_eq!(code(fs::metadata(&too_long).unwrap_err()), Errno::NAMETOOLONG);
    fs::create_dir(mounted.path("folder")).unwrap();
    assert_eq!(code(fs::rename(&longest, &too_long).unwrap_err()), Errno::NAMETOOLONG);
    assert_eq!(code(fs::create_dir(mounted.path("folder")).unwrap_err()), Errno::EXIST);
    assert_eq!(
        code(fs::rename(mounted.path("folder"), mounted.path("folder/in")).unwrap_err()),
        Errno::INVAL
    );
    fs::write(mounted.path("folder/file"), "x").unwrap();
    assert_eq!(code(fs::remove_dir(mounted.path("folder")).unwrap_err()), Errno::NOTEMPTY);
    assert_eq!(code(fs::read_dir(longest).unwrap_err()), Errno::NOTDIR);
    mounted.end();
    assert_eq!(disk.check(), 4);
}

#[test]
fn renames_may_exchange_and_may_refuse_to_replace() {
    if !can_run(&[]) {
        return;
    }
    let disk = Disk::new(32 * MIB);
    let mounted = disk.mount();
    let (one, other) = (mounted.path("one"), mounted.path("other"));
    fs::write(&one, "1").unwrap();
    fs::create_dir(&other).unwrap();
    let rename = |flags| rustix::fs::renameat_with(CWD, &one, CWD, &other, flags);
    assert_eq!(rename(RenameFlags::NOREPLACE), Err(Errno::EXIST));
    rename(RenameFlags::EXCHANGE).unwrap();
    assert!(one.is_dir() && fs::read(&other).unwrap() == b"1");
    let whiteout = rustix::fs::renameat_with(CWD, &other, CWD, mounted.path("new"), RenameFlags::WHITEOUT);
    assert_eq!(whiteout, Err(Errno::INVAL));
    fs::remove_dir(&one).unwrap();
    fs::write(&one, "new").unwrap();
    fs::rename(&one, &other).unwrap();
    assert_eq!(fs::read(&other).unwrap(), b"new");
    mounted.end();
    assert_eq!(disk.check(), 2);
}

#[test]
fn a_file_without_a_name_lives_as_long_as_it_is_open_or_gets_one() {
    if !can_run(&[]) {
        return;
    }
    let disk = Disk::new(64 * MIB);
    let mounted = disk.mount();
    let content = pattern(1, 300_000);
    let mut open =
        OpenOptions::new().read(true).write(true).create_new(true).open(mounted.path("f")).unwrap();
    open.write_all(&content).unwrap();
    fs::remove_file(mounted.path("f")).unwrap();
    open.write_all(b"more").unwrap();
    open.sync_all().unwrap();
    let mut read = Vec::new();
    open.seek(SeekFrom::Start(0)).unwrap();
    open.read_to_end(&mut read).unwrap();
    assert!(read[..content.len()] == content && &read[content.len()..] == b"more");
    assert_eq!(open.metadata().unwrap().nlink(), 0);
    drop(open);
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    let mut unnamed: File =
        rustix::fs::open(mounted.root(), flags, Mode::from_raw_mode(0o600)).unwrap().into();
    unnamed.write_all(b"named later").unwrap();
    let link = format!("/proc/self/fd/{}", unnamed.as_raw_fd());
    rustix::fs::linkat(CWD, &*link, CWD, mounted.path("named"), AtFlags::SYMLINK_FOLLOW).unwrap();
    drop(unnamed);
    assert_eq!(fs::read(mounted.path("named")).unwrap(), b"named later");
    mounted.end();
    let mounted = disk.mount();
    assert_eq!(fs::read_dir(mounted.root()).unwrap().count(), 1);
    mounted.end();
    assert_eq!(disk.check(), 2);
}

#[test]
fn bytes_are_appended_cut_zeroed_and_looked_for() {
    if !can_run(&[]) {
        return;
    }
    let disk = Disk::new(64 * MIB);
    let mounted = disk.mount();
    let path = mounted.path("f");
    let mut model = pattern(3, 500_000);
    fs::write(&path, &model).unwrap();
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"end").unwrap();
    model.extend_from_slice(b"end");
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let zero = |from: usize, len: usize, flags| rustix::fs::fallocate(&file, flags, from as u64, len as u64);
    zero(5_000, 100_000, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE).unwrap();
    model[5_000..105_000].fill(0);
    zero(200_000, 10, FallocateFlags::ZERO_RANGE).unwrap();
    model[200_000..200_010].fill(0);
    zero(499_000, 1 << 20, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE).unwrap();
    model[499_000..].fill(0);
    for refused in [FallocateFlags::empty(), FallocateFlags::COLLAPSE_RANGE, FallocateFlags::KEEP_SIZE] {
        assert_eq!(zero(0, 4096, refused), Err(Errno::OPNOTSUPP), "{refused:?}");
    }
    file.set_len(450_001).unwrap();
    file.set_len(460_000).unwrap();
    model.truncate(450_001);
    model.resize(460_000, 0);
    file.write_all_at(b"in the middle", 250_001).unwrap();
    model[250_001..250_014].copy_from_slice(b"in the middle");
    assert!(fs::read(&path).unwrap() == model);
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(10)), Ok(10));
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(10)), Ok(460_000));
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(460_000)), Err(Errno::NXIO));
    drop(file);
    assert!(fs::metadata(&path).unwrap().created().is_ok(), "statx tells the time of birth");
    let short = mounted.path("short");
    fs::write(&short, &model).unwrap();
    fs::write(&short, "new").unwrap();
    mounted.end();
    disk.check();
    let mounted = disk.mount();
    assert!(fs::read(&path).unwrap() == model && fs::read(&short).unwrap() == b"new");
    mounted.end();
}

#[test]
fn attributes_are_set_as_they_may_be_and_acls_are_refused() {
    if !can_run(&[]) {
        return;
    }
    let disk = Disk::new(32 * MIB);
    let mounted = disk.mount();
    let path = mounted.path("f");
    fs::write(&path, "").unwrap();
    let set = |name: &str, value: &[u8], flags| rustix::fs::setxattr(&path, name, value, flags);
    set("user.a", b"1", XattrFlags::CREATE).unwrap();
    assert_eq!(set("user.a", b"2", XattrFlags::CREATE), Err(Errno::EXIST));
    assert_eq!(set("user.b", b"2", XattrFlags::REPLACE), Err(Errno::NODATA));
    set("trusted.b", &[7; 1000], XattrFlags::empty()).unwrap();
    assert_eq!(set("user.long", &[7; 60_000], XattrFlags::empty()), Err(Errno::TOOBIG));
    assert_eq!(set("system.posix_acl_access", &[2, 0, 0, 0], XattrFlags::empty()), Err(Errno::OPNOTSUPP));
    let mut small = [0_u8; 3];
    assert_eq!(rustix::fs::getxattr(&path, "trusted.b", &mut small[..]), Err(Errno::RANGE));
    let mut names = [0_u8; 100];
    let len = rustix::fs::listxattr(&path, &mut names[..]).unwrap();
    let mut listed: Vec<_> = names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()).collect();
    listed.sort_unstable();
    assert_eq!(listed, [&b"trusted.b"[..], b"user.a"]);
    rustix::fs::removexattr(&path, "user.a").unwrap();
    assert_eq!(rustix::fs::removexattr(&path, "user.a"), Err(Errno::NODATA));
    mounted.end();
    disk.check();
}

#[test]
fn a_mount_tells_of_itself_and_ends_with_umount() {
    if !can_run(&[Need::Tool("umount")]) {
        return;
    }
    let disk = Disk::new(32 * MIB);
    for has_loop in [true, false] {
        let mounted = disk.mount_with(has_loop, false);
        let can_loop = std::path::Path::new("/dev/loop-control").exists();
        assert_eq!(mounted.is_block(), has_loop && can_loop);
        fs::write(mounted.path("file"), pattern(1, 100_000)).unwrap();
        File::open(mounted.path("file")).unwrap().sync_all().unwrap();
        let mut value = vec![0; 4096];
        let len = rustix::fs::getxattr(mounted.root(), ATTRIBUTE, &mut value[..]).unwrap();
        let report: Report = serde_json::from_slice(&value[..len]).unwrap();
        assert_eq!((report.inodes, report.identity.pid), (2, std::process::id()));
        let told = rustix::fs::statvfs(mounted.root()).unwrap();
        assert_eq!(told.f_blocks * told.f_frsize, report.size_bytes);
        // No process of another test may have the folder open for long.
        let unmounted = |_: &u32| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            Command::new("umount").arg(mounted.root()).status().unwrap().success()
        };
        assert!((0..100).any(|attempt| unmounted(&attempt)));
        mounted.wait();
        assert_eq!(disk.check(), 2);
    }
}

/// The kernel checks no permissions for an attribute of this name.
#[test]
fn only_root_and_its_own_user_change_when_a_mount_is_written_out() {
    use rustix::{
        fs::{XattrFlags, fsetxattr},
        io::Errno,
        process::Uid,
        thread::set_thread_res_uid,
    };
    if !can_run(&[]) {
        return;
    }
    let disk = Disk::new(32 * MIB);
    let mounted = disk.mount();
    let root = File::open(mounted.root()).unwrap();
    let set = |value: &str| fsetxattr(&root, ATTRIBUTE, value.as_bytes(), XattrFlags::empty());
    let told = || {
        let mut value = vec![0; 4096];
        let len = rustix::fs::fgetxattr(&root, ATTRIBUTE, &mut value[..]).unwrap();
        let report: Report = serde_json::from_slice(&value[..len]).unwrap();
        (report.free_percent, report.age_ms)
    };
    let before = told();
    assert_eq!(set(r#"{"free_percent":33}"#), Ok(()));
    assert_eq!(told(), (33, before.1));
    assert_eq!(set(r#"{"age_ms":70}"#), Ok(()));
    for wrong in ["", "{", r#"{"free_percent":91}"#, r#"{"free_percent":-1}"#, r#"{"buffer":9}"#] {
        assert_eq!(set(wrong), Err(Errno::INVAL), "{wrong}");
    }
    let by_other = std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            // Of this thread alone.
            let nobody = Uid::from_raw(65_534);
            set_thread_res_uid(nobody, nobody, nobody).unwrap();
            set(r#"{"free_percent":1}"#)
        });
        other.join().unwrap()
    });
    assert_eq!(by_other, Err(Errno::PERM));
    assert_eq!(told(), (33, 70));
    drop(root);
    mounted.end();
    disk.check();
}
