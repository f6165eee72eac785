//! A mounted file system, used by programs and by the calls that they make.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod common;

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink},
    time::{Duration, SystemTime},
};

use rustix::{
    fs::{
        AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags, SeekFrom, StatxFlags, XattrFlags, fallocate,
        getxattr, getxattr_query, listxattr, openat, removexattr, renameat_with, seek, setxattr, statvfs,
        statx,
    },
    io::Errno,
};
use stripewise_fuse::{MountOptions, Wishes, protocol::InitFlags};
use stripewise_testkit::{Need, can_try, tool, tool_said};

use common::{Mounted, code, memory::BORN, pattern};

#[test]
fn files_are_written_read_and_changed() {
    if !common::can_run(&[]) {
        return;
    }
    let mounted = Mounted::new();
    let file = mounted.path("file \u{e4}\u{f6}");
    let content = pattern(3_000_001);
    fs::write(&file, &content).unwrap();
    assert!(fs::read(&file).unwrap() == content);
    let open = OpenOptions::new().read(true).write(true).open(&file).unwrap();
    open.write_all_at(b"changed", 1_000_000).unwrap();
    let mut bytes = [0; 9];
    open.read_exact_at(&mut bytes, 999_999).unwrap();
    assert_eq!(&bytes[1..8], b"changed");
    open.set_len(10).unwrap();
    open.sync_all().unwrap();
    assert_eq!(fs::read(&file).unwrap(), content[..10]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_234_500);
    open.set_modified(time).unwrap();
    let told = fs::metadata(&file).unwrap();
    assert_eq!((told.mode() & 0o7777, told.size(), told.nlink()), (0o640, 10, 1));
    assert_eq!(told.modified().unwrap(), time);
    assert!(mounted.memory.count("fsync") == 1 && mounted.memory.count("setattr") >= 3);
    drop(open);
    mounted.end();
}

#[test]
fn folders_links_and_errors_are_what_programs_expect() {
    if !common::can_run(&[]) {
        return;
    }
    let mounted = Mounted::new();
    fs::create_dir_all(mounted.path("a/b/c")).unwrap();
    fs::write(mounted.path("a/file"), b"x").unwrap();
    fs::hard_link(mounted.path("a/file"), mounted.path("a/b/same")).unwrap();
    symlink("../a/file", mounted.path("a/link")).unwrap();
    assert_eq!(fs::read_link(mounted.path("a/link")).unwrap().to_str(), Some("../a/file"));
    assert_eq!(fs::read(mounted.path("a/link")).unwrap(), b"x");
    assert_eq!(fs::metadata(mounted.path("a/b/same")).unwrap().nlink(), 2);
    assert_eq!(code(fs::remove_dir(mounted.path("a"))), Some(Errno::NOTEMPTY));
    assert_eq!(code(fs::remove_file(mounted.path("none"))), Some(Errno::NOENT));
    assert_eq!(code(fs::create_dir(mounted.path("a"))), Some(Errno::EXIST));
    assert_eq!(code(fs::write(mounted.path(&"n".repeat(256)), b"")), Some(Errno::NAMETOOLONG));
    fs::rename(mounted.path("a/file"), mounted.path("a/b/same2")).unwrap();
    fs::remove_dir_all(mounted.path("a")).unwrap();
    assert_eq!(fs::read_dir(mounted.root()).unwrap().count(), 0);
    mounted.end();
}

#[test]
fn a_file_that_is_open_outlives_its_name() {
    if !common::can_run(&[]) {
        return;
    }
    let mounted = Mounted::new();
    let mut file = File::create_new(mounted.path("gone")).unwrap();
    fs::remove_file(mounted.path("gone")).unwrap();
    file.write_all(b"still here").unwrap();
    assert_eq!(file.metadata().unwrap().size(), 10);
    drop(file);
    mounted.end();
}

