//! The README's commands, executed: its blocks for disks run on loop devices in the disks' places.

#![allow(clippy::unwrap_used)]

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use stripewise_testkit::{Need, can_run, tool};

fn readme() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap()
}

/// The contents of all blocks fenced with this info string.
fn blocks(text: &str, info: &str) -> Vec<String> {
    let fence = format!("\n```{info}\n");
    text.split(&fence).skip(1).map(|rest| rest.split("\n```").next().unwrap().to_owned()).collect()
}

/// Loop devices in the places of disks; detached at the end, whatever happened.
struct Disks {
    folder: tempfile::TempDir,
    loops: Vec<(String, PathBuf)>,
}

impl Disks {
    fn attach(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut disks = Self { folder, loops: Vec::new() };
        for name in names {
            let file = disks.folder.path().join(name);
            File::create(&file).unwrap().set_len(128 << 20).unwrap();
            let path = tool("losetup", &["--find", "--show", file.to_str().unwrap()]).trim().into();
            disks.loops.push((format!("/dev/{name}"), path));
        }
        disks
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        let run_dir = self.folder.path().join("run");
        let stop = ["stop", "--all", "--force"];
        let _ = Command::new(env!("CARGO_BIN_EXE_stripewise"))
            .args(stop)
            .env("STRIPEWISE_RUN_DIR", run_dir)
            .status();
        for (_, path) in &self.loops {
            let _ = Command::new("losetup").arg("--detach").arg(path).status();
        }
    }
}

/// The programs that the blocks for disks run besides our own, and what their disks are made of.
const FOREIGN: [&str; 5] = ["losetup", "mkfs.ext4", "mount", "nbdinfo", "umount"];

/// A program that is not here skips the test on record, or is demanded: so none must be missing from the
/// list.
#[test]
fn all_programs_of_the_blocks_for_disks_are_listed() {
    let text = blocks(&readme(), "sh disks").join("\n");
    let commands = text.lines().filter_map(|line| line.split_whitespace().next());
    for command in commands.filter(|command| !["stripewise", "wait"].contains(command)) {
        assert!(FOREIGN.contains(&command), "{command} is not listed");
    }
}

#[test]
fn the_two_commands_are_what_they_say() {
    let text = readme();
    let plain = blocks(&text, "sh");
    assert_eq!(plain[0], "cargo run --release -- demo");
    assert_eq!(plain[1], "scripts/test");
    let ci = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.ci/run");
    assert!(std::fs::read_to_string(ci).unwrap().contains("exec scripts/test"), "CI runs the second");
    let demo = Command::new(env!("CARGO_BIN_EXE_stripewise")).arg("demo").output().unwrap();
    let story = String::from_utf8_lossy(&demo.stdout);
    assert!(demo.status.success() && story.contains("all checks passed"), "{story}");
}

#[test]
fn cargo_run_means_the_command() {
    // Only looks at the manifests: no build, and no lock on the target folder.
    let metadata = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let cargo = Command::new(env!("CARGO")).args(metadata).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let workspace: serde_json::Value = serde_json::from_slice(&cargo.unwrap().stdout).unwrap();
    let list = |value: &serde_json::Value| value.as_array().unwrap().clone();
    let defaults = list(&workspace["workspace_default_members"]);
    let packages =
        list(&workspace["packages"]).into_iter().filter(|package| defaults.contains(&package["id"]));
    let targets = packages.flat_map(|package| list(&package["targets"]));
    let binaries: Vec<_> = targets.filter(|target| list(&target["kind"]).contains(&"bin".into())).collect();
    let names: Vec<_> = binaries.iter().map(|binary| &binary["name"]).collect();
    assert_eq!(names, ["stripewise"]);
}

#[test]
fn the_command_is_installed_and_completed_as_it_says() {
    let text = readme();
    let folder = tempfile::tempdir().unwrap();
    // This is what the first line builds, wherever cargo puts it here.
    let install = blocks(&text, "sh install").remove(0).replace("cargo build --release\n", "");
    let install = install.replace("target/release/stripewise", env!("CARGO_BIN_EXE_stripewise"));
    let named = |from: &str| text.split(from).nth(1).unwrap().split('`').next().unwrap().replace('\n', " ");
    let man = format!("stripewise man{}", named("`stripewise man"));
    let completions = format!("stripewise completions{}", named("`stripewise completions"));
    let mut script = [install, man, completions].join("\n");
    for place in ["/usr/local/bin/", "/usr/local/share/man/man1", "/etc/bash_completion.d/"] {
        assert!(script.contains(place), "{script}");
        let there = folder.path().join(place.trim_matches('/'));
        std::fs::create_dir_all(&there).unwrap();
        script = script.replace(place, &format!("{}/", there.display()));
    }
    let bin = folder.path().join("usr/local/bin");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh").args(["-ec", &script]).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{script}\n{}", String::from_utf8_lossy(&output.stderr));
    for made in ["bin/stripewise", "share/man/man1/stripewise-create.1"] {
        assert!(folder.path().join("usr/local").join(made).exists(), "{made}");
    }
    let completed = std::fs::read_to_string(folder.path().join("etc/bash_completion.d/stripewise")).unwrap();
    assert!(completed.contains("assemble"));
}

#[test]
fn the_commands_for_disks_work_in_order() {
    let tools = FOREIGN.map(Need::Tool);
    let kernel =
        [Need::Root, Need::Device("/dev/loop-control"), Need::Device("/dev/fuse"), Need::FileSystem("ext4")];
    if !can_run(&[&tools[..], &kernel].concat()) {
        return;
    }
    let disks = Disks::attach(&["sdb", "sdc", "sdd", "sde", "sdf", "sdg"]);
    let mount_point = disks.folder.path().join("mnt");
    std::fs::create_dir(&mount_point).unwrap();
    let binary = Path::new(env!("CARGO_BIN_EXE_stripewise"));
    let mut script = String::from("set -ex\n");
    script += &blocks(&readme(), "sh disks").join("\n");
    for (disk, path) in &disks.loops {
        script = script.replace(disk, &path.display().to_string());
    }
    script = script.replace("/dev/stripewise", &disks.folder.path().join("run/dev").display().to_string());
    script = script.replace("/mnt", &mount_point.display().to_string());
    script = script.replace("/run/tank.sock", &disks.folder.path().join("tank.sock").display().to_string());
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", &script])
        .env("PATH", path)
        .env("STRIPEWISE_RUN_DIR", disks.folder.path().join("run"))
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        let _ = Command::new("umount").arg(&mount_point).status();
        panic!("{}\n{out}\n{err}", output.status);
    }
    assert!(out.contains("[4/4] [UUUU]"), "{out}");
}
