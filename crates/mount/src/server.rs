//! Takes requests, and hands each to a task.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::lock::Mutex as AsyncMutex;
use parking_lot::Mutex;
use stripewise_device::EnvHandle;
use stripewise_fuse::{Errno, Message, Operation, Reply, Server};
use stripewise_rafs::fs::{Fs, FsError};

use crate::{
    answer::{Answer, Result},
    checking::Newest,
    convert::errno,
    report::Identity,
};

/// A mounted file system, for requests and their tasks.
pub(crate) struct Rafs {
    pub(crate) fs: Fs,
    pub(crate) env: EnvHandle,
    pub(crate) identity: Identity,
    /// The user of this process.
    pub(crate) user: u32,
    /// The newest look at it.
    pub(crate) look: Newest,
    /// Whether requests are refused, as it is ended while it is in use.
    is_closed: AtomicBool,
    /// Whether all was written out and the file system has ended. Locked while it ends: there is one end.
    is_ended: AsyncMutex<bool>,
}

impl Rafs {
    pub(crate) fn new(fs: Fs, env: EnvHandle, identity: Identity) -> Self {
        let user = rustix::process::geteuid().as_raw();
        let (look, is_closed, is_ended) = (Newest::default(), AtomicBool::new(false), AsyncMutex::new(false));
        Self { fs, env, identity, user, look, is_closed, is_ended }
    }

    /// Writes all out, and ends. What has ended stays so.
    pub(crate) async fn end(&self) -> std::result::Result<(), FsError> {
        self.end_once(&mut *self.is_ended.lock().await).await
    }

    /// As [`Rafs::end`], for the last time: if that fails, nothing more is written.
    pub(crate) async fn end_or_abandon(&self) -> std::result::Result<(), FsError> {
        let mut is_ended = self.is_ended.lock().await;
        let ended = self.end_once(&mut is_ended).await;
        if ended.is_err() {
            self.fs.abandon().await;
        }
        ended
    }

    async fn end_once(&self, is_ended: &mut bool) -> std::result::Result<(), FsError> {
        if !*is_ended {
            self.fs.unmount().await?;
            *is_ended = true;
        }
        Ok(())
    }

    /// Refuses all requests from now on.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    async fn answer(&self, message: Message) -> Result<Answer> {
        let request = message.request();
        let (node, caller) = (request.node.0, request.caller);
        if let Operation::Write(write) = request.operation {
            let (offset_bytes, flags) = (write.offset_bytes, write.write_flags);
            return self.write(node, offset_bytes, flags, message.into_data()).await;
        }
        match request.operation {
            Operation::Lookup { name } => self.lookup(node, name).await,
            Operation::Forget { lookups } => self.forget(&[(node, lookups)]).await,
            Operation::BatchForget(forgets) => {
                let all: Vec<_> = forgets.iter().map(|(node, lookups)| (node.0, lookups)).collect();
                self.forget(&all).await
            }
            Operation::Interrupt { .. } => Ok(Answer::Silent),
            Operation::Getattr { .. } => Ok(Answer::Attributes(self.attr(node).await?)),
            Operation::Statx(_) => Ok(Answer::Statx(self.attr(node).await?)),
            Operation::Setattr(set) => self.set_attr(node, &set).await,
            Operation::Readlink => Ok(Answer::Bytes(self.fs.read_link(node).await.map_err(errno)?)),
            Operation::Symlink(link) => self.symlink(node, &link, caller).await,
            Operation::Mknod(make) => self.mknod(node, &make, caller).await,
            Operation::Mkdir(make) => self.mkdir(node, &make, caller).await,
            Operation::Create(create) => self.create(node, &create, caller).await,
            Operation::Tmpfile(create) => self.create_unnamed(node, &create, caller).await,
            Operation::Unlink { name } => self.unlink(node, name).await,
            Operation::Rmdir { name } => self.rmdir(node, name).await,
            Operation::Rename(rename) => self.rename(node, &rename).await,
            Operation::Link(link) => self.link(node, &link).await,
            Operation::Open(open) => self.open(node, open.flags).await,
            Operation::Opendir(_) => Ok(Answer::Opened),
            Operation::Read(read) => self.read(node, read.offset_bytes, read.size_bytes).await,
            Operation::Statfs => self.figures().await,
            Operation::Release(_) | Operation::Releasedir(_) => Ok(Answer::Done),
            Operation::Fsync(_) | Operation::Fsyncdir(_) => self.fsync(node).await,
            Operation::Syncfs => self.fs.sync().await.map(|()| Answer::Done).map_err(errno),
            Operation::Destroy => self.end().await.map(|()| Answer::Done).map_err(errno),
            Operation::Readdir(read) => self.list(node, &read).await,
            Operation::Readdirplus(read) => self.list_plus(node, &read).await,
            Operation::Setxattr(set) => self.set_xattr(node, &set, caller).await,
            Operation::Getxattr { name, size_bytes } => self.xattr(node, name, size_bytes, caller).await,
            Operation::Listxattr { size_bytes } => self.xattrs(node, size_bytes).await,
            Operation::Removexattr { name } => self.remove_xattr(node, name).await,
            Operation::Fallocate(fallocate) => self.fallocate(node, &fallocate).await,
            Operation::Lseek(lseek) => self.seek(node, &lseek).await,
            // The kernel does without: after ENOSYS a close sends nothing, permissions are checked by mode, and ranges are
            // copied by reads and writes.
            _ => Err(Errno::NOSYS),
        }
    }
}

/// What the session calls. It goes with the session's last thread.
pub(crate) struct Requests {
    pub(crate) rafs: Arc<Rafs>,
    pub(crate) on_end: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Server for Requests {
    fn handle(&self, message: Message, reply: Reply) {
        if self.rafs.is_closed.load(Ordering::Acquire) {
            return reply.error(Errno::IO);
        }
        let rafs = self.rafs.clone();
        self.rafs.env.spawn(Box::pin(async move {
            match rafs.answer(message).await {
                Ok(answer) => answer.send(reply),
                Err(error) => reply.error(error),
            }
        }));
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        if let Some(on_end) = self.on_end.get_mut().take() {
            on_end();
        }
    }
}
