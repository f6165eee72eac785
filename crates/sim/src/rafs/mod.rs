//! Stories of the file system: clients work on it, power fails or the program is killed at any step, and what the next mount finds must
//! be what was promised (`docs/failure-model.md`). Nothing here shares code with the file system but its public operations.
//!
//! * `plan`: what a story is about; `ground`: what it lies on, a file or an array of simulated members; `watched`: its volume, which has faults;
//! * `client`: what a client does, in a folder of its own, and `act`: the names of what it does;
//! * `look`: a look at its folder after a mount, and `model`: what that may be after power has failed.

mod act;
mod client;
mod ground;
mod look;
mod model;
mod plan;
mod watched;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
#[cfg(feature = "mutants")]
use stripewise_rafs::mutants;
use stripewise_rafs::{
    check::{Problem, check},
    fs::{Fs, JournalMode, MountOptions, Preset, Technique, Without},
    volume::Volume,
};

pub use self::{act::Act, ground::Ground, plan::Plan};
use self::{
    client::{Client, Doings},
    model::Folder,
    watched::Watched,
};
pub(crate) use self::{
    ground::{Making, STRIPE_BYTES, Volumes},
    model::{judge, unit},
};
use crate::{World, story::panic_text};

/// Stripes are cleaned so long after they were written.
const CLEANED_AFTER: Duration = Duration::from_millis(500);
/// Steps that mounting and looking may take.
const STEPS_MAX: u64 = 20_000_000;
/// Steps between two power failures at most, mostly, and now and then.
const LIFE_STEPS: u64 = 1_500;
const LONG_LIFE_STEPS: u64 = 8_000;
/// Steps of a life after the program was killed, mostly.
const SHORT_LIFE_STEPS: u64 = 150;

/// One life in six ends with an unmount.
const UNMOUNTS: u64 = 6;

/// What has seen that something is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Checker {
    /// fsck, before a mount.
    Fsck,
    /// What is below cannot be assembled, or the file system cannot be mounted.
    Mount,
    /// Names or bytes after a power failure are none that were promised.
    Content,
    /// A client was told what is not so, or an error.
    Client,
    /// Something does not come to an end.
    End,
    /// A panic.
    Panic,
}

impl Checker {
    /// Every checker.
    pub const ALL: [Self; 6] = [Self::Fsck, Self::Mount, Self::Content, Self::Client, Self::End, Self::Panic];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fsck => "fsck",
            Self::Mount => "mount",
            Self::Content => "content",
            Self::Client => "client",
            Self::End => "end",
            Self::Panic => "panic",
        }
    }
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// In which life it was seen.
    pub life: u32,
    /// What has seen it.
    pub checker: Checker,
    /// What it is, in words.
    pub what: String,
}

/// A client at work; there is something in it once it has left.
type Working = Arc<Mutex<Option<()>>>;

/// A violation, before it is known in which life.
pub(crate) type Found = (Checker, String);

/// How a story ended.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// A hash of all that had happened at each power failure.
    pub crash_points: Vec<u64>,
    /// What is wrong, if anything is.
    pub violation: Option<Violation>,
    /// What clients did, and how it ended, if it was to be told.
    pub narration: Vec<String>,
}

/// Tells a story.
#[must_use]
pub fn tell(plan: &Plan) -> Told {
    #[cfg(feature = "mutants")]
    mutants::set(plan.mutant);
    let mut told = Told::default();
    let (mut life, log) = (0, Log::new(plan.narrate));
    let mut story = || -> Result<(), Found> {
        let mut story = Story::begin(plan, log.clone())?;
        for number in 0..plan.lives {
            life = number;
            log.note(|| format!("life {number}"));
            // A member may be lost in the last crash but one: nothing gives it back.
            story.may_lose = number + 2 == plan.lives;
            told.crash_points.extend(story.live(plan, number)?);
        }
        story.end()
    };
    let result = caught(&mut story);
    #[cfg(feature = "mutants")]
    mutants::set(None);
    told.violation = result.err().map(|(checker, what)| Violation { life, checker, what });
    told.narration = log.take();
    told
}

