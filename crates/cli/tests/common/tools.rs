//! Programs run in bounded time, and what to do where one is missing.

use std::{
    io::Read,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// What a program said and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Whether these tools are here, and root where it is needed. If not it is said aloud, or fails where tools are
/// required.
pub(crate) fn can_run(tools: &[&str], needs_root: bool) -> bool {
    let mut missing: Vec<String> =
        tools.iter().filter(|tool| which(tool).is_none()).map(|tool| format!("no {tool}")).collect();
    if needs_root && !rustix::process::geteuid().is_root() {
        missing.push("not root".to_owned());
    }
    if missing.is_empty() {
        return true;
    }
    let required = std::env::var_os("STRIPEWISE_REQUIRE_TOOLS").is_some_and(|value| value == "1");
    assert!(!required, "STRIPEWISE_REQUIRE_TOOLS=1, and this is missing: {missing:?}");
    eprintln!("\n*** SKIPPED, because: {}\n", missing.join("; "));
    false
}

fn which(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(tool)).find(|file| file.is_file())
}

/// Runs a tool that must succeed, in at most two minutes; what it printed.
pub(crate) fn tool(name: &str, arguments: &[&str]) -> String {
    let path = which(name).unwrap_or_else(|| panic!("no {name}"));
    let said = run_bounded(Command::new(path).args(arguments), Duration::from_secs(120));
    assert_eq!(said.code, Some(0), "{name} {arguments:?} failed:\n{}{}", said.out, said.err);
    said.out
}

/// Runs a program to its end; kills it and panics if it takes longer than `limit`.
pub(crate) fn run_bounded(command: &mut Command, limit: Duration) -> Said {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let out = drain(child.stdout.take().unwrap());
    let err = drain(child.stderr.take().unwrap());
    let status = wait(&mut child, limit).unwrap_or_else(|| panic!("{command:?} took more than {limit:?}"));
    Said { code: status.code(), out: out.join().unwrap(), err: err.join().unwrap() }
}

fn drain(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
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
