//! Commands and daemons of different releases: an array that runs does not depend on the program that started
//! it.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
};

use stripewise_wire::PROTOCOL;

use crate::common::{Need, Sandbox, can_run, eventually};

/// A daemon of another release, which answers each command with a line that the test gives, and ends when it
/// is stopped.
const DAEMON: &str = r#"
import json, os, socket, sys
path, answers = sys.argv[1], json.loads(sys.argv[2])
listener = socket.socket(socket.AF_UNIX)
listener.bind(path + ".new")
listener.listen(8)
# It is there once it listens.
os.rename(path + ".new", path)
while True:
    connection, _ = listener.accept()
    line = connection.makefile().readline()
    if not line:
        continue
    command = json.loads(line)["command"]
    connection.sendall((json.dumps(answers[command]) + "\n").encode())
    connection.close()
    if command == "stop":
        os.unlink(path)
        break
"#;

struct Other(Child);

impl Other {
    fn start(sandbox: &Sandbox, answers: &serde_json::Value) -> Self {
        std::fs::create_dir_all(sandbox.run_dir()).unwrap();
        let socket = sandbox.run_dir().join("a.sock");
        let mut command = Command::new("python3");
        command.args(["-c", DAEMON]).arg(&socket).arg(answers.to_string());
        let child = command.stdin(Stdio::null()).spawn().unwrap();
        eventually("it listens", || socket.exists());
        Self(child)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn answers(status: serde_json::Value, protocol: Option<u32>) -> serde_json::Value {
    let mut answers = serde_json::json!({
        "status": { "status": status },
        "detach": { "done": [] },
        "stop": { "stopped": { "flavour": "clean" } },
        "fail": { "melted": {} },
        "attach": { "export": "/dev/x" },
        "serve": { "export": "nbd+unix:///a" },
    });
    if let Some(protocol) = protocol {
        answers.as_object_mut().unwrap().values_mut().for_each(|answer| answer["protocol"] = protocol.into());
    }
    answers
}

#[test]
fn status_detach_and_stop_work_with_daemons_of_other_releases() {
    if !can_run(&[Need::Tool("python3")]) {
        return;
    }
    let sparse =
        serde_json::json!({ "name": "a", "level": 5, "raid_devices": 3, "in_sync": [true, true, true] });
    let rich = serde_json::json!({
        "name": "a", "level": 5, "state": "clean", "raid_devices": 3, "in_sync": [true, true, true], "phase": "waxing",
        "members": [{ "device": "/dev/x", "aura": 7, "endurance": { "no_forecast": { "reason": "eclipse" } } }],
        "job": { "kind": "polish", "sheen": 3 },
    });
    // One from before there were numbers, one that lacks fields, one with more of them and a higher number.
    for answers in [answers(sparse.clone(), None), answers(sparse, Some(1)), answers(rich, Some(7))] {
        let sandbox = Sandbox::new();
        let _daemon = Other::start(&sandbox, &answers);
        for line in ["status", "detail a", "status --json"] {
            assert!(sandbox.done(line).contains("[3/3] [UUU]") || !line.eq("status"), "{line}");
        }
        assert_eq!(sandbox.status("a")["raid_devices"], 3);
        sandbox.done("detail a --test");
        sandbox.done("detach a");
        sandbox.done("stop a");
        assert!(!Path::new(&sandbox.run_dir().join("a.sock")).exists());
    }
}

#[test]
fn what_another_release_says_and_is_not_understood_is_told_with_its_number() {
    if !can_run(&[Need::Tool("python3")]) {
        return;
    }
    let sandbox = Sandbox::new();
    let daemon = Other::start(&sandbox, &answers(serde_json::json!({}), Some(7)));
    let own = format!("protocol {PROTOCOL}");
    let words = ["of another release", "protocol 7", &own, "`stripewise stop a` works"];
    sandbox.fails(1, "fail a /x", &[""; 0], &words);
    sandbox.done("stop a");
    drop(daemon);
}

#[test]
fn an_option_that_an_older_daemon_would_pass_over_is_refused() {
    if !can_run(&[Need::Tool("python3")]) {
        return;
    }
    let status = || serde_json::json!({ "name": "a", "raid_devices": 3, "in_sync": [true, true, true] });
    let sandbox = Sandbox::new();
    let daemon = Other::start(&sandbox, &answers(status(), None));
    let words = ["daemon is older", "protocol 0", "Leave the option out"];
    for line in ["attach a --sector-size 4096", "attach a --discard off", "serve a --unix /x --connections 3"]
    {
        sandbox.fails(1, line, &[""; 0], &words);
    }
    sandbox.fails(1, "add a /x --class /x=ssd", &[""; 0], &words);
    sandbox.done("attach a");
    sandbox.done("serve a --unix /x");
    sandbox.done("stop a");
    drop(daemon);
    let _daemon = Other::start(&sandbox, &answers(status(), Some(1)));
    sandbox.done("attach a --sector-size 4096");
    sandbox.fails(1, "attach a --discard off", &[""; 0], &["daemon is older", "protocol 1"]);
    sandbox.done("stop a");
}

#[test]
fn a_daemon_tells_a_later_command_what_it_speaks() {
    use std::io::{Read, Write};
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 << 20);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    let ask = |line: &str| {
        let mut stream = std::os::unix::net::UnixStream::connect(sandbox.run_dir().join("a.sock")).unwrap();
        stream.write_all(line.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str::<serde_json::Value>(&answer).unwrap()
    };
    let answer = ask("{\"command\":\"transmute\",\"into\":\"gold\",\"protocol\":9}\n");
    let said = answer["error"].as_str().unwrap();
    assert!(
        said.contains("protocol 9")
            && said.contains(&format!("protocol {PROTOCOL}"))
            && said.contains("assemble it again"),
        "{said}"
    );
    let answer = ask("{\"command\":\"status\",\"verbosely\":true,\"protocol\":9}\n");
    assert_eq!((&answer["status"]["name"], &answer["protocol"]), (&"a".into(), &PROTOCOL.into()));
    let answer = ask("{\"command\":\"attach\",\"method\":null,\"protocol\":9,\"needs\":9}\n");
    let said = answer["error"].as_str().unwrap();
    assert!(
        said.contains("an option of protocol 9"),
        "an option that is not known is not passed over: {said}"
    );
    // A command from before there were numbers and options.
    let answer = ask("{\"command\":\"stop\"}\n");
    assert!(answer["stopped"]["unclean"].is_null(), "{answer}");
}
