//! mkfs, mount and unmount.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::lock::Mutex as AsyncMutex;
use parking_lot::Mutex;
use stripewise_device::{EnvHandle, IoError, Timestamp};
use stripewise_format::rafs::{
    anchor::AnchorError,
    inode::FileType,
    key::{Key, KeyKind},
    superblock::Superblock,
};
use thiserror::Error;

use super::{
    Fs, FsError, NewInode, ROOT, Shared, Used,
    background::{self, Kick},
    entries::inode_of,
    pace::Pace,
    policy::{JournalMode, Preset, Technique, Without},
    state::{Now, State},
    turn::Turn,
    write::FILE_BLOCKS_MAX,
};
use crate::{
    buffer::{Buffer, Owner, Temperature},
    journal::ReplayError,
    mutants::{Mutant, lives},
    shape::BLOCK_BYTES,
    space::Measure,
    store::{self, FileBlocks, Ground, GroundError, MakeError, MakeOptions, OpenError, Purpose, Store},
    tree::Scan,
    volume::Volume,
};

/// Stripes that a buffer has room for, at least.
pub const BUFFERED_STRIPES_MIN: u64 = 4;
/// Tries to write out what comes while it ends.
const TRIES: usize = 4;

/// How a file system is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountOptions {
    /// Nothing is changed. What the journal has is repeated in memory only, up to a record that is rotten.
    pub is_read_only: bool,
    /// What the journal has is repeated. Without it, and read-only, the file system is as the last checkpoint left it.
    pub repeats_journal: bool,
    /// Blocks of the buffer.
    pub buffer_blocks: u64,
    /// T_f: the buffer is written out if less of it is free, in percent.
    pub free_percent: u8,
    /// T_t: what is buffered for longer is written out; names and attributes are committed as often.
    pub age: Duration,
    /// What is left in half-empty stripes is moved together, so that there are free ones.
    pub cleans: bool,
    /// Stripes that were written less long ago are left alone by that: what is young is likely to change soon.
    pub cleaned_after: Duration,
    /// Stripes of which all is free are discarded, once what freed them is durable.
    pub discards: bool,
    /// How changes become durable.
    pub journal: JournalMode,
    /// Of the paper's techniques, those that are off.
    pub without: Without,
    /// Which of two stripes has more room.
    pub measure: Measure,
    /// All of a file that is longer than a stripe lies in stripes of its own, its tail, too, which wastes the rest of the last one.
    pub pads: bool,
    /// Nodes of the tree that are kept in memory.
    pub cached_nodes: usize,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            is_read_only: false,
            repeats_journal: true,
            buffer_blocks: (64 << 20) / BLOCK_BYTES as u64,
            free_percent: 20,
            age: Duration::from_secs(5),
            cleans: true,
            cleaned_after: Duration::from_secs(30),
            discards: false,
            journal: JournalMode::default(),
            without: Without::default(),
            measure: Measure::Rows,
            pads: false,
            cached_nodes: 1 << 14,
        }
    }
}

impl MountOptions {
    /// As a preset says.
    #[must_use]
    pub fn of(preset: Preset) -> Self {
        match preset {
            Preset::Default => Self::default(),
            Preset::Paper => Self { measure: Measure::Blocks, cleans: false, pads: true, ..Self::default() },
        }
    }

    fn purpose(&self) -> Purpose {
        match (self.is_read_only, self.repeats_journal) {
            (false, _) => Purpose::Write,
            (true, true) => Purpose::Read,
            (true, false) => Purpose::ReadAnchor,
        }
    }
}

/// Why no file system was made or mounted.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum MountError {
    /// It cannot be made.
    #[error(transparent)]
    Make(#[from] MakeError),
    /// What is on the volume.
    #[error(transparent)]
    Ground(#[from] GroundError),
    /// The journal, or the tree.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The content.
    #[error(transparent)]
    Fs(#[from] FsError),
    /// One anchor is lost, and may have been the newer one. Writing would destroy the tree that it led to.
    #[error(
        "one of two anchors is damaged ({0}), and it may have been the newer one; run fsck, or mount it read-only"
    )]
    LostAnchor(AnchorError),
    /// The anchors cannot be written, as a mount that writes begins with.
    #[error(
        "its anchors cannot be written: {0}; nothing was changed: see to the volume, or mount it read-only"
    )]
    Anchors(IoError),
    /// The buffer is too small.
    #[error(
        "a buffer of {blocks} blocks is too small for stripes of {stripe_blocks}; give at least {wanted}"
    )]
    Buffer {
        /// Blocks of the buffer.
        blocks: u64,
        /// Blocks of a stripe.
        stripe_blocks: u32,
        /// What would do.
        wanted: u64,
    },
}

