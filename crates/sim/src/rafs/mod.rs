//! Stories of the file system: clients work on it, power fails or the program is killed at any step, and what the next mount finds must
//! be what was promised (`docs/failure-model.md`). Nothing here shares code with the file system but its public operations.
//!
//! * `plan`: what a story is about; `ground`: what it lies on, a file or an array of simulated members; `watched`: its volume, which has faults;
//! * `client` and `naming`: what a client does, in a folder of its own; `operator`: what is done to the array and to the mount meanwhile; `act`: the names
//!   of all that;
//! * `doubts`: writes that a power failure may tear, and `ending`: how a life ends;
//! * `look`: a look at a client's folder after a mount, and `model`: what that may be after power has failed.

mod act;
mod client;
mod doubts;
mod ending;
mod ground;
mod look;
mod model;
mod naming;
mod operator;
mod plan;
mod watched;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use stripewise_engine::{Array, CacheSettings};
#[cfg(feature = "mutants")]
use stripewise_rafs::mutants;
use stripewise_rafs::{
    check::{Problem, check},
    fs::{Fs, JournalMode, MountOptions, Pace, Preset, Technique, Without},
    volume::Volume,
};

pub use self::{act::Act, ground::Ground, plan::Plan};
use self::{
    client::{Client, Doings},
    ground::{Opened, Opening},
    model::{Folder, Forgiven},
    operator::{Operator, any_cache, any_pace},
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
/// In one life of so many, an operator works.
const OPERATED: u64 = 3;
/// One mount in so many has an array below with another cache than before, or none.
const OTHER_CACHES: u64 = 4;

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

/// A client or the operator at work; there is something in it once it has left.
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
            if story.has_hurt {
                break;
            }
        }
        story.end(plan)
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
    /// The operator has failed a member in this life or an earlier one.
    has_failed_members: bool,
    /// A member lies since the last power failure.
    has_liar: bool,
    /// The last life ended amid a write of blocks beside others while a member was missing: these may be lost.
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

/// What there is from a mount to the next power failure.
struct Life {
    volume: Arc<Watched>,
    /// The array below, if there is one.
    array: Option<Array>,
    fs: Fs,
    /// A member was missing at the beginning.
    was_short: bool,
}

