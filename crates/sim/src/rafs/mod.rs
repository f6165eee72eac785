//! Stories of the file system: clients work on it, power fails at any step, and what the next mount finds must be what was promised
//! (`docs/failure-model.md`). Nothing here shares code with the file system but its public operations.
//!
//! * `ground`: what it lies on, a file or an array of simulated members;
//! * `client`: what a client does, in a folder of its own;
//! * `model`: what its folder may be after power has failed.

mod client;
mod ground;
mod model;

use std::sync::Arc;

use parking_lot::Mutex;
use stripewise_rafs::{
    check::check,
    fs::{Fs, MountOptions},
    volume::Volume,
};

pub use self::ground::Ground;
use self::{
    client::Client,
    ground::{Volumes, Watched},
    model::Folder,
};
use crate::World;

/// Steps that mounting and looking may take.
const STEPS_MAX: u64 = 20_000_000;
/// Steps between two power failures at most, mostly, and now and then.
const LIFE_STEPS: u64 = 1_500;
const LONG_LIFE_STEPS: u64 = 8_000;

/// What a story is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// All follows from it.
    pub seed: u64,
    /// What the file system lies on.
    pub ground: Ground,
    /// Lives: each ends with a power failure.
    pub lives: u32,
    /// Clients that work at the same time.
    pub clients: u32,
}

/// How a story ended.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// A hash of all that had happened at each power failure.
    pub crash_points: Vec<u64>,
    /// What is wrong, if anything is, and in which life it was seen.
    pub violation: Option<(u32, String)>,
}

/// Tells a story.
#[must_use]
pub fn tell(plan: &Plan) -> Told {
    let mut told = Told::default();
    let mut life = 0;
    let mut story = || -> Result<(), String> {
        let mut story = Story::begin(plan)?;
        for number in 0..plan.lives {
            life = number;
            // A member may be lost in the last crash but one: nothing gives it back.
            story.may_lose = number + 2 == plan.lives;
            told.crash_points.push(story.live()?);
        }
        Ok(())
    };
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut story));
    let result = caught.unwrap_or_else(|panic| Err(words(&*panic)));
    told.violation = result.err().map(|what| (life, what));
    told
}

/// What a panic says.
fn words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    format!("a panic: {}", text.unwrap_or_default())
}

struct Story {
    world: World,
    volumes: Volumes,
    folders: Vec<Arc<Mutex<Folder>>>,
    /// A member that the last power failure has taken along.
    lost: Option<usize>,
    may_lose: bool,
}

impl Story {
    fn begin(plan: &Plan) -> Result<Self, String> {
        let mut world = World::new(plan.seed);
        let volumes = Volumes::make(&mut world, plan.ground)?;
        let folders = (0..plan.clients).map(|number| Arc::new(Mutex::new(Folder::new(number)))).collect();
        Ok(Self { world, volumes, folders, lost: None, may_lose: false })
    }

    /// One life: from a mount to the next power failure. Returns what tells this failure from others.
    fn live(&mut self) -> Result<u64, String> {
        let lost = self.lost.take();
        let volume = Arc::new(Watched::new(self.volumes.open(&self.world, lost)?));
        let fs = self.mount(volume.clone(), lost.is_some())?;
        let failed = Arc::new(Mutex::new(None));
        for folder in &self.folders {
            let client = Client::new(self.world.env(), fs.clone(), folder.clone());
            let failed = failed.clone();
            self.world.start(async move {
                if let Err(error) = client.work().await {
                    failed.lock().get_or_insert(error);
                }
            });
        }
        let most = if self.world.random(4) == 0 { LONG_LIFE_STEPS } else { LIFE_STEPS };
        self.world.run_steps(1 + self.world.random(most));
        if let Some(error) = failed.lock().take() {
            return Err(error);
        }
        let point = self.world.trace_hash();
        self.world.crash();
        if self.may_lose && volume.has_whole_rows_only() && self.volumes.members() > 0 {
            self.lost = Some(self.world.random(self.volumes.members() as u64) as usize);
        }
        Ok(point)
    }

    /// Looks at all that power has left, and mounts it.
    fn mount(&self, volume: Arc<dyn Volume>, is_member_lost: bool) -> Result<Fs, String> {
        let looked_at = volume.clone();
        let report =
            self.finish(async move { check(&looked_at).await })?.map_err(|error| error.to_string())?;
        if let Some(problem) = report.problems.first() {
            return Err(format!("fsck: {problem}"));
        }
        let options = MountOptions { buffer_blocks: 128, cached_nodes: 64, ..MountOptions::default() };
        let env = self.world.env();
        let fs = self.finish(async move { Fs::mount(env, volume, options).await })?;
        let fs = fs.map_err(|error| format!("mounting: {error}"))?;
        for folder in &self.folders {
            let (fs, folder) = (fs.clone(), folder.clone());
            self.finish(async move { client::look(&fs, &folder, is_member_lost).await })??;
        }
        Ok(fs)
    }

    fn finish<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Result<T, String> {
        self.world.run_within(STEPS_MAX, task).ok_or_else(|| "it does not come to an end".to_owned())
    }
}
