//! Programs at work.

use std::fs;

use stripewise_testkit::{Need, tool};

use super::common::{Disk, MIB, can_run, pattern};

#[test]
fn a_repository_of_git_is_committed_to_cloned_and_sound() {
    if !can_run(&[Need::Tool("git")]) {
        return;
    }
    let disk = Disk::new(128 * MIB);
    let mounted = disk.mount();
    let git = |folder: &str, arguments: &[&str]| {
        let folder = mounted.path(folder);
        let who = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "safe.directory=*", "-c", "gc.auto=0"];
        tool("git", &[&["-C", folder.to_str().unwrap()], &who[..], arguments].concat())
    };
    fs::create_dir(mounted.path("one")).unwrap();
    git("one", &["init", "-q"]);
    for number in 0..60 {
        fs::write(mounted.path(&format!("one/file{number}")), pattern(number, number as usize * 700))
            .unwrap();
    }
    git("one", &["add", "."]);
    git("one", &["commit", "-qm", "first"]);
    git("one", &["mv", "file1", "moved"]);
    git("one", &["commit", "-qam", "second"]);
    git("one", &["repack", "-adq"]);
    git("", &["clone", "-q", "one", "two"]);
    mounted.end();
    disk.check();
    let mounted = disk.mount();
    for folder in ["one", "two"] {
        let folder = mounted.path(folder);
        let git = |arguments: &[&str]| {
            let first = ["-c", "safe.directory=*", "-C", folder.to_str().unwrap()];
            tool("git", &[&first[..], arguments].concat())
        };
        git(&["fsck", "--strict"]);
        assert_eq!(git(&["status", "--porcelain"]).trim(), "");
    }
    mounted.end();
}

#[test]
fn a_database_of_sqlite_keeps_its_rows_in_both_journals() {
    if !can_run(&[Need::Tool("sqlite3")]) {
        return;
    }
    let disk = Disk::new(128 * MIB);
    let mounted = disk.mount();
    let rows = "select count(*), sum(length(b)) from t; pragma integrity_check;";
    let file = |journal: &str| mounted.path(&format!("{journal}.db")).to_str().unwrap().to_owned();
    for journal in ["delete", "wal"] {
        let sql = |text: &str| tool("sqlite3", &[&file(journal), text]);
        assert!(sql(&format!("pragma journal_mode={journal};")).contains(journal));
        sql("create table t(a integer primary key, b text);");
        for _ in 0..5 {
            sql("with recursive n(i) as (select 1 union all select i+1 from n where i<1000) \
                 insert into t(b) select hex(randomblob(50)) from n;");
        }
        sql("delete from t where a % 3 = 0; vacuum;");
        assert_eq!(sql(rows).trim(), "3334|333400\nok");
    }
    let files = ["delete", "wal"].map(file);
    mounted.end();
    disk.check();
    let mounted = disk.mount();
    for file in files {
        assert_eq!(tool("sqlite3", &[&file, rows]).trim(), "3334|333400\nok", "{file}");
    }
    mounted.end();
}

#[test]
fn a_project_is_built_and_runs_from_the_mount() {
    if !can_run(&[Need::Tool("cc"), Need::Tool("make")]) {
        return;
    }
    let disk = Disk::new(64 * MIB);
    let mounted = disk.mount();
    let main =
        "#include <stdio.h>\nint part(void);\nint main(void) { printf(\"%d\", part() + 1); return 0; }\n";
    fs::write(mounted.path("part.c"), "int part(void) { return 41; }\n").unwrap();
    fs::write(mounted.path("main.c"), main).unwrap();
    fs::write(mounted.path("Makefile"), "CC = cc\nmain: main.o part.o\n").unwrap();
    tool("make", &["-s", "-C", mounted.root().to_str().unwrap()]);
    assert_eq!(tool(mounted.path("main").to_str().unwrap(), &[]), "42");
    let again = tool("make", &["-C", mounted.root().to_str().unwrap()]);
    assert!(again.contains("up to date"), "times of files: {again}");
    mounted.end();
    disk.check();
}
