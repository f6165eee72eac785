//! Runs a workload step by step, and lets power fail after each step that changes what it may leave.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use super::{
    Counts, Failure, Violation,
    found::Found as Content,
    life::{Bases, Life},
    look::look,
    model::Change,
    workload::{Prepared, Workload},
};
use crate::{
    fates::{Combinations, combinations},
    outlook::mix,
    rafs::{Checker, Found, Log, caught},
};

/// How far it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Only some states are looked at after a power failure that may leave more.
    pub states_max: usize,
    /// Writes under way may also be torn behind their first sector.
    pub torn: bool,
}

impl Bounds {
    /// Where writes end that may be torn.
    fn torn_below_bytes(self) -> u64 {
        if self.torn { u64::MAX } else { 0 }
    }
}

/// What was found in a state: the number of the content, or why it is wrong.
type Looked = Result<usize, Found>;

/// Runs workloads of one start, and remembers the points and states that it has seen.
pub struct Teller {
    bases: Arc<Bases>,
    bounds: Bounds,
    log: Log,
    points: HashSet<u64>,
    /// Bytes, and what was found in them.
    looked: HashMap<u64, Looked>,
    /// All that was found, each once.
    contents: Vec<Content>,
    numbers: HashMap<u64, usize>,
    /// Models, and contents that they allow.
    allowed: HashSet<(u64, usize)>,
    counts: Counts,
}

impl Teller {
    /// A teller that has seen nothing. If it narrates, it keeps what happens, line by line.
    #[must_use]
    pub fn new(bases: Arc<Bases>, bounds: Bounds, narrates: bool) -> Self {
        Self {
            bases,
            bounds,
            log: Log::new(narrates),
            points: HashSet::new(),
            looked: HashMap::new(),
            contents: Vec::new(),
            numbers: HashMap::new(),
            allowed: HashSet::new(),
            counts: Counts::default(),
        }
    }

    /// The totals so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What has happened since the last call.
    #[must_use]
    pub fn narration(&self) -> Vec<String> {
        self.log.take()
    }

    /// Runs a workload.
    ///
    /// # Errors
    /// The first state that is wrong.
    ///
    /// # Panics
    /// If the workload has another start, or cannot be carried out.
    pub fn tell(&mut self, workload: &Workload) -> Result<(), Box<Failure>> {
        assert!(workload.start == self.bases.start, "each start has its teller");
        let prepared = workload.prepare().expect("only what can be done is told");
        self.counts.workloads += 1;
        let mut when = String::new();
        let told = caught(|| self.tell_ops(workload, &prepared, &mut when));
        told.map_err(|(checker, what)| {
            self.counts.violations += 1;
            let violation = Violation { checker, what };
            Box::new(Failure { workload: workload.clone(), when, violation })
        })
    }

    fn tell_ops(&mut self, workload: &Workload, prepared: &Prepared, when: &mut String) -> Result<(), Found> {
        let base = self.bases.with(&prepared.needs)?;
        let mut life = Life::begin(workload.start, &base)?;
        // What mounting has written was looked at by mounts of other workloads.
        life.has_changed();
        for (op, changes) in workload.ops.iter().zip(&prepared.changes) {
            self.log.note(|| format!("{}: {op}", life.place()));
            for change in changes {
                self.tell_change(&mut life, change, when)?;
            }
        }
        self.fail_power(&mut life, when)
    }

    fn tell_change(&mut self, life: &mut Life, change: &Change, when: &mut String) -> Result<(), Found> {
        let slot = life.begin_change(change);
        loop {
            self.fail_power(life, when)?;
            if slot.lock().is_some() {
                break;
            }
            life.step()?;
        }
        let result = slot.lock().take().unwrap_or(Ok(()));
        life.end_change(change, result)
    }

    /// Looks at everything that a power failure may leave now, unless that was done before.
    fn fail_power(&mut self, life: &mut Life, when: &mut String) -> Result<(), Found> {
        if !life.has_changed() {
            return Ok(());
        }
        self.counts.crash_points += 1;
        let (moment, model) = (life.outlook.moment(), life.model.digest());
        let torn_below = self.bounds.torn_below_bytes();
        if !self.points.insert(mix(model, moment.digest(torn_below))) {
            return Ok(());
        }
        let Combinations { tried, all } = combinations(&moment.open(), torn_below, self.bounds.states_max);
        self.counts.states += tried.len() as u64;
        self.counts.skipped += all - tried.len() as u128;
        self.counts.bounded_points += u64::from(all > tried.len() as u128);
        let (mut known, before) = (Vec::new(), self.counts.distinct_states);
        for fates in &tried {
            let digest = life.outlook.left_digest(&moment, fates, &mut known);
            let judged = self.look_at(digest, || life.outlook.left_by(&moment, fates));
            let judged = judged.and_then(|content| self.judge(life, model, content));
            if let Err(violation) = judged {
                *when = format!("power fails at {}: {}", life.place(), moment.describe(fates));
                return Err(violation);
            }
        }
        self.log.note(|| {
            let (open, new) = (moment.open().len(), self.counts.distinct_states - before);
            format!("{}: {open} open writes, {} states, {new} of them new", life.place(), tried.len())
        });
        Ok(())
    }

    /// What is found in a state.
    fn look_at(&mut self, digest: u64, members: impl FnOnce() -> Vec<crate::MemberImage>) -> Looked {
        if let Some(looked) = self.looked.get(&digest) {
            return looked.clone();
        }
        self.counts.distinct_states += 1;
        let (start, members) = (self.bases.start, members());
        let looked = caught(|| look(start, &members)).map(|content| self.number(content));
        self.looked.insert(digest, looked.clone());
        looked
    }

    /// The number of this content.
    fn number(&mut self, content: Content) -> usize {
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        *self.numbers.entry(hasher.finish()).or_insert_with(|| {
            self.contents.push(content);
            self.contents.len() - 1
        })
    }

    /// Whether the model allows what was found.
    fn judge(&mut self, life: &Life, model: u64, content: usize) -> Result<(), Found> {
        if self.allowed.contains(&(model, content)) {
            return Ok(());
        }
        life.model.judge(&self.contents[content]).map_err(|what| (Checker::Content, what))?;
        self.allowed.insert((model, content));
        Ok(())
    }
}
