//! An array's name, held by one process at a time.

use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

/// How long a name may stay locked before it counts as taken: a killed process closes its files a moment
/// after it seems to be gone.
const TAKEN_WAIT: Duration = Duration::from_secs(3);
const TAKEN_POLL: Duration = Duration::from_millis(5);

/// A name that this process holds. Its lock file goes with it.
pub(crate) struct NameLock {
    /// Locked until it is closed.
    _file: File,
    path: PathBuf,
}

impl NameLock {
    /// Takes the name of an array that no daemon runs.
    pub(crate) fn take(dir: &Path, name: &str) -> anyhow::Result<Self> {
        let path = dir.join(format!("{name}.lock"));
        let deadline = Instant::now() + TAKEN_WAIT;
        loop {
            let file = File::options().create(true).write(true).truncate(false).mode(0o600).open(&path);
            let file = file.with_context(|| path.display().to_string())?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // The last holder may have removed the file after this process opened it. Then others lock
                // another file.
                Ok(()) if is_at(&file, &path) => return Ok(Self { _file: file, path }),
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => thread::sleep(TAKEN_POLL),
                Err(Errno::WOULDBLOCK) => bail!("{}", taken(name)),
                Err(error) => return Err(error).with_context(|| format!("{}: cannot lock", path.display())),
            }
        }
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let (held, there) = (file.metadata().map(identity), fs::metadata(path).map(identity));
    held.is_ok_and(|held| there.is_ok_and(|there| held == there))
}

impl Drop for NameLock {
    /// Removes the file while it is still locked, so that it cannot be another process's.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// What to say about a name that another daemon holds.
pub(crate) fn taken(name: &str) -> String {
    format!("an array named '{name}' is running already; choose another name or stop that one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_held_by_one_and_its_file_goes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let lock = NameLock::take(dir.path(), "a").unwrap();
        assert!(NameLock::take(dir.path(), "a").is_err());
        drop(lock);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn never_two_hold_a_name_however_often_its_file_comes_and_goes() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let dir = tempfile::tempdir().unwrap();
        let (holders, held) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let contend = || {
            for _ in 0..200 {
                if let Ok(lock) = NameLock::take(dir.path(), "a") {
                    assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                    held.fetch_add(1, Ordering::Relaxed);
                    holders.fetch_sub(1, Ordering::SeqCst);
                    drop(lock);
                }
            }
        };
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(contend))));
        assert!(held.into_inner() > 200);
    }
}
