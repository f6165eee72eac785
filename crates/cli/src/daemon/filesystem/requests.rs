//! What commands ask of the file system.

use std::{fs::File, os::unix::fs::FileExt, sync::Arc};

use anyhow::{Context, anyhow, bail, ensure};
use rustix::fs::MemfdFlags;
use smallvec::smallvec;
use stripewise::{Array, ArrayDevice, Device, IoBuf, internals::format::rafs::superblock::Superblock};
use stripewise_mount::{
    rafs::{
        check::Progress,
        store,
        volume::{ArrayVolume, Volume},
    },
    target::{self, TargetError},
};
use stripewise_wire::{MkfsSpec, MountChoice, Notes, Reply};

use super::{
    super::{members::holding, patience::Deadline, state::DaemonState},
    Claim, Work,
    mounting::Mounting,
};
use crate::{
    probe,
    rafs::{Random, checked, describe, make_options, mended, usage_status, write},
    sizes::format_size,
};

/// What is looked at of each end of an array: all known file systems, partition tables and arrays have their marks there.
const PROBED_BYTES: u64 = 4 << 20;

impl DaemonState {
    /// Makes a file system.
    pub(in crate::daemon) fn make_file_system(
        &self,
        spec: MkfsSpec,
        deadline: Deadline,
    ) -> anyhow::Result<Reply> {
        ensure!(spec.dry_run || !self.array.is_read_only(), "the array is read-only");
        let (array, name, runtime) = (self.array.clone(), self.name.clone(), self.host.runtime().clone());
        let env = self.host.env();
        self.work(Work::Make, deadline, move |_claim| {
            let device: Arc<ArrayDevice> = Arc::new(array.device());
            if !spec.dry_run {
                let looked = device.clone();
                let found = runtime.block_on(async move { contents(&*looked).await })?;
                let holding = holding("it", &found);
                ensure!(spec.force || found.is_empty(), "{holding}; give --force to overwrite it");
                if !found.is_empty() {
                    tracing::warn!("{holding}, which is overwritten");
                }
            }
            let info = device.info();
            let (size_bytes, media) = (info.size_bytes, info.media);
            let volume = ArrayVolume::new(array)?;
            let geometry = volume.geometry();
            let random = if spec.dry_run { Random::fixed() } else { Random::of(|| env.random_u64()) };
            let options = make_options(&spec, geometry.stripe_bytes(), media, &random)?;
            // Looked at before anything is written.
            let planned = store::plan(geometry, &options)?;
            let made = match spec.dry_run {
                true => planned,
                false => {
                    let spec = spec.clone();
                    let volume = Arc::new(volume);
                    runtime.block_on(async move { write(device, volume, options, &spec, |_, _| {}).await })?
                }
            };
            Ok(Reply::Made(Box::new(describe(&name, "the array", size_bytes, &made))))
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
        self.work(Work::Mount, deadline, move |claim| mounting.mount(claim))
    }

    /// Looks for damage, and mends it if that is wanted.
    pub(in crate::daemon) fn check_file_system(
        &self,
        mend: bool,
        deadline: Deadline,
    ) -> anyhow::Result<Reply> {
        ensure!(!mend || !self.array.is_read_only(), "the array is read-only: nothing of it can be mended");
        let (array, name, runtime, env) =
            (self.array.clone(), self.name.clone(), self.host.runtime().clone(), self.host.env());
        let work = if mend { Work::Mend } else { Work::Check };
        self.work(work, deadline, move |_claim| {
            let told = runtime.block_on(async move {
                let (superblock, volume) = open(array).await?;
                let (what, silent) = ((name, superblock.uuid.to_string()), Progress::silent());
                match mend {
                    true => mended(&env, what, &volume, &silent).await,
                    false => checked(what, &volume, &silent).await,
                }
            })?;
            Ok(Reply::Checked(Box::new(told)))
        })
    }

    /// Looks how full it is.
    pub(in crate::daemon) fn usage(&self, deadline: Deadline) -> anyhow::Result<Reply> {
        let (array, runtime, env) = (self.array.clone(), self.host.runtime().clone(), self.host.env());
        self.work(Work::Look, deadline, move |_claim| {
            let told = runtime.block_on(async move {
                let (superblock, volume) = open(array).await?;
                usage_status(env, volume, &superblock).await
            })?;
            Ok(Reply::Usage(Box::new(told)))
        })
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
        Ok(Reply::Working { done_bytes: 0, work: None })
    }

    /// Claims the file system, and begins. The claim ends with the work, before its outcome is told.
    fn work(
        &self,
        what: Work,
        deadline: Deadline,
        work: impl FnOnce(Claim) -> anyhow::Result<Reply> + Send + 'static,
    ) -> anyhow::Result<Reply> {
        let begun = self.exports.while_free(deadline, || {
            self.check_not_overwritten()?;
            let claim = self.file_system.claim(what)?;
            self.working.begin(moved_bytes(&self.array), move || work(claim))
        })?;
        self.worked(Some(begun), deadline)
    }
}

/// What was read of an array, and written to it.
fn moved_bytes(array: &Array) -> u64 {
    let counted = array.stats().report();
    counted.read_bytes + counted.written_bytes
}

/// The array's file system, and the array in its stripes.
///
/// # Errors
/// If it has none, or one that was made for other stripes.
pub(super) async fn open(array: Array) -> anyhow::Result<(Superblock, Arc<dyn Volume>)> {
    let superblock = target::superblock(&array.device()).await.map_err(|error| match error {
        TargetError::None { source, .. } => {
            let found = target::found_instead(&source);
            anyhow!("no RAFS file system ({found}); if it never had one, `stripewise mkfs` makes it")
        }
        other => other.into(),
    })?;
    let volume = ArrayVolume::new(array)?;
    let geometry = volume.geometry();
    let chunk = |rows: u32| format_size(u64::from(rows) * crate::rafs::BLOCK_BYTES);
    ensure!(
        (superblock.data_columns, superblock.rows) == (geometry.data_columns(), geometry.rows()),
        "its file system was made for stripes of {} chunks of {}, and the array has {} of {}: attach it, and mount its block \
         device",
        superblock.data_columns,
        chunk(superblock.rows),
        geometry.data_columns(),
        chunk(geometry.rows())
    );
    Ok((superblock, Arc::new(volume)))
}

/// What lies on an array, as for a device: its ends are copied to a file in memory that is as long, and that is looked at.
async fn contents(device: &dyn Device) -> anyhow::Result<Vec<String>> {
    let size_bytes = device.info().size_bytes;
    let copy = File::from(rustix::fs::memfd_create("stripewise-probe", MemfdFlags::CLOEXEC)?);
    copy.set_len(size_bytes)?;
    let probed = PROBED_BYTES.min(size_bytes);
    for offset_bytes in [0, size_bytes - probed] {
        let read = device.read(offset_bytes, smallvec![IoBuf::with_len(probed as usize)]).await;
        let read = read.into_one().context("looking at what it holds")?;
        copy.write_all_at(&read, offset_bytes)?;
    }
    probe::probe_opened(&copy).context("looking at what it holds")
}
