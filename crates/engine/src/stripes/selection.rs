//! Write selection on an open array: which policy, what it is told of members, and what it decided.

use std::sync::{Arc, atomic::Ordering};

use super::trace::{Decision, TraceFilter, Traced};
use crate::array::{Array, Shared};
use crate::{
    error::ArrayError,
    members::topology::Topology,
    metadata::ledger::Ledger,
    mutants::{Mutant, lives},
    plan::{
        self, Plan, PlanError, Presence, Recipe, StripeState, WriteSelection,
        costs::{ColumnCosts, MemberCost},
        quick::{self, Columns},
        selection::Policy,
    },
    shape::geometry::{Geometry, StripeIndex, StripeSpan},
};

impl Array {
    /// Changes how partly written rows are written, at once; kept on the members for later openings.
    ///
    /// # Errors
    /// [`ArrayError::Unsupported`] at levels 0 and 1, which select nothing; [`ArrayError::ReadOnly`],
    /// [`ArrayError::Closed`], or [`ArrayError::Failed`] if that could not be written down.
    pub async fn set_policy(&self, policy: &'static Policy) -> Result<(), ArrayError> {
        let level = self.shared.geometry.level();
        if !level.has_parity() {
            let what =
                format!("level {} keeps no parity: there is no write selection policy", level.number());
            return Err(ArrayError::Unsupported(what));
        }
        if self.shared.read_only {
            return Err(ArrayError::ReadOnly);
        }
        let shared = self.shared.clone();
        self.run(async move { shared.set_policy(policy).await }).await
    }

    /// The policy by which partly written rows are written.
    pub fn policy(&self) -> &'static Policy {
        self.shared.selection.load().policy()
    }

    /// Keeps the next decisions that the filter lets pass, up to a number; then the oldest are dropped.
    pub fn trace_decisions(&self, filter: TraceFilter, capacity: usize) {
        self.shared.tracer.start(filter, capacity);
    }

    /// The decisions kept from number `since` on; those before are dropped.
    pub fn traced(&self, since: u64) -> Traced {
        self.shared.tracer.since(since)
    }

    /// Keeps no more decisions.
    pub fn stop_tracing(&self) {
        self.shared.tracer.stop();
    }
}

/// What the members of a stripe cost now.
pub(super) struct StripeCosts<'a> {
    pub(super) topology: &'a Topology,
    pub(super) geometry: &'a Geometry,
    pub(super) stripe: StripeIndex,
}

impl ColumnCosts for StripeCosts<'_> {
    fn of(&self, column: usize) -> MemberCost {
        let member = self.topology.reader(self.geometry, self.stripe, column);
        member.map_or(MemberCost::SSD, |member| member.meter.cost())
    }

    fn parity_member(&self) -> usize {
        self.geometry.member_of(self.stripe, self.geometry.data_columns()).0
    }
}

impl Shared {
    async fn set_policy(&self, policy: &'static Policy) -> Result<(), ArrayError> {
        self.change_state(|ledger, _| {
            if !ledger.set_policy(policy) {
                let problem = "no member has an extension area to keep a policy in".to_owned();
                return Err(ArrayError::Unsupported(problem));
            }
            self.selection.store(Arc::new((policy.make)()));
            self.unknown_policy.store(0, Ordering::Relaxed);
            self.switch_meters(ledger);
            Ok(None)
        })
        .await
    }

    /// Meters run where somebody looks at them.
    pub(crate) fn switch_meters(&self, ledger: &Ledger) {
        let on = self.selection.load().needs_costs();
        self.metered.store(on, Ordering::Relaxed);
        for entry in &ledger.entries {
            entry.member.meter.switch(on, &self.env);
        }
    }

    pub(super) fn is_metered(&self) -> bool {
        self.metered.load(Ordering::Relaxed)
    }

    /// Makes the recipe of a stripe's write in `recipe`, which is empty: recipes are large. Columns in `unreadable` can be written, and
    /// not read.
    pub(super) fn make_recipe(
        &self,
        selection: &dyn WriteSelection,
        topology: &Topology,
        span: &StripeSpan,
        unreadable: &[usize],
        recipe: &mut Recipe,
    ) -> Result<(), PlanError> {
        // A trace tells the bands of plans.
        let is_quick = unreadable.is_empty() && !self.tracer.is_on();
        if !is_quick || !self.is_made_quickly(selection, topology, span, recipe) {
            *recipe = self.planned_recipe(selection, topology, span, unreadable)?;
        }
        Ok(())
    }

