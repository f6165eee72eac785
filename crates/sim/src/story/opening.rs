//! Creates and assembles arrays, with power failures in the middle.

use std::{collections::BTreeSet, ops::Range, sync::Arc};

use stripewise_device::{Device, IoBuf};
use stripewise_engine::{
    Array, ArrayError, ArrayReport, AssembleError, AssembleOptions, CreateOptions, JobKind, MemberState,
    assemble,
    geometry::{Level, MemberIndex},
    locking::{PRESETS, Preset},
};

use super::{Doubt, Slot, Story, Unit, origins::Origin};
use crate::check::{Checker, SECTOR_BYTES, Violation, image::Image, layout::ROW_BYTES};

/// Openings that power failures may spoil.
const SPOILED_MAX: u32 = 4;

/// The superblocks' state before an opening.
#[derive(Debug, Default)]
struct Standings {
    /// Units that are current, are being filled, or wait.
    belonging: Vec<String>,
    /// The members in sync, by role.
    in_sync: Vec<Option<String>>,
    /// The members in sync, and those that are completely filled: no others may serve at once.
    may_serve: Vec<String>,
    /// Waiting units to which nothing bad may happen.
    waiting: Vec<String>,
    /// Roles whose member is in sync and must stay.
    staying: Vec<usize>,
    /// The superblocks say that the members agree.
    clean: bool,
    /// Roles of units that may be lost in part later on, and which part; it may be healed before anybody
    /// looks again.
    doubtful: Vec<(usize, Doubt)>,
    /// Rows in which a resync may be due. None: the bitmap cannot be read, or must not be believed.
    marked: Option<BTreeSet<usize>>,
}

fn names_of(indices: Vec<usize>, units: &[Unit]) -> Vec<String> {
    indices.into_iter().map(|index| units[index].name().to_owned()).collect()
}

impl Story {
    /// Makes the array. If power fails meanwhile it may exist or not; in the latter case it is made again.
    pub(super) fn create(&mut self) -> Result<(), Violation> {
        let assume_clean = self.rng.bool() || self.shape.is_vast;
        let preset = &PRESETS[self.side_rng.usize(..PRESETS.len())];
        self.say(|_| format!("made with the locks of {}", preset.name));
        let origin = self.draw_origin();
        for attempt in 0.. {
            let created = self.start_creating(assume_clean, preset, &origin);
            if attempt < SPOILED_MAX && self.rng.u8(..3) == 0 && !origin.is_old {
                let steps = self.rng.u64(..250);
                self.world.run_steps(steps);
                self.say(|_| format!("power fails {steps} steps into creating"));
                self.lose_power()?;
                if self.open_if_created()? {
                    return Ok(());
                }
                continue;
            }
            let array = self.wait_for(created, "creating")?;
            self.array =
                Some(array.map_err(|error| Checker::Service.violation(format!("creating: {error}")))?);
            self.was_open = true;
            break;
        }
        self.adopt_origin(&origin)
    }

    fn start_creating(
        &mut self,
        assume_clean: bool,
        preset: &'static Preset,
        origin: &Origin,
    ) -> Slot<Result<Array, String>> {
        let members = self.shape.members;
        let mut options =
            CreateOptions::new("sim:story", self.shape.level, self.devices(|unit| unit < members));
        if !origin.is_old {
            options.spares = self.devices(|unit| unit >= members);
        }
        options.chunk_bytes = self.shape.chunk_bytes;
        options.tuning = self.shape.tuning;
        // Level 0 uses everything.
        options.member_bytes = (self.shape.level != Level::Raid0).then_some(self.shape.data_bytes);
        options.assume_clean = assume_clean;
        options.region_bytes = (self.shape.level != Level::Raid0).then_some(self.shape.region_bytes);
        options.preset = preset;
        options.cache = Some(self.any_cache());
        // Now and then left to the preset, if that has the same map.
        let left = preset.map == self.shape.map && self.side_rng.bool();
        options.map = (!left).then_some(self.shape.map);
        let policy = self.any_policy();
        options.policy = self.shape.level.has_parity().then_some(policy);
        options.measure = self.plan.seed.is_multiple_of(3);
        self.apply_origin(origin, &mut options);
        self.units.iter_mut().for_each(|unit| {
            unit.has_superblock = false;
            unit.written_bytes = 0; // a creation counts anew
        });
        let env = self.world.env();
        self.world.start(async move { Array::create(env, options).await.map_err(|error| error.to_string()) })
    }

    /// Whether a creation that was cut short left an array that opens.
    fn open_if_created(&mut self) -> Result<bool, Violation> {
        let (devices, env) = (self.devices(|_| true), self.world.env());
        let options = AssembleOptions::default().tuning(self.shape.tuning);
        let opened = self.finish(async move { assemble(env, devices, &options).await }, "assembling")?;
        self.array = opened.ok();
        self.was_open = self.array.is_some();
        Ok(self.was_open)
    }

