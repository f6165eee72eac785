//! The write selection policy of an open array, and what it decided.

use super::Array;
use crate::{
    error::ArrayError,
    members::topology::Topology,
    metadata::ledger::Ledger,
    plan::selection::Policy,
    stripes::trace::{TraceFilter, Traced},
};

impl Array {
    /// Changes how partly written rows are written, at once. The members store the policy's number for later
    /// openings, which must know a policy of the program's own
    /// ([`AssembleOptions::policies`](crate::AssembleOptions)).
    ///
    /// # Errors
    /// [`ArrayError::Unsupported`] at levels 0 and 1, which select nothing, where no member has room to keep
    /// the choice, and for a policy of the program's own whose number is not in
    /// [`OWN_NUMBERS`](crate::plan::selection::OWN_NUMBERS); [`ArrayError::ReadOnly`],
    /// [`ArrayError::Closed`], or [`ArrayError::Failed`] if the policy could not be recorded.
    pub async fn set_policy(&self, policy: &'static Policy) -> Result<(), ArrayError> {
        let level = self.geometry().level();
        if !level.has_parity() {
            let what =
                format!("level {} keeps no parity: there is no write selection policy", level.number());
            return Err(ArrayError::Unsupported(what));
        }
        if !policy.can_be_kept() {
            let what = format!(
                "policy {} has the number {}, which is for policies that come with the engine",
                policy.name, policy.number
            );
            return Err(ArrayError::Unsupported(what));
        }
        if self.is_read_only() {
            return Err(ArrayError::ReadOnly);
        }
        let (stripes, roster) = (self.parts.stripes.clone(), self.parts.roster.clone());
        let set = async move {
            let change = |ledger: &mut Ledger, _: &Topology| {
                if !ledger.set_policy(policy) {
                    let problem = "no member has an extension area to keep a policy in".to_owned();
                    return Err(ArrayError::Unsupported(problem));
                }
                stripes.use_policy(policy);
                roster.switch_meters(stripes.needs_costs(), ledger);
                Ok(None)
            };
            roster.change_state(change).await
        };
        self.parts.life.run(set).await
    }

    /// The policy for partly written rows.
    pub fn policy(&self) -> &'static Policy {
        self.parts.stripes.policy()
    }

    /// Keeps the next decisions that pass the filter. Beyond `capacity` the oldest are dropped.
    pub fn trace_decisions(&self, filter: TraceFilter, capacity: usize) {
        self.parts.stripes.tracer().start(filter, capacity);
    }

    /// The kept decisions from number `since` on. Earlier ones are dropped.
    pub fn traced(&self, since: u64) -> Traced {
        self.parts.stripes.tracer().since(since)
    }

    /// Stops keeping decisions.
    pub fn stop_tracing(&self) {
        self.parts.stripes.tracer().stop();
    }
}
