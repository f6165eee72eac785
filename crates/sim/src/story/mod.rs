//! Stories: an array, clients, an operator and bad luck, told from a seed. Each life of the array ends with a
//! power failure or a stop. Then the checkers inspect the result, and the next life begins with it.
//!
//! Faults stay within what the level tolerates, so that nothing may go wrong: every violation is a bug of the
//! engine, or of the simulator. What the failure model does not promise (`docs/failure-model.md`) is forgiven
//! by name: `Story::forgive_hole`.

mod action;
mod aim;
mod around;
mod behind;
mod beside_jobs;
mod beside_lost;
mod beyond;
mod brink;
mod caching;
mod calm;
mod clearing;
mod commands;
mod crowd;
mod disagree;
mod draws;
mod endings;
mod foreign;
mod handover;
mod held_back;
mod hidden_pages;
mod jobs;
mod lasting;
mod latent;
mod leader;
mod listed;
mod look;
mod lost;
mod mended;
mod metadata;
mod no_room;
mod opening;
mod operator;
mod origins;
mod queueing;
mod reading_ahead;
mod refill;
mod refused;
mod rotten;
mod scrub;
mod shape;
mod split;
mod stale;
mod streamed;
mod switched;
mod undestaged;
mod unhealable;
mod unit;
mod unkept;
mod unsynced;
mod worn;

use std::{
    cell::Cell,
    collections::BTreeSet,
    panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind},
    sync::Arc,
    time::Instant,
};

pub use action::Action;
pub(crate) use caching::{draw_settings, draw_settings_for};
use fastrand::Rng;
use parking_lot::Mutex;
pub use shape::Shape;
use stripewise_device::MediaKind;
#[cfg(feature = "mutants")]
use stripewise_engine::mutants::{self, Mutant};
use stripewise_engine::{Array, geometry::Level};

use draws::{cache_rng, side_rng, stream_rng, windows};
use unit::{Doubt, Hardware, Unit};

use crate::{
    Event, World,
    check::{Checker, SECTOR_BYTES, Violation, image::Image, layout::ROW_BYTES},
    client::{Client, Desk},
};

/// The most lives of an array whose bitmap has several pages: each takes as long as some hundred of a small
/// one.
const PAGED_LIVES: u32 = 4;
/// Stripes that fill a page of the bitmap.
const PAGED_STRIPES: u64 = 32_448;

/// One life in so many begins with a bad block where a resync is due.
const UNSYNCED_ONE_IN: u8 = 16;
/// Clients finish in one busy time of so many; in the others power fails before.
const CLIENTS_END_ONE_IN: u8 = 6;

/// Steps of the scheduler after which a request, command or job counts as hanging.
const STEPS_MAX: u64 = 2_000_000;
/// One story of so many has caches.
const CACHED_ONE_IN: u64 = 3;

/// The parameters of a story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The seed; it determines everything, with the other fields.
    pub seed: u64,
    /// The level, if it must be a given one.
    pub level: Option<Level>,
    /// How often the array is opened and ended.
    pub lives: u32,
    /// Lives in which nothing happens between opening and end: the first ones.
    pub quiet_lives: u32,
    /// The most clients.
    pub clients_max: usize,
    /// The most requests of each client.
    pub requests_max: usize,
    /// Some arrays have caches.
    pub caches: bool,
    /// Actions to leave out.
    pub without: BTreeSet<Action>,
    /// Keep what narrating the story afterwards needs.
    pub narrate: bool,
    /// A deliberate bug that the engine has.
    #[cfg(feature = "mutants")]
    pub mutant: Option<Mutant>,
    /// Give up between two lives after this moment of real time: the story then has no end.
    pub until: Option<Instant>,
}

impl Plan {
    /// The story of a seed.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            level: None,
            lives: 12,
            quiet_lives: 0,
            clients_max: 3,
            requests_max: 200,
            caches: true,
            without: BTreeSet::new(),
            narrate: false,
            #[cfg(feature = "mutants")]
            mutant: None,
            until: None,
        }
    }

    /// Whether the array has a cache now and then, if its level has parity.
    pub fn has_caches(&self) -> bool {
        let may_have = self.level.is_none_or(Level::has_parity);
        self.caches && may_have && self.seed % CACHED_ONE_IN == 1
    }
}