/// A panic is a violation, too.
pub(crate) fn caught<T>(call: impl FnOnce() -> Result<T, Found>) -> Result<T, Found> {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
    caught.unwrap_or_else(|panic| Err((Checker::Panic, panic_text(&*panic))))
}

/// What clients do, line by line, if that is to be told.
#[derive(Debug, Clone)]
pub(crate) struct Log(Option<Arc<Mutex<Vec<String>>>>);

impl Log {
    pub(crate) fn new(is_wanted: bool) -> Self {
        Self(is_wanted.then(Arc::default))
    }

    pub(crate) fn note(&self, line: impl FnOnce() -> String) {
        if let Some(lines) = &self.0 {
            lines.lock().push(line());
        }
    }

    pub(crate) fn take(&self) -> Vec<String> {
        self.0.as_ref().map(|lines| std::mem::take(&mut *lines.lock())).unwrap_or_default()
    }
}

struct Story {
    world: World,
    volumes: Volumes,
    folders: Vec<Arc<Mutex<Folder>>>,
    /// A member that the last power failure has taken along.
    lost: Option<usize>,
    is_just_lost: bool,
    /// A member lies since the last power failure.
    has_liar: bool,
    /// Blocks were written beside others while a member was missing.
    has_hurt: bool,
    /// The program was killed last, so that members have more than is durable.
    was_killed: bool,
    may_lose: bool,
    /// How the last mount journals, or did.
    journal: JournalMode,
    /// Free blocks as the last unmount left them, if it did.
    free_blocks: Option<u64>,
    log: Log,
}

impl Story {
    fn begin(plan: &Plan, log: Log) -> Result<Self, Found> {
        let mut world = World::new(plan.seed);
        let making = Making::drawn(&world);
        let volumes = Volumes::make(&mut world, plan.ground, making)?;
        let folders = (0..plan.clients).map(|number| Arc::new(Mutex::new(Folder::new(number)))).collect();
        Ok(Self {
            world,
            volumes,
            folders,
            lost: None,
            is_just_lost: false,
            has_liar: false,
            has_hurt: false,
            was_killed: false,
            may_lose: false,
            journal: JournalMode::default(),
            free_blocks: None,
            log,
        })
    }

    /// One life: from a mount to the next power failure, or until the program is killed. Returns what tells a power failure from others.
    fn live(&mut self, plan: &Plan, number: u32) -> Result<Option<u64>, Found> {
        let (volume, fs) = self.look_at_all()?;
        let failed = Arc::new(Mutex::new(None));
        let leave = Arc::new(AtomicBool::new(false));
        let doings = Doings {
            without: plan.without.clone(),
            log: self.log.clone(),
            volume: volume.clone(),
            leave: leave.clone(),
        };
        let clients =
            if number >= plan.quiet_lives { self.start_clients(&doings, &fs, &failed) } else { Vec::new() };
        let most = match self.world.random(4) {
            0 => LONG_LIFE_STEPS,
            1 | 2 if self.was_killed => SHORT_LIFE_STEPS,
            _ => LIFE_STEPS,
        };
        let mut steps = 1 + self.world.random(most);
        if number + 1 == plan.lives {
            steps = steps.min(plan.last_steps);
        }
        self.world.run_steps(steps);
        if self.world.random(UNMOUNTS) == 0 {
            leave.store(true, Ordering::Relaxed);
            self.unmount(&volume, &fs, &clients)?;
        }
        if let Some(error) = failed.lock().take() {
            return Err((Checker::Client, error));
        }
        if self.lost.is_some() {
            self.look_at_overwrites(&fs)?;
            self.has_hurt = !volume.has_whole_rows_only();
        }
        let point = self.world.trace_hash();
        self.was_killed = !self.may_lose && self.world.random(4) == 0;
        if self.was_killed {
            self.log.note(|| "the program is killed".to_owned());
            self.world.kill();
            return Ok(None);
        }
        self.world.crash();
        if self.may_lose && volume.has_whole_rows_only() && self.volumes.members() > 0 {
            self.lost = Some(self.world.random(self.volumes.members() as u64) as usize);
            self.is_just_lost = true;
            self.log.note(|| format!("the power failure has taken member {:?} along", self.lost));
        }
        Ok(Some(point))
    }

