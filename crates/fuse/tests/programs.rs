//! Programs at work on a mounted file system.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, helpers included")]

mod common;

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
};

use stripewise_fuse::{MountOptions, Wishes};
use stripewise_testkit::{Need, tool};

use common::{Mounted, pattern};

#[test]
fn copies_of_a_tree_by_cp_and_tar_are_the_same() {
    if !common::can_run(&[Need::Tool("cp"), Need::Tool("tar"), Need::Tool("diff"), Need::Tool("ls")]) {
        return;
    }
    let mounted = Mounted::new();
    let source = tempfile::tempdir().unwrap();
    fs::create_dir_all(source.path().join("tree/deep/er")).unwrap();
    for (name, len) in
        [("tree/empty", 0), ("tree/small", 100), ("tree/deep/large", 5 << 20), ("tree/deep/er/odd", 4097)]
    {
        fs::write(source.path().join(name), pattern(len)).unwrap();
    }
    symlink("deep/large", source.path().join("tree/link")).unwrap();
    fs::hard_link(source.path().join("tree/small"), source.path().join("tree/deep/same")).unwrap();
    let (from, root) = (source.path().to_str().unwrap(), mounted.root().to_str().unwrap());
    tool("cp", &["-a", &format!("{from}/tree"), root]);
    tool("tar", &["-C", from, "-cf", &format!("{root}/tar"), "tree"]);
    fs::create_dir(mounted.path("out")).unwrap();
    tool("tar", &["-C", &format!("{root}/out"), "-xf", &format!("{root}/tar")]);
    for copy in ["tree", "out/tree"] {
        tool("diff", &["-r", &format!("{from}/tree"), &format!("{root}/{copy}")]);
        let original = fs::metadata(source.path().join("tree/deep/large")).unwrap();
        let told = fs::metadata(mounted.path(copy).join("deep/large")).unwrap();
        assert_eq!(told.mtime(), original.mtime(), "{copy}");
        assert_eq!(fs::metadata(mounted.path(copy).join("small")).unwrap().nlink(), 2, "{copy}");
    }
    assert!(tool("ls", &["-lR", root]).contains("link -> deep/large"));
    mounted.end();
}

#[test]
fn a_repository_of_git_works() {
    if !common::can_run(&[Need::Tool("git")]) {
        return;
    }
    let mounted = Mounted::new();
    let root = mounted.root().to_str().unwrap();
    let git = |arguments: &[&str]| {
        let who = [
            "-C",
            root,
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t",
            "-c",
            "safe.directory=*",
            "-c",
            "gc.auto=0",
        ];
        tool("git", &[&who[..], arguments].concat())
    };
    git(&["init", "-q"]);
    for index in 0..50 {
        fs::write(mounted.path(&format!("file{index}")), pattern(index * 100)).unwrap();
    }
    git(&["add", "."]);
    git(&["commit", "-qm", "first"]);
    git(&["mv", "file1", "moved"]);
    git(&["commit", "-qam", "second"]);
    git(&["repack", "-adq"]);
    git(&["fsck", "--strict"]);
    assert_eq!(git(&["status", "--porcelain"]).trim(), "");
    mounted.end();
}

/// A database in both of its kinds of journal. A write-ahead log needs a shared mapping of a file.
#[test]
fn a_database_of_sqlite_keeps_its_rows() {
    if !common::can_run(&[Need::Tool("sqlite3")]) {
        return;
    }
    for (journal, writeback_cache) in [("delete", false), ("wal", false), ("wal", true)] {
        let mounted =
            Mounted::with(&MountOptions::default(), &Wishes { writeback_cache, ..Wishes::default() });
        let file = mounted.path("data.db");
        let sql = |text: &str| tool("sqlite3", &[file.to_str().unwrap(), text]);
        assert!(sql(&format!("pragma journal_mode={journal};")).contains(journal));
        sql("create table t(a integer primary key, b text);");
        sql("with recursive n(i) as (select 1 union all select i+1 from n where i<5000) \
             insert into t select i, hex(randomblob(50)) from n;");
        sql("delete from t where a % 3 = 0; vacuum;");
        assert_eq!(
            sql("select count(*), sum(length(b)) from t; pragma integrity_check;").trim(),
            "3334|333400\nok"
        );
        assert!(mounted.memory.count("fsync") > 0);
        mounted.end();
    }
}

#[test]
fn a_program_is_compiled_and_runs_from_the_mount() {
    if !common::can_run(&[Need::Tool("cc"), Need::Tool("make")]) {
        return;
    }
    let mounted = Mounted::new();
    fs::write(mounted.path("part.c"), "int part(void) { return 41; }\n").unwrap();
    let main =
        "#include <stdio.h>\nint part(void);\nint main(void) { printf(\"%d\", part() + 1); return 0; }\n";
    fs::write(mounted.path("main.c"), main).unwrap();
    fs::write(mounted.path("Makefile"), "CC = cc\nmain: main.o part.o\n").unwrap();
    tool("make", &["-s", "-C", mounted.root().to_str().unwrap()]);
    assert_eq!(tool(mounted.path("main").to_str().unwrap(), &[]), "42");
    let again = tool("make", &["-C", mounted.root().to_str().unwrap()]);
    assert!(again.contains("up to date"), "times of files: {again}");
    mounted.end();
}
