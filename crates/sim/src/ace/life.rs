//! A workload while it runs, on members that another world has left.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex as StdMutex},
};

use parking_lot::Mutex;
use stripewise_rafs::{
    fs::{Fs, FsError, Preset},
    shape::Order,
    store::MakeOptions,
};
use uuid::Uuid;

use super::{
    found,
    model::{Change, Model},
    workload::{Needs, Start},
};
use crate::{
    MemberImage, World,
    outlook::Outlook,
    rafs::{Checker, Found, Making, Volumes, finish, mount, small_options},
};

/// Stripes of a volume, and of its journal: room for files with stripes of their own, and a journal that a few commits fill by half.
const STRIPES: u64 = 40;
const JOURNAL_STRIPES: u64 = 4;
/// Steps of one operation at most.
const STEPS_MAX: u64 = 1_000_000;

/// What workloads with the same needs begin with: all of it is there, and durable.
pub(super) struct Base {
    members: Vec<MemberImage>,
    pub(super) model: Model,
}

/// The beginnings of all workloads of one start.
pub struct Bases {
    pub(super) start: Start,
    made: StdMutex<HashMap<Needs, Arc<Base>>>,
}

impl Bases {
    /// None is made yet.
    #[must_use]
    pub fn new(start: Start) -> Arc<Self> {
        Arc::new(Self { start, made: StdMutex::default() })
    }

    /// The one with these needs.
    pub(super) fn with(&self, needs: &Needs) -> Result<Arc<Base>, Found> {
        let lock = || self.made.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(base) = lock().get(needs) {
            return Ok(base.clone());
        }
        let base = Arc::new(Base::make(self.start, needs)?);
        Ok(lock().entry(needs.clone()).or_insert(base).clone())
    }
}

impl Base {
    fn make(start: Start, needs: &Needs) -> Result<Self, Found> {
        let mut world = World::new(start.seed);
        let options = MakeOptions {
            uuid: Uuid::from_u128(u128::from(start.seed) + 1),
            label: "workload".to_owned(),
            created_us: 1,
            order: Order::Rows,
            journal_stripes: Some(JOURNAL_STRIPES),
            hash_seed: start.seed,
        };
        let volumes =
            Volumes::make(&mut world, start.ground, Making { stripes: STRIPES, options, spares: 0 })?;
        let volume = volumes.open(&world)?;
        let fs = mount(&world, volume, small_options(Preset::Default))?;
        let mut model = Model::new();
        for change in needs.changes(start.size) {
            model.begin(&change);
            let (fs, made) = (fs.clone(), change.clone());
            let done = finish(&world, "what a workload needs", async move { found::make(&fs, &made).await })?;
            done.map_err(|error| (Checker::Client, format!("{change:?}: {error}")))?;
            model.end(&change);
        }
        Ok(Self { members: volumes.all().iter().map(|member| member.image()).collect(), model })
    }
}

/// A workload that runs.
pub(super) struct Life {
    world: World,
    fs: Fs,
    pub(super) outlook: Outlook,
    pub(super) model: Model,
    steps: u64,
    /// Grows with each change of the model.
    told: u64,
}

/// Where the result of a change will be.
type Slot = Arc<Mutex<Option<Result<(), FsError>>>>;

impl Life {
    pub(super) fn begin(start: Start, base: &Base) -> Result<Self, Found> {
        let mut world = World::new(start.seed);
        let volumes = Volumes::holding(&mut world, start.ground, &base.members);
        let volume = volumes.open(&world)?;
        let fs = mount(&world, volume, small_options(Preset::Default))?;
        let outlook = Outlook::new(volumes.all().to_vec());
        Ok(Self { world, fs, outlook, model: base.model.clone(), steps: 0, told: 0 })
    }

    /// Begins a change.
    pub(super) fn begin_change(&mut self, change: &Change) -> Slot {
        self.model.begin(change);
        self.told += 1;
        let (fs, change) = (self.fs.clone(), change.clone());
        self.world.start(async move { found::make(&fs, &change).await })
    }

    /// The change has ended so.
    pub(super) fn end_change(&mut self, change: &Change, result: Result<(), FsError>) -> Result<(), Found> {
        result.map_err(|error| (Checker::Client, format!("{change:?}: {error}")))?;
        self.model.end(change);
        self.told += 1;
        Ok(())
    }

    pub(super) fn step(&mut self) -> Result<(), Found> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err((Checker::End, "an operation does not come to an end".to_owned()));
        }
        self.world.run_steps(1);
        Ok(())
    }

    /// Whether a power failure may leave another state than the last one.
    pub(super) fn has_changed(&mut self) -> bool {
        self.outlook.has_changed(self.told)
    }

    /// Where it is, in words.
    pub(super) fn place(&self) -> String {
        format!("step {}, {} us", self.steps, self.world.now().0 / 1000)
    }
}
