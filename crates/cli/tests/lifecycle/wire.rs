//! Another program than this one talks to a daemon: by the types of its control socket.

use stripewise_wire::{
    AskError, Connection, PROTOCOL, Reply, Request, ScrubAction, TraceChoice, ask, protocol_of, socket_in,
};

use crate::common::{MIB, Sandbox, eventually};

#[test]
fn a_program_asks_a_daemon_by_types() {
    let sandbox = Sandbox::new();
    let members = sandbox.members(3, 24 * MIB);
    sandbox.ok("create a --level 5 --assume-clean", &members);
    let socket = socket_in(&sandbox.run_dir(), "a");
    let status = || match ask(&socket, &Request::Status).unwrap() {
        Reply::Status(status) => status,
        other => panic!("{other:?}"),
    };
    let before = status();
    assert!(before.is_known() && before.members.len() == 3 && before.state == "clean", "{before:?}");

    assert!(matches!(ask(&socket, &Request::Scrub { action: ScrubAction::Start }), Ok(Reply::Done(_))));
    let last_scrub = || status().last_scrub;
    eventually("the scrub has ended", || last_scrub().is_some());
    assert_eq!(last_scrub().unwrap().outcome.as_deref(), Some("done"));

    let fail = |member: &str| ask(&socket, &Request::Fail { member: member.to_owned() });
    assert!(matches!(fail("/nonexistent"), Err(AskError::Refused(why)) if why.contains("/nonexistent")));
    fail(&members[0]).unwrap();
    let after = status();
    assert_eq!((after.in_sync.iter().filter(|in_sync| **in_sync).count(), after.failed), (2, false));

    assert!(matches!(
        ask(&socket, &Request::Stop { force: false, steps: false }),
        Ok(Reply::Stopped { unclean: None, .. })
    ));
    eventually("the socket has gone", || matches!(ask(&socket, &Request::Status), Err(AskError::Io(_))));
}

#[test]
fn what_goes_on_for_a_program_has_a_connection_of_its_own() {
    let sandbox = Sandbox::new();
    sandbox.ok("create a --level 5 --assume-clean", &sandbox.members(3, 24 * MIB));
    let mut daemon = Connection::open(&socket_in(&sandbox.run_dir(), "a")).unwrap();
    let choice = TraceChoice { cycles: Vec::new(), stripes: None, chosen_only: false, min_bytes: 0 };
    assert!(matches!(daemon.ask(&Request::Trace { choice }), Ok(Reply::Done(_))));
    sandbox.done("bench run a --rw write --bs 128K --size 256K --force");
    let Reply::Traced(traced) = daemon.ask(&Request::Traced { since: 0 }).unwrap() else {
        panic!("no decisions")
    };
    assert_eq!((traced.decisions.len(), traced.lost), (2, 0));
    assert_eq!(traced.decisions[1].bands[0].cycle, "full");

    daemon.send(&Request::TraceEnd).unwrap();
    let line = daemon.receive().unwrap().unwrap();
    assert_eq!(protocol_of(&line), PROTOCOL);
    assert!(daemon.receive().unwrap().is_none(), "nothing goes on any more: the daemon ends the connection");
}
