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

/// An array one of whose members is a file that another array's daemon serves; that daemon, and the file.
pub(crate) fn on_a_served_file() -> Option<(Sandbox, Pid, String)> {
    if !can_run(&[Need::Tool("losetup"), Need::Root, Need::Device("/dev/fuse")]) {
        return None;
    }
    let sandbox = Sandbox::new();
    let below: Vec<_> = (0..2).map(|index| sandbox.member(&format!("b{index}"), 48 * MIB)).collect();
    sandbox.ok("create below --level 1 --assume-clean", &below);
    sandbox.done("attach below --method fuse");
    let served = sandbox.run_dir().join("attach-below/disk").to_str().unwrap().to_owned();
    let mut members = sandbox.members(2, 48 * MIB);
    members.push(served.clone());
    sandbox.ok("create a --level 5 --assume-clean", &members);
    let server = sandbox.pid("below");
    Some((sandbox, server, served))
}
