//! Programs that tests run: where they are, and runs of bounded time.

use std::{
    io::Read,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// No tool here takes more than some seconds on an idle machine.
const TOOL_WAIT: Duration = Duration::from_secs(120);

/// What a program said and how it ended.
#[derive(Debug)]
pub struct Said {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

/// Where a program lies, the administrator's folders included, which are not in everybody's path.
pub fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders =
        std::env::split_paths(&path).chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from));
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Runs a program that must succeed, in at most two minutes; what it printed.
///
/// # Panics
/// If it is not here, fails, or takes too long.
#[track_caller]
pub fn tool(name: &str, arguments: &[&str]) -> String {
    let said = tool_said(name, arguments);
    assert_eq!(said.code, Some(0), "{name} {arguments:?} failed:\n{}{}", said.out, said.err);
    said.out
}

/// Runs a program in at most two minutes, whatever comes of it.
///
/// # Panics
/// If it is not here or takes too long.
#[track_caller]
pub fn tool_said(name: &str, arguments: &[&str]) -> Said {
    let path = which(name).unwrap_or_else(|| panic!("no {name}"));
    run_bounded(Command::new(path).args(arguments), TOOL_WAIT)
}

/// Runs a program to its end; kills it and panics if it takes longer than `limit`.
///
/// # Panics
/// If it cannot be started or takes too long.
#[track_caller]
pub fn run_bounded(command: &mut Command, limit: Duration) -> Said {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let out = child.stdout.take().map(drain);
    let err = child.stderr.take().map(drain);
    let status = wait(&mut child, limit).unwrap_or_else(|| panic!("{command:?} took more than {limit:?}"));
    let text = |drained: Option<thread::JoinHandle<String>>| {
        drained.and_then(|drained| drained.join().ok()).expect("a pipe was asked for and is read to its end")
    };
    Said { code: status.code(), out: text(out), err: text(err) }
}

fn drain(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).expect("a pipe from a child can be read");
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().expect("our own child can be waited for") {
            return Some(status);
        }
        if Instant::now() >= deadline {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(Duration::from_millis(2));
    }
}
