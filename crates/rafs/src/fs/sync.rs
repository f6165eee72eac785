//! fsync, sync, and write-outs: what takes the locks of a file system, the turn before the state.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::future::join_all;
use stripewise_device::Timestamp;

use super::{
    Fs, FsError, JournalMode, Shared,
    state::State,
    turn::Taken,
    write_out::{Planned, Scope},
};
use crate::{
    journal::CommitError,
    mutants::{Mutant, lives},
    store::StoreError,
};

/// Stripes that are written at the same time.
const STRIPES_AT_ONCE: usize = 8;
/// Tries of a commit that finds the journal full, and of a checkpoint that finds more to be written out, before clients have to wait for it.
const TRIES: usize = 4;
/// Every so many batches of a write-out, the oldest file goes first.
const OLDEST_EVERY: u64 = 4;
/// Parts of the journal that one fsync may take along; what is larger goes to stripes first.
const JOURNAL_PARTS: u64 = 8;

/// The journal has no room.
const FULL: FsError = FsError::Store(StoreError::Commit(CommitError::Full));

/// Whose blocks come along with a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Along {
    /// Those of files that tasks in fsync wait for.
    Synced,
    /// Also those of files of which something was overwritten since their blocks were durable last.
    Overtaken,
}

/// An fsync that waits for a commit: its file, and whether another task's commit made it durable.
pub(super) type Ticket = Arc<(u64, AtomicBool)>;

/// What a commit is for.
struct Waiting {
    tickets: Vec<Ticket>,
    /// Files whose blocks come along, in order.
    files: Vec<u64>,
}

impl Fs {
    /// Makes a file durable: its bytes, its length, its names and the folders above. A mount for reading has nothing to make durable.
    ///
    /// # Errors
    /// [`FsError`]; then what was not made durable stays in memory, and is tried again.
    pub async fn fsync(&self, inode: u64) -> Result<(), FsError> {
        let shared = self.shared.clone();
        self.spawn(async move { shared.fsync(inode).await }).await
    }

    /// Makes all durable.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn sync(&self) -> Result<(), FsError> {
        let shared = self.shared.clone();
        self.spawn(async move { shared.sync().await }).await
    }

    /// Writes out all that is buffered, and the tree: the journal is empty then.
    ///
    /// # Errors
    /// [`FsError`].
    pub async fn checkpoint(&self) -> Result<(), FsError> {
        let shared = self.shared.clone();
        self.spawn(async move { shared.checkpoint().await }).await
    }
}

impl Shared {
    async fn fsync(&self, inode: u64) -> Result<(), FsError> {
        if self.options.is_read_only {
            return Ok(());
        }
        match self.options.journal {
            // Whatever fails here, the commit below tries again.
            JournalMode::Data => drop(self.journal_file(inode).await),
            JournalMode::None => self.write_out(Scope::File(inode)).await?,
            _ if self.is_large(inode).await => self.write_out(Scope::File(inode)).await?,
            _ => {}
        }
        let ticket: Ticket = Arc::new((inode, AtomicBool::new(false)));
        self.syncs.lock().push(ticket.clone());
        let committed = self.commit(Some(&ticket)).await;
        self.syncs.lock().retain(|other| !Arc::ptr_eq(other, &ticket));
        if is_served(Some(&ticket)) { Ok(()) } else { committed }
    }

    /// Whether a file waits with more blocks than are to come along with a commit.
    async fn is_large(&self, inode: u64) -> bool {
        let state = self.state.lock().await;
        let most = commit_max(&state);
        state.pending(inode).take(most + 1).count() > most
    }

    /// Commits what waits of a file, as much as may come along with a commit at a time, but for a rest.
    async fn journal_file(&self, inode: u64) -> Result<(), FsError> {
        let (most, waiting) = {
            let state = self.state.lock().await;
            (along_max(&state), state.pending(inode).count())
        };
        for _ in 0..waiting / most {
            self.commit_part(&[inode], most).await?;
        }
        Ok(())
    }

    /// Commits all that waits, of several files at a time.
    async fn journal_all(&self) -> Result<(), FsError> {
        let (most, waiting) = {
            let state = self.state.lock().await;
            let files = state.buffer.files().map(|inode| (inode, state.pending(inode).count()));
            (along_max(&state), files.filter(|(_, count)| *count > 0).collect::<Vec<_>>())
        };
        let (mut files, mut blocks, mut result) = (Vec::new(), 0, Ok(()));
        for (inode, count) in waiting {
            match self.journal_file(inode).await {
                Ok(()) => files.push(inode),
                error => result = result.and(error),
            }
            blocks += count % most;
            if blocks >= most {
                result = result.and(self.commit_rests(&std::mem::take(&mut files)).await);
                blocks = 0;
            }
        }
        result.and(self.commit_rests(&files).await)
    }

