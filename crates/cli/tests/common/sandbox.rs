//! A folder with members and a run directory of its own, the binary run in it, and an end to every daemon.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use stripewise_testkit::{Said, run_bounded};

/// No command of these tests takes more than some seconds on an idle machine.
const COMMAND_LIMIT: Duration = Duration::from_secs(120);

/// Everything a test makes lies in here, and ends with it.
pub(crate) struct Sandbox {
    dir: TempDir,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::Builder::new().prefix("stripewise-test-").tempdir().unwrap() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    /// A sparse file.
    pub(crate) fn member(&self, name: &str, size_bytes: u64) -> String {
        let path = self.path(name);
        std::fs::File::create(&path).unwrap().set_len(size_bytes).unwrap();
        path
    }

    /// Sparse files `m0`, `m1` and so on.
    pub(crate) fn members(&self, count: usize, size_bytes: u64) -> Vec<String> {
        (0..count).map(|index| self.member(&format!("m{index}"), size_bytes)).collect()
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stripewise"));
        command.env("STRIPEWISE_RUN_DIR", self.run_dir()).env_remove("STRIPEWISE_LOG").current_dir(&self.dir);
        command
    }

    /// Runs `stripewise` with the words of `line`, then `more`.
    pub(crate) fn run(&self, line: &str, more: &[impl AsRef<str>]) -> Said {
        let mut command = self.command();
        command.args(line.split_whitespace()).args(more.iter().map(AsRef::as_ref));
        run_bounded(&mut command, COMMAND_LIMIT)
    }

    /// A command that must succeed; what it printed.
    pub(crate) fn ok(&self, line: &str, more: &[impl AsRef<str>]) -> String {
        let said = self.run(line, more);
        assert_eq!(said.code, Some(0), "stripewise {line}:\n{}{}", said.out, said.err);
        said.out
    }

    pub(crate) fn done(&self, line: &str) -> String {
        self.ok(line, &[""; 0])
    }

    /// A command that must fail with this code, and say all of `words`; what it said.
    pub(crate) fn fails(&self, code: i32, line: &str, more: &[impl AsRef<str>], words: &[&str]) -> String {
        let said = self.run(line, more);
        let what =
            format!("stripewise {line} ended with {:?} and said:\n{}{}", said.code, said.out, said.err);
        assert_eq!(said.code, Some(code), "{what}");
        for word in words {
            assert!(said.err.contains(word), "no '{word}': {what}");
        }
        said.err
    }

    pub(crate) fn json(&self, line: &str) -> Value {
        let said = self.run(&format!("--json {line}"), &[""; 0]);
        serde_json::from_str(&said.out)
            .unwrap_or_else(|error| panic!("{line}: {error}\n{}{}", said.out, said.err))
    }

    pub(crate) fn status(&self, name: &str) -> Value {
        self.json(&format!("detail {name}"))
    }

    /// The states of the members by their devices' file names.
    pub(crate) fn member_state(&self, name: &str, device: &str) -> Option<String> {
        let status = self.status(name);
        let members = status["members"].as_array().unwrap();
        let found = members.iter().find(|member| member["device"] == device)?;
        Some(found["state"].as_str().unwrap().to_owned())
    }

    /// Serves an array on a unix socket; its address.
    pub(crate) fn serve(&self, name: &str) -> String {
        let socket = self.path(&format!("{name}.nbd"));
        self.ok(&format!("serve {name} --unix"), &[socket]).trim().to_owned()
    }

    /// Waits for all jobs, scrubs, and asserts that everything agrees.
    pub(crate) fn assert_consistent(&self, name: &str) {
        self.done(&format!("wait {name}"));
        self.done(&format!("scrub {name} start --wait"));
        let scrub = self.json(&format!("scrub {name} status"));
        assert_eq!((&scrub["outcome"], &scrub["mismatch_count"]), (&"done".into(), &0.into()), "{scrub}");
    }

    pub(crate) fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.run_dir().join(format!("{name}.log"))).unwrap_or_default()
    }

    pub(crate) fn pid(&self, name: &str) -> Pid {
        Pid::from_raw(self.status(name)["pid"].as_i64().unwrap() as i32).unwrap()
    }

    /// Sends a signal to an array's daemon and waits until it has ended.
    pub(crate) fn signal(&self, pid: Pid, signal: Signal) {
        kill_process(pid, signal).unwrap();
        eventually("the daemon has ended", || has_ended(pid));
    }

    /// A daemon that is being started here.
    pub(crate) fn opening_daemon(&self) -> Option<Pid> {
        let is_daemon = |pid: &Pid| {
            let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
            line.windows(8).any(|word| word == b"\0daemon\0")
        };
        self.daemons().into_iter().find(is_daemon)
    }

    /// The daemons that were started here, known by their environment.
    fn daemons(&self) -> Vec<Pid> {
        let ours = format!("STRIPEWISE_RUN_DIR={}", self.run_dir().display());
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let is_ours = |pid: &i32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == ours.as_bytes())
        };
        pids.filter(is_ours).filter_map(Pid::from_raw).collect()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if thread::panicking() {
            for log in std::fs::read_dir(self.run_dir()).into_iter().flatten().flatten() {
                if log.path().extension().is_some_and(|extension| extension == "log") {
                    let text = std::fs::read_to_string(log.path()).unwrap_or_default();
                    let tail: Vec<_> = text.lines().rev().take(30).collect();
                    eprintln!("--- end of {}", log.path().display());
                    tail.iter().rev().for_each(|line| eprintln!("{line}"));
                }
            }
        }
        // The orderly way first, as it also takes block devices and mounts away.
        let stopped: std::io::Result<Output> =
            self.command().args(["stop", "--all", "--force"]).stdin(Stdio::null()).output();
        drop(stopped);
        for pid in self.daemons() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// Gone, or a zombie that nobody has collected. Its first thread may be one while others still have its sockets open.
pub(crate) fn has_ended(pid: Pid) -> bool {
    thread_states(pid).iter().all(|state| matches!(state, 'Z' | 'X'))
}

/// What each thread of a process does, as in its `stat` in `/proc`; none if there is no such process.
pub(crate) fn thread_states(pid: Pid) -> Vec<char> {
    let threads = match std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        threads => threads.unwrap(),
    };
    let state = |thread: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).ok()?;
        // The name before it is in brackets, and may hold any character.
        stat.rsplit_once(") ")?.1.chars().next()
    };
    threads.flatten().filter_map(state).collect()
}

/// Hundredths of a second that a process or thread has computed, by its `stat` in `/proc`.
pub(crate) fn cpu_ticks(stat: &str) -> u64 {
    let stat = std::fs::read_to_string(stat).unwrap();
    let fields = stat.rsplit_once(") ").unwrap().1.split(' ').skip(11).take(2);
    fields.map(|field| field.parse::<u64>().unwrap()).sum()
}

/// Waits until `condition` holds, as what it looks at is another process's business.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "still not: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}
