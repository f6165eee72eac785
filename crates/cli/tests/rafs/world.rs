//! A sandbox with a folder to mount on.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use super::common::{Need, Sandbox, can_run, eventually};

/// Whether file systems can be mounted here.
#[track_caller]
pub(crate) fn can_mount(needs: &[Need<'_>]) -> bool {
    let own = [Need::Root, Need::Device("/dev/fuse"), Need::FileSystem("fuse")];
    can_run(&[&own, needs].concat())
}

pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
}

impl World {
    pub(crate) fn new() -> Self {
        let sandbox = Sandbox::new();
        std::fs::create_dir(sandbox.path("mnt")).unwrap();
        Self { sandbox }
    }

    pub(crate) fn point(&self) -> String {
        self.sandbox.path("mnt")
    }

    /// Unmounts it. A process that another test is just starting may hold a file there for a moment.
    pub(crate) fn umount(&self) {
        let line = format!("umount {}", self.point());
        eventually(&line, || self.sandbox.run(&line, &[""; 0]).code == Some(0));
    }

    pub(crate) fn inside(&self, name: &str) -> PathBuf {
        PathBuf::from(self.point()).join(name)
    }
}

impl Drop for World {
    /// Of a test that fails.
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.point()).stderr(Stdio::null()).status();
    }
}
