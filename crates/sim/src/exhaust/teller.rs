//! Runs a history step by step, and lets power fail after each.

use std::{collections::HashSet, sync::Arc};

use stripewise_device::{Device, IoBuf, WriteFlags};
use stripewise_engine::{Array, CreateOptions};

use super::{
    Counts, Failure,
    history::{History, Shape},
    life::Life,
    point::Point,
    state::{STEPS_MAX, State, check, guarded},
};
use crate::{
    World,
    check::{Checker, Sectors, Violation},
    fates::{Combinations, combinations},
    member::{Fate, MemberImage},
};

/// Where the data of members this small begins.
pub(super) const DATA_OFFSET_BYTES: u64 = 1 << 20;

/// The beginning of all histories of one shape and seed: an array that was stopped, with different content in
/// every sector.
pub struct Base {
    pub(super) shape: Shape,
    pub(super) seed: u64,
    pub(super) members: Vec<MemberImage>,
    pub(super) sectors: Sectors,
}

impl Base {
    /// Makes that array.
    ///
    /// # Errors
    /// If that did not go well.
    pub fn new(shape: Shape, seed: u64) -> Result<Arc<Self>, Violation> {
        let (members, sectors) = guarded(World::new(seed), |world| make(world, shape))?;
        Ok(Arc::new(Self { shape, seed, members, sectors }))
    }

    /// Whether histories of this shape and seed begin with it.
    pub fn is_of(&self, shape: Shape, seed: u64) -> bool {
        (self.shape, self.seed) == (shape, seed)
    }
}

/// Runs histories of one shape and seed, and remembers the points and states that it has seen.
pub struct Teller {
    base: Arc<Base>,
    /// Only some states are checked at a point with more than this.
    states_max: usize,
    points: HashSet<u64>,
    states: HashSet<u64>,
    counts: Counts,
}

impl Teller {
    /// Runs histories that begin with this array. Of a power failure with more than `states_max` possible
    /// states, some are checked, and the others counted as skipped.
    pub fn new(base: Arc<Base>, states_max: usize) -> Self {
        Self { base, states_max, points: HashSet::new(), states: HashSet::new(), counts: Counts::default() }
    }

    /// The totals so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Runs a history of this shape and seed.
    ///
    /// # Errors
    /// The first state that is wrong.
    ///
    /// # Panics
    /// If the history is of another shape or seed.
    pub fn tell(&mut self, history: &History) -> Result<(), Box<Failure>> {
        assert!(self.base.is_of(history.shape, history.seed), "each shape and seed has its teller");
        self.counts.histories += 1;
        let mut when = String::new();
        let told = guarded((), |()| Life::begin(World::new(history.seed), &self.base))
            .and_then(|life| guarded(life, |life| self.tell_steps(life, history, &mut when)));
        told.map_err(|violation| Box::new(Failure { history: history.clone(), when, violation }))
    }

    fn tell_steps(&mut self, life: &mut Life, history: &History, when: &mut String) -> Result<(), Violation> {
        for ops in &history.steps {
            let asked: Vec<_> = ops.iter().filter_map(|op| life.ask(*op)).collect();
            loop {
                self.fail_power(life, when)?;
                if asked.iter().all(|slot| slot.lock().is_some()) {
                    break;
                }
                life.step()?;
            }
            for result in asked.iter().filter_map(|slot| slot.lock().take()) {
                result.map_err(|error| Checker::Service.violation(format!("a request failed: {error}")))?;
            }
        }
        Ok(())
    }

    /// Checks everything that a power failure may leave now, unless that was checked before.
    fn fail_power(&mut self, life: &mut Life, when: &mut String) -> Result<(), Violation> {
        if !life.has_changed() {
            return Ok(());
        }
        self.counts.crash_points += 1;
        let point = Point::of(life);
        if !self.points.insert(point.digest()) {
            return Ok(());
        }
        self.counts.distinct_points += 1;
        let open = point.moment.open();
        let Combinations { tried, all } = combinations(&open, DATA_OFFSET_BYTES, self.states_max);
        self.counts.states += tried.len() as u128;
        self.counts.skipped += all - tried.len() as u128;
        self.counts.bounded_points += u64::from(all > tried.len() as u128);
        let mut digests = Vec::new();
        for fates in &tried {
            if self.states.insert(point.state_digest(life, fates, &mut digests)) {
                self.counts.distinct_states += 1;
                self.check_state(life, &point, fates, when)?;
            }
        }
        Ok(())
    }

    fn check_state(
        &self,
        life: &Life,
        point: &Point,
        fates: &[Fate],
        when: &mut String,
    ) -> Result<(), Violation> {
        let members = life.outlook.left_by(&point.moment, fates);
        // A member that had vanished is back, or is not.
        for absent in [None, life.lost].into_iter().take(1 + usize::from(life.lost.is_some())) {
            let (shape, seed, sectors) = (self.base.shape, self.base.seed, &point.sectors);
            let checked = check(&State { shape, seed, members: &members, sectors, absent });
            if let Err(violation) = checked {
                *when = life.describe(point, fates, absent);
                return Err(violation);
            }
        }
        Ok(())
    }
}

/// The members of an array that was filled and stopped, and its contents.
fn make(world: &mut World, shape: Shape) -> Result<(Vec<MemberImage>, Sectors), Violation> {
    let size = DATA_OFFSET_BYTES + shape.data_bytes();
    let members: Vec<_> = (0..shape.members).map(|i| world.add_member(format!("m{i}"), size)).collect();
    let devices = members.iter().map(|member| member.clone() as Arc<dyn Device>).collect();
    let mut options = CreateOptions::new("sim:exhaust", shape.level, devices);
    options.chunk_bytes = shape.chunk_bytes() as u32;
    options.region_bytes = Some(shape.chunk_bytes());
    options.map = Some(shape.map());
    options.policy = shape.policy();
    options.assume_clean = true;
    let (env, mut sectors) = (world.env(), Sectors::new(shape.capacity_bytes()));
    let mut content = IoBuf::with_len(shape.capacity_bytes() as usize);
    sectors.fill(0, &mut content);
    let ticket = sectors.begin_write(0, &content);
    let made = world.run_within(STEPS_MAX, async move {
        let array = Array::create(env, options).await.map_err(|error| error.to_string())?;
        let written = array.write(0, content.freeze(), WriteFlags { fua: true }).await;
        written.and(array.stop().await).map_err(|error| error.to_string())
    });
    match made {
        Some(Ok(())) => {}
        Some(Err(error)) => return Err(Checker::Service.violation(format!("making an array: {error}"))),
        None => return Err(Checker::Engine.violation("making an array does not come to an end")),
    }
    sectors.end_write(ticket, true, true);
    Ok((members.iter().map(|member| member.image()).collect(), sectors))
}
