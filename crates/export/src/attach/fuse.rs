//! A FUSE file system with one file, `disk`, whose content is a device. The only file that knows `fuser`.
//!
//! mount(2) makes the mount, without libfuse, its helper program or `allow_other`: the kernel lets only root
//! in. Reader threads take requests from the kernel and hand each to the io_uring runtime as a task, which
//! replies from there. The threads never wait for a device, so requests of any number of processes are under
//! way at once and none can block those that the daemon itself depends on.

use std::{
    ffi::{CString, OsStr},
    fs, io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, Session,
    SessionACL, TimeOrNow,
};
use parking_lot::Mutex;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use stripewise_device::{EnvHandle, IoBuf, SharedBuf};

use super::{
    AttachError,
    diskfile::{DiskFile, Refusal},
    flusher,
};

/// The mount's type in mountinfo; clean-up recognises our mounts by it.
pub(super) const MOUNT_KIND: &str = "fuse.stripewise";
/// The name of the one file.
pub(super) const FILE_NAME: &str = "disk";
/// The largest request: what FUSE allows without raising fs.fuse.max_pages_limit (256 pages).
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Asynchronous requests the kernel keeps under way. Each may hold a buffer of 1 MiB here, so this bounds
/// memory.
const IN_FLIGHT_MAX: u16 = 64;
/// Only we could change the attributes.
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);
/// How long the kernel may take to release the file after its loop device has gone.
const UNMOUNT_WAIT: Duration = Duration::from_secs(10);
/// How long the threads may take to see that their file system is gone.
const END_WAIT: Duration = Duration::from_secs(1);

const DISK: INodeNo = INodeNo(2);

/// A mounted file system with its reader threads.
pub(super) struct FuseDisk {
    point: PathBuf,
    session: Option<BackgroundSession>,
}

impl FuseDisk {
    /// Mounts the file on the folder `point`, and makes the folder if needed.
    pub(super) fn mount(
        file: DiskFile,
        env: EnvHandle,
        point: &Path,
        threads: usize,
    ) -> Result<Self, AttachError> {
        make_folder(point)?;
        let session = Self::start(file, env, point, threads).inspect_err(|_| drop(fs::remove_dir(point)))?;
        Ok(Self { point: point.to_owned(), session: Some(session) })
    }

    fn start(
        file: DiskFile,
        env: EnvHandle,
        point: &Path,
        threads: usize,
    ) -> Result<BackgroundSession, AttachError> {
        let channel = open_channel()?;
        let data = format!("fd={},rootmode=40000,user_id=0,group_id=0", channel.as_raw_fd());
        let data = CString::new(data).expect("digits and letters hold no NUL");
        let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::NOATIME;
        mount("stripewise", point, MOUNT_KIND, flags, Some(data.as_c_str()))
            .map_err(AttachError::system("mount a FUSE file system on", point))?;
        // The kernel has checked access; fuser need not.
        let mut config = Config::default();
        config.n_threads = Some(threads.max(1));
        config.clone_fd = true;
        let disk = Disk { file: Arc::new(file), env, spent: Arc::default() };
        let session =
            || Session::from_fd(disk, channel.into(), SessionACL::All, config).and_then(Session::spawn);
        flusher::on_flusher_thread(session)
            .inspect_err(|_| {
                let _ = unmount(point, UnmountFlags::DETACH);
            })
            .map_err(AttachError::system("start the FUSE session on", point))
    }

    /// The path of the file.
    pub(super) fn file(&self) -> PathBuf {
        self.point.join(FILE_NAME)
    }

    /// Unmounts and removes the folder. Waits a while for the kernel to close the file, and for the threads
    /// to end. If it returns a file system, another mount namespace with a copy of the mount keeps it alive.
    pub(super) fn unmount(&mut self) -> Result<Option<Lingering>, AttachError> {
        if self.session.is_none() {
            return Ok(None);
        }
        match retry_while_busy(|| unmount(&self.point, UnmountFlags::NOFOLLOW)) {
            // Another process has unmounted it: the same outcome.
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(AttachError::system("unmount", &self.point)(error)),
        }
        let _ = fs::remove_dir(&self.point);
        Ok(self.session.take().map(Lingering).and_then(Lingering::end_soon))
    }

    /// Takes the file system out of the tree now. Its file is served until its last user is gone; then the
    /// returned handle can be joined. With `abort`, every request fails from now on.
    pub(super) fn detach(&mut self, abort: bool) -> Result<Option<Lingering>, AttachError> {
        let Some(session) = self.session.take() else { return Ok(None) };
        let force = if abort { UnmountFlags::FORCE } else { UnmountFlags::empty() };
        let result = unmount(&self.point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW | force);
        let _ = fs::remove_dir(&self.point);
        result.map_err(AttachError::system("unmount", &self.point))?;
        Ok(Some(Lingering(session)))
    }
}

/// A file system that is out of the tree and ends with its last user.
pub(super) struct Lingering(BackgroundSession);