impl Life {
    /// Whether a member is missing, is being filled, or is failing.
    fn is_short(&self) -> bool {
        self.array.as_ref().is_some_and(Array::is_degraded) || self.volume.doubts().do_all_count()
    }
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
            has_failed_members: false,
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
        let life = self.look_at_all(plan)?;
        let doings = Doings {
            without: plan.without.clone(),
            log: self.log.clone(),
            volume: life.volume.clone(),
            leave: Arc::default(),
            member_failed: Arc::default(),
        };
        let failed = Arc::new(Mutex::new(None));
        let working =
            if number >= plan.quiet_lives { self.start_work(&doings, &life, &failed) } else { Vec::new() };
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
            doings.leave.store(true, Ordering::Relaxed);
            self.unmount(&life, &working)?;
        }
        self.look_at_overwrites(&life, &doings)?;
        let point = self.end_life(&life)?;
        // The operator works until the very end.
        self.has_failed_members |= doings.member_failed.load(Ordering::Relaxed);
        match failed.lock().take() {
            Some(error) => Err((Checker::Client, error)),
            None => Ok(point),
        }
    }

    /// The last look. Now and then a member lies by then, and redundancy has what was written.
    fn end(&mut self, plan: &Plan) -> Result<(), Found> {
        if self.has_hurt {
            return Ok(());
        }
        // After writeback, a look removes what cannot be read.
        let may_lie =
            self.lost.is_none() && self.volumes.is_array() && self.journal != JournalMode::Writeback;
        if may_lie
            && self.world.random(2) == 0
            && let Some(member) = self.volumes.make_lie(&self.world, self.opening())?
        {
            self.has_liar = true;
            self.log.note(|| format!("member {member} lies"));
        }
        self.look_at_all(plan).map(drop)
    }

    /// Clients end what they do, and the file system is unmounted: then everything is durable.
    fn unmount(&mut self, life: &Life, working: &[Working]) -> Result<(), Found> {
        self.log.note(|| "clients leave, and the file system is unmounted".to_owned());
        let have_left = || working.iter().all(|one| one.lock().is_some());
        if !self.world.run_steps_until(STEPS_MAX, have_left) && !have_left() {
            return Err((Checker::End, "what a client does has no end".to_owned()));
        }
        let (fs, ended) = (&life.fs, life.fs.clone());
        match self.finish(async move { ended.unmount().await })? {
            Ok(()) => {
                self.folders.iter().for_each(|folder| folder.lock().synced(None));
                let fs = fs.clone();
                self.free_blocks = Some(self.finish(async move { fs.usage().await.free_blocks })?);
            }
            Err(error) if life.volume.has_failed() => self.log.note(|| format!("unmount: {error}")),
            Err(error) => return Err((Checker::Client, format!("unmount: {error}"))),
        }
        Ok(())
    }

    /// While a member is missing, nothing is overwritten where it lies. Here, it was missing all the time.
    fn look_at_overwrites(&self, life: &Life, doings: &Doings) -> Result<(), Found> {
        let was_always_short =
            || life.was_short && life.is_short() && !doings.member_failed.load(Ordering::Relaxed);
        if !was_always_short() {
            return Ok(());
        }
        let fs = life.fs.clone();
        let blocks = self.finish(async move { fs.counters().await.overwritten_blocks })?;
        // Meanwhile a member may have been filled, and another one failed after that.
        if blocks == 0 || !was_always_short() {
            return Ok(());
        }
        Err((Checker::Client, format!("{blocks} blocks were overwritten in place while a member is missing")))
    }

    /// Clients begin to work, and in every other life the operator.
    fn start_work(&self, doings: &Doings, life: &Life, failed: &Arc<Mutex<Option<String>>>) -> Vec<Working> {
        let client = |folder: &Arc<Mutex<Folder>>| {
            let client = Client::new(self.world.env(), life.fs.clone(), folder.clone(), doings.clone());
            self.start(async move { client.work().await }, failed)
        };
        let mut working: Vec<_> = self.folders.iter().map(client).collect();
        if self.world.random(OPERATED) == 0 {
            let operator = Operator {
                env: self.world.env(),
                array: life.array.clone(),
                devices: self.volumes.left(self.lost),
                fs: life.fs.clone(),
                doings: doings.clone(),
            };
            working.push(self.start(async move { operator.work().await }, failed));
        }
        working
    }

    fn start(
        &self,
        work: impl Future<Output = Result<(), String>> + Send + 'static,
        failed: &Arc<Mutex<Option<String>>>,
    ) -> Working {
        let failed = failed.clone();
        self.world.start(async move {
            if let Err(error) = work.await {
                failed.lock().get_or_insert(error);
            }
        })
    }

    fn opening(&self) -> Opening {
        Opening { lost: self.lost, may_be_short: self.has_failed_members, cache: None }
    }

    /// The cache of the array below, now and then another than before.
    fn some_cache(&self, plan: &Plan) -> Option<CacheSettings> {
        let (is_other, seed) = (self.world.random(OTHER_CACHES) == 0, self.world.random(u64::MAX));
        (is_other && !plan.without.contains(&Act::SetCache)).then(|| any_cache(seed))
    }

    /// Looks at all that power has left, and mounts it.
    fn look_at_all(&mut self, plan: &Plan) -> Result<Life, Found> {
        let is_just_lost = std::mem::take(&mut self.is_just_lost);
        let forgiven = match self.has_liar {
            true => Forgiven::Large,
            false if is_just_lost => Forgiven::Overwritten,
            false => Forgiven::Nothing,
        };
        let opening = Opening { cache: self.some_cache(plan), ..self.opening() };
        self.log.note(|| format!("the volume is opened: {opening:?}"));
        let Opened { volume, array } = self.volumes.open_as(&self.world, opening)?;
        let was_short = array.as_ref().is_some_and(Array::is_degraded);
        let volume = Arc::new(Watched::new(self.world.env(), volume));
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
            let looked = self.finish(async move { look::look(&fs, &folder, before, forgiven).await })?;
            looked.map_err(|what| (Checker::Content, what))?;
        }
        Ok(Life { volume, array, fs, was_short })
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
        let options = small_options(preset);
        let pace = match self.world.random(4) {
            0 => any_pace(|below| self.world.random(below)),
            _ => Pace { free_percent: options.free_percent, age: options.age },
        };
        MountOptions {
            discards: self.world.random(2) == 0,
            journal: match self.world.random(8) {
                0 => JournalMode::None,
                1 => JournalMode::Writeback,
                2 | 3 => JournalMode::Data,
                _ => JournalMode::Ordered,
            },
            without: if self.world.random(4) == 0 { without.and(technique) } else { without },
            free_percent: pace.free_percent,
            age: pace.age,
            ..options
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
