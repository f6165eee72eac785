//! The same load on member files and on modelled members: for policies that go by counts, the array's
//! counters are the same on both. So a real array treats its rows as a modelled one does.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Serialize;
use stripewise_device::{
    Device,
    file::{FileDevice, FileOptions, OpenError},
    uring::{Runtime, RuntimeOptions},
};
use stripewise_engine::{
    Array, CreateError, CreateOptions, ParityPlace, StatsReport,
    plan::selection::{POLICIES, Policy},
};
use stripewise_load::{Load, Sizes, Stop};
use thiserror::Error;

use crate::{
    arrays::{HddSetting, Rig, Shape, shapes},
    driven::{Driven, drive},
};

/// Levels 4, 5 and 6.
pub static ARRAYS: [&Shape; 3] = [&shapes::RAID4S, &shapes::RAID5, &shapes::RAID6_HYBRID];

/// The counters compared: the clients' requests, and how rows were written.
pub const COUNTERS: [&str; 7] =
    ["writes", "written_bytes", "stripe_writes", "stripe_writes_full", "rows_full", "rows_rmw", "rows_rcw"];

/// Size of a member file; most of it stays a hole.
const FILE_BYTES: u64 = 80 << 20;
/// The part of each array that the load writes to.
const SPAN_BYTES: u64 = 192 << 20;

/// Why there are no counters of files.
#[derive(Debug, Error)]
pub enum FilesError {
    /// A member file could not be made.
    #[error("{path}: the member file cannot be made: {source}; give another folder")]
    Make {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A member file could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// io_uring is not available.
    #[error("io_uring cannot be had: {0}; files are written to through it")]
    Runtime(#[source] io::Error),
    /// The array could not be made.
    #[error("the array cannot be made over the files: {0}")]
    Create(#[from] CreateError),
    /// A write failed.
    #[error("{folder}: a member file failed while it was written to; see whether the file system is full")]
    Failed {
        /// Where the files are.
        folder: PathBuf,
    },
}

/// A counter on both arrays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Counter {
    /// Its name.
    pub name: &'static str,
    /// On member files.
    pub files: u64,
    /// On modelled members.
    pub modelled: u64,
}

/// An array with a policy, on both kinds of members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// The array's level.
    pub level: i32,
    /// How it wrote partly written rows.
    pub policy: &'static str,
    /// Its counters.
    pub counters: Vec<Counter>,
}

impl Counter {
    /// Whether both values are equal.
    pub fn is_equal(&self) -> bool {
        self.files == self.modelled
    }
}

impl Comparison {
    fn new(shape: &Shape, policy: &'static Policy, files: &StatsReport, modelled: &StatsReport) -> Self {
        let pairs = COUNTERS.into_iter().zip(counted(files).into_iter().zip(counted(modelled)));
        let counters = pairs.map(|(name, (files, modelled))| Counter { name, files, modelled }).collect();
        Self { level: shape.level.number(), policy: policy.name, counters }
    }