impl Fs {
    /// mkfs: makes an empty file system, whatever is on the volume. Its root belongs to this user and group.
    ///
    /// # Errors
    /// [`MountError`].
    pub async fn make(
        volume: &Arc<dyn Volume>,
        options: &MakeOptions,
        (uid, gid): (u32, u32),
    ) -> Result<Superblock, MountError> {
        let superblock = store::make(volume, options).await?;
        let ground = Ground::read(&**volume).await?;
        let (mut store, _) = Store::open(volume.clone(), ground, 16, Purpose::Write).await?;
        store.renew_anchors().await.map_err(MountError::Anchors)?;
        let ns = i64::try_from(options.created_us.saturating_mul(1000)).unwrap_or(i64::MAX);
        let new = NewInode { file_type: FileType::Folder, permissions: 0o755, uid, gid, device: 0 };
        let root = inode_of(ROOT, None, new, None, Now { at: Timestamp::default(), ns });
        let key = Key::new(ROOT, KeyKind::Inode, 0);
        store.put(key, root.encode().into()).await.map_err(FsError::from)?;
        store.close().await.map_err(FsError::from)?;
        Ok(superblock)
    }

    /// Mounts the file system of a volume.
    ///
    /// # Errors
    /// [`MountError`].
    pub async fn mount(
        env: EnvHandle,
        volume: Arc<dyn Volume>,
        options: MountOptions,
    ) -> Result<Self, MountError> {
        let stripe_blocks = volume.geometry().stripe_blocks();
        let wanted = BUFFERED_STRIPES_MIN * u64::from(stripe_blocks);
        if options.buffer_blocks < wanted {
            return Err(MountError::Buffer { blocks: options.buffer_blocks, stripe_blocks, wanted });
        }
        let ground = Ground::read(&*volume).await?;
        if let (Some(lost), false) = (ground.lost_anchor, options.is_read_only) {
            return Err(MountError::LostAnchor(lost));
        }
        let purpose = options.purpose();
        if purpose == Purpose::Write {
            store::check_writable(&ground.superblock)?;
        }
        let (mut store, replay) = Store::open(volume.clone(), ground, options.cached_nodes, purpose).await?;
        store.want_discards(options.discards && !options.is_read_only && volume.takes_discards());
        let measure = match options.without.has(Technique::Allocation) {
            true => Measure::Nothing,
            false => options.measure,
        };
        store.set_measure(measure);
        store.let_data_trail(options.journal == JournalMode::Writeback);
        let pace = Pace { free_percent: options.free_percent, age: options.age };
        let settings = pace.settings(&options);
        let buffer = Buffer::new(settings, stripe_blocks);
        let mut state = State::new(volume.clone(), store, buffer, &options);
        for blocks in replay.data {
            state.take_up(blocks, env.now()).await?;
        }
        state.take_up_orphans().await?;
        if !options.is_read_only {
            state.store.renew_anchors().await.map_err(MountError::Anchors)?;
        }
        let healing = state.store.healing().clone();
        let shared = Arc::new(Shared {
            env: env.clone(),
            parity_before: volume.parity_updates(),
            volume,
            healing,
            options,
            pace: Mutex::new(pace),
            state: AsyncMutex::new(state),
            turn: Turn::default(),
            looking: Arc::default(),
            discarding: AsyncMutex::new(()),
            syncs: Mutex::new(Vec::new()),
            kick: Kick::default(),
            is_ending: false.into(),
            has_ended: Default::default(),
            rotten: replay.rotten,
        });
        shared.kick.want();
        env.spawn(Box::pin(background::run(shared.clone())));
        Ok(Self { _used: Arc::new(Used(shared.clone())), shared })
    }

