//! The operations, as callers see them. Each change runs as a task. One that finds no space makes some, and tries once more.

use std::{future::Future, ops::Range, pin::Pin, time::Duration};

use stripewise_device::{SharedBuf, sync::Event};

use super::{
    Attr, Counters, FolderEntry, Fs, FsError, NewInode, Rename, SetAttr, SetAttribute, Shared, Stripes,
    Usage,
    state::{Now, State},
    write_out::Scope,
};
use crate::{buffer::ListCount, shape::BLOCK_BYTES, volume::ParityUpdates};

/// An operation on the state.
type Op<'a, T> = Pin<Box<dyn Future<Output = Result<T, FsError>> + Send + 'a>>;

/// Blocks that a write may take at once, however large the buffer is.
const WRITE_BLOCKS_MAX: u64 = 256;
/// Where space is short, what is written at once.
const SHORT_BLOCKS: u64 = 16;

impl Fs {
    /// What stat(2) tells.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn attr(&self, inode: u64) -> Result<Attr, FsError> {
        self.shared.state.lock().await.attr(inode).await
    }

    /// Looks up a name in a folder; `.` and `..`, too. The caller uses the inode from then on: see [`Fs::forget`].
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn lookup(&self, folder: u64, name: &[u8]) -> Result<Attr, FsError> {
        self.shared.state.lock().await.lookup(folder, name).await
    }

    /// Gives an inode back, that was used so many times: each lookup, creation and link counts once. One that has no name is freed with
    /// its last use.
    pub async fn forget(&self, inode: u64, uses: u64) {
        let mut state = self.shared.state.lock().await;
        state.forget(inode, uses);
        if state.next_unused().is_some() {
            self.shared.kick.want();
        }
    }

    /// Makes an inode with a name. The caller uses it from then on.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn create(&self, folder: u64, name: &[u8], new: NewInode) -> Result<Attr, FsError> {
        let name = name.to_vec();
        self.change(move |state, now| {
            let name = name.clone();
            Box::pin(async move { state.create(folder, &name, new, None, now).await })
        })
        .await
    }

    /// Makes a file without a name, which is gone once its users have given it back, unless it was given one.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn create_unnamed(&self, folder: u64, new: NewInode) -> Result<Attr, FsError> {
        self.change(move |state, now| Box::pin(state.create_unnamed(folder, new, now))).await
    }

    /// Makes a symbolic link. The caller uses it from then on.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn symlink(
        &self,
        folder: u64,
        name: &[u8],
        target: &[u8],
        new: NewInode,
    ) -> Result<Attr, FsError> {
        let (name, target) = (name.to_vec(), target.to_vec());
        self.change(move |state, now| {
            let (name, target) = (name.clone(), target.clone());
            Box::pin(async move { state.create(folder, &name, new, Some(&target), now).await })
        })
        .await
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn read_link(&self, inode: u64) -> Result<Vec<u8>, FsError> {
        let mut state = self.shared.state.lock().await;
        state.read_link(inode).await
    }

    /// Gives an inode another name. The caller uses it once more.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn link(&self, inode: u64, folder: u64, name: &[u8]) -> Result<Attr, FsError> {
        let name = name.to_vec();
        self.change(move |state, now| {
            let name = name.clone();
            Box::pin(async move { state.link(inode, folder, &name, now).await })
        })
        .await
    }

    /// Removes the name of what is no folder.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn unlink(&self, folder: u64, name: &[u8]) -> Result<(), FsError> {
        let name = name.to_vec();
        self.change(move |state, now| {
            let name = name.clone();
            Box::pin(async move { state.unlink(folder, &name, now).await })
        })
        .await
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn remove_folder(&self, folder: u64, name: &[u8]) -> Result<(), FsError> {
        let name = name.to_vec();
        self.change(move |state, now| {
            let name = name.clone();
            Box::pin(async move { state.remove_folder(folder, &name, now).await })
        })
        .await
    }

    /// Gives an entry another folder and name, in one step: after a crash it has the old one or the new one.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn rename(&self, from: (u64, &[u8]), to: (u64, &[u8]), how: Rename) -> Result<(), FsError> {
        let (from, to) = ((from.0, from.1.to_vec()), (to.0, to.1.to_vec()));
        self.change(move |state, now| {
            let (from, to) = (from.clone(), to.clone());
            Box::pin(async move { state.rename((from.0, &from.1), (to.0, &to.1), how, now).await })
        })
        .await
    }

    /// Up to so many entries of a folder, behind the one of this number; 0 for the first ones. None are left if it returns none.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn read_folder(
        &self,
        folder: u64,
        behind: u64,
        max: usize,
    ) -> Result<Vec<FolderEntry>, FsError> {
        let mut state = self.shared.state.lock().await;
        match state.folder(folder).await {
            Ok(_) => state.entries(folder, behind, max).await,
            // It was removed while it was read.
            Err(FsError::NotFound) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Sets what is set of an inode.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn set_attr(&self, inode: u64, set: SetAttr) -> Result<Attr, FsError> {
        self.change(move |state, now| Box::pin(state.set_attr(inode, set, now))).await
    }

    /// Makes bytes of a file zeroes, and frees whole blocks among them.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn punch(&self, inode: u64, bytes: Range<u64>) -> Result<(), FsError> {
        self.change(move |state, now| Box::pin(state.punch(inode, bytes.clone(), now))).await
    }

    /// Writes bytes of a file. Returns how many; fewer than given only if the others could not be written.
    ///
    /// # Errors
    /// [`FsError`], if none could be written.
    pub async fn write(&self, inode: u64, offset_bytes: u64, data: SharedBuf) -> Result<usize, FsError> {
        match self.write_parts(inode, offset_bytes, data).await {
            (0, Err(error)) => Err(error),
            (done, _) => Ok(done),
        }
    }

    /// Writes bytes of a file, for a caller that takes any success to mean all of them.
    ///
    /// # Errors
    /// [`FsError`]; then some may be written.
    pub async fn write_all(&self, inode: u64, offset_bytes: u64, data: SharedBuf) -> Result<(), FsError> {
        self.write_parts(inode, offset_bytes, data).await.1
    }

    /// Writes bytes of a file, as far as that goes well. Returns how many were written, and what kept others from it.
    async fn write_parts(
        &self,
        inode: u64,
        offset_bytes: u64,
        data: SharedBuf,
    ) -> (usize, Result<(), FsError>) {
        let mut done = 0;
        let most = (self.shared.options.buffer_blocks / 4).clamp(1, WRITE_BLOCKS_MAX);
        while done < data.len() {
            let at = offset_bytes.saturating_add(done as u64);
            let mut written = self.write_part(inode, at, &data, done, most).await;
            if written == Err(FsError::NoSpace) && most > SHORT_BLOCKS {
                written = self.write_part(inode, at, &data, done, SHORT_BLOCKS).await;
            }
            match written {
                Ok(count) => done += count,
                Err(error) => return (done, Err(error)),
            }
        }
        (done, Ok(()))
    }

    /// Writes what fits so many blocks of what is left.
    async fn write_part(
        &self,
        inode: u64,
        at: u64,
        data: &SharedBuf,
        done: usize,
        blocks: u64,
    ) -> Result<usize, FsError> {
        let in_block = (at % BLOCK_BYTES as u64) as usize;
        let count = (data.len() - done).min(blocks as usize * BLOCK_BYTES - in_block);
        let part = data.slice(done..done + count);
        if self.shared.lacks_room(blocks + 1).await {
            let shared = self.shared.clone();
            self.spawn(async move { shared.wait_for_room(blocks + 1).await }).await?;
        }
        self.change(move |state, now| Box::pin(state.write(inode, at, part.clone(), now))).await?;
        Ok(count)
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn attribute(&self, inode: u64, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.shared.state.lock().await.attribute(inode, name).await
    }

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn attributes(&self, inode: u64) -> Result<Vec<Vec<u8>>, FsError> {
        self.shared.state.lock().await.attributes(inode).await
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn set_attribute(
        &self,
        inode: u64,
        name: &[u8],
        value: &[u8],
        how: SetAttribute,
    ) -> Result<(), FsError> {
        let (name, value) = (name.to_vec(), value.to_vec());
        self.change(move |state, now| {
            let (name, value) = (name.clone(), value.clone());
            Box::pin(async move { state.set_attribute(inode, &name, &value, how, now).await })
        })
        .await
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn remove_attribute(&self, inode: u64, name: &[u8]) -> Result<(), FsError> {
        let name = name.to_vec();
        self.change(move |state, now| {
            let name = name.clone();
            Box::pin(async move { state.remove_attribute(inode, &name, now).await })
        })
        .await
    }

    /// What statfs(2) tells.
    pub async fn usage(&self) -> Usage {
        let state = self.shared.state.lock().await;
        let taken = state.store.counts().taken;
        let free_blocks =
            state.store.free_blocks().saturating_sub(state.reserved_blocks() + state.buffer.blocks());
        Usage {
            blocks: taken + state.store.free_blocks(),
            free_blocks,
            inodes: state.store.inodes(),
            buffered_blocks: state.buffer.blocks(),
        }
    }

    /// The buffer lists that are not empty, and how long the oldest block of each has waited. It takes a look at each entry.
    pub async fn buffer_lists(&self) -> Vec<(ListCount, Duration)> {
        let state = self.shared.state.lock().await;
        let now = self.shared.now().at;
        state.buffer.lists().into_iter().map(|count| (count, now.since(count.oldest))).collect()
    }

    /// What was done since it was mounted.
    pub async fn counters(&self) -> Counters {
        let healed_blocks = self.shared.healing.healed();
        Counters { healed_blocks, ..self.shared.state.lock().await.counters }
    }

    /// How stripes were written since it was mounted, and how full they are.
    pub async fn stripes(&self) -> Stripes {
        let before = self.shared.parity_before;
        let parity = self.shared.volume.parity_updates().zip(before).map(|(now, before)| ParityUpdates {
            rmw_rows: now.rmw_rows.saturating_sub(before.rmw_rows),
            rcw_rows: now.rcw_rows.saturating_sub(before.rcw_rows),
        });
        let state = self.shared.state.lock().await;
        Stripes { written: state.store.stripe_counts(), parity, fill: state.store.fill() }
    }

    /// Runs a change as a task. If there is no space, it makes some, and tries once more.
    async fn change<T: Clone + Send + 'static>(
        &self,
        op: impl for<'a> Fn(&'a mut State, Now) -> Op<'a, T> + Send + Sync + 'static,
    ) -> Result<T, FsError> {
        let shared = self.shared.clone();
        self.spawn(async move {
            let now = shared.now();
            let mut state = shared.state.lock().await;
            if state.needs_checkpoint() {
                drop(state);
                // If that fails, the change may still do.
                let _ = shared.make_space().await;
                state = shared.state.lock().await;
            }
            let mut result = op(&mut state, now).await;
            drop(state);
            if result.as_ref().err() == Some(&FsError::NoSpace) {
                shared.make_space().await?;
                shared.end_discards().await;
                result = op(&mut *shared.state.lock().await, now).await;
            }
            shared.kick.want();
            result
        })
        .await
    }

    /// Runs a task to its end, whatever becomes of the caller.
    pub(super) async fn spawn<T: Clone + Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, FsError>> + Send + 'static,
    ) -> Result<T, FsError> {
        let told = Event::default();
        let tell = told.clone();
        self.shared.env.spawn(Box::pin(async move { tell.set(task.await) }));
        told.wait().await
    }
}