    /// The devices of some units.
    pub(super) fn devices(&self, wanted: impl Fn(usize) -> bool) -> Vec<Arc<dyn Device>> {
        let units = self.units.iter().enumerate().filter(|(index, _)| wanted(*index));
        units.map(|(_, unit)| unit.device.clone() as Arc<dyn Device>).collect()
    }

    /// Opens the array from its remains, and checks its content.
    pub(super) fn open(&mut self) -> Result<(), Violation> {
        self.note_hole();
        // A vanished device may be back, with its content of then.
        for unit in 0..self.units.len() {
            if self.rng.bool() {
                self.units[unit].faults.set_gone(false);
            }
        }
        self.leave_out_leaders()?;
        // And a healthy one may be absent this time.
        if self.rng.u8(..8) == 0
            && let Some(unit) = self.victim()
        {
            self.units[unit].faults.set_gone(true);
            self.say(|story| format!("{} is absent", story.units[unit].name()));
        }
        let hidden = self.hide_newest_pages();
        self.open_until_it_serves()?;
        self.show_pages(&hidden);
        Ok(())
    }

    /// Opens the array from the devices that are there, however often power fails meanwhile.
    pub(super) fn open_until_it_serves(&mut self) -> Result<(), Violation> {
        let mut spoiled = 0;
        let mut force = false;
        loop {
            let before = self.standings();
            let opening = self.start_opening(force, |_| true);
            if spoiled < SPOILED_MAX && self.rng.u8(..5) == 0 {
                let steps = self.rng.u64(..150);
                self.world.run_steps(steps);
                if opening.lock().is_none() {
                    self.say(|_| format!("power fails {steps} steps into assembling"));
                    spoiled += 1;
                    drop(opening);
                    self.lose_power()?;
                    force = false;
                    continue;
                }
            }
            match self.wait_for(opening, "assembling")? {
                Ok(array) => {
                    self.say(|_| format!("assembled{}", if force { " with force" } else { "" }));
                    self.array = Some(array);
                    self.was_open = true;
                    if !force && !self.is_foreign {
                        self.expect_hole_refused(&before)?;
                    }
                    self.take_stock(&before)?;
                    self.expect_policy()?;
                    self.is_foreign = false;
                    return Ok(());
                }
                Err(AssembleError::DirtyDegraded) if !force => {
                    let degraded = before.in_sync.iter().any(Option::is_none);
                    if before.clean || !degraded || self.shape.level == Level::Raid1 {
                        let what = format!("nothing is in danger, and the array is refused: {before:?}");
                        return Err(Checker::Service.violation(what));
                    }
                    force = true;
                }
                // The devices that are there cannot tell whether an old member ran together with one that was
                // added anew since, or that is absent: the old member is left out.
                Err(AssembleError::SplitBrain { older, .. }) if self.counts_one_not_there(&older) => {
                    self.say(|_| {
                        format!("{older} may be a half of a split array, and is absent from now on")
                    });
                    let unit = self.units.iter().find(|unit| unit.name() == older);
                    unit.into_iter().for_each(|unit| unit.faults.set_gone(true));
                }
                Err(error) => return Err(Checker::Service.violation(format!("assembling: {error}"))),
            }
        }
    }

