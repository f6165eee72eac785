//! The daemon as a process, and what the binary prints about itself.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::common::{Client, MIB, Sandbox, noise};

fn array() -> (Sandbox, Vec<String>) {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    (sandbox, members)
}

#[test]
fn sigterm_and_sigint_leave_the_array_clean() {
    for signal in [Signal::TERM, Signal::INT] {
        let (sandbox, members) = array();
        let data = noise(2, 2 << 20);
        Client::connect(&sandbox.serve("a")).write(4096, &data).unwrap();
        assert_eq!(sandbox.status("a")["dirty"], true);
        sandbox.signal(sandbox.pid("a"), signal);
        for member in &members {
            assert_eq!(sandbox.json(&format!("examine {member}"))[0]["clean"], true, "{signal:?}");
        }
        assert!(!sandbox.run_dir().join("a.sock").exists() && !sandbox.folder().join("a.nbd").exists());
        sandbox.ok("assemble a", &members);
        assert!(sandbox.status("a")["job"].is_null(), "a clean array is not resynced");
        assert!(Client::connect(&sandbox.serve("a")).read(4096, data.len()).unwrap() == data);
    }
}

#[test]
fn sighup_is_no_reason_to_stop() {
    let (sandbox, _) = array();
    rustix::process::kill_process(sandbox.pid("a"), Signal::HUP).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    sandbox.done("detail a --test");
}

#[test]
fn what_is_in_the_run_directory_is_its_owners() {
    let (sandbox, _) = array();
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(sandbox.run_dir()), 0o700);
    assert_eq!(mode(sandbox.run_dir().join("a.sock")), 0o600);
    assert_eq!(mode(sandbox.run_dir().join("a.lock")), 0o600);
    sandbox.done("stop a");
    assert!(!sandbox.run_dir().join("a.sock").exists());
    assert_eq!(sandbox.json("status"), serde_json::json!([]));
}

#[test]
fn a_killed_daemon_is_named_and_its_array_assembled_again() {
    let (sandbox, members) = array();
    sandbox.signal(sandbox.pid("a"), Signal::KILL);
    sandbox.fails(1, "detail a", &[""; 0], &["a: its daemon has died", "assemble"]);
    sandbox.fails(4, "detail a --test", &[""; 0], &["daemon has died"]);
    sandbox.ok("assemble a", &members);
    sandbox.done("detail a --test");
}

#[test]
fn arrays_run_beside_each_other_and_stop_together() {
    let (sandbox, _) = array();
    let more: Vec<_> = ["x", "y"].iter().map(|name| sandbox.member(name, 24 * MIB)).collect();
    sandbox.ok("create b --level 1 --assume-clean", &more);
    assert_eq!(sandbox.json("status").as_array().unwrap().len(), 2);
    sandbox.done("stop --all");
    assert_eq!(sandbox.json("status"), serde_json::json!([]));
}

#[test]
fn completions_and_man_pages_are_made() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = sandbox.done(&format!("completions {shell}"));
        assert!(script.contains("stripewise") && script.contains("assemble"), "{shell}");
    }
    sandbox.ok("man", &[sandbox.path("man")]);
    let page = std::fs::read_to_string(sandbox.folder().join("man/stripewise-create.1")).unwrap();
    assert!(page.contains("assume\\-clean"), "{page}");
    assert!(sandbox.folder().join("man/stripewise.1").exists());
    assert!(
        !sandbox.folder().join("man/stripewise-daemon.1").exists(),
        "an inner command is no user's business"
    );
}
