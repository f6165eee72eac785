//! Clients that do whatever they like to files of their own, each beside a model in memory.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};

use super::common::{Disk, MIB, can_run};

const CLIENTS: u64 = 3;
const FILES: u32 = 10;
const BYTES_MAX: usize = 3 << 20;
const FOR: Duration = Duration::from_secs(6);

struct Client {
    root: PathBuf,
    random: fastrand::Rng,
    files: BTreeMap<u32, Vec<u8>>,
}

impl Client {
    fn path(&self, number: u32) -> PathBuf {
        self.root.join(format!("f{number}"))
    }

    fn open(&self, number: u32) -> File {
        OpenOptions::new().read(true).write(true).open(self.path(number)).unwrap()
    }

    fn noise(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.random.fill(&mut bytes);
        bytes
    }

    fn step(&mut self) {
        let number = self.random.u32(0..FILES);
        let Some(len) = self.files.get(&number).map(Vec::len) else {
            File::create(self.path(number)).unwrap();
            self.files.insert(number, Vec::new());
            return;
        };
        match self.random.u8(0..10) {
            0..4 => self.write(number, len),
            4 => self.cut(number),
            5 => self.punch(number, len),
            6 => self.rename(number),
            7 => self.open(number).sync_all().unwrap(),
            8 if self.random.bool() => {
                fs::remove_file(self.path(number)).unwrap();
                self.files.remove(&number);
            }
            _ => self.compare(number),
        }
    }

    fn write(&mut self, number: u32, len: usize) {
        let most = if self.random.u8(0..3) == 0 { BYTES_MAX } else { len };
        let at = self.random.usize(0..=most);
        let count = self.random.choice([1, 100, 4096, 5000, 65_536, 300_000]).unwrap();
        let bytes = self.noise(count);
        self.open(number).write_all_at(&bytes, at as u64).unwrap();
        let model = self.files.get_mut(&number).unwrap();
        model.resize(model.len().max(at + bytes.len()), 0);
        model[at..at + bytes.len()].copy_from_slice(&bytes);
    }

    fn cut(&mut self, number: u32) {
        let len = self.random.usize(0..BYTES_MAX / 2);
        self.open(number).set_len(len as u64).unwrap();
        self.files.get_mut(&number).unwrap().resize(len, 0);
    }

    fn punch(&mut self, number: u32, len: usize) {
        if len == 0 {
            return;
        }
        let start = self.random.usize(0..len);
        let end = self.random.usize(start..len) + 1;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(self.open(number), flags, start as u64, (end - start) as u64).unwrap();
        self.files.get_mut(&number).unwrap()[start..end].fill(0);
    }

    fn rename(&mut self, number: u32) {
        let to = self.random.u32(0..FILES);
        fs::rename(self.path(number), self.path(to)).unwrap();
        let model = self.files.remove(&number).unwrap();
        self.files.insert(to, model);
    }

    /// Without what the kernel has cached, every other time.
    fn compare(&mut self, number: u32) {
        if self.random.bool() {
            fadvise(self.open(number), 0, None, Advice::DontNeed).unwrap();
        }
        let read = fs::read(self.path(number)).unwrap();
        let model = &self.files[&number];
        let wrong = read.iter().zip(model).position(|(read, model)| read != model);
        assert!(
            read == *model,
            "f{number}: {} bytes, {} expected, wrong from {wrong:?}",
            read.len(),
            model.len()
        );
    }
}

fn live(root: &Path, seed: u64) -> BTreeMap<u32, Vec<u8>> {
    let root = root.join(format!("client{seed}"));
    fs::create_dir(&root).unwrap();
    let mut client = Client { root, random: fastrand::Rng::with_seed(seed), files: BTreeMap::new() };
    let end = Instant::now() + FOR;
    while Instant::now() < end {
        client.step();
    }
    client.files
}

#[test]
fn files_are_what_clients_have_made_of_them() {
    if !can_run(&[]) {
        return;
    }
    let disk = Disk::new(256 * MIB);
    let mounted = disk.mount();
    let root = mounted.root();
    let models: Vec<_> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|seed| scope.spawn(move || live(root, seed))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    mounted.end();
    disk.check();
    let mounted = disk.mount();
    for (seed, files) in models.iter().enumerate() {
        let root = mounted.path(&format!("client{seed}"));
        assert_eq!(fs::read_dir(&root).unwrap().count(), files.len());
        for (number, model) in files {
            assert!(fs::read(root.join(format!("f{number}"))).unwrap() == *model, "client {seed}, f{number}");
        }
    }
    mounted.end();
}