    /// The last look. Now and then a member lies by then, and redundancy has what was written.
    fn end(&mut self) -> Result<(), Found> {
        if self.has_hurt {
            // A member is missing: blocks that were written beside others may have taken these along.
            return Ok(());
        }
        // After writeback, a look removes what cannot be read.
        let may_lie =
            self.lost.is_none() && self.volumes.members() > 0 && self.journal != JournalMode::Writeback;
        if may_lie && self.world.random(2) == 0 {
            let member = self.volumes.make_lie(&self.world)?;
            self.has_liar = true;
            self.log.note(|| format!("member {member} lies"));
        }
        self.look_at_all().map(drop)
    }

    /// Clients end what they do, and the file system is unmounted: then everything is durable.
    fn unmount(&mut self, volume: &Watched, fs: &Fs, clients: &[Working]) -> Result<(), Found> {
        self.log.note(|| "clients leave, and the file system is unmounted".to_owned());
        let have_left = || clients.iter().all(|client| client.lock().is_some());
        if !self.world.run_steps_until(STEPS_MAX, have_left) && !have_left() {
            return Err((Checker::End, "what a client does has no end".to_owned()));
        }
        let ended = fs.clone();
        match self.finish(async move { ended.unmount().await })? {
            Ok(()) => {
                self.folders.iter().for_each(|folder| folder.lock().synced(None));
                let fs = fs.clone();
                self.free_blocks = Some(self.finish(async move { fs.usage().await.free_blocks })?);
            }
            Err(error) if volume.has_failed() => self.log.note(|| format!("unmount: {error}")),
            Err(error) => return Err((Checker::Client, format!("unmount: {error}"))),
        }
        Ok(())
    }

    /// While a member is missing, nothing is overwritten where it lies.
    fn look_at_overwrites(&self, fs: &Fs) -> Result<(), Found> {
        let fs = fs.clone();
        let blocks = self.finish(async move { fs.counters().await.overwritten_blocks })?;
        if blocks == 0 {
            return Ok(());
        }
        Err((Checker::Client, format!("{blocks} blocks were overwritten in place while a member is missing")))
    }

    fn start_clients(&self, doings: &Doings, fs: &Fs, failed: &Arc<Mutex<Option<String>>>) -> Vec<Working> {
        let start = |folder: &Arc<Mutex<Folder>>| {
            let client = Client::new(self.world.env(), fs.clone(), folder.clone(), doings.clone());
            let failed = failed.clone();
            self.world.start(async move {
                if let Err(error) = client.work().await {
                    failed.lock().get_or_insert(error);
                }
            })
        };
        self.folders.iter().map(start).collect()
    }

    /// Looks at all that power has left, and mounts it.
    fn look_at_all(&mut self) -> Result<(Arc<Watched>, Fs), Found> {
        // What is overwritten where it lies has no CRC: nothing tells that it is another than what was written.
        let is_just_lost = std::mem::take(&mut self.is_just_lost) || self.has_liar;
        let opened = self.volumes.open(&self.world, self.lost)?;
        let volume = Arc::new(Watched::new(self.world.env(), opened));
        let copies_may_differ = self.has_liar;
        look_for_damage_but(&self.world, volume.clone(), copies_may_differ)?;
        // A write beside a block of a liar may make parity of what it says.
        let options = MountOptions { is_read_only: self.has_liar, ..self.some_options() };
        self.log.note(|| format!("a mount with {options:?}"));
        let before = std::mem::replace(&mut self.journal, options.journal);
        let fs = mount(&self.world, volume.clone(), options)?;
        self.look_at_space(&fs)?;
        for folder in &self.folders {
            let (fs, folder) = (fs.clone(), folder.clone());
            let looked = self.finish(async move { look::look(&fs, &folder, before, is_just_lost).await })?;
            looked.map_err(|what| (Checker::Content, what))?;
        }
        Ok((volume, fs))
    }