#[test]
fn ten_thousand_entries_come_over_several_buffers() {
    if !common::can_run(&[]) {
        return;
    }
    let mounted = Mounted::new();
    fs::create_dir(mounted.path("many")).unwrap();
    for index in 0..10_000 {
        File::create(mounted.path(&format!("many/entry number {index}"))).unwrap();
    }
    let names: BTreeSet<_> =
        fs::read_dir(mounted.path("many")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 10_000);
    assert!(names.contains("entry number 9999".as_ref() as &std::ffi::OsStr));
    let reads = mounted.memory.count("readdir") + mounted.memory.count("readdirplus");
    assert!(reads > 10, "{reads} reads");
    assert!(mounted.memory.count("readdirplus") > 0);
    let is_file = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_type().unwrap().is_file();
    assert!(fs::read_dir(mounted.path("many")).unwrap().all(is_file));
    mounted.end();
}

#[test]
fn renames_with_flags_keep_their_promise() {
    if !common::can_run(&[]) {
        return;
    }
    let mounted = Mounted::new();
    let (one, two) = (mounted.path("one"), mounted.path("two"));
    fs::write(&one, b"1").unwrap();
    fs::write(&two, b"2").unwrap();
    let rename = |flags| renameat_with(CWD, &one, CWD, &two, flags);
    assert_eq!(rename(RenameFlags::NOREPLACE), Err(Errno::EXIST));
    rename(RenameFlags::EXCHANGE).unwrap();
    assert_eq!((fs::read(&one).unwrap(), fs::read(&two).unwrap()), (b"2".to_vec(), b"1".to_vec()));
    assert_eq!(rename(RenameFlags::WHITEOUT), Err(Errno::INVAL), "the server's own answer");
    rename(RenameFlags::empty()).unwrap();
    assert_eq!(fs::read(&two).unwrap(), b"2");
    mounted.end();
}

#[test]
fn a_file_without_a_name() {
    if !common::can_run(&[]) {
        return;
    }
    let mounted = Mounted::new();
    let opened = openat(CWD, mounted.root(), OFlags::TMPFILE | OFlags::RDWR, Mode::RUSR | Mode::WUSR);
    let file = File::from(opened.unwrap());
    file.write_all_at(b"no name", 0).unwrap();
    assert_eq!((file.metadata().unwrap().nlink(), mounted.memory.count("tmpfile")), (0, 1));
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
    rustix::fs::linkat(CWD, path, CWD, mounted.path("named"), AtFlags::SYMLINK_FOLLOW).unwrap();
    assert_eq!(fs::read(mounted.path("named")).unwrap(), b"no name");
    drop(file);
    mounted.end();
}

#[test]
fn space_is_reserved_freed_and_found() {
    if !common::can_run(&[]) {
        return;
    }
    let mounted = Mounted::new();
    let file = File::create_new(mounted.path("sparse")).unwrap();
    fallocate(&file, FallocateFlags::empty(), 0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().size(), 1 << 20);
    file.write_all_at(&pattern(8192), 65536).unwrap();
    let find = |from| seek(&file, from);
    assert_eq!(find(SeekFrom::Data(0)), Ok(65536));
    assert_eq!(find(SeekFrom::Hole(65536)), Ok(65536 + 8192));
    assert_eq!(find(SeekFrom::Data(80_000)), Err(Errno::NXIO));
    assert_eq!(find(SeekFrom::Hole(80_000)), Ok(80_000));
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 65536, 4096).unwrap();
    assert_eq!(find(SeekFrom::Data(0)), Ok(65536 + 4096));
    assert_eq!(fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096), Err(Errno::OPNOTSUPP));
    drop(file);
    mounted.end();
}

