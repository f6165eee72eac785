//! A mount from its beginning to its end.

use std::{
    fs::File,
    os::fd::AsRawFd,
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{self, Receiver},
    },
    thread,
    time::Duration,
};

use anyhow::Context;
use rustix::fs::MemfdFlags;
use stripewise::{Array, internals::uring::Runtime};
use stripewise_mount::{
    report::Identity,
    served::{ServeError, Served},
};
use stripewise_wire::{MountChoice, Reply};

use super::{Claim, FileSystem, ground::open};
use crate::{
    errors,
    rafs::{mounted_status, serve_options},
};

/// What happens to a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The kernel has let go of it.
    Ended,
    /// It ends now, although it is in use. Writing out may take this long.
    Force(Duration),
}

/// What a mount needs.
pub(super) struct Mounting {
    pub(super) name: String,
    pub(super) array: Array,
    pub(super) runtime: Arc<Runtime>,
    pub(super) choice: MountChoice,
}

impl Mounting {
    /// Mounts, and starts a thread that waits for the end.
    pub(super) fn mount(self, claim: Claim) -> anyhow::Result<Reply> {
        let Self { name, array, runtime, choice } = self;
        let (opened, of) = (array.clone(), name.clone());
        let (superblock, volume) = runtime.block_on(async move { open(&of, opened).await })?;
        let identity = Identity { array: Some(name.clone()), ..Identity::new(name.clone(), &superblock) };
        let anchor =
            choice.has_loop.then(|| Anchor::of_size(array.geometry().capacity_bytes())).transpose()?;
        let options = serve_options(&choice, &name, anchor.as_ref().map(Anchor::path))?;
        let (tell, events) = mpsc::channel();
        let on_end = tell.clone();
        let ended = move || _ = on_end.send(Event::Ended);
        let served = Served::start(&runtime, volume, identity.clone(), &choice.point, options, ended)?;
        let status = mounted_status(&identity, &served, &choice);
        tracing::info!(point = %status.point.display(), "mounted");
        let (file_system, mounted_here) = (claim.0.clone(), claim.0.clone());
        let waiting = thread::Builder::new().name("stripewise-mount".into());
        claim.mounted(status.clone(), tell);
        let wait = move || wait(served, &events, &file_system);
        // If there is no thread, the mount is dropped with what it was to run, and taken out of the tree.
        let started = waiting.spawn(wait).inspect_err(|_| mounted_here.release(None));
        started.context("starting a thread")?;
        Ok(Reply::Mounted(Box::new(status)))
    }
}

/// Waits for the end, and writes out what is left.
fn wait(served: Served, events: &Receiver<Event>, file_system: &FileSystem) {
    let ended = match events.recv() {
        Ok(Event::Force(limit)) => {
            let ended = served.end_now(limit);
            // The process ends in a moment, and with it what the kernel keeps of the mount. Taking that out of the tree here could
            // wait for requests that this very process serves.
            std::mem::forget(served);
            if let Err(ServeError::Late) = ended {
                tracing::error!(
                    "its file system could not all be written out in time, and may still be written"
                );
                return;
            }
            ended
        }
        Ok(Event::Ended) | Err(_) => served.wait(),
    };
    let lost = ended.err().map(|error| errors::line(&error.into()));
    match &lost {
        None => tracing::info!("unmounted, and all is written out"),
        Some(why) => tracing::error!("its file system is unmounted, but {why}"),
    }
    file_system.release(lost);
}

/// A file in memory as long as the array, for the loop device that makes the kernel take the mount for a block device's. Nobody
/// reads or writes it, and it goes with the mount.
struct Anchor(File);

impl Anchor {
    fn of_size(size_bytes: u64) -> anyhow::Result<Self> {
        let file = File::from(rustix::fs::memfd_create("stripewise-mount", MemfdFlags::CLOEXEC)?);
        file.set_len(size_bytes).context("a file for the mount's loop device")?;
        Ok(Self(file))
    }

    fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}
