//! Large folders.

use std::{collections::BTreeSet, fs};

use super::common::{Disk, MIB, can_run};

#[test]
fn half_of_ten_thousand_files_go_while_the_folder_is_read() {
    if !can_run(&[]) {
        return;
    }
    const FILES: usize = 10_000;
    let disk = Disk::new(256 * MIB);
    let mounted = disk.mount();
    let folder = mounted.path("many");
    fs::create_dir(&folder).unwrap();
    let name = |number: usize| format!("file-{number:05}");
    for number in 0..FILES {
        fs::File::create(folder.join(name(number))).unwrap();
    }
    let mut seen = BTreeSet::new();
    for (index, entry) in fs::read_dir(&folder).unwrap().enumerate() {
        let entry = entry.unwrap();
        assert!(seen.insert(entry.file_name()), "{:?} is told twice", entry.file_name());
        if index % 50 == 0 {
            // Some of these have been read, some have not.
            for number in (index * 2..FILES.min(index * 2 + 100)).filter(|number| number % 2 == 1) {
                fs::remove_file(folder.join(name(number))).unwrap();
            }
        }
    }
    for number in (0..FILES).step_by(2) {
        assert!(seen.contains(std::ffi::OsStr::new(&name(number))), "{number} was there all the time");
    }
    let left = fs::read_dir(&folder).unwrap().count();
    assert_eq!(left, FILES / 2);
    mounted.end();
    assert_eq!(disk.check() as usize, FILES / 2 + 2);
    let mounted = disk.mount();
    fs::remove_dir_all(mounted.path("many")).unwrap();
    mounted.end();
    assert_eq!(disk.check(), 1);
}
