//! File systems in files, mounted by this process.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use stripewise_device::{
    Device,
    file::{FileDevice, FileOptions},
    uring::{Runtime, RuntimeOptions},
};
use stripewise_fuse::{MountOptions as FuseOptions, Unmount};
use stripewise_mount::{
    report::Identity,
    served::{ServeOptions, Served},
    target,
};
use stripewise_rafs::{
    check::{Problem, Report, check},
    fs::{Fs, MountOptions},
    shape::Order,
    store::MakeOptions,
    volume::{DeviceVolume, Volume},
};
use stripewise_testkit::Need;
use tempfile::TempDir;
use uuid::Uuid;

pub(crate) const MIB: u64 = 1 << 20;

/// Whether file systems can be mounted here, and what else a test needs is here, too.
#[track_caller]
pub(crate) fn can_run(needs: &[Need<'_>]) -> bool {
    let own = [Need::Root, Need::Device("/dev/fuse"), Need::FileSystem("fuse")];
    stripewise_testkit::can_run(&[&own, needs].concat())
}

/// A file system in a file, and a folder to mount it on.
pub(crate) struct Disk {
    folder: TempDir,
}

impl Disk {
    /// An empty one, with 4 data columns and chunks of 64 KiB.
    pub(crate) fn new(size_bytes: u64) -> Self {
        let disk = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::File::create(disk.file()).unwrap().set_len(size_bytes).unwrap();
        std::fs::create_dir(disk.point()).unwrap();
        let (runtime, device) = opened(&disk.file());
        let options = MakeOptions {
            uuid: Uuid::from_u128(7),
            label: "test".to_owned(),
            created_us: 1,
            order: Order::Rows,
            journal_stripes: None,
            hash_seed: 5,
        };
        runtime
            .block_on(async move {
                let volume: Arc<dyn Volume> = Arc::new(DeviceVolume::new(device, 4, 16).unwrap());
                Fs::make(&volume, &options, (0, 0)).await
            })
            .unwrap();
        disk
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    pub(crate) fn point(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    pub(crate) fn mount(&self) -> Mounted {
        self.mount_with(true, false)
    }

    /// With a loop device under it or not, to be changed or only to be read.
    pub(crate) fn mount_with(&self, has_loop: bool, is_read_only: bool) -> Mounted {
        serve(&self.file(), &self.point(), has_loop, is_read_only)
    }

    /// What fsck finds wrong.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        self.report().problems
    }

    fn report(&self) -> Report {
        let (runtime, device) = opened(&self.file());
        runtime.block_on(async move {
            let found = target::find(device).await.unwrap();
            check(&found.volume).await.unwrap()
        })
    }

    /// fsck. Returns how many inodes there are.
    #[track_caller]
    pub(crate) fn check(&self) -> u64 {
        let report = self.report();
        assert!(report.problems.is_empty(), "{report:#?}");
        report.inodes
    }
}

fn opened(file: &Path) -> (Runtime, Arc<dyn Device>) {
    (Runtime::start(&RuntimeOptions::default()).unwrap(), device(file))
}

/// Opens a file for this process alone. The kernel takes a while to let go of what a killed process had.
fn device(file: &Path) -> Arc<dyn Device> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match FileDevice::open(file, FileOptions::default()) {
            Ok(device) => return Arc::new(device),
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
}

/// Mounts the file system of a file.
pub(crate) fn serve(file: &Path, point: &Path, has_loop: bool, is_read_only: bool) -> Mounted {
    let runtime = Arc::new(Runtime::start(&RuntimeOptions::default().threads(2)).unwrap());
    let device = device(file);
    let found = runtime.block_on(async move { target::find(device).await }).unwrap();
    let identity = Identity::new(file.display().to_string(), &found.superblock);
    let options = ServeOptions {
        fs: MountOptions { is_read_only, buffer_blocks: 1024, ..MountOptions::default() },
        fuse: FuseOptions { allow_other: true, nodev: false, nosuid: false, ..FuseOptions::default() },
        anchor: has_loop.then(|| file.to_owned()),
    };
    let served = Served::start(&runtime, found.volume, identity, point, options, || ()).unwrap();
    Mounted { served: Some(served), point: point.to_owned() }
}

/// A mounted file system.
pub(crate) struct Mounted {
    served: Option<Served>,
    point: PathBuf,
}

impl Mounted {
    pub(crate) fn root(&self) -> &Path {
        &self.point
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.point.join(name)
    }

    pub(crate) fn is_block(&self) -> bool {
        self.served.as_ref().unwrap().is_block()
    }

    /// Unmounts, and waits until all is written out.
    pub(crate) fn end(mut self) {
        let mut served = self.served.take().unwrap();
        // A child that another test is just starting has our open files until its exec.
        let deadline = Instant::now() + Duration::from_secs(10);
        while let Err(error) = served.unmount(Unmount::Now) {
            assert!(Instant::now() < deadline, "{error}");
            thread::sleep(Duration::from_millis(10));
        }
        served.wait().unwrap();
    }

    /// Waits for an end that another program has brought about.
    pub(crate) fn wait(mut self) {
        self.served.take().unwrap().wait().unwrap();
    }
}

impl Drop for Mounted {
    /// Of a test that fails.
    fn drop(&mut self) {
        if let Some(mut served) = self.served.take() {
            let _ = served.unmount(Unmount::Detach);
        }
    }
}

/// Bytes that tell where they belong.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    bytes
}
