//! What is done with the file system of an array that is not mounted.

use std::{fs::File, os::unix::fs::FileExt, sync::Arc};

use anyhow::{Context, anyhow, ensure};
use rustix::fs::MemfdFlags;
use smallvec::smallvec;
use stripewise::{
    Array, ArrayDevice, Device, EnvHandle, IoBuf,
    internals::{format::rafs::superblock::Superblock, uring::Runtime},
};
use stripewise_mount::{
    rafs::{
        check::Progress,
        store,
        volume::{ArrayVolume, Volume},
    },
    target::{self, Seen, TargetError},
};
use stripewise_wire::{CheckedStatus, MadeStatus, MkfsSpec, UsageStatus};

use super::{super::members::holding, work::Step};
use crate::{
    probe,
    rafs::{
        RAFS_WITHOUT_FIRST, Random, check_not_foreign, checked, describe, make_options, mended, usage_status,
        write,
    },
    sizes::format_size,
};

/// What is looked at of each end of an array: all known file systems, partition tables and arrays have their marks there.
const PROBED_BYTES: u64 = 4 << 20;

/// An array, and what runs the work on it.
pub(super) struct Ground {
    pub(super) name: String,
    pub(super) array: Array,
    pub(super) runtime: Arc<Runtime>,
    pub(super) env: EnvHandle,
}

impl Ground {
    /// Makes a file system, unless it shall only be said what would be made.
    pub(super) fn make(self, spec: &MkfsSpec, step: Step) -> anyhow::Result<MadeStatus> {
        let Self { name, array, runtime, env } = self;
        let device: Arc<ArrayDevice> = Arc::new(array.device());
        let looked = array.clone();
        let found = runtime.block_on(async move { contents(&looked).await })?;
        let holding = holding("it", &found);
        ensure!(spec.force || found.is_empty(), "{holding}; give --force to overwrite it");
        if !found.is_empty() && !spec.dry_run {
            tracing::warn!("{holding}, which is overwritten");
        }
        let info = device.info();
        let (size_bytes, media) = (info.size_bytes, info.media);
        let volume = ArrayVolume::new(array)?;
        let geometry = volume.geometry();
        let random = if spec.dry_run { Random::fixed() } else { Random::of(|| env.random_u64()) };
        let options = make_options(spec, geometry.stripe_bytes(), media, &random)?;
        // Looked at before anything is written.
        let planned = store::plan(geometry, &options)?;
        let made = match spec.dry_run {
            true => planned,
            false => {
                let (spec, volume) = (spec.clone(), Arc::new(volume));
                let tell = move |done, all| step.tell("discard", done, all);
                runtime.block_on(async move { write(device, volume, options, &spec, tell).await })?
            }
        };
        Ok(describe(&name, "the array", size_bytes, &made))
    }

    /// Looks for damage, and mends it if that is wanted.
    pub(super) fn check(self, mend: bool, step: &Step) -> anyhow::Result<CheckedStatus> {
        let Self { name, array, runtime, env } = self;
        let step = step.clone();
        let progress = Progress::new(move |what, done, all| step.tell(what, done, all));
        runtime.block_on(async move {
            let (superblock, volume) = open_damaged(array).await?;
            let what = (name, superblock.uuid.to_string());
            match mend {
                true => mended(&env, what, &volume, &progress).await,
                false => checked(what, &volume, &progress).await,
            }
        })
    }

    /// Looks how full it is.
    pub(super) fn usage(self) -> anyhow::Result<UsageStatus> {
        let Self { name, array, runtime, env } = self;
        runtime.block_on(async move {
            let (superblock, volume) = open(&name, array).await?;
            usage_status(env, volume, &superblock).await
        })
    }
}

/// The array's file system, and the array in its stripes.
///
/// # Errors
/// If it has none, one whose first stripe is lost, or one that was made for other stripes.
pub(super) async fn open(name: &str, array: Array) -> anyhow::Result<Opened> {
    let (superblock, is_lost) = superblock(&array).await?;
    ensure!(!is_lost, "{}", target::first_lost(name));
    fitting(array, superblock)
}

