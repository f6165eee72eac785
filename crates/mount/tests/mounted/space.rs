//! A volume that is full.

use std::{
    fs::{self, File},
    io::Write,
};

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
