//! PostgreSQL: a server whose data lies on the array, and clients that reach it by a socket elsewhere.

use std::{
    fs::{self, File, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use stripewise_testkit::{Lack, go_on, which};

use crate::{
    common::{Need, Said, can_run, eventually, run_bounded},
    database::Database,
};

/// Where Debian has the programs of each version.
const VERSIONS: &str = "/usr/lib/postgresql";
const PROGRAMS: [&str; 6] = ["initdb", "postgres", "psql", "pg_dump", "pg_amcheck", "pg_checksums"];
/// The server refuses to run as root: `nobody` and `nogroup`.
const OTHER: u32 = 65534;
/// Everything durable, as is the default; small segments and pools, so that checkpoints and evictions are frequent.
/// After a panic the server must not go on by itself on what the kernel still has of a dead file system.
const SETTINGS: [&str; 13] = [
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "listen_addresses=",
    "shared_buffers=1MB",
    "min_wal_size=2MB",
    "max_wal_size=4MB",
    "wal_buffers=64kB",
    "checkpoint_timeout=30s",
    "max_connections=20",
    "restart_after_crash=off",
    "autovacuum_naptime=1s",
    "log_min_messages=warning",
];
const TOOL_WAIT: Duration = Duration::from_secs(120);
const END_WAIT: Duration = Duration::from_secs(60);

/// Whether a server, its clients and its checkers are here.
pub(crate) fn is_here() -> bool {
    let lack = programs().is_none().then(|| Lack::tool("postgresql"));
    can_run(&[Need::Tool("setpriv")]) && go_on(None, lack.as_slice())
}

/// The folder of the newest version that is here with all its programs.
fn programs() -> Option<PathBuf> {
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let entries = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let mut versions: Vec<_> = entries.map(|entry| entry.path()).collect();
    versions.sort_by_key(|path| std::cmp::Reverse(number(path)));
    let elsewhere = which("initdb").and_then(|file| Some(file.canonicalize().ok()?.parent()?.to_owned()));
    let mut folders = versions.into_iter().map(|version| version.join("bin")).chain(elsewhere);
    folders.find(|folder| PROGRAMS.iter().all(|name| folder.join(name).is_file()))
}

pub(crate) struct Postgres {
    data: PathBuf,
    sockets: PathBuf,
    log: PathBuf,
    server: Option<Child>,
}

impl Postgres {
    /// One of its programs, without root's rights.
    fn command(name: &str) -> Command {
        let mut command = Command::new("setpriv");
        let id = OTHER.to_string();
        command.args([&format!("--reuid={id}"), &format!("--regid={id}"), "--clear-groups"]);
        command.arg(programs().unwrap().join(name));
        command
    }

    /// A client program.
    fn client(&self, name: &str) -> Command {
        let mut command = Self::command(name);
        command.arg("--host").arg(&self.sockets).args(["--username", "postgres", "--no-password"]);
        command
    }

    fn psql(&self) -> Command {
        let mut command = self.client("psql");
        command.args(["-qAtX", "-F", "|", "-v", "ON_ERROR_STOP=1", "-d", "postgres"]);
        command
    }

    fn start(&mut self) {
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let mut command = Self::command("postgres");
        command.arg("-D").arg(&self.data).arg("-k").arg(&self.sockets);
        command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.server = Some(command.spawn().unwrap());
        eventually("the server has recovered and takes clients", || {
            let ended = self.server.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "the server ended: {ended:?}\n{}", self.logged());
            run_bounded(self.psql().args(["-c", "SELECT 1"]), TOOL_WAIT).code == Some(0)
        });
    }

    /// Ends the server by a signal, and waits for it.
    fn end(&mut self, signal: Signal) {
        let Some(mut server) = self.server.take() else { return };
        let pid = Pid::from_child(&server);
        let _ = kill_process(pid, signal);
        if !ends(&mut server) {
            // What it started notices that, and ends, too.
            let _ = server.kill();
            ends(&mut server);
        }
    }

    fn logged(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    fn said(&self, command: &mut Command) -> Said {
        let said = run_bounded(command, TOOL_WAIT);
        assert_eq!(said.code, Some(0), "{command:?}: {}\n{}\n{}", said.out, said.err, self.logged());
        said
    }
}

/// Whether a process ends in time.
fn ends(process: &mut Child) -> bool {
    let deadline = Instant::now() + END_WAIT;
    while Instant::now() < deadline {
        if process.try_wait().unwrap().is_some() {
            return true;
        }
        thread::sleep(Duration::from_millis(5));
    }
    false
}

/// An empty folder that the server may use.
fn folder_of_its_own(path: &Path) {
    fs::create_dir(path).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
    chown(path, Some(OTHER), Some(OTHER)).unwrap();
}

impl Database for Postgres {
    const BEGIN: &'static str = "BEGIN";

    fn make(folder: &Path, beside: &Path, tables: &str) -> Self {
        let (data, sockets) = (folder.join("postgresql"), beside.join("sockets"));
        fs::set_permissions(beside, Permissions::from_mode(0o711)).unwrap();
        [&data, &sockets].into_iter().for_each(|path| folder_of_its_own(path));
        let mut postgres = Self { data, sockets, log: beside.join("postgresql.log"), server: None };
        let mut initdb = Self::command("initdb");
        initdb.args([
            "--username=postgres",
            "--auth=trust",
            "--data-checksums",
            "--wal-segsize=1",
            "--locale=C",
        ]);
        postgres.said(initdb.args(["--encoding=UTF8", "-D"]).arg(&postgres.data));
        postgres.start();
        postgres.ask(tables);
        postgres.close();
        postgres
    }

    fn open(&mut self, _random: &mut fastrand::Rng) {
        self.start();
    }

    fn ask(&self, sql: &str) -> String {
        self.said(self.psql().args(["-c", sql])).out
    }

    fn shell(&self) -> Command {
        self.psql()
    }

    fn print(number: u64) -> String {
        format!("\\echo {number}")
    }

    fn check(&self) {
        let mut amcheck = self.client("pg_amcheck");
        self.said(amcheck.args(["--install-missing", "--heapallindexed", "--database=postgres"]));
        let dumped = self.said(self.client("pg_dump").arg("postgres"));
        assert!(dumped.out.contains("PostgreSQL database dump complete"));
    }

    /// Page by page, too, as a server reads only what it is asked for.
    fn close(&mut self) {
        self.end(Signal::INT);
        self.said(Self::command("pg_checksums").args(["--check", "-D"]).arg(&self.data));
    }

    fn abandon(&mut self) {
        self.end(Signal::QUIT);
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.end(Signal::QUIT);
    }
}
