//! Write selection on an open array: which policy, what it is told of members, and what it decided.

use std::sync::{Arc, atomic::Ordering};

use super::{Array, Shared, write::Planned};
use crate::{
    error::ArrayError,
    geometry::{Geometry, StripeIndex, StripeSpan},
    ledger::Ledger,
    plan::{
        self, Plan, PlanError, WriteSelection,
        costs::{ColumnCosts, MemberCost},
        selection::Policy,
    },
    topology::Topology,
    trace::{Decision, TraceFilter, Traced},
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

    /// Plans a stripe's write, and tells who traces decisions.
    pub(super) fn plan(
        &self,
        selection: &dyn WriteSelection,
        topology: &Topology,
        span: &StripeSpan,
        planned: &mut Planned,
    ) -> Result<(), PlanError> {
        let Planned { state, plan } = planned;
        let costs = StripeCosts { topology, geometry: &self.geometry, stripe: span.stripe };
        plan::build_into(plan, state, selection, &costs)?;
        self.tracer.tell(|number| Decision {
            number,
            at: self.env.now(),
            stripe: span.stripe.0,
            offset_bytes: span.stripe.0 * self.geometry.stripe_bytes() + span.start as u64,
            len_bytes: span.len as u64,
            policy: selection.policy().name,
            bands: plan.bands.clone(),
        });
        Ok(())
    }

    /// Counts what a plan does, in the array and on each member.
    pub(super) fn count_plan(&self, topology: &Topology, stripe: StripeIndex, plan: &Plan) {
        self.stats.count_plan(plan);
        for (column, ops) in plan.columns.iter().enumerate().filter(|(_, ops)| !ops.w.is_empty()) {
            for member in topology.writers(&self.geometry, stripe, column) {
                member.stats.count_plan(&plan.bands, ops);
            }
        }
    }
}
