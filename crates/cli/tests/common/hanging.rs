//! Daemons that stand still, and an array whose member is a file that such a daemon serves.

use rustix::process::{Pid, Signal, kill_process};

use super::{MIB, Need, Sandbox, can_run, eventually, thread_states};

/// Lets a daemon go on, whatever becomes of the test: what waits for its files could not even be killed.
pub(crate) struct Halted(Pid);

impl Halted {
    /// Waits until each thread stands still: after the signal a thread goes on until the kernel gets to it, which takes
    /// long on a busy machine.
    pub(crate) fn new(pid: Pid) -> Self {
        kill_process(pid, Signal::STOP).unwrap();
        let halted = Self(pid);
        eventually("it stands still", || {
            let states = thread_states(pid);
            assert!(!states.is_empty(), "it has ended");
            states.iter().all(|state| *state == 'T')
        });
        halted
    }
}

impl Drop for Halted {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// Whether arrays can be served as files here.
pub(crate) fn can_serve_files() -> bool {
    can_run(&[Need::Tool("losetup"), Need::Root, Need::Device("/dev/fuse")])
}

/// A daemon, and the file of 48 MiB that it serves.
pub(crate) fn served_file(sandbox: &Sandbox, name: &str) -> (Pid, String) {
    let below: Vec<_> = (0..2).map(|index| sandbox.member(&format!("{name}{index}"), 48 * MIB)).collect();
    sandbox.ok(&format!("create {name} --level 1 --assume-clean"), &below);
    sandbox.done(&format!("attach {name} --method fuse"));
    let served = sandbox.run_dir().join(format!("attach-{name}/disk")).to_str().unwrap().to_owned();
    (sandbox.pid(name), served)
}

/// An array one of whose members is a file that another array's daemon serves; that daemon, and the file.
pub(crate) fn on_a_served_file() -> Option<(Sandbox, Pid, String)> {
    if !can_serve_files() {
        return None;
    }
    let sandbox = Sandbox::new();
    let (server, served) = served_file(&sandbox, "below");
    let mut members = sandbox.members(2, 48 * MIB);
    members.push(served.clone());
    sandbox.ok("create a --level 5 --assume-clean", &members);
    Some((sandbox, server, served))
}