    /// Commits all that waits of these files, together; or each alone if one of them keeps the others from it.
    async fn commit_rests(&self, files: &[u64]) -> Result<(), FsError> {
        let mut result = self.commit_part(files, usize::MAX).await;
        if result.is_err() && files.len() > 1 {
            result = Ok(());
            for inode in files {
                result = result.and(self.commit_part(&[*inode], usize::MAX).await);
            }
        }
        result
    }

    /// Commits all changes, with up to so many blocks of each of these files. If that does not fit the journal, the files are written out
    /// as a whole, and a checkpoint makes them durable.
    pub(super) async fn commit_part(&self, files: &[u64], blocks_max: usize) -> Result<(), FsError> {
        for _ in 0..TRIES {
            let committed = self.state.lock().await.commit(files, blocks_max).await;
            if !is_full(committed) {
                return committed;
            }
            self.make_journal_room().await?;
        }
        let _turn = self.turn.take().await;
        self.checkpoint_alone(&mut *self.state.lock().await, files).await
    }

    pub(super) async fn sync(&self) -> Result<(), FsError> {
        if self.options.is_read_only {
            return Ok(());
        }
        let journaled = match self.options.journal {
            JournalMode::Data => self.journal_all().await,
            _ => Ok(()),
        };
        // One file may have failed: all the others become durable.
        let written = self.write_out(Scope::All).await;
        // What was overwritten before it was written out is nowhere else: its newer version comes along.
        let committed = self.commit_with(None, Along::Overtaken).await;
        journaled.and(written).and(committed)
    }

    pub(super) async fn checkpoint(&self) -> Result<(), FsError> {
        let written = self.write_out(Scope::All).await;
        let made = self.make_journal_room().await;
        written.and(made)
    }

    /// Commits all changes, for all tasks that wait in fsync: they share it. One whose ticket was served by another task does nothing.
    pub(super) async fn commit(&self, own: Option<&Ticket>) -> Result<(), FsError> {
        self.commit_with(own, Along::Synced).await
    }

    async fn commit_with(&self, own: Option<&Ticket>, along: Along) -> Result<(), FsError> {
        self.write_out_replacing(own).await;
        for _ in 0..TRIES {
            let (committed, files) = self.commit_once(own, along).await;
            if committed.is_ok() {
                return Ok(());
            }
            match committed {
                _ if is_full(committed) => {}
                // The device has failed, and not what was read.
                Err(FsError::Store(StoreError::Commit(_) | StoreError::Failed)) => return committed,
                // Another task's file may be what cannot be read. In the end, this task's own one counts.
                _ => break,
            }
            for inode in files {
                let _ = self.write_out(Scope::File(inode)).await;
            }
            let _ = self.make_journal_room().await;
        }
        self.commit_alone(own, along).await
    }

    /// Writes out files that have replaced others, if more of them waits than is to come along with a commit.
    async fn write_out_replacing(&self, own: Option<&Ticket>) {
        if self.options.journal == JournalMode::Data || self.replacing_too_much().await.is_empty() {
            return;
        }
        let mut turn = Some(self.turn.take().await);
        // Another task may have done that meanwhile.
        let files = if is_served(own) { Vec::new() } else { self.replacing_too_much().await };
        let scopes = match files.len() {
            0..STRIPES_AT_ONCE => files.into_iter().map(Scope::File).collect(),
            _ => vec![Scope::All],
        };
        // What cannot be written comes along with the commit, or gives way to it.
        for scope in scopes {
            let _ = self.write_batches(scope, &mut turn).await;
            let _ = self.state.lock().await.take_back(scope);
        }
    }

    /// The files that have replaced others, and wait with more blocks than are to come along with a commit; none if they do not.
    async fn replacing_too_much(&self) -> Vec<u64> {
        let state = self.state.lock().await;
        let most = commit_max(&state);
        let waiting = state.replacing.iter().flat_map(|inode| state.pending(*inode));
        let has_too_much = waiting.take(most + 1).count() > most;
        let files = state.replacing.iter().copied().filter(|inode| has_too_much && state.has_pending(*inode));
        files.collect()
    }

