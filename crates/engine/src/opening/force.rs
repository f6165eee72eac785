//! What force adds: members that are no longer current, taken because nothing better is there.

use stripewise_format::md::{Features, Role};

use super::candidates::{Chosen, Excluded, Part, check_bad_blocks, check_size, name, shape_difference};
use crate::{metadata::examine::Examination, shape::geometry::MemberIndex};

/// Fills vacant roles with the least stale of the members left out, as `mdadm --assemble --force` does. It
/// stops as soon as the array can be started, since these members lack what was written after they left.
pub(super) fn take_stale(chosen: &mut Chosen, examined: &[Examination]) {
    while !chosen.has_enough() {
        let candidates =
            (0..examined.len()).filter_map(|index| Some((index, role_left(chosen, examined, index)?)));
        let least_stale = candidates.max_by_key(|(index, _)| examined[*index].superblock.events);
        let Some((index, slot)) = least_stale else { return };
        let (member, superblock) = (name(&examined[index]), &examined[index].superblock);
        tracing::warn!(
            member,
            events = superblock.events,
            of = examined[chosen.freshest].superblock.events,
            "taken although it is not current: what was written since is lost"
        );
        let why = chosen.excluded.iter().position(|excluded| excluded.name == member);
        chosen.forced.extend(why.map(|why| chosen.excluded.remove(why)));
        leave_out_filling(chosen, examined, slot);
        chosen.parts.push(Part::Active { slot, index });
    }
}

/// A member that was being filled for a role cannot be filled further from a member that is not current: what
/// it holds already is of another time.
fn leave_out_filling(chosen: &mut Chosen, examined: &[Examination], role: MemberIndex) {
    let fills = |part: &Part| matches!(part, Part::Incoming { slot, .. } if *slot == role);
    let Some(at) = chosen.parts.iter().position(fills) else { return };
    let filling = chosen.parts.remove(at);
    let reason = "it was being filled for a role that a member took by force; add it anew".to_owned();
    chosen.excluded.push(Excluded { name: name(&examined[filling.index()]), reason });
}

/// The vacant role that a left-out member held, fully filled, when it was last part of the array.
fn role_left(chosen: &Chosen, examined: &[Examination], index: usize) -> Option<MemberIndex> {
    let (fresh, own) = (&examined[chosen.freshest].superblock, &examined[index].superblock);
    let Role::Active(slot) = own.role() else { return None };
    let slot = MemberIndex(usize::from(slot));
    let number_taken =
        chosen.parts.iter().any(|p| examined[p.index()].superblock.dev_number == own.dev_number);
    let fits = slot.0 < chosen.geometry.members()
        && chosen.active(slot.0).is_none()
        && !number_taken
        && shape_difference(fresh, own).is_none()
        && own.check_supported().is_ok()
        && !own.features.contains(Features::RECOVERY_OFFSET)
        && check_size(&examined[index], &chosen.geometry).is_ok()
        && check_bad_blocks(&examined[index]).is_ok();
    fits.then_some(slot)
}