impl Lingering {
    /// Waits a moment for the end; returns itself if it does not come.
    fn end_soon(self) -> Option<Self> {
        let deadline = Instant::now() + END_WAIT;
        while !self.0.guard.is_finished() {
            if Instant::now() >= deadline {
                return Some(self);
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.join();
        None
    }

    /// Waits for the end.
    pub(super) fn join(self) {
        if let Err(error) = self.0.join() {
            tracing::warn!(%error, "a FUSE session ended badly");
        }
    }
}

/// The folder may remain from a daemon that died; it must be empty.
fn make_folder(point: &Path) -> Result<(), AttachError> {
    use std::os::unix::fs::DirBuilderExt;
    let made = fs::DirBuilder::new().mode(0o700).recursive(true).create(point);
    made.map_err(AttachError::system("make the mount point", point))?;
    let mut entries = fs::read_dir(point).map_err(AttachError::system("use as mount point", point))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(AttachError::BadOption {
            option: "mount point",
            value: point.display().to_string(),
            why: "it is not empty; an attachment of this name may be running, else clear it".into(),
        }),
    }
}

/// Opens `/dev/fuse`.
pub(super) fn open_channel() -> Result<fs::File, AttachError> {
    fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").map_err(|source| AttachError::Missing {
        node: "/dev/fuse".into(),
        remedy: "load the kernel module `fuse`, or let the container have the device",
        source,
    })
}

/// The kernel releases a closed file a moment later.
fn retry_while_busy(mut attempt: impl FnMut() -> rustix::io::Result<()>) -> rustix::io::Result<()> {
    let deadline = Instant::now() + UNMOUNT_WAIT;
    loop {
        match attempt() {
            Err(rustix::io::Errno::BUSY) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(5))
            }
            result => return result,
        }
    }
}

struct Disk {
    file: Arc<DiskFile>,
    env: EnvHandle,
    /// Buffers of finished writes. The reader threads, which allocated them, drop them, so that their
    /// per-thread pools have them for the next write; a worker's pool would only fill up.
    spent: Arc<Mutex<Vec<SharedBuf>>>,
}

impl Disk {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let is_disk = inode == DISK;
        let size = if is_disk { self.file.size_bytes() } else { 0 };
        FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_disk { FileType::RegularFile } else { FileType::Directory },
            perm: match (is_disk, self.file.is_read_only()) {
                (false, _) => 0o700,
                (true, false) => 0o600,
                (true, true) => 0o400,
            },
            nlink: if is_disk { 1 } else { 2 },
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: REQUEST_BYTES_MAX,
            flags: 0,
        }
    }

    /// Runs a request whose answer is success or an errno.
    fn answer(&self, reply: ReplyEmpty, work: impl Future<Output = Result<(), Refusal>> + Send + 'static) {
        self.env.spawn(Box::pin(async move {
            match work.await {
                Ok(()) => reply.ok(),
                Err(refusal) => reply.error(Errno::from_i32(refusal)),
            }
        }));
    }

    fn flush_device(&self, reply: ReplyEmpty) {
        let file = self.file.clone();
        self.answer(reply, async move { file.flush().await });
    }
}

impl Filesystem for Disk {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.set_max_write(REQUEST_BYTES_MAX);
        let _ = config.set_max_background(IN_FLIGHT_MAX);
        // Without it the loop driver's requests would go one at a time.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == FILE_NAME {
            reply.entry(&FOREVER, &self.attributes(DISK), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes(inode));
    }

    /// Times can be set, without effect; size, owner and mode are fixed.
    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let resized = size.is_some_and(|size| size != self.file.size_bytes());
        if mode.is_some() || uid.is_some() || gid.is_some() || resized {
            return reply.error(Errno::EPERM);
        }
        reply.attr(&FOREVER, &self.attributes(inode));
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if inode != DISK {
            return reply.error(Errno::EISDIR);
        }
        // No page cache for the file: the block device above has one. Concurrent writes need no order among
        // each other, as on any disk.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let file = self.file.clone();
        self.env.spawn(Box::pin(async move {
            match file.read(offset, size).await {
                Ok((buf, range)) => reply.data(&buf[range]),
                Err(refusal) => reply.error(Errno::from_i32(refusal)),
            }
        }));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: fuser::WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        drop(std::mem::take(&mut *self.spent.lock()));
        let data = IoBuf::copy_of(data).freeze();
        let (file, spent) = (self.file.clone(), self.spent.clone());
        self.env.spawn(Box::pin(async move {
            let len = data.len() as u32;
            let result = file.write(offset, data.clone()).await;
            spent.lock().push(data);
            match result {
                Ok(()) => reply.written(len),
                Err(refusal) => reply.error(Errno::from_i32(refusal)),
            }
        }));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.flush_device(reply);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.flush_device(reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let file = self.file.clone();
        self.answer(reply, async move { file.allocate(offset, length, mode).await });
    }

    /// The kernel then treats the whole file as data.
    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, _: i64, _: i32, reply: ReplyLseek) {
        reply.error(Errno::ENOSYS);
    }

    fn readdir(&self, _: &Request, inode: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if inode != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (DISK, FileType::RegularFile, FILE_NAME),
        ];
        for (index, (inode, kind, name)) in entries.into_iter().enumerate().skip(offset as usize) {
            if reply.add(inode, index as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    /// The block size given here becomes the granularity of the loop device's discards.
    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let block_bytes = self.file.block_bytes();
        let blocks = self.file.size_bytes() / u64::from(block_bytes);
        reply.statfs(blocks, 0, 0, 1, 0, block_bytes, 255, block_bytes);
    }

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn listxattr(&self, _: &Request, _: INodeNo, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }
}