impl Shared {
    pub(super) fn now(&self) -> Now {
        let ns = i64::try_from(self.env.wall_clock_us().saturating_mul(1000)).unwrap_or(i64::MAX);
        Now { at: self.env.now(), ns }
    }

    /// Writes out until the buffer takes so many blocks.
    async fn wait_for_room(&self, blocks: u64) -> Result<(), FsError> {
        while self.lacks_room(blocks).await {
            let written = self.write_out(Scope::All).await;
            // The write-out may have failed for one file, and made room by others.
            if self.lacks_room(blocks).await {
                written?;
            }
        }
        Ok(())
    }

    async fn lacks_room(&self, blocks: u64) -> bool {
        self.state.lock().await.buffer.room() < blocks.min(self.options.buffer_blocks)
    }

    /// Space that was freed, and is not free yet, becomes free.
    pub(super) async fn make_space(&self) -> Result<(), FsError> {
        // What was freed is held until a commit, and a write-out may need it.
        self.commit(None).await?;
        while self.state.lock().await.next_unused().is_some() {
            self.state.lock().await.free_some().await?;
        }
        // The nodes that are dirty need room, too: without them, there is more for what is to be written out.
        let mut state = self.state.lock().await;
        if !state.wait_for_places(&[]) && state.needs_checkpoint() {
            state.checkpoint().await?;
        }
        drop(state);
        self.checkpoint().await
    }
}