/// How a story ended.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// One number for each power failure: equal numbers mean the same moment of the same history.
    pub crash_points: Vec<u64>,
    /// What went wrong.
    pub violation: Option<Violation>,
    /// The life in which it went wrong.
    pub life: u32,
    /// The hash of all requests to members, with their times and written data: equal for equal stories.
    pub trace: u64,
    /// What happened, in words, if the plan asked for it.
    pub narration: Vec<String>,
    /// The last requests to members, if the plan asked for it.
    pub events: Vec<Event>,
}

thread_local! {
    /// The seed whose story this thread tells, and the panics in it so far.
    static TELLING: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// A panic hook: one panic is an outcome like others, reported at the end. A panic inside another aborts the
/// process, and this message is all that it can leave.
pub fn note_panic(panic: &PanicHookInfo<'_>) {
    let (seed, before) = TELLING.get();
    TELLING.set((seed, before + 1));
    if before > 0 {
        eprintln!("seed {seed}: a panic while another one unwinds: {panic}");
    }
}

/// Tells the story of a plan.
pub fn tell(plan: &Plan) -> Outcome {
    TELLING.set((plan.seed, 0));
    #[cfg(feature = "mutants")]
    mutants::set(plan.mutant);
    let mut story = Story::new(plan.clone());
    let told = catch_unwind(AssertUnwindSafe(|| story.run()));
    let violation = match told {
        Ok(result) => result.err().map(|violation| story.explain(violation)),
        Err(panic) => Some(Checker::Engine.violation(panic_text(&*panic))),
    };
    let mut outcome = std::mem::take(&mut story.outcome);
    outcome.events = story.world.events();
    outcome.trace = story.world.trace_hash();
    outcome.violation = violation;
    // The state that a panic left half done may panic again when it is dropped.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(story)));
    outcome
}

/// A panic's message.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}

struct Story {
    plan: Plan,
    shape: Shape,
    world: World,
    rng: Rng,
    /// For the array's locking alone.
    lock_rng: Rng,
    /// For draws beside the story, which continues as it would without them.
    side_rng: Rng,
    /// For the traits of devices.
    hardware_rng: Rng,
    /// For caches.
    cache_rng: Rng,
    /// The source of draws about streams over full caches.
    stream_rng: Rng,
    /// The array that is open, or was open last, has a cache.
    was_cached: bool,
    /// Everything that is written can be written to members at some time.
    may_cache: bool,
    hardware: Hardware,
    units: Vec<Unit>,
    array: Option<Array>,
    desk: Arc<Desk>,
    /// Units that have failed, or may have, since all was well.
    lost: BTreeSet<usize>,
    /// Losses of units that were added again since: they may have another role now, and be lost once more.
    losses_before: usize,
    /// At some time in this life all jobs had ended, and no member was missing.
    was_whole: bool,
    /// The write hole: rows whose parity a crash may have left wrong and that no resync has passed.
    hole: BTreeSet<usize>,
    /// Another program wrote the members last: the bitmap must not be believed.
    is_foreign: bool,
    /// The array was open at least once: its members have all metadata that they must have.
    was_open: bool,
    /// The policy that the array had when it was stopped.
    kept_policy: Option<&'static str>,
    outcome: Outcome,
}

impl Story {
    fn new(plan: Plan) -> Self {
        let mut rng = Rng::with_seed(plan.seed ^ 0x5357_5349_4d00);
        let shape = Shape::draw(&mut rng, plan.level);
        let mut world = World::new(plan.seed);
        // Jobs use other batches on disks than on flash.
        world.set_media(if plan.seed.is_multiple_of(2) { MediaKind::Ssd } else { MediaKind::Hdd });
        if plan.narrate {
            world.keep_events();
        }
        let (lock_rng, mut side_rng) = (Rng::with_seed(!plan.seed), side_rng(plan.seed, u32::MAX));
        let capacity = shape.data_bytes * shape.data_columns() as u64;
        let desk = Desk::of_windows(capacity, windows(&mut side_rng, &shape, capacity));
        let mut hardware_rng = Rng::with_seed(plan.seed.rotate_left(13) ^ 0x4857);
        let hardware = Hardware::draw(&mut hardware_rng, &shape);
        let cache_rng = cache_rng(plan.seed, u32::MAX);
        let stream_rng = stream_rng(plan.seed, u32::MAX);
        let mut story = Self {
            plan,
            shape,
            world,
            rng,
            lock_rng,
            side_rng,
            hardware_rng,
            cache_rng,
            stream_rng,
            was_cached: false,
            may_cache: true,
            hardware,
            units: Vec::new(),
            array: None,
            desk,
            lost: BTreeSet::new(),
            losses_before: 0,
            was_whole: false,
            hole: BTreeSet::new(),
            is_foreign: false,
            was_open: false,
            kept_policy: None,
            outcome: Outcome::default(),
        };
        (0..shape.members + hardware.spares).for_each(|_| story.new_unit());
        story
    }

    /// Adds what a reader of the story wants to know next: where the wrong sector lies, and what the
    /// superblocks say.
    fn explain(&mut self, mut violation: Violation) -> Violation {
        let layout = self.layout();
        let place = violation.sector.map(|sector| layout.place(sector * SECTOR_BYTES));
        let lines = self.with_image(|image, units| {
            if let Some(place) = place {
                let unit = image.in_sync()[place.role].map_or("nobody in sync", |unit| units[unit].name());
                let at = place.offset_bytes;
                violation.what +=
                    &format!("; it lies on role {}, {unit}, at byte {at} of its data", place.role);
            }
            let superblocks = units.iter().enumerate().filter_map(|(index, unit)| {
                let superblock = image.superblock(index)?;
                let role =
                    superblock.role_of(superblock.number).map_or("none".to_owned(), |role| role.to_string());
                let clean = if superblock.clean { "clean" } else { "dirty" };
                let filled =
                    superblock.filled.map_or(String::new(), |(bytes, _)| format!(", filled to {bytes}"));
                Some(format!("{}: role {role}, event {}, {clean}{filled}", unit.name(), superblock.events))
            });
            superblocks.collect::<Vec<_>>()
        });
        for line in lines.into_iter().flatten() {
            self.say(|_| line);
        }
        violation
    }

    fn run(&mut self) -> Result<(), Violation> {
        self.say(|story| format!("seed {}: {:?}", story.plan.seed, story.shape));
        self.create()?;
        self.shift_offsets()?;
        self.give_md_bitmaps()?;
        let is_paged = self.shape.is_vast && self.shape.stripes() > PAGED_STRIPES;
        let lives = if is_paged { self.plan.lives.min(PAGED_LIVES) } else { self.plan.lives };
        for life in 0..lives {
            if self.plan.until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
            self.outcome.life = life;
            // A life's choices do not depend on how many draws the lives before took.
            self.rng = Rng::with_seed(self.plan.seed.rotate_left(20) ^ u64::from(life) << 1 ^ 1);
            self.side_rng = side_rng(self.plan.seed, life);
            self.cache_rng = cache_rng(self.plan.seed, life);
            self.stream_rng = stream_rng(self.plan.seed, life);
            self.live(life)?;
        }
        if self.plan.until.is_none_or(|until| Instant::now() < until) { self.end() } else { Ok(()) }
    }

    fn live(&mut self, life: u32) -> Result<(), Violation> {
        self.say(|_| format!("life {life}"));
        self.look()?;
        if self.array.is_none() {
            self.open()?;
        }
        if self.runs_to_healing() {
            return self.lose_power();
        }
        self.leave_to_housekeeping()?;
        if self.shape.tolerance() > 0 && self.side_rng.u8(..UNSYNCED_ONE_IN) == 0 {
            self.read_a_bad_block_unsynced()?;
        }
        match self.rng.u8(..10) {
            ..4 => self.settle()?,
            4..6 => self.pass_resync()?,
            _ => {}
        }
        if life >= self.plan.quiet_lives {
            if self.hands_over_in_vain()? || self.fills_all_but_the_end()? || self.crowds_in_a_row()? {
                return self.lose_power();
            }
            self.streams_over_what_is_dirty()?;
            self.busy_time()?;
        }
        if self.rng.u8(..8) != 0 {
            return self.lose_power();
        }
        self.stop()?;
        if self.rng.bool() {
            self.write_as_another();
        }
        Ok(())
    }

    /// Power fails.
    fn lose_power(&mut self) -> Result<(), Violation> {
        self.outcome.crash_points.push(self.world.trace_hash());
        self.crash()
    }

    /// Clients work while an operator and bad luck do their part.
    fn busy_time(&mut self) -> Result<(), Violation> {
        if self.rng.u8(..4) == 0 {
            // The array does its housekeeping once in a while: clients shall work just then.
            let share = self.rng.u32(980..1000);
            self.world.run_for(self.shape.tuning.housekeeping_interval * share / 1000);
        }
        self.limit_strides();
        let clients = self.start_clients();
        self.crowd_at_listed();
        for _ in 0..self.rng.usize(1..=4) {
            let steps = [20, 100, 300, 800][self.rng.usize(..4)];
            let steps = self.rng.u64(..steps);
            self.world.run_steps(steps);
            self.act();
            self.change_cache();
            self.desk.check()?;
            self.check_cache()?;
        }
        if self.side_rng.u8(..CLIENTS_END_ONE_IN) == 0 {
            self.wait_for_clients(&clients)?;
        }
        self.run_to_the_end();
        self.desk.check()
    }

    /// Every request ends, even if nothing else follows it.
    fn wait_for_clients(&mut self, clients: &[Slot<()>]) -> Result<(), Violation> {
        self.say(|_| "all clients come to an end".to_owned());
        let have_ended = || clients.iter().all(|client| client.lock().is_some());
        if self.world.run_steps_until(STEPS_MAX, have_ended) {
            return Ok(());
        }
        let cache = self.array().cache();
        let what = format!("requests of clients do not come to an end; the cache: {cache:?}");
        Err(Checker::Engine.violation(what))
    }

    fn start_clients(&mut self) -> Vec<Slot<()>> {
        let count = self.rng.usize(1..=3).min(self.plan.clients_max);
        let window = self.desk.windows[self.rng.usize(..self.desk.windows.len())].clone();
        let home = self.rng.usize(window);
        let home = self.listed_sector().unwrap_or(home);
        let mut clients = Vec::new();
        for _ in 0..count {
            let client = Client {
                array: self.array().clone(),
                desk: self.desk.clone(),
                rng: Rng::with_seed(self.rng.u64(..)),
                home,
                fua_one_in: [1, 5, 5][self.rng.usize(..3)],
            };
            let requests = self.rng.usize(..=self.plan.requests_max);
            clients.push(self.world.start(client.run(requests)));
        }
        self.say(|_| format!("{count} clients start near sector {home}"));
        clients
    }

    fn array(&self) -> &Array {
        self.array.as_ref().expect("the array is open")
    }

    /// All tasks end where they are, and the checkers inspect the members.
    fn crash(&mut self) -> Result<(), Violation> {
        self.world.crash();
        self.units.iter().for_each(|unit| {
            unit.sim.set_metadata_slowness(1);
            unit.sim.set_flush_slowness(1);
        });
        self.array = None;
        self.was_whole = false;
        self.desk.sectors.lock().crash();
        self.say(|story| format!("power fails at {} us", story.world.now().0 / 1000));
        self.desk.check()?;
        self.check_members()
    }

    fn stop(&mut self) -> Result<(), Violation> {
        self.say(|_| "the array is stopped".to_owned());
        let (array, begun) = (self.array().clone(), self.desk.sectors.lock().begin_flush());
        let stopped = self.finish(async move { array.stop().await }, "stopping")?;
        if let Err(error) = stopped {
            return Err(Checker::Service.violation(format!("stopping: {error}")));
        }
        self.desk.sectors.lock().end_flush(begun);
        let must_be_clean = self.was_whole && self.lost.is_empty() && self.losses_before == 0;
        if must_be_clean && self.with_image(|image, _| image.freshest().clean) != Some(true) {
            return Err(Checker::Metadata.violation("the array was stopped and whole, and is not clean"));
        }
        if must_be_clean {
            self.with_image(|image, _| image.check_md_bitmaps(true)).unwrap_or(Ok(()))?;
        }
        self.kept_policy = Some(self.array().policy().name);
        self.crash()
    }

    /// Runs a future to its end.
    fn finish<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
        what: &str,
    ) -> Result<T, Violation> {
        let done = self.world.run_within(STEPS_MAX, future);
        done.ok_or_else(|| Checker::Engine.violation(format!("{what} does not come to an end")))
    }

    /// Superblocks exist, and tell the truth.
    fn check_members(&mut self) -> Result<(), Violation> {
        let (was_open, is_foreign, losses) = (self.was_open, self.is_foreign, self.losses());
        self.with_image(|image, units| {
            for (index, unit) in units.iter_mut().enumerate() {
                let valid = image.superblock(index).is_some();
                if unit.has_superblock && !valid {
                    return Err(
                        Checker::Metadata.violation(format!("{} has lost its superblock", unit.name()))
                    );
                }
                unit.has_superblock = valid;
                unit.check_pages(image.valid_pages(index))?;
                // An unreadable copy is lost to an opening if it is the only newest one.
                if unit.tells_all() {
                    unit.check_written(image.written_bytes(index))?;
                }
            }
            if was_open {
                image.check_vacant(losses)?;
            }
            if was_open && !is_foreign {
                image.check_md_bitmaps(false)?;
                image.check_bitmap()?;
            }
            image.check_with(!is_foreign)?;
            // Another program may have written only to members in sync, and nobody has compared the members
            // since.
            if is_foreign { Ok(()) } else { image.check_filled() }
        })
        .unwrap_or(Ok(()))
    }

    /// Looks at all units as a foreign program would. None: there is no superblock anywhere.
    fn with_image<R>(&mut self, look: impl FnOnce(&Image<'_>, &mut [Unit]) -> R) -> Option<R> {
        self.with_image_of(|_| true, look)
    }

    /// As [`Story::with_image`], as if only some units existed.
    fn with_image_of<R>(
        &mut self,
        is_there: impl Fn(&Unit) -> bool,
        look: impl FnOnce(&Image<'_>, &mut [Unit]) -> R,
    ) -> Option<R> {
        let sims: Vec<_> = self.units.iter().map(|unit| unit.sim.clone()).collect();
        let guards: Vec<_> = sims.iter().map(|sim| sim.bytes()).collect();
        let of = |(unit, guard)| if is_there(unit) { guard } else { &[][..] };
        let bytes: Vec<&[u8]> = self.units.iter().zip(guards.iter().map(|guard| &**guard)).map(of).collect();
        let image = Image::of(&bytes)?.with_written(guards.iter().map(|guard| guard.written()).collect());
        Some(look(&image, &mut self.units))
    }

    /// Derives the rows whose parity a crash may have left wrong from the sectors that it left open.
    fn note_hole(&mut self) {
        let layout = self.layout();
        let sectors = self.desk.sectors.lock();
        self.hole.extend(
            sectors.open().map(|sector| layout.place(sector * SECTOR_BYTES).offset_bytes / ROW_BYTES),
        );
    }

    /// The write hole: data on lost roles in rows of the hole is not promised.
    fn forgive_hole(&self, is_lost: impl Fn(usize, usize) -> bool) {
        if self.hole.is_empty() {
            return;
        }
        let layout = self.layout();
        let mut sectors = self.desk.sectors.lock();
        let in_hole = |sector: &usize| {
            let place = layout.place(sector * SECTOR_BYTES);
            let row = place.offset_bytes / ROW_BYTES;
            self.hole.contains(&row) && is_lost(place.role, row)
        };
        let used = self.desk.windows.iter().cloned().flatten();
        let forgiven: Vec<usize> = used.filter(in_hole).collect();
        if self.shape.level == Level::Raid1 {
            sectors.forgive_older(forgiven);
        } else {
            sectors.forgive(forgiven);
        }
    }

    fn layout(&self) -> crate::check::layout::Layout {
        crate::check::layout::Layout {
            level: self.shape.level.number(),
            members: self.shape.members,
            chunk_bytes: self.shape.chunk_bytes as usize,
            member_bytes: self.shape.data_bytes as usize,
        }
    }

    fn say(&mut self, words: impl FnOnce(&Self) -> String) {
        if self.plan.narrate {
            let line = format!("{:>9} us  {}", self.world.now().0 / 1000, words(self));
            self.outcome.narration.push(line);
        }
    }
}

/// Where the result of a started future will be.
type Slot<T> = Arc<Mutex<Option<T>>>;
