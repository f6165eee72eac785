//! Where messages go: to standard error, and a daemon's to its log.
//!
//! A message that cannot be written is lost and counted, with no other effect. When the run directory is
//! full, the array goes on, and so does the worker that wanted to report a failed member.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use tracing_subscriber::EnvFilter;

/// The size at which a new log begins. The old log stays beside it until the next time, so a log takes twice
/// this much of the run directory, which mostly lies in memory.
const LOG_BYTES_MAX: u64 = 1 << 20;

/// A daemon's log, once it has one.
static LOG: OnceLock<LogFile> = OnceLock::new();

/// Writes messages of this level and above, unless `STRIPEWISE_LOG` says otherwise.
pub(crate) fn begin(level: &str, colors: bool) {
    let filter = EnvFilter::try_from_env("STRIPEWISE_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Messages)
        .with_ansi(colors)
        // The crate would report them with `eprintln!`, which panics if standard error cannot be written
        // either.
        .log_internal_errors(false)
        .init();
}

/// From now on, all messages of this process go to a file, and so does everything else on standard error.
///
/// # Errors
/// When the file cannot be opened.
pub(crate) fn send_to(path: &Path) -> io::Result<()> {
    let log = LogFile::open(path, LOG_BYTES_MAX, true)?;
    let _ = LOG.set(log);
    Ok(())
}

/// Writes each message to the place that messages have at the moment.
struct Messages;

impl Write for Messages {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        match LOG.get() {
            Some(log) => log.write(message),
            None => drop(io::stderr().write_all(message)),
        }
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A log of bounded size.
struct LogFile {
    path: PathBuf,
    bytes_max: u64,
    /// Whether standard error goes there too: text that others print, such as a panic.
    is_stderr: bool,
    open: Mutex<OpenLog>,
}

struct OpenLog {
    file: File,
    bytes: u64,
    /// Messages that could not be written.
    lost: u64,
}

impl LogFile {
    fn open(path: &Path, bytes_max: u64, is_stderr: bool) -> io::Result<Self> {
        let open = Mutex::new(OpenLog::begin(path, is_stderr)?);
        Ok(Self { path: path.to_owned(), bytes_max, is_stderr, open })
    }

    fn open_log(&self) -> MutexGuard<'_, OpenLog> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, message: &[u8]) {
        let mut log = self.open_log();
        if log.bytes >= self.bytes_max {
            self.begin_anew(&mut log);
        }
        log.write(message);
    }

    /// Begins a new log. If that fails, it is tried again once the log has grown as much again.
    fn begin_anew(&self, log: &mut OpenLog) {
        let begun = fs::rename(&self.path, old_path(&self.path))
            .and_then(|()| OpenLog::begin(&self.path, self.is_stderr));
        match begun {
            Ok(new) => *log = OpenLog { lost: log.lost, ..new },
            Err(_) => log.bytes = 0,
        }
    }
}

/// The path of the old log, after a new one has begun.
pub(crate) fn old_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".old");
    name.into()
}

impl OpenLog {
    fn begin(path: &Path, is_stderr: bool) -> io::Result<Self> {
        let file = File::options().create(true).append(true).mode(0o600).open(path)?;
        if is_stderr {
            rustix::stdio::dup2_stderr(&file)?;
        }
        let bytes = file.metadata()?.len();
        Ok(Self { file, bytes, lost: 0 })
    }

    fn write(&mut self, message: &[u8]) {
        if self.lost > 0 {
            let told = format!("stripewise: {} messages could not be written here\n", self.lost);
            if self.write_all(told.as_bytes()) {
                self.lost = 0;
            }
        }
        if !self.write_all(message) {
            self.lost += 1;
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> bool {
        let written = self.file.write_all(bytes).is_ok();
        self.bytes += if written { bytes.len() as u64 } else { 0 };
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_takes_no_more_room_than_it_may() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let log = LogFile::open(&path, 1000, false).unwrap();
        let line = |index: usize| format!("{index:09}\n");
        (0..1000).for_each(|index| log.write(line(index).as_bytes()));
        let (new, old) = (fs::read_to_string(&path).unwrap(), fs::read_to_string(old_path(&path)).unwrap());
        assert!(new.len() <= 1000 && old.len() <= 1000, "{} {}", new.len(), old.len());
        let expected: String = (800..1000).map(line).collect();
        assert_eq!(old + &new, expected, "the last messages, in order");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        // An existing log is continued.
        let log = LogFile::open(&path, 1000, false).unwrap();
        log.write(line(1000).as_bytes());
        assert!(fs::read_to_string(&path).unwrap().ends_with(&line(1000)));
    }

    #[test]
    fn messages_that_cannot_be_written_are_counted_and_told_of_later() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let full = || File::options().write(true).open("/dev/full").unwrap();
        let mut log = OpenLog { file: full(), bytes: 0, lost: 0 };
        (0..3).for_each(|_| log.write(b"lost\n"));
        assert_eq!((log.lost, log.bytes), (3, 0));
        log.file = file.reopen().unwrap();
        log.write(b"kept\n");
        let text = fs::read_to_string(file.path()).unwrap();
        assert_eq!(text, "stripewise: 3 messages could not be written here\nkept\n");
    }
}
