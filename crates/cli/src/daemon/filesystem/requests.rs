//! What commands ask of the file system.

use anyhow::{bail, ensure};
use stripewise::Array;
use stripewise_wire::{MkfsSpec, MountChoice, Notes, Reply};

use super::{
    super::{patience::Deadline, state::DaemonState},
    Claim, Work,
    ground::Ground,
    mounting::Mounting,
    work::Step,
};

impl DaemonState {
    /// Makes a file system.
    pub(in crate::daemon) fn make_file_system(
        &self,
        spec: MkfsSpec,
        deadline: Deadline,
    ) -> anyhow::Result<Reply> {
        ensure!(spec.dry_run || !self.array.is_read_only(), "the array is read-only");
        let ground = self.ground();
        self.work(Work::Make, deadline, move |_claim, step| {
            Ok(Reply::Made(Box::new(ground.make(&spec, step)?)))
        })
    }

    /// Mounts the file system.
    pub(in crate::daemon) fn mount(&self, choice: MountChoice, deadline: Deadline) -> anyhow::Result<Reply> {
        ensure!(
            choice.read_only || !self.array.is_read_only(),
            "the array is read-only; mount it with `-o ro`"
        );
        let mounting = Mounting {
            name: self.name.clone(),
            array: self.array.clone(),
            runtime: self.host.runtime().clone(),
            choice,
        };
        self.work(Work::Mount, deadline, move |claim, _| mounting.mount(claim))
    }

    /// Looks for damage, and mends it if that is wanted.
    pub(in crate::daemon) fn check_file_system(
        &self,
        mend: bool,
        deadline: Deadline,
    ) -> anyhow::Result<Reply> {
        ensure!(!mend || !self.array.is_read_only(), "the array is read-only: nothing of it can be mended");
        let (ground, work) = (self.ground(), if mend { Work::Mend } else { Work::Check });
        self.work(work, deadline, move |_claim, step| {
            Ok(Reply::Checked(Box::new(ground.check(mend, &step)?)))
        })
    }

    /// Looks how full it is.
    pub(in crate::daemon) fn usage(&self, deadline: Deadline) -> anyhow::Result<Reply> {
        let ground = self.ground();
        self.work(Work::Look, deadline, move |_claim, _| Ok(Reply::Usage(Box::new(ground.usage()?))))
    }

    /// How far such work has come.
    pub(in crate::daemon) fn worked(&self, work: Option<u64>, deadline: Deadline) -> anyhow::Result<Reply> {
        self.working.step(work, || moved_bytes(&self.array), deadline)
    }

    /// Whether what was mounted is written out.
    pub(in crate::daemon) fn unmounted(&self, deadline: Deadline) -> anyhow::Result<Reply> {
        if self.file_system.rests_within(deadline) {
            return match self.file_system.lost() {
                Some(why) => bail!("{why}"),
                None => Ok(Reply::Done(Notes::new())),
            };
        }
        Ok(Reply::Working { done_bytes: 0, work: None, step: None })
    }

    fn ground(&self) -> Ground {
        Ground {
            name: self.name.clone(),
            array: self.array.clone(),
            runtime: self.host.runtime().clone(),
            env: self.host.env(),
        }
    }

    /// Claims the file system, and begins. The claim ends with the work, before its outcome is told.
    fn work(
        &self,
        what: Work,
        deadline: Deadline,
        work: impl FnOnce(Claim, Step) -> anyhow::Result<Reply> + Send + 'static,
    ) -> anyhow::Result<Reply> {
        let begun = self.exports.while_free(deadline, || {
            self.check_not_overwritten()?;
            let claim = self.file_system.claim(what)?;
            self.working.begin(moved_bytes(&self.array), move |step| work(claim, step))
        })?;
        self.worked(Some(begun), deadline)
    }
}

/// What was read of an array, and written to it.
fn moved_bytes(array: &Array) -> u64 {
    let counted = array.stats().report();
    counted.read_bytes + counted.written_bytes
}