    /// Whether all counters are equal.
    pub fn is_equal(&self) -> bool {
        self.counters.iter().all(Counter::is_equal)
    }
}

/// The policies, those that go by counts and those that go by members' costs: the latter choose by how fast
/// the members are just now, and count differently from one run to the next.
pub fn policies() -> (Vec<&'static Policy>, Vec<&'static Policy>) {
    POLICIES.iter().partition(|policy| !(policy.make)().needs_costs())
}

/// The values of [`COUNTERS`].
pub fn counted(stats: &StatsReport) -> [u64; COUNTERS.len()] {
    let fields = stats.fields();
    COUNTERS.map(|name| {
        let found = fields.iter().find(|(field, _)| *field == name);
        found.expect("an array counts what is compared").1
    })
}

/// Writes of all lengths up to two stripes, anywhere.
fn load(seed: u64) -> Load {
    Load {
        depth: 8,
        sizes: Sizes::Range { from: 4096, to: 512 << 10, step: 4096 },
        span_bytes: Some(SPAN_BYTES),
        stop: Stop::Requests(300),
        seed: Some(seed),
        ..Load::default()
    }
}

/// The same load on an array of member files in this folder, which must be empty, and on modelled members.
///
/// # Errors [`FilesError`]: a file, or io_uring, failed.
pub fn compare(
    shape: &'static Shape,
    policy: &'static Policy,
    seed: u64,
    folder: &Path,
) -> Result<Comparison, FilesError> {
    let files = on_files(shape, policy, load(seed), folder)?;
    let modelled = on_modelled(shape, policy, load(seed));
    Ok(Comparison::new(shape, policy, &files.stats, &modelled.stats))
}

/// Runs a load on an array of modelled members.
///
/// # Panics
/// If it does not fit the array.
pub fn on_modelled(shape: &Shape, policy: &'static Policy, load: Load) -> Driven {
    let rig = Rig::new(shape, policy, HddSetting::default(), 1);
    let array = rig.array().clone();
    rig.run(async move { drive(&array, load).await })
}

fn on_files(shape: &Shape, policy: &'static Policy, load: Load, folder: &Path) -> Result<Driven, FilesError> {
    let runtime = Runtime::start(&RuntimeOptions::default()).map_err(FilesError::Runtime)?;
    let members = (0..shape.drives.len()).map(|index| member(&folder.join(format!("member{index}"))));
    let mut options = CreateOptions::new("lab:files", shape.level, members.collect::<Result<_, _>>()?);
    options.assume_clean = true;
    options.parity = ParityPlace::Last;
    options.policy = Some(policy);
    let env = runtime.env();
    let (driven, degraded) = runtime.block_on(async move {
        let array = Array::create(env, options).await?;
        let driven = drive(&array, load).await;
        Ok::<_, CreateError>((driven, array.report().await.degraded()))
    })?;
    if degraded > 0 || driven.load.writes.errors > 0 {
        return Err(FilesError::Failed { folder: folder.to_owned() });
    }
    Ok(driven)
}

/// A new file, all of it a hole.
fn member(path: &Path) -> Result<Arc<dyn Device>, FilesError> {
    let made = File::create_new(path).and_then(|file| file.set_len(FILE_BYTES));
    made.map_err(|source| FilesError::Make { path: path.to_owned(), source })?;
    Ok(Arc::new(FileDevice::open(path, FileOptions::default())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_modelled_members_count_the_same_on_levels_4_5_and_6() {
        let (by_counts, by_times) = policies();
        assert_eq!((by_counts.len(), by_times.len()), (4, 1));
        for (shape, policy) in ARRAYS.into_iter().flat_map(|shape| by_counts.iter().map(move |p| (shape, *p)))
        {
            let folder = tempfile::tempdir().unwrap();
            let files = on_files(shape, policy, load(7), folder.path()).unwrap();
            let modelled = on_modelled(shape, policy, load(7));
            let found = Comparison::new(shape, policy, &files.stats, &modelled.stats);
            assert!(found.is_equal(), "{found:?}");
            // On 4+2 members `classic` never finds RMW cheaper, and `modified` never takes RCW.
            let [.., whole_stripes, full, rmw, rcw] = counted(&files.stats);
            assert!(whole_stripes > 0 && full > 0 && rmw + rcw > 0, "{found:?}");
            assert_eq!(files.load.writes.bytes, modelled.load.writes.bytes);
            let blocks =
                |driven: &Driven| -> Vec<_> { driven.members.iter().map(|m| m.blocks_rmw).collect() };
            assert_eq!(blocks(&files), blocks(&modelled), "{found:?}");
        }
    }

    #[test]
    fn one_counter_that_differs_is_a_difference() {
        let stats = |rows_rmw| StatsReport { rows_rmw, ..StatsReport::default() };
        let compared = |files, modelled| {
            Comparison::new(&shapes::RAID5, POLICIES[0], &stats(files), &stats(modelled)).is_equal()
        };
        assert!(compared(3, 3) && !compared(3, 4));
    }

    #[test]
    fn a_file_that_is_there_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("member0"), "somebody's").unwrap();
        let told = compare(&shapes::RAID5, POLICIES[0], 1, folder.path()).unwrap_err().to_string();
        assert!(told.contains("member0") && told.contains("give another folder"), "{told}");
    }
}
