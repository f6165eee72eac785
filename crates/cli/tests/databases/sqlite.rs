//! SQLite: each client opens the file by itself.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use crate::{
    common::{run_bounded, tool},
    database::Database,
};

/// Ways to commit that are durable, by SQLite's documents. With a rollback journal, FULL leaves out the flush of the
/// folder after the journal was deleted, so that the last transaction may be rolled back after a crash: EXTRA has it.
const WAYS: [(&str, &str); 2] = [("WAL", "FULL"), ("DELETE", "EXTRA")];
/// How long SQLite lets a client wait for another one: longer than any round, so that none is refused.
const BUSY_WAIT: &str = ".timeout 600000";
const ASK_WAIT: Duration = Duration::from_secs(60);

pub(crate) struct Sqlite {
    file: PathBuf,
    synchronous: &'static str,
}

impl Sqlite {
    fn command(&self) -> Command {
        let mut command = Command::new("sqlite3");
        let synchronous = format!("PRAGMA synchronous={};", self.synchronous);
        command.args(["-batch", "-bail", "-noheader", "-separator", "|", "-cmd", BUSY_WAIT, "-cmd"]);
        command.arg(synchronous).arg(&self.file);
        command
    }
}

impl Database for Sqlite {
    const BEGIN: &'static str = "BEGIN IMMEDIATE";

    fn make(folder: &Path, _beside: &Path, tables: &str) -> Self {
        let sqlite = Self { file: folder.join("sqlite"), synchronous: WAYS[0].1 };
        sqlite.ask(tables);
        sqlite
    }

    fn open(&mut self, random: &mut fastrand::Rng) {
        let (journal, synchronous) = WAYS[random.usize(..WAYS.len())];
        self.synchronous = synchronous;
        let said = self.ask(&format!("PRAGMA journal_mode={journal};"));
        assert_eq!(said.trim(), journal.to_lowercase());
        eprintln!("sqlite: journal {journal}, synchronous {synchronous}");
    }

    fn ask(&self, sql: &str) -> String {
        let said = run_bounded(self.command().arg(sql), ASK_WAIT);
        assert!(said.code == Some(0) && said.err.is_empty(), "{sql}: {said:?}");
        said.out
    }

    fn shell(&self) -> Command {
        self.command()
    }

    fn print(number: u64) -> String {
        format!(".print {number}")
    }

    fn check(&self) {
        assert_eq!(self.ask("PRAGMA integrity_check;").trim(), "ok");
        let dumped = Command::new("sqlite3").arg(&self.file).arg(".dump").stdout(Stdio::null()).status();
        assert!(dumped.unwrap().success());
    }

    fn close(&mut self) {
        tool("sync", &["-f", self.file.to_str().unwrap()]);
    }

    fn abandon(&mut self) {}
}
