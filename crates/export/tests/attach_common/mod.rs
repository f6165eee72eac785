//! What the tests of `attach` share: knowing whether they can run here, and leaving nothing behind.

#![allow(dead_code, reason = "each test program uses its part")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use stripewise_device::{
    Device,
    memory::MemoryDevice,
    uring::{Runtime, RuntimeOptions},
};
use stripewise_export::attach::{AttachMethod, AttachOptions, Attachment, DetachMode, attach};
use stripewise_testkit::{Lack, Need, go_on, lacks, tool, tool_said};
use tempfile::TempDir;

pub(crate) const MIB: u64 = 1 << 20;
/// Whether arrays can be attached by FUSE and a loop device here, and what else a test needs is here, too.
#[track_caller]
pub(crate) fn can_run(needs: &[Need<'_>]) -> bool {
    let own = [Need::Root, Need::Device("/dev/fuse"), Need::Device("/dev/loop-control")];
    let mut missing = lacks(&[&own, needs].concat());
    if missing.is_empty() {
        // What a container forbids although everything is there.
        missing.extend(AttachMethod::FuseLoop.probe().err().map(|error| Lack::kernel(error.to_string())));
    }
    go_on(None, &missing)
}

/// Starts a runtime of two workers.
pub(crate) fn runtime() -> Arc<Runtime> {
    Arc::new(Runtime::start(&RuntimeOptions::default().threads(2)).unwrap())
}

/// A memory device attached by FUSE and loop. Dropping it unmounts and detaches, also in a test that failed.
pub(crate) struct Attached {
    pub(crate) attachment: Attachment,
    pub(crate) device: Arc<MemoryDevice>,
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) folder: TempDir,
}

impl Attached {
    pub(crate) fn new(block_bytes: u32) -> Self {
        Self::with(block_bytes, |_| {})
    }

    pub(crate) fn with(block_bytes: u32, change: impl FnOnce(&mut AttachOptions)) -> Self {
        let runtime = runtime();
        let device = Arc::new(MemoryDevice::with_block_bytes("memory", 512 * MIB, block_bytes));
        let folder = tempfile::tempdir().unwrap();
        let mut options = AttachOptions::new(folder.path().join("run"), "test");
        options.method = Some(AttachMethod::FuseLoop);
        change(&mut options);
        let attachment = attach(device.clone(), &runtime, &options).unwrap();
        Self { attachment, device, runtime, folder }
    }

    /// The block device's path as text.
    pub(crate) fn node(&self) -> String {
        self.attachment.block_path().to_str().unwrap().to_owned()
    }

    /// What a file of the device's folder in sysfs says.
    pub(crate) fn sysfs(&self, name: &str) -> String {
        let node = self.attachment.block_path().file_name().unwrap();
        let path = Path::new("/sys/block").join(node).join(name);
        fs::read_to_string(path).unwrap().trim().to_owned()
    }

    pub(crate) fn read(&self, offset_bytes: u64, len_bytes: usize) -> Vec<u8> {
        let bufs = [stripewise_device::IoBuf::with_len(len_bytes)].into_iter().collect();
        self.runtime.block_on(self.device.read(offset_bytes, bufs)).into_one().unwrap().to_vec()
    }

    pub(crate) fn mount_point(&self) -> PathBuf {
        let point = self.folder.path().join("mnt");
        fs::create_dir_all(&point).unwrap();
        point
    }

    pub(crate) fn detach(mut self) {
        let mount_point = self.folder.path().join("run/attach-test");
        self.attachment.detach(DetachMode::Refuse).unwrap();
        assert!(!mount_point.exists(), "the mount point stayed");
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if thread::panicking() {
            for mount in ["mnt", "run/attach-test"] {
                let _ = Command::new("umount").arg("-l").arg(self.folder.path().join(mount)).status();
            }
        }
    }
}

/// A mounted file system. Dropping it unmounts.
pub(crate) struct Mounted(pub(crate) PathBuf);

impl Mounted {
    pub(crate) fn new(node: &str, point: PathBuf) -> Self {
        tool("mount", &[node, point.to_str().unwrap()]);
        Self(point)
    }

    pub(crate) fn unmount(self) {
        // A child that another test is just starting has our open files until its exec.
        let deadline = Instant::now() + Duration::from_secs(5);
        while tool_said("umount", &[self.0.to_str().unwrap()]).code != Some(0) {
            assert!(Instant::now() < deadline, "cannot unmount {}", self.0.display());
            thread::sleep(Duration::from_millis(20));
        }
        std::mem::forget(self);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Every file below a folder with a checksum of its content.
pub(crate) fn checksums(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let mut sums = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().map(Result::unwrap) {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                let name = entry.path().strip_prefix(folder).unwrap().to_owned();
                sums.insert(name, checksum(&fs::read(entry.path()).unwrap()));
            }
        }
    }
    sums
}

fn checksum(bytes: &[u8]) -> u64 {
    use std::hash::Hasher;
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Bytes that follow no pattern, the same for a seed.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

/// Asserts that the threads of these names are marked as part of the I/O path, where the machine lets us mark
/// any. Other tests of the process run unmarked workers of their own, so it is enough that each name has one.
pub(crate) fn assert_io_path_threads(names: &[&str]) {
    const MEMALLOC_NOIO: u64 = 0x0008_0000;
    let may_mark =
        thread::spawn(|| rustix::process::configure_io_flusher_behavior(true).is_ok()).join().unwrap();
    if !may_mark {
        let lack = Lack::kernel("threads of the I/O path cannot be marked: that takes CAP_SYS_RESOURCE");
        go_on(Some("the marks of its threads"), &[lack]);
        return;
    }
    for wanted in names {
        let marked = fs::read_dir("/proc/self/task").unwrap().flatten().any(|task| {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            let Some((name, rest)) = stat.split_once('(').and_then(|(_, tail)| tail.rsplit_once(')')) else {
                return false;
            };
            let flags: u64 = rest.split_whitespace().nth(6).unwrap().parse().unwrap();
            name.starts_with(wanted) && flags & MEMALLOC_NOIO != 0
        });
        assert!(marked, "no thread {wanted}* is marked");
    }
}