    /// Whether a unit's superblock counts a member by a number that none of the present devices has.
    fn counts_one_not_there(&mut self, name: &str) -> bool {
        let look = |image: &Image<'_>, units: &mut [Unit]| {
            let there = (0..units.len()).filter(|unit| !units[*unit].faults.is_gone());
            let superblocks: Vec<_> = there.filter_map(|unit| image.superblock(unit)).collect();
            let has = |number: u32| superblocks.iter().any(|superblock| superblock.number == number);
            let unit = units.iter().position(|unit| unit.name() == name);
            unit.and_then(|unit| image.superblock(unit)).is_some_and(|own| {
                (0..own.roles.len() as u32).any(|number| own.role_of(number).is_some() && !has(number))
            })
        };
        self.with_image(look).unwrap_or(false)
    }

    /// Opens the array, which has lost nothing, from all devices.
    pub(super) fn open_plainly(&mut self) -> Result<(), Violation> {
        let opening = self.start_opening(false, |_| true);
        match self.wait_for(opening, "assembling")? {
            Ok(array) => self.array = Some(array),
            Err(error) => return Err(Checker::Service.violation(format!("assembling: {error}"))),
        }
        self.expect_policy()
    }

    /// Starts to open the array from some units.
    pub(super) fn start_opening(
        &mut self,
        force: bool,
        is_given: impl Fn(usize) -> bool,
    ) -> Slot<Result<Array, AssembleError>> {
        self.start_opening_as(true, force, is_given)
    }

    /// As [`Story::start_opening`], and whether it may be opened although members are absent.
    pub(super) fn start_opening_as(
        &mut self,
        run: bool,
        force: bool,
        is_given: impl Fn(usize) -> bool,
    ) -> Slot<Result<Array, AssembleError>> {
        let (locking, tuning) = (Some(self.any_locking()), self.shape.tuning);
        let options = AssembleOptions::default().run(run).force(force).locking(locking).tuning(tuning);
        let options = match self.any_cache_of_opening() {
            Some(cache) => options.cache(cache),
            None => options,
        };
        let (mut devices, env) = (self.devices(is_given), self.world.env());
        self.rng.shuffle(&mut devices);
        self.world.start(async move { assemble(env, devices, &options).await })
    }

    /// The superblocks' state of the units.
    fn standings(&mut self) -> Standings {
        let standings = self.with_image_of(
            |unit| !unit.faults.is_gone() && unit.can_be_examined(),
            |image, units| {
                let belonging = (0..units.len()).filter(|index| image.belongs(*index));
                Standings {
                    belonging: belonging.map(|index| units[index].name().to_owned()).collect(),
                    in_sync: image
                        .in_sync()
                        .iter()
                        .map(|unit| unit.map(|unit| units[unit].name().to_owned()))
                        .collect(),
                    may_serve: names_of(image.as_good_as_in_sync(), units),
                    waiting: names_of(
                        (0..units.len())
                            .filter(|index| image.waits(*index) && units[*index].stays())
                            .collect(),
                        units,
                    ),
                    staying: image
                        .in_sync()
                        .iter()
                        .enumerate()
                        .filter_map(|(role, unit)| {
                            unit.is_some_and(|unit| units[unit].stays()).then_some(role)
                        })
                        .collect(),
                    clean: image.freshest().clean,
                    doubtful: (0..units.len())
                        .filter_map(|index| Some((image.standing(index)?.0, units[index].doubt()?)))
                        .collect(),
                    marked: units.iter().all(Unit::tells_all).then(|| image.rows_due()).flatten(),
                }
            },
        );
        standings.unwrap_or_default()
    }

    /// After an opening: no stale member counts as current, and every sector holds allowed content.
    fn take_stock(&mut self, before: &Standings) -> Result<(), Violation> {
        let array = self.array().clone();
        let report = {
            let array = array.clone();
            self.finish(async move { array.report().await }, "a report")?
        };
        // A spare may have been filled before the report.
        let has_filled = array.job().or(array.last_job()).is_some();
        for member in report.members.iter().filter(|member| member.state == MemberState::InSync) {
            let is_current = before.belonging.contains(&member.name)
                && (before.may_serve.contains(&member.name) || has_filled);
            if !is_current {
                let what = format!("{} was taken for current; before there were {before:?}", member.name);
                return Err(Checker::Currency.violation(what));
            }
        }
        self.expect_spares(before, &report)?;
        if let Some(role) = before.staying.iter().find(|role| !report.in_sync[**role]) {
            let what =
                format!("role {role} had a current member, and has none; before there were {before:?}");
            return Err(Checker::Currency.violation(what));
        }
        self.check_due(before)?;
        self.check_held_back(before)?;
        // A role that another member holds by now was filled from the data that the hole left.
        let holds = |role: usize, name: &String| {
            let mut members = report.members.iter();
            members.any(|m| {
                m.name == *name && m.slot == Some(MemberIndex(role)) && m.state == MemberState::InSync
            })
        };
        let kept = |role: usize| before.in_sync[role].as_ref().is_some_and(|name| holds(role, name));
        // A bad block where parity may be wrong counts as a lost one, and so does a member that is dropped
        // before the resync has passed.
        let doubted =
            |role: usize, row: usize| before.doubtful.iter().any(|(r, doubt)| *r == role && doubt.is_of(row));
        if self.shape.level != Level::Raid1 && !before.in_sync.is_empty() {
            self.forgive_hole(|role, row| !kept(role) || doubted(role, row));
        }
        for window in self.desk.windows.clone() {
            let content = self.read_window(&window)?;
            self.desk.sectors.lock().adopt(window.start, &content)?;
        }
        if self.shape.level == Level::Raid1 {
            // If the mirror that was read is dropped before the resync has passed, or cannot read again,
            // another one is read.
            self.forgive_hole(|_, row| before.doubtful.iter().any(|(_, doubt)| doubt.is_of(row)));
        }
        Ok(())
    }

    /// A unit that waited still waits, or is being filled.
    fn expect_spares(&self, before: &Standings, report: &ArrayReport) -> Result<(), Violation> {
        let is_kept = |name: &String| {
            report.members.iter().any(|member| member.name == *name && member.state != MemberState::Faulty)
        };
        match before.waiting.iter().find(|name| !is_kept(name)) {
            None => Ok(()),
            Some(name) => {
                let what = format!("{name} was a spare, and is none after the opening");
                Err(Checker::Currency.violation(what))
            }
        }
    }

    /// An array that may have a write hole does not open without force.
    fn expect_hole_refused(&self, before: &Standings) -> Result<(), Violation> {
        let missing = (0..before.in_sync.len()).filter(|role| before.in_sync[*role].is_none()).count();
        let is_filled = before.may_serve.len() > before.in_sync.iter().flatten().count();
        let is_due = before.marked.as_ref().is_some_and(|rows| !rows.is_empty());
        if !is_due || missing == 0 || is_filled || before.clean || !self.shape.level.has_parity() {
            return Ok(());
        }
        let what =
            format!("a member is missing, a resync is due, and it was opened without force: {before:?}");
        Err(Checker::Service.violation(what))
    }

    /// An operator's choice lasts.
    pub(super) fn expect_policy(&mut self) -> Result<(), Violation> {
        let now = self.array().policy().name;
        match self.kept_policy.take() {
            Some(kept) if kept != now => {
                Err(Checker::Service
                    .violation(format!("the policy was {kept}, and after a stop it is {now}")))
            }
            _ => Ok(()),
        }
    }

    /// A resync is due where the bitmap marks it, and nowhere else.
    fn check_due(&self, before: &Standings) -> Result<(), Violation> {
        let Some(marked) = before.marked.as_ref().filter(|_| !self.is_foreign) else { return Ok(()) };
        let (array, layout) = (self.array(), self.layout());
        let stripes: BTreeSet<u64> = marked.iter().map(|row| layout.stripe_of_row(*row) as u64).collect();
        let all = array.stripes(0..array.geometry().stripes());
        match all.iter().find(|stripe| !stripe.synced && !stripes.contains(&stripe.stripe.0)) {
            None => Ok(()),
            Some(stripe) => {
                let what =
                    format!("a resync is due in stripe {}, which the bitmap does not mark", stripe.stripe.0);
                Err(Checker::Bitmap.violation(what))
            }
        }
    }

    /// No superblock says that a member is filled beyond the first row in which a resync is due.
    fn check_held_back(&mut self, before: &Standings) -> Result<(), Violation> {
        let Some(first) = before.marked.as_ref().and_then(|rows| rows.first().copied()) else {
            return Ok(());
        };
        let array = self.array().clone();
        let is_resync = array.job().is_none_or(|job| job.kind == JobKind::Resync);
        if self.is_foreign || !is_resync || array.last_job().is_some() {
            return Ok(());
        }
        let over = self.with_image(|image, units| {
            (0..units.len()).find_map(|unit| {
                let (_, filled) = image.standing(unit)?;
                filled
                    .filter(|(bytes, _)| *bytes > first * ROW_BYTES)
                    .map(|(bytes, _)| (units[unit].name().to_owned(), bytes))
            })
        });
        match over.flatten() {
            None => Ok(()),
            Some((name, bytes)) => Err(Checker::Metadata.violation(format!(
                "{name} is on record as filled up to {bytes}, and a resync is due in row {first}"
            ))),
        }
    }

    /// The content of some sectors of the array.
    pub(super) fn try_read(&self, sectors: &Range<usize>) -> Result<Result<Vec<u8>, ArrayError>, Violation> {
        let array = self.array().clone();
        let (offset, len) = ((sectors.start * SECTOR_BYTES) as u64, sectors.len() * SECTOR_BYTES);
        let read = self.finish(async move { array.read(offset, IoBuf::with_len(len)).await }, "a read")?;
        Ok(read.map(|content| content.to_vec()))
    }

    /// The content of a window of the array.
    pub(super) fn read_window(&self, window: &Range<usize>) -> Result<Vec<u8>, Violation> {
        self.try_read(window)?.map_err(|error| Checker::Service.violation(format!("reading all: {error}")))
    }

    /// The sectors that clients use, in pieces of one row of one member.
    pub(super) fn blocks(&self) -> Vec<Range<usize>> {
        let block = ROW_BYTES / SECTOR_BYTES;
        let of = |window: &Range<usize>| {
            let end = window.end;
            window.clone().step_by(block).map(move |start| start..end.min(start + block)).collect::<Vec<_>>()
        };
        self.desk.windows.iter().flat_map(of).collect()
    }

    /// Waits for a started future.
    pub(super) fn wait_for<T: Send + 'static>(&self, slot: Slot<T>, what: &str) -> Result<T, Violation> {
        for _ in 0..super::STEPS_MAX {
            if let Some(value) = slot.lock().take() {
                return Ok(value);
            }
            self.world.run_steps(1);
        }
        Err(Checker::Engine.violation(format!("{what} does not come to an end")))
    }
}