    /// Tries to commit. Returns also the files whose blocks were to come along.
    async fn commit_once(&self, own: Option<&Ticket>, along: Along) -> (Result<(), FsError>, Vec<u64>) {
        let mut state = self.state.lock().await;
        if is_served(own) {
            return (Ok(()), Vec::new());
        }
        let waiting = self.waiting(&state, own, along);
        let committed = match self.options.journal {
            JournalMode::None if state.wait_for_places(&waiting.files) => Err(FULL),
            JournalMode::None if state.is_committed() => Ok(()),
            JournalMode::None => state.checkpoint().await,
            _ => state.commit(&waiting.files, usize::MAX).await,
        };
        if committed.is_ok() {
            waiting.tickets.iter().for_each(|ticket| ticket.1.store(true, Ordering::Release));
            state.overtaken.retain(|inode| waiting.files.binary_search(inode).is_err());
        } else {
            self.syncs.lock().extend(waiting.tickets);
        }
        (committed, waiting.files)
    }

    /// Makes durable what [`Shared::commit_once`] would, but without the files of other tasks, even if clients write faster than room is
    /// made: they wait meanwhile.
    pub(super) async fn commit_alone(&self, own: Option<&Ticket>, along: Along) -> Result<(), FsError> {
        let _turn = self.turn.take().await;
        let mut state = self.state.lock().await;
        if is_served(own) {
            return Ok(());
        }
        let files = comes_along(&state, own, along);
        self.checkpoint_alone(&mut state, &files).await?;
        state.overtaken.retain(|inode| files.binary_search(inode).is_err());
        // Files of which nothing waits are durable now, too.
        let (done, waiting) = std::mem::take(&mut *self.syncs.lock())
            .into_iter()
            .partition::<Vec<_>, _>(|ticket| !state.has_pending(ticket.0));
        done.iter().for_each(|ticket| ticket.1.store(true, Ordering::Release));
        self.syncs.lock().extend(waiting);
        Ok(())
    }

    /// Takes the tickets of all tasks that wait in fsync.
    fn waiting(&self, state: &State, own: Option<&Ticket>, along: Along) -> Waiting {
        let mut tickets = std::mem::take(&mut *self.syncs.lock());
        // Nobody waits for a ticket that only the list has.
        tickets.retain(|ticket| Arc::strong_count(ticket) > 1);
        let files = comes_along(state, tickets.iter().chain(own), along);
        Waiting { tickets, files }
    }

    /// Writes out what is in the journal only, and makes a checkpoint.
    pub(super) async fn make_journal_room(&self) -> Result<(), FsError> {
        for _ in 0..TRIES {
            let mut files = self.state.lock().await.need_places();
            if lives(Mutant::JournaledNotWrittenOut) {
                files.clear();
            }
            let mut written = Ok(());
            for inode in files {
                written = written.and(self.write_out(Scope::File(inode)).await);
            }
            let mut state = self.state.lock().await;
            // Others may have synced small files meanwhile.
            if !state.wait_for_places(&[]) || lives(Mutant::JournaledNotWrittenOut) {
                return state.checkpoint().await;
            }
            written?;
        }
        let _turn = self.turn.take().await;
        self.checkpoint_alone(&mut *self.state.lock().await, &[]).await
    }

    /// Writes out these files and whatever is only in the journal, and makes a checkpoint. The caller holds the turn and the state, so
    /// clients have to wait.
    async fn checkpoint_alone(&self, state: &mut State, files: &[u64]) -> Result<(), FsError> {
        let mut all = state.need_places();
        all.extend(files);
        let mut written = Ok(());
        for inode in all {
            let file = self.write_file_out(state, inode).await;
            let back = state.take_back(Scope::File(inode));
            written = written.and(file).and(back);
        }
        if state.wait_for_places(files) { written.and(Err(FULL)) } else { state.checkpoint().await }
    }

    async fn write_file_out(&self, state: &mut State, inode: u64) -> Result<(), FsError> {
        loop {
            let now = self.env.now();
            let (count, planned) = state.plan_stripe(Scope::File(inode), now).await?;
            if let Some(planned) = &planned {
                planned.small_stripe().iter().for_each(|stripe| state.cleaning.note_written(*stripe, now));
                let done = planned.carry_out(&*self.volume).await;
                state.settle(planned, done).await?;
            } else if count == 0 {
                return Ok(());
            }
        }
    }