    /// An unmount leaves as much free as the next mount finds: else some was kept that nothing needs, or was not counted.
    fn look_at_space(&mut self, fs: &Fs) -> Result<(), Found> {
        let Some(before) = self.free_blocks.take() else { return Ok(()) };
        let fs = fs.clone();
        let free_blocks = self.finish(async move { fs.usage().await.free_blocks })?;
        if free_blocks == before {
            return Ok(());
        }
        Err((
            Checker::Mount,
            format!("{before} blocks were free after an unmount, and {free_blocks} are after the next mount"),
        ))
    }

    /// How it is mounted: mostly as it is by itself.
    fn some_options(&self) -> MountOptions {
        let technique = Technique::ALL[self.world.random(4) as usize];
        let without = Without::default();
        let preset = if self.world.random(8) == 0 { Preset::Paper } else { Preset::Default };
        MountOptions {
            discards: self.world.random(2) == 0,
            journal: match self.world.random(8) {
                0 => JournalMode::None,
                1 => JournalMode::Writeback,
                2 | 3 => JournalMode::Data,
                _ => JournalMode::Ordered,
            },
            without: if self.world.random(4) == 0 { without.and(technique) } else { without },
            ..small_options(preset)
        }
    }

    fn finish<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Result<T, Found> {
        finish(&self.world, "it", task)
    }
}

/// fsck of what power has left must find nothing.
pub(crate) fn look_for_damage(world: &World, volume: Arc<dyn Volume>) -> Result<(), Found> {
    look_for_damage_but(world, volume, false)
}

/// As [`look_for_damage`]; perhaps a member lies, and has copies of superblocks and anchors. Of all else redundancy has what was written.
fn look_for_damage_but(world: &World, volume: Arc<dyn Volume>, copies_may_differ: bool) -> Result<(), Found> {
    let report = finish(world, "fsck", async move { check(&volume).await })?;
    let report = report.map_err(|error| (Checker::Fsck, error.to_string()))?;
    let is_copy =
        |problem: &Problem| matches!(problem, Problem::Superblock { .. } | Problem::AnchorCopies { .. });
    match report.problems.iter().find(|problem| !copies_may_differ || !is_copy(problem)) {
        Some(problem) => Err((Checker::Fsck, problem.to_string())),
        None => Ok(()),
    }
}

/// A mount with a small buffer.
pub(crate) fn small_options(preset: Preset) -> MountOptions {
    MountOptions {
        buffer_blocks: 128,
        cached_nodes: 64,
        cleaned_after: CLEANED_AFTER,
        ..MountOptions::of(preset)
    }
}

/// Mounts it.
pub(crate) fn mount(world: &World, volume: Arc<dyn Volume>, options: MountOptions) -> Result<Fs, Found> {
    let env = world.env();
    let fs = finish(world, "mounting", async move { Fs::mount(env, volume, options).await })?;
    fs.map_err(|error| (Checker::Mount, error.to_string()))
}

/// The result of a task that must come to an end.
pub(crate) fn finish<T: Send + 'static>(
    world: &World,
    what: &str,
    task: impl Future<Output = T> + Send + 'static,
) -> Result<T, Found> {
    let ended = world.run_within(STEPS_MAX, task);
    ended.ok_or_else(|| (Checker::End, format!("{what} does not come to an end")))
}