    /// Why the journal was not repeated to its end, if it was not: a mount for reading ends before a record that is rotten. What was synced
    /// in it and behind it is not there.
    #[must_use]
    pub fn rotten_record(&self) -> Option<ReplayError> {
        self.shared.rotten
    }

    /// Writes all out, and ends. Nobody uses the file system any more.
    ///
    /// # Errors
    /// [`FsError`]; then what could not be written is in memory still, and this may be tried again.
    pub async fn unmount(&self) -> Result<(), FsError> {
        let shared = self.shared.clone();
        self.spawn(async move { shared.unmount().await }).await
    }

    /// Ends without writing anything out, as a crash would. When this returns, no write of the file system is under way on the volume,
    /// and none will be: something else may write there.
    pub async fn abandon(&self) {
        let shared = self.shared.clone();
        let abandoned = self.spawn(async move {
            shared.abandon().await;
            Ok(())
        });
        // The task returns Ok, so there is no error to pass on.
        let _ = abandoned.await;
    }
}

impl Shared {
    async fn unmount(&self) -> Result<(), FsError> {
        let is_writable = self.state.lock().await.check_writable();
        match is_writable {
            Ok(()) => self.make_space().await?,
            Err(FsError::ReadOnly) => {}
            Err(error) => return Err(error),
        }
        self.end_background().await;
        if is_writable.is_err() {
            return Ok(());
        }
        for _ in 0..TRIES {
            self.make_space().await?;
            // A write-out of blocks that were truncated meanwhile may still be under way.
            let turn = self.turn.take().await;
            let mut state = self.state.lock().await;
            if state.buffer.blocks() == 0 {
                state.close().await?;
                drop((state, turn));
                self.discard_rest().await;
                return Ok(());
            }
        }
        Err(FsError::Invalid("the file system is used still: end what writes to it, and unmount it again"))
    }

    async fn abandon(&self) {
        self.end_background().await;
        let _turn = self.turn.take().await;
        let _discards = self.discarding.lock().await;
        self.state.lock().await.store.give_up();
    }

    async fn end_background(&self) {
        self.is_ending.store(true, Ordering::Release);
        if !lives(Mutant::EndNotHeard) {
            self.kick.want();
        }
        self.has_ended.wait().await;
        // A look at the tree ends with its next step.
        drop(self.looking.lock().await);
    }
}

impl State {
    /// Takes up blocks of a file that came along with a commit before a crash.
    async fn take_up(&mut self, data: FileBlocks, at: Timestamp) -> Result<(), FsError> {
        let FileBlocks { inode, first, blocks } = data;
        let folder = match self.file(inode).await {
            Ok(attr) => attr.is.parent,
            Err(FsError::Stale(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let end = first.checked_add(blocks.len() as u64);
        if end.is_none_or(|end| end > FILE_BLOCKS_MAX) {
            return Err(FsError::Damaged { inode, block: first });
        }
        if !lives(Mutant::ReplayedNotJournaled) {
            self.journaled.add(inode, first..first + blocks.len() as u64);
        }
        for (block, data) in (first..).zip(&blocks) {
            self.buffer.write(Owner { folder, inode }, Temperature::New, block, data, at);
        }
        Ok(())
    }

    /// Takes up inodes without names, whose users are gone.
    async fn take_up_orphans(&mut self) -> Result<(), FsError> {
        let mut scan = Scan::over(Key::new(0, KeyKind::Orphan, 0)..=Key::new(0, KeyKind::Orphan, u64::MAX));
        while let Some(items) = scan.batch(self.store.tree()).await? {
            for item in items {
                match self.live(item.key.offset).await {
                    Ok(_) => self.unused.insert(item.key.offset),
                    // Only fsck knows what to do with it.
                    Err(FsError::Stale(_)) => continue,
                    Err(error) => return Err(error),
                };
            }
        }
        Ok(())
    }

    /// Where a symbolic link leads.
    pub(super) async fn read_link(&mut self, inode: u64) -> Result<Vec<u8>, FsError> {
        if self.attr(inode).await?.file_type != FileType::Link {
            return Err(FsError::Invalid("this is no symbolic link"));
        }
        Ok(self.inline(inode).await?.map(|target| target.to_vec()).unwrap_or_default())
    }
}
