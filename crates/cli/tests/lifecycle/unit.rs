//! The systemd unit: its commands do what it says.

use std::{path::Path, process::Command, time::Duration};

use rustix::process::Signal;

use crate::common::{MIB, Need, Sandbox, can_run, can_try, run_bounded};

const INSTALLED: &str = "/usr/local/bin/stripewise";

fn unit() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/stripewise@.service");
    std::fs::read_to_string(path).unwrap()
}

/// The words of the commands of one kind.
fn commands<'a>(unit: &'a str, kind: &str) -> Vec<Vec<&'a str>> {
    let lines = unit.lines().filter_map(|line| line.strip_prefix(kind)?.strip_prefix('='));
    lines.map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn systemd_understands_it() {
    if !can_run(&[Need::Tool("systemd-analyze")]) {
        return;
    }
    let sandbox = Sandbox::new();
    let path = sandbox.path("stripewise@tank.service");
    std::fs::write(&path, unit().replace(INSTALLED, env!("CARGO_BIN_EXE_stripewise"))).unwrap();
    let mut verify = Command::new("systemd-analyze");
    let said = run_bounded(verify.args(["verify", "--man=no", &path]), Duration::from_secs(60));
    assert_eq!((said.code, said.err.contains("stripewise@tank")), (Some(0), false), "{said:?}");
}

#[test]
fn its_commands_bring_an_array_up_and_down() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    sandbox.ok("create tank --level 5 --assume-clean", &members);
    sandbox.done("stop tank");
    let unit = unit();
    let needs = [Need::Tool("losetup"), Need::Root, Need::Device("/dev/fuse")];
    let can_attach = can_try("its command that attaches", &needs);
    let all = [commands(&unit, "ExecStart"), commands(&unit, "ExecStartPost")].concat();
    assert_eq!(all.len(), 2, "assemble, attach");
    for words in all.into_iter().take(if can_attach { 2 } else { 1 }) {
        assert_eq!(words[0], INSTALLED);
        let line = words[1..].join(" ").replace("%i", "tank").replace("$OPTIONS", "--run");
        sandbox.done(&line.replace("$DEVICES", &members.join(" ")));
    }
    assert_eq!(sandbox.status("tank")["attached"].is_string(), can_attach);
    sandbox.signal(sandbox.pid("tank"), Signal::TERM);
    assert_eq!(sandbox.json(&format!("examine {}", members[0]))[0]["clean"], true);
}
