//! What a database stands on: an array with a cache, attached, with a file system that is mounted.

use std::path::PathBuf;

use rustix::process::Signal;

use crate::common::{MIB, Mounted, Sandbox, tool};

const MEMBERS: usize = 4;
const MEMBER_BYTES: u64 = 160 * MIB;

pub(crate) struct Ground {
    /// Ends before the folder that it lies in.
    mounted: Option<Mounted>,
    pub(crate) sandbox: Sandbox,
    members: Vec<String>,
}

impl Ground {
    /// An array made with more `options`.
    pub(crate) fn new(options: &str) -> Self {
        let sandbox = Sandbox::new();
        let members = sandbox.members(MEMBERS, MEMBER_BYTES);
        sandbox.ok(&format!("create a --level 5 --assume-clean {options}"), &members);
        let mut ground = Self { mounted: None, sandbox, members };
        let device = ground.attach();
        tool("mkfs.ext4", &["-q", &device]);
        ground.mount(&device);
        ground
    }

    /// Where the file system is mounted.
    pub(crate) fn folder(&self) -> PathBuf {
        self.sandbox.folder().join("mnt")
    }

    fn attach(&self) -> String {
        self.sandbox.done("attach a").trim().to_owned()
    }

    fn mount(&mut self, device: &str) {
        self.mounted = Some(Mounted::new(&[device], &self.folder()));
    }

    /// Bytes that only the cache holds.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.sandbox.json("cache a")["dirty_bytes"].as_u64().unwrap()
    }

    pub(crate) fn kill(&self) {
        self.sandbox.signal(self.sandbox.pid("a"), Signal::KILL);
    }

    /// After a kill: takes away what is left, and has the file system again, from its journal. Nothing but that may be
    /// needed.
    pub(crate) fn come_back(&mut self) {
        drop(self.mounted.take());
        self.sandbox.ok("assemble a", &self.members);
        let device = self.attach();
        self.mount(&device);
        self.unmount();
        tool("fsck.ext4", &["-fn", &device]);
        self.mount(&device);
    }

    fn unmount(&mut self) {
        if let Some(mounted) = self.mounted.take() {
            mounted.unmount();
        }
    }

    /// Stops in good order: file system and redundancy agree.
    pub(crate) fn end(mut self) {
        self.unmount();
        let device = self.sandbox.status("a")["attached"].as_str().unwrap().to_owned();
        tool("fsck.ext4", &["-fn", &device]);
        self.sandbox.assert_consistent("a");
        self.sandbox.done("stop a");
        let examined = self.sandbox.json(&format!("examine {}", self.members[0]));
        assert_eq!(examined[0]["clean"], true, "{examined}");
    }
}
