//! What a failed read leads to: a block that is healed later, or a member that is dropped.

use std::sync::{Arc, atomic::Ordering};

use stripewise_device::{IoError, IoErrorKind};

use super::{Stripes, healing::Asks};
use crate::{
    error::is_member_gone,
    members::member::Member,
    mutants::{Mutant, lives},
    shape::geometry::StripeIndex,
};

/// Failed reads that a member may have before it is dropped, as md's `max_read_errors` (20). Of a chunk that
/// waits to be healed, only the first failed read counts. Each block that cannot be read back after a rewrite
/// counts, too. The count is halved every hour.
const READ_ERRORS_MAX: u32 = 20;

impl Stripes {
    /// Handles a failed read: the member is dropped if it is gone or has failed too often. Otherwise its
    /// block is healed later from the others.
    pub(crate) async fn note_read_error(
        &self,
        member: &Arc<Member>,
        stripe: StripeIndex,
        column: usize,
        error: IoError,
        asks: Asks,
    ) {
        let chunk = (stripe.0, column);
        let note = || match asks {
            _ if self.life.is_read_only() => true,
            Asks::Healing => self.healing.lock().note_own(chunk),
            _ => self.healing.lock().note(chunk),
        };
        if error.kind == IoErrorKind::BadBlock {
            note();
            return; // the member was not asked
        }
        self.stats.count_read_error();
        tracing::warn!(member = member.name(), stripe = stripe.0, %error, "read failed");
        if error.kind == IoErrorKind::Refused {
            return; // our request was wrong, not the member
        }
        if !is_member_gone(&error) {
            // A chunk that waits to be healed counts once, however many requests want it meanwhile.
            if !note() || asks == Asks::Healing || !is_one_too_many(member) {
                return;
            }
        }
        self.drop_if_possible(member, error).await;
        // A member that the array cannot do without stays, and its chunk still waits to be healed.
        if self.members.look(|topology| topology.place_of(member).is_none()) {
            self.healing.lock().forget(chunk);
        }
    }

    /// Handles a block that was rewritten and still cannot be read: the member does not keep what it takes,
    /// and is dropped once that has happened too often.
    pub(crate) async fn note_unhealed(&self, member: &Arc<Member>, stripe: StripeIndex, error: IoError) {
        tracing::warn!(member = member.name(), stripe = stripe.0, "a block was rewritten and cannot be read");
        if !lives(Mutant::UnkeptUncounted) && is_one_too_many(member) {
            self.drop_if_possible(member, error).await;
        }
    }

    /// Drops a member that reads badly. If the array cannot do without the member, it stays: what it can
    /// still read is all there is.
    async fn drop_if_possible(&self, member: &Arc<Member>, error: IoError) {
        self.members.fail_if_possible(vec![(member.clone(), error)]).await;
    }
}

/// Counts a failed read. True if the member had already had as many as it may have.
fn is_one_too_many(member: &Member) -> bool {
    member.read_errors.fetch_add(1, Ordering::Relaxed) >= READ_ERRORS_MAX
        && !lives(Mutant::ReadErrorsUncounted)
}