    /// Writes the recipe of a write that needs no plan. False: this one does.
    fn is_made_quickly(
        &self,
        selection: &dyn WriteSelection,
        topology: &Topology,
        span: &StripeSpan,
        recipe: &mut Recipe,
    ) -> bool {
        let presence = |column| topology.presence(&self.geometry, span.stripe, column);
        let columns = Columns { geometry: &self.geometry, are_whole: topology.has_all(), presence };
        let costs = StripeCosts { topology, geometry: &self.geometry, stripe: span.stripe };
        let before = u64::from(lives(Mutant::TrustOfNeighbour));
        let trusted = StripeIndex(span.stripe.0.saturating_sub(before));
        quick::whole(&columns, span, recipe)
            || self.is_trusted(trusted) && quick::one_column(&columns, span, selection, &costs, recipe)
    }

    /// The recipe of any write, by a plan. Not inlined: plans are large.
    #[inline(never)]
    fn planned_recipe(
        &self,
        selection: &dyn WriteSelection,
        topology: &Topology,
        span: &StripeSpan,
        unreadable: &[usize],
    ) -> Result<Recipe, PlanError> {
        let trusted = self.is_trusted(span.stripe);
        let (mut state, mut plan) = (StripeState::default(), Plan::default());
        state.set_for_write(&self.geometry, span, trusted, |column| {
            match topology.presence(&self.geometry, span.stripe, column) {
                Presence::Present if unreadable.contains(&column) => Presence::Unreadable,
                presence => presence,
            }
        });
        let costs = StripeCosts { topology, geometry: &self.geometry, stripe: span.stripe };
        plan::build_into(&mut plan, &state, selection, &costs)?;
        self.tracer.tell(|number| Decision {
            number,
            at: self.env.now(),
            stripe: span.stripe.0,
            offset_bytes: span.stripe.0 * self.geometry.stripe_bytes() + span.start as u64,
            len_bytes: span.len as u64,
            policy: selection.policy().name,
            bands: plan.bands.clone(),
        });
        let chunk_bytes = self.geometry.chunk_bytes();
        Ok(plan::lower(&plan, &state, |column| span.in_column(column, chunk_bytes).0))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use stripewise_device::{Device, memory::MemoryDevice};
    use stripewise_sim::World;

    use super::*;
    use crate::{CreateOptions, plan::selection::POLICIES, shape::geometry::Level};

    const CHUNK: u64 = 16384;
    const BLOCK: u64 = 4096;

    fn array(level: Level, members: usize, policy: &'static Policy) -> (World, Array) {
        let world = World::new(1);
        let member = |i| Arc::new(MemoryDevice::new(format!("m{i}"), 3 << 20)) as Arc<dyn Device>;
        let mut options = CreateOptions::new("quick", level, (0..members).map(member).collect());
        options.chunk_bytes = CHUNK as u32;
        options.assume_clean = true;
        options.policy = Some(policy);
        let env = world.env();
        let array = world.run(async move { Array::create(env, options).await }).unwrap();
        (world, array)
    }

    /// Makes a write's recipe, and tells whether that took no plan.
    fn is_quick(array: &Array, offset: u64, len: u64) -> bool {
        let shared = &array.shared;
        let (topology, selection) = (shared.topology.load(), shared.selection.load());
        let span = shared.geometry.split(offset..offset + len).next().unwrap();
        shared.make_recipe(&**selection, &topology, &span, &[], &mut Recipe::default()).unwrap();
        shared.is_made_quickly(&**selection, &topology, &span, &mut Recipe::default())
    }

    #[test]
    fn whole_stripes_and_small_writes_of_one_column_need_no_plan() {
        for (level, members) in [(Level::Raid4, 5), (Level::Raid5, 3), (Level::Raid5, 5), (Level::Raid6, 6)] {
            for policy in POLICIES {
                let (world, array) = array(level, members, policy);
                let what = format!("{level:?} of {members}, {}", policy.name);
                let stripe = array.geometry().stripe_bytes();
                assert!(is_quick(&array, 3 * stripe, stripe), "{what}");
                for (offset, blocks) in [(0, 1), (stripe + CHUNK, 3), (2 * stripe - BLOCK, 1)] {
                    assert!(is_quick(&array, offset, blocks * BLOCK), "{what}");
                }
                for (offset, len) in [(512, 1024), (CHUNK - BLOCK, 2 * BLOCK), (BLOCK, stripe - BLOCK)] {
                    assert!(!is_quick(&array, offset, len), "{what}");
                }
                let (failed, last) = (array.clone(), format!("m{}", members - 1));
                world.run(async move { failed.fail(&last).await }).unwrap();
                assert!(!is_quick(&array, 3 * stripe, stripe), "{what}, a member is missing");
            }
        }
    }

    #[test]
    fn a_trace_tells_of_every_write() {
        let (_world, array) = array(Level::Raid5, 4, POLICIES[0]);
        let stripe = array.geometry().stripe_bytes();
        array.trace_decisions(TraceFilter::default(), 10);
        assert!(is_quick(&array, 0, BLOCK) && is_quick(&array, 0, stripe));
        assert_eq!(array.traced(0).decisions.len(), 2);
    }
}