#[test]
fn extended_attributes() {
    if !common::can_run(&[]) {
        return;
    }
    let mounted = Mounted::new();
    let file = mounted.path("file");
    fs::write(&file, b"").unwrap();
    let large = pattern(60_000);
    setxattr(&file, "user.small", b"value", XattrFlags::CREATE).unwrap();
    setxattr(&file, "user.large", &large, XattrFlags::empty()).unwrap();
    assert_eq!(setxattr(&file, "user.small", b"", XattrFlags::CREATE), Err(Errno::EXIST));
    let mut value = vec![0; 65536];
    assert_eq!(getxattr(&file, "user.large", &mut value), Ok(60_000));
    assert!(value[..60_000] == large);
    assert_eq!(getxattr_query(&file, "user.small"), Ok(5));
    assert_eq!(getxattr(&file, "user.small", &mut [0; 2][..]), Err(Errno::RANGE));
    let len = listxattr(&file, &mut value).unwrap();
    assert_eq!(value[..len], *b"user.large\0user.small\0");
    removexattr(&file, "user.small").unwrap();
    assert_eq!(getxattr(&file, "user.small", &mut value), Err(Errno::NODATA));
    if can_try("setfattr", &[Need::Tool("setfattr")]) {
        tool("setfattr", &["-n", "user.tool", "-v", "x", file.to_str().unwrap()]);
        assert_eq!(getxattr(&file, "user.tool", &mut value), Ok(1));
    }
    mounted.end();
}

#[test]
fn figures_and_the_time_of_birth() {
    if !common::can_run(&[]) {
        return;
    }
    let mut mounted = Mounted::new();
    let figures = statvfs(mounted.root()).unwrap();
    assert_eq!(
        (figures.f_blocks, figures.f_bavail, figures.f_ffree, figures.f_namemax),
        (1000, 500, 30, 255)
    );
    let told =
        statx(CWD, mounted.root(), AtFlags::empty(), StatxFlags::BASIC_STATS | StatxFlags::BTIME).unwrap();
    // STATX is younger than the flags by which one could ask for it.
    if mounted.session().negotiated().minor >= 39 {
        assert!(told.stx_mask & StatxFlags::BTIME.bits() != 0 && mounted.memory.count("statx") > 0);
        assert_eq!((told.stx_btime.tv_sec, told.stx_btime.tv_nsec), (BORN.seconds, BORN.nanoseconds));
    }
    mounted.end();
}

#[test]
fn a_large_write_comes_as_one_request() {
    if !common::can_run(&[]) {
        return;
    }
    for writeback_cache in [false, true] {
        let mut mounted =
            Mounted::with(&MountOptions::default(), &Wishes { writeback_cache, ..Wishes::default() });
        let negotiated = *mounted.session().negotiated();
        assert_eq!(negotiated.flags.contains(InitFlags::WRITEBACK_CACHE), writeback_cache);
        assert_eq!(mounted.memory.tree().seen.negotiated, Some(negotiated), "told before the first request");
        let content = pattern(4 << 20);
        let mut file = File::create_new(mounted.path("file")).unwrap();
        file.write_all(&content).unwrap();
        drop(file);
        assert!(fs::read(mounted.path("file")).unwrap() == content);
        let largest = mounted.memory.tree().seen.write_bytes_max;
        assert!(
            largest > negotiated.write_bytes_max as usize / 2,
            "{largest} bytes, write-back {writeback_cache}"
        );
        mounted.end();
    }
}

#[test]
fn a_mount_has_the_options_that_were_asked_for() {
    if !common::can_run(&[Need::Tool("findmnt")]) {
        return;
    }
    let options = MountOptions {
        source: "tank, and\\more".into(),
        read_only: true,
        noatime: true,
        allow_other: true,
        read_bytes_max: Some(65536),
        ..MountOptions::default()
    };
    let mounted = Mounted::with(&options, &Wishes::default());
    let root = mounted.root().to_str().unwrap();
    let told = tool("findmnt", &["-n", "-o", "SOURCE,FSTYPE,OPTIONS", root]);
    for word in [
        "tank, and",
        "fuse.stripewise",
        "ro",
        "nosuid",
        "nodev",
        "noatime",
        "default_permissions",
        "allow_other",
        "max_read=65536",
    ] {
        assert!(told.contains(word), "{word}: {told}");
    }
    let refused = fs::write(mounted.path("file"), b"").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(Errno::ROFS.raw_os_error()));
    assert_eq!(tool_said("ls", &[root]).code, Some(0));
    mounted.end();
}
