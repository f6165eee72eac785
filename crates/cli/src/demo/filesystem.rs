//! A real file system on the attached array.

use std::{
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use anyhow::{Context, bail, ensure};
use stripewise::{
    Array, Host,
    export::attach::{AttachOptions, Attachment, DetachMode, attach},
};

use super::{MOUNT_POINT, Store, story::Story, tree::Tree, worker::FileWorker};

/// File systems to try, in order: the name for mkfs and `mount -t`, and the options of mkfs.
const KINDS: [(&str, &[&str]); 3] =
    [("ext4", &["-q", "-F"]), ("xfs", &["-q", "-f"]), ("btrfs", &["-q", "-f"])];

/// The array attached, with a mounted file system. Dropping it takes both down.
pub(super) struct OnFileSystem<'a> {
    attachment: Attachment,
    mount_point: PathBuf,
    kind: &'static str,
    mounted: bool,
    worker: &'a mut FileWorker,
}

impl<'a> OnFileSystem<'a> {
    pub(super) fn open(
        host: &Host,
        array: &Array,
        folder: &Path,
        worker: &'a mut FileWorker,
    ) -> anyhow::Result<Self> {
        ensure!(rustix::process::geteuid().is_root(), "mounting needs root");
        let (kind, options) = KINDS
            .into_iter()
            .find(|(kind, _)| is_known(kind) && is_installed(kind))
            .context("no mkfs.ext4, mkfs.xfs or mkfs.btrfs for a file system that this kernel knows")?;
        let options_of_attach = AttachOptions::new(folder, "demo");
        let attachment = attach(Arc::new(array.device()), host.runtime(), &options_of_attach)?;
        let mount_point = folder.join(MOUNT_POINT);
        std::fs::create_dir(&mount_point)?;
        let mut store = Self { attachment, mount_point, kind, mounted: false, worker };
        let mut mkfs = Command::new(format!("mkfs.{kind}"));
        command(mkfs.args(options).arg(store.attachment.block_path()))?;
        store.mount()?;
        Ok(store)
    }

    fn mount(&mut self) -> anyhow::Result<()> {
        command(
            Command::new("mount")
                .args(["-t", self.kind])
                .arg(self.attachment.block_path())
                .arg(&self.mount_point),
        )?;
        self.mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> anyhow::Result<()> {
        command(Command::new("umount").arg(&self.mount_point))?;
        self.mounted = false;
        Ok(())
    }

    /// Writes out the file system's cache, from a separate process: a thread of this process that waited for
    /// writes which this process serves could not be killed.
    fn sync_command(&self) -> Command {
        let mut command = Command::new("sync");
        command.arg("--file-system").arg(&self.mount_point).process_group(0);
        command
    }

    fn target(&self, index: usize) -> PathBuf {
        self.mount_point.join(format!("d{}", index / 100)).join(format!("f{index}"))
    }
}

/// Whether the kernel has the file system built in or loaded.
fn is_known(kind: &str) -> bool {
    std::fs::read_to_string("/proc/filesystems")
        .is_ok_and(|text| text.lines().any(|line| line.trim() == kind))
}

fn is_installed(kind: &str) -> bool {
    let program = format!("mkfs.{kind}");
    let probe = Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    probe.is_ok()
}

/// Runs a command; its output becomes the error. The command does not get the terminal's Ctrl-C, which is for
/// the demo: after an interrupted `mount`, it would be unclear whether there is a mount.
fn command(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.process_group(0).output().with_context(|| program.clone())?;
    if output.status.success() {
        return Ok(());
    }
    bail!("{program}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())
}

impl Store for OnFileSystem<'_> {
    fn describe(&self) -> String {
        format!("attached as {} and mounted with {}", self.attachment.block_path().display(), self.kind)
    }

    fn copy_in(&mut self, tree: &Tree, story: &Story, at_half: &mut dyn FnMut()) -> anyhow::Result<()> {
        let half = tree.bytes() / 2;
        let mut copied = 0;
        let mut before_half = true;
        for (index, file) in tree.files.iter().enumerate() {
            story.check()?;
            let target = self.target(index);
            self.worker.copy(&file.path, &target).with_context(|| target.display().to_string())?;
            copied += file.bytes;
            if before_half && copied >= half {
                before_half = false;
                // The member dies while writes are under way: the cache is being written out.
                let mut flushing = self.sync_command().spawn().context("sync")?;
                std::thread::sleep(std::time::Duration::from_millis(30));
                at_half();
                flushing.wait()?;
            }
        }
        command(&mut self.sync_command())
    }

    fn verify(&mut self, tree: &Tree, story: &Story) -> anyhow::Result<()> {
        // A new mount has no cached pages: every byte comes from the array.
        self.unmount()?;
        self.mount()?;
        for (index, file) in tree.files.iter().enumerate() {
            story.check()?;
            let target = self.target(index);
            let found = self.worker.checksum(&target).with_context(|| target.display().to_string())?;
            ensure!(
                found == (file.bytes, file.checksum),
                "{} is not {}",
                target.display(),
                file.path.display()
            );
        }
        Ok(())
    }

    fn close(&mut self) -> anyhow::Result<()> {
        self.unmount()?;
        Ok(self.attachment.detach(DetachMode::Refuse)?)
    }
}

impl Drop for OnFileSystem<'_> {
    fn drop(&mut self) {
        if self.mounted {
            let _ = command(Command::new("umount").arg("--lazy").arg(&self.mount_point));
        }
        let _ = self.attachment.detach(DetachMode::Lazy);
    }
}
