//! A volume that is full.

use std::{
    fs::{self, File},
    io::Write,
    process::Command,
};

use stripewise_testkit::Need;

use super::common::{Disk, MIB, can_run, pattern};

const ENOSPC: i32 = 28;

#[test]
fn a_full_volume_says_so_and_takes_files_again_once_some_are_removed() {
    if !can_run(&[]) {
        return;
    }
    let disk = Disk::new(48 * MIB);
    let mounted = disk.mount();
    for round in 0..3 {
        let mut whole = Vec::new();
        let error = loop {
            let path = mounted.path(&format!("{round}-{}", whole.len()));
            let content = pattern(whole.len() as u64, MIB as usize);
            assert!(whole.len() < 48, "it is never full");
            match File::create(&path)
                .and_then(|mut file| file.write_all(&content).and_then(|()| file.sync_all()))
            {
                Ok(()) => whole.push((path, content)),
                Err(error) => break error,
            }
        };
        assert_eq!(error.raw_os_error(), Some(ENOSPC), "{error}");
        assert!(whole.len() > 10, "it was full with {} MiB", whole.len());
        for (path, content) in &whole {
            assert!(fs::read(path).unwrap() == *content, "{}", path.display());
        }
        for entry in fs::read_dir(mounted.root()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
    mounted.end();
    assert_eq!(disk.check(), 1);
}

/// Dirties so many bytes of a mapping of a file, and tells whether msync(2) and close(2) went well.
const MAPPED: &str = "
import mmap, os, sys
path, size = sys.argv[1], int(sys.argv[2])
fd = os.open(path, os.O_RDWR)
with mmap.mmap(fd, size) as mapped:
    mapped[:] = b'm' * size
    mapped.flush()
os.fsync(fd)
os.close(fd)
";

/// The kernel takes a write of its pages for done as a whole, whatever number is answered.
#[test]
fn what_a_mapping_holds_is_written_or_told_to_be_lost() {
    if !can_run(&[Need::Tool("python3")]) {
        return;
    }
    let mut failures = Vec::new();
    for free in [0, 256, 512, 16 << 10].map(|kib| kib << 10) {
        let disk = Disk::new(48 * MIB);
        let mounted = disk.mount();
        let path = mounted.path("mapped");
        File::create(&path).unwrap().set_len(MIB).unwrap();
        let mut filler = File::create(mounted.path("filler")).unwrap();
        let mut len = 0;
        while filler.write_all(&pattern(len, 64 << 10)).and_then(|()| filler.sync_all()).is_ok() {
            len += 64 << 10;
        }
        filler.set_len(len - free).unwrap();
        File::open(mounted.root()).unwrap().sync_all().unwrap();
        let python =
            Command::new("python3").args(["-c", MAPPED]).arg(&path).arg(MIB.to_string()).output().unwrap();
        drop(filler);
        if python.status.success() {
            mounted.end();
            let again = disk.mount();
            let read = fs::read(again.path("mapped")).unwrap();
            assert!(read == vec![b'm'; MIB as usize], "{free} bytes: msync went well, and bytes are lost");
            again.end();
        } else {
            let said = String::from_utf8_lossy(&python.stderr);
            assert!(said.contains("No space left"), "{said}");
            failures.push(free);
            mounted.end();
        }
        disk.check();
    }
    assert!((1..=3).contains(&failures.len()), "short of space were only {failures:?}");
}