    /// Writes out what was buffered when this began, of all files or of one. Clients that write on do not keep it from ending. Others have
    /// their turns between two batches: an fsync does not wait for all that other files have buffered.
    pub(super) async fn write_out(&self, scope: Scope) -> Result<(), FsError> {
        let mut turn = Some(self.turn.take().await);
        let written = self.write_batches(scope, &mut turn).await;
        let back = self.state.lock().await.take_back(scope);
        written.and(back)
    }

    async fn write_batches<'turn>(
        &'turn self,
        scope: Scope,
        turn: &mut Option<Taken<'turn>>,
    ) -> Result<(), FsError> {
        let began = self.env.now();
        for batch in 1_u64.. {
            // Whole pieces go first: now and then the oldest file does, so that it is not put off by newer ones.
            let scope = match scope {
                Scope::All if batch.is_multiple_of(OLDEST_EVERY) => self.oldest().await.unwrap_or(scope),
                scope => scope,
            };
            let written = self.write_stripes(scope, began).await?;
            let is_done = match scope {
                Scope::All => written == 0 || self.is_new(began).await,
                Scope::File(_) => written == 0,
            };
            if is_done && !batch.is_multiple_of(OLDEST_EVERY) {
                break;
            }
            self.turn.give_way(turn).await;
        }
        Ok(())
    }

    /// The file that waits for longest.
    async fn oldest(&self) -> Option<Scope> {
        self.state.lock().await.buffer.oldest_file().map(Scope::File)
    }

    /// Whether all that waits in the buffer came after this.
    async fn is_new(&self, began: Timestamp) -> bool {
        self.state.lock().await.buffer.oldest().is_none_or(|oldest| oldest > began)
    }

    /// Writes some stripes out. Returns how many blocks that were.
    async fn write_stripes(&self, scope: Scope, until: Timestamp) -> Result<u64, FsError> {
        let (mut planned, mut written, mut result) = (Vec::new(), 0, Ok(()));
        {
            let mut state = self.state.lock().await;
            state.check_writable()?;
            let most = STRIPES_AT_ONCE as u64 * u64::from(state.volume.geometry().stripe_blocks());
            while planned.len() < STRIPES_AT_ONCE && written < most {
                match state.plan_stripe(scope, until).await {
                    Ok((0, None)) => break,
                    Ok((count, plan)) => {
                        written += count;
                        let small = plan.as_ref().and_then(Planned::small_stripe);
                        small.iter().for_each(|stripe| state.cleaning.note_written(*stripe, self.env.now()));
                        planned.extend(plan);
                    }
                    // The stripes with room may all be in this batch.
                    Err(FsError::NoSpace) if written > 0 || !planned.is_empty() => break,
                    Err(error) => {
                        result = Err(error);
                        break;
                    }
                }
            }
        }
        let done = join_all(planned.iter().map(|one| one.carry_out(&*self.volume))).await;
        let mut state = self.state.lock().await;
        for (one, done) in planned.iter().zip(done) {
            written += one.blocks();
            let settled = state.settle(one, done).await;
            result = result.and(settled);
        }
        result.map(|()| written)
    }
}

/// Whether another task's commit has made a ticket's file durable.
fn is_served(ticket: Option<&Ticket>) -> bool {
    ticket.is_some_and(|ticket| ticket.1.load(Ordering::Acquire))
}

/// The files of these tickets, and others whose blocks come along with a commit, in order.
fn comes_along<'ticket>(
    state: &State,
    tickets: impl IntoIterator<Item = &'ticket Ticket>,
    along: Along,
) -> Vec<u64> {
    let mut files: Vec<u64> = tickets.into_iter().map(|ticket| ticket.0).collect();
    if along == Along::Overtaken && !lives(Mutant::OvertakenForgotten) {
        files.extend(&state.overtaken);
    }
    files.sort_unstable();
    files.dedup();
    files
}

/// Blocks that wait and come along with a commit; where there are more, they are written out first.
fn commit_max(state: &State) -> usize {
    let half = state.volume.geometry().stripe_blocks() as usize / 2;
    along_max(state).min(half).max(1)
}

/// Blocks that come along with a commit at most.
fn along_max(state: &State) -> usize {
    let blocks = state.store.journal_room().1 * u64::from(state.volume.geometry().data_columns());
    ((blocks / JOURNAL_PARTS) as usize).max(1)
}

/// Whether a commit needs room in the journal first.
fn is_full(committed: Result<(), FsError>) -> bool {
    matches!(committed, Err(FsError::Store(StoreError::Commit(CommitError::Full | CommitError::TooLarge))))
}
