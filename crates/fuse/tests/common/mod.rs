//! A file system in memory, whose mounts the tests look into by the kernel.

#![allow(dead_code, reason = "each test program uses its part")]

pub(crate) mod answers;
pub(crate) mod memory;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use stripewise_fuse::{Errno, Mount, MountOptions, Session, Unmount, Wishes};
use stripewise_testkit::Need;
use tempfile::TempDir;

use self::memory::Memory;

/// Whether file systems can be mounted here, and what else a test needs is here, too.
#[track_caller]
pub(crate) fn can_run(needs: &[Need<'_>]) -> bool {
    let own = [Need::Root, Need::Device("/dev/fuse"), Need::FileSystem("fuse")];
    stripewise_testkit::can_run(&[&own, needs].concat())
}

/// A mounted file system in memory. Dropping it unmounts.
pub(crate) struct Mounted {
    pub(crate) memory: Arc<Memory>,
    pub(crate) session: Option<Session>,
    folder: TempDir,
}

impl Mounted {
    pub(crate) fn new() -> Self {
        Self::with(&MountOptions::default(), &Wishes::default())
    }

    pub(crate) fn with(options: &MountOptions, wishes: &Wishes) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let memory = Arc::new(Memory::default());
        let mount = Mount::new(folder.path(), options).unwrap();
        let session = Session::start(mount, wishes, memory.clone(), 2).unwrap();
        Self { memory, session: Some(session), folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn session(&mut self) -> &mut Session {
        self.session.as_mut().unwrap()
    }

    /// Unmounts, and waits for the threads.
    pub(crate) fn end(mut self) {
        end(self.session.take().unwrap());
    }
}

/// Unmounts, and waits for the threads.
pub(crate) fn end(mut session: Session) {
    // A child that another test is just starting has our open files until its exec.
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Err(error) = session.unmount(Unmount::Now) {
        assert!(Instant::now() < deadline, "{error}");
        thread::sleep(Duration::from_millis(10));
    }
    session.join().unwrap();
}

/// Waits a while until something is so.
pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// What a failed call has said.
pub(crate) fn code<T>(result: std::io::Result<T>) -> Option<Errno> {
    result.err().and_then(|error| error.raw_os_error()).map(Errno::from_raw_os_error)
}

/// Bytes that tell where they belong.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 7 % 251) as u8).collect()
}
