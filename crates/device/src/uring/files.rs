//! Files registered with a worker's rings. Requests name them by number, so neither the kernel nor the
//! requests count references to them, which all workers would share.
//!
//! A file's number is its descriptor. A worker registers it with the first request, and keeps it open until
//! its owner releases it and the requests under way are done.

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use super::{executor::Inbox, reactor, ring::Ring};

/// Descriptors from here on are not registered: their requests count references.
const FILES_MAX: usize = 1024;
/// How long opening a file waits for pending releases of others. Workers release them in their next turn.
const LET_GO_MAX: Duration = Duration::from_secs(1);

/// Pending releases: workers asked to release a file, and threads that close one.
static LEAVING: Mutex<usize> = Mutex::new(0);
static LEFT: Condvar = Condvar::new();

/// An open file, and the workers that have registered it.
pub(crate) struct OpenFile {
    /// Some until it is dropped.
    fd: Option<OwnedFd>,
    /// For people.
    name: Arc<str>,
    /// Another process or machine serves the file, and may hang. Determined when it is opened: asking later
    /// may itself hang.
    is_served: bool,
    homes: Mutex<Vec<Arc<Inbox>>>,
}

impl OpenFile {
    pub(crate) fn new(fd: OwnedFd, name: &str) -> Arc<Self> {
        let is_served = is_served(&fd);
        Arc::new(Self { fd: Some(fd), name: name.into(), is_served, homes: Mutex::default() })
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether a call to this file may hang, because another process or machine must answer it.
    pub(crate) fn is_served(&self) -> bool {
        self.is_served
    }

    fn fd(&self) -> &OwnedFd {
        self.fd.as_ref().expect("it is open until it is dropped")
    }

    /// Makes every worker that registered the file release it: after that a device can be opened exclusively
    /// again.
    pub(crate) fn leave(self: &Arc<Self>) {
        for home in std::mem::take(&mut *self.homes.lock()) {
            if reactor::with_here(home.id(), |reactor| reactor.forget(self)) || home.is_stopping() {
                continue;
            }
            let (file, leaving) = (self.clone(), Leaving::new());
            home.spawn(Box::pin(async move {
                reactor::with(|reactor| reactor.forget(&file));
                drop((file, leaving));
            }));
        }
    }
}

/// File systems whose files another process or machine serves, by their magic numbers: FUSE, NFS, CIFS, SMB2,
/// Ceph, 9P, AFS.
const SERVED: [i64; 7] =
    [0x6573_5546, 0x6969, 0xff53_4d42, 0xfe53_4d42, 0x00c3_6400, 0x0102_1997, 0x5346_414f];

fn is_served(fd: impl AsFd) -> bool {
    rustix::fs::fstatfs(fd).is_ok_and(|stat| SERVED.contains(&stat.f_type))
}

/// Closing asks the file's server. A hanging server must not block the worker that drops the last reference.
impl Drop for OpenFile {
    fn drop(&mut self) {
        let Some(fd) = self.fd.take().filter(|_| self.is_served) else { return };
        let leaving = Leaving::new();
        // If no thread can be started, the file is closed here.
        let _ = thread::Builder::new().name("stripewise-close".into()).spawn(move || {
            drop(fd);
            drop(leaving);
        });
    }
}

impl std::fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OpenFile").field(self.fd()).finish()
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd().as_fd()
    }
}

/// Waits, for a while, until the pending releases are done.
pub(crate) fn wait_for_leaving() {
    let deadline = Instant::now() + LET_GO_MAX;
    let mut leaving = LEAVING.lock();
    while *leaving > 0 && !LEFT.wait_until(&mut leaving, deadline).timed_out() {}
}

/// A pending release of a file; dropped when it is done, or never will be.
struct Leaving;

impl Leaving {
    fn new() -> Self {
        *LEAVING.lock() += 1;
        Self
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        *LEAVING.lock() -= 1;
        LEFT.notify_all();
    }
}

/// The files registered with a worker's rings, by descriptor.
pub(super) struct Files {
    entries: Vec<Entry>,
    /// Whether the rings have file tables.
    can_register: bool,
}

#[derive(Default)]
struct Entry {
    file: Option<Arc<OpenFile>>,
    /// Requests under way.
    under_way: u32,
    /// Its owner has released it.
    is_leaving: bool,
}

impl Files {
    pub(super) fn new<'r>(rings: impl Iterator<Item = &'r Ring>) -> Self {
        let mut rings = rings.peekable();
        let can_register = rings.peek().is_some() && rings.all(|ring| ring.make_file_table(FILES_MAX as u32));
        Self { entries: Vec::new(), can_register }
    }

    /// Counts a request to a file, which then may name the file by its number. False if the file is not
    /// registered; files that another process serves never are.
    pub(super) fn enter<'r>(
        &mut self,
        file: &Arc<OpenFile>,
        inbox: &Arc<Inbox>,
        mut rings: impl Iterator<Item = &'r Ring> + Clone,
    ) -> bool {
        if file.is_served() {
            return false;
        }
        let number = file.fd().as_raw_fd() as usize;
        if self.entries.len() <= number && self.can_register && number < FILES_MAX {
            self.entries.resize_with(number + 1, Entry::default);
        }
        let Some(entry) = self.entries.get_mut(number) else { return false };
        // A file in this entry is this file: while it is kept open, no other has its descriptor.
        if entry.file.is_none() {
            if !self.can_register {
                return false;
            }
            let all = rings.clone();
            if rings.any(|ring| !ring.set_file(number as u32, file.fd().as_raw_fd())) {
                Self::clear(entry, number, all);
                self.can_register = false;
                return false;
            }
            entry.file = Some(file.clone());
            file.homes.lock().push(inbox.clone());
        }
        entry.under_way += 1;
        true
    }

    /// The file that is registered under a number.
    pub(super) fn registered(&self, number: usize) -> Option<&Arc<OpenFile>> {
        self.entries.get(number)?.file.as_ref()
    }

    /// A request to a registered file is done.
    pub(super) fn exit<'r>(&mut self, number: usize, rings: impl Iterator<Item = &'r Ring>) {
        let entry = &mut self.entries[number];
        entry.under_way -= 1;
        if entry.is_leaving && entry.under_way == 0 {
            Self::clear(entry, number, rings);
        }
    }

    /// A file's owner releases it.
    pub(super) fn forget<'r>(&mut self, file: &Arc<OpenFile>, rings: impl Iterator<Item = &'r Ring>) {
        let number = file.fd().as_raw_fd() as usize;
        let Some(entry) = self.entries.get_mut(number) else { return };
        if !entry.file.as_ref().is_some_and(|known| Arc::ptr_eq(known, file)) {
            return;
        }
        entry.is_leaving = true;
        if entry.under_way == 0 {
            Self::clear(entry, number, rings);
        }
    }

    fn clear<'r>(entry: &mut Entry, number: usize, rings: impl Iterator<Item = &'r Ring>) {
        for ring in rings {
            ring.set_file(number as u32, -1);
        }
        *entry = Entry::default();
    }
}