/// As [`open`], also if only the last superblock is left.
async fn open_damaged(array: Array) -> anyhow::Result<Opened> {
    let (superblock, _) = superblock(&array).await?;
    fitting(array, superblock)
}

/// The superblock and the volume of a file system.
type Opened = (Superblock, Arc<dyn Volume>);

/// The superblock, and whether the first stripe has lost it.
///
/// # Errors
/// If there is none, or the array does not begin with it and holds something else.
async fn superblock(array: &Array) -> anyhow::Result<(Superblock, bool)> {
    let (copy, is_lost) = match target::superblock(&array.device()).await {
        Ok(Seen { superblock, is_first: true }) => return Ok((superblock, false)),
        Ok(Seen { superblock, .. }) => (superblock, false),
        Err(error) => (last_superblock(array).await.ok_or_else(|| none_found(error))?, true),
    };
    // What cannot be read is not recognised.
    check_not_foreign("it", recognised(array).await.unwrap_or_default())?;
    Ok((copy, is_lost))
}

/// The superblock of the last stripe, or the first.
async fn last_superblock(array: &Array) -> Option<Superblock> {
    let volume = ArrayVolume::new(array.clone()).ok()?;
    store::read_superblock(&volume).await.ok()
}

fn none_found(error: TargetError) -> anyhow::Error {
    match error {
        TargetError::None { source, .. } => {
            let found = target::found_instead(&source);
            anyhow!("no RAFS file system ({found}); if it never had one, `stripewise mkfs` makes it")
        }
        other => other.into(),
    }
}

fn fitting(array: Array, superblock: Superblock) -> anyhow::Result<Opened> {
    let volume = ArrayVolume::new(array)?.of_stripes(superblock.stripes);
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

/// What lies on an array.
async fn contents(array: &Array) -> anyhow::Result<Vec<String>> {
    let mut found = recognised(array).await?;
    if found.is_empty() && last_superblock(array).await.is_some() {
        found.push(RAFS_WITHOUT_FIRST.to_owned());
    }
    Ok(found)
}

/// What is recognised on an array, as on a device: its ends are copied to a file in memory that is as long, and that is looked at.
async fn recognised(array: &Array) -> anyhow::Result<Vec<String>> {
    let device = array.device();
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

#[cfg(test)]
mod tests {
    use stripewise::{CreateOptions, Host, HostOptions, geometry::Level};
    use stripewise_wire::StepStatus;

    use super::*;

    #[test]
    fn making_and_checking_tell_how_far_they_have_come() {
        let folder = tempfile::tempdir().unwrap();
        let members: Vec<_> = (0..3).map(|number| folder.path().join(number.to_string())).collect();
        for member in &members {
            File::create_new(member).unwrap().set_len(32 << 20).unwrap();
        }
        let host = Host::start(&HostOptions::default()).unwrap();
        let mut options = CreateOptions::named("host:a", Level::Raid5);
        (options.assume_clean, options.measure) = (true, false);
        let array = host.create(&members, options).unwrap();
        let ground = || Ground {
            name: "a".to_owned(),
            array: array.clone(),
            runtime: host.runtime().clone(),
            env: host.env(),
        };
        let (making, checking) = (Step::default(), Step::default());
        let made = ground().make(&MkfsSpec::default(), making.clone()).unwrap();
        let all = made.stripes * u64::from(made.data_columns) * made.chunk_bytes;
        assert_eq!(making.last(), Some(StepStatus { what: "discard".to_owned(), done: all, all }));
        assert!(ground().check(false, &checking).unwrap().clean);
        assert_eq!(checking.last(), Some(StepStatus { what: "inodes".to_owned(), done: 0, all: 1 }));
        host.block_on(async move { array.stop().await }).unwrap();
    }
}
