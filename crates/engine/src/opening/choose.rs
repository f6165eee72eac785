//! Which of the devices make the array: a pure function of what lies on them.
//!
//! The superblock with the most events is right about which members belong. A member whose own count is one
//! behind is current too: no write is acknowledged between the first and the last superblock of one change
//! (`docs/on-disk-format.md`).

use stripewise_format::{
    md::{Features, Role, Superblock},
    media::SECTOR_BYTES,
};

use super::{
    agree,
    candidates::{Chosen, Excluded, Part, check_bad_blocks, check_size, name, shape_difference},
    force,
    options::{AssembleError, AssembleOptions},
};
use crate::{
    metadata::examine::{Examination, ExamineError},
    mutants::{Mutant, lives},
    shape::geometry::{Geometry, GeometryError, Level, MemberIndex},
};

/// The most events that an array can have: far more than it will ever reach, and far below the largest
/// number.
const EVENTS_MAX: u64 = u64::MAX >> 1;

/// Chooses the members.
///
/// # Errors
/// [`AssembleError`] when they do not make an array that can be run as asked.
pub fn choose(
    examined: &[Examination],
    unusable: Vec<ExamineError>,
    options: &AssembleOptions,
) -> Result<Chosen, AssembleError> {
    check_identities(examined)?;
    let freshest = agree::freshest(examined)?;
    let superblock = &examined[freshest].superblock;
    superblock.check_supported().map_err(|reason| AssembleError::Unsupported {
        member: name(&examined[freshest]),
        reason: reason.to_string(),
    })?;
    if superblock.events > EVENTS_MAX {
        let reason = "its event count is so high that it cannot be raised; it is damaged".to_owned();
        return Err(AssembleError::Unsupported { member: name(&examined[freshest]), reason });
    }
    // A member that describes another shape has no say in the geometry. A stale member has: its blocks must
    // fit when it is added again.
    let is_alike = |index: usize| shape_difference(superblock, &examined[index].superblock).is_none();
    let geometry = geometry(examined, freshest, is_alike)?;
    let mut chosen =
        Chosen { geometry, freshest, parts: Vec::new(), excluded: Vec::new(), forced: Vec::new() };
    let left_out = |error: &ExamineError| Excluded { name: error.name().to_owned(), reason: error.reason() };
    chosen.excluded.extend(unusable.iter().map(left_out));
    for index in 0..examined.len() {
        match classify(examined, freshest, index, &geometry) {
            Ok(part) => add_part(&mut chosen, examined, part)?,
            Err(reason) => chosen.excluded.push(Excluded { name: name(&examined[index]), reason }),
        }
    }
    without_repeated_numbers(&mut chosen, examined);
    promote_complete(&mut chosen);
    if options.force {
        force::take_stale(&mut chosen, examined);
    }
    check_split(examined, &chosen, options)?;
    check_enough(&chosen, examined, superblock, options)?;
    Ok(chosen)
}

/// Checks that all members are of one array, and that each is given once.
fn check_identities(examined: &[Examination]) -> Result<(), AssembleError> {
    for (index, b) in examined.iter().enumerate() {
        for a in &examined[..index] {
            if a.superblock.array_uuid != b.superblock.array_uuid {
                return Err(AssembleError::MixedArrays {
                    a: name(a),
                    a_uuid: a.superblock.array_uuid,
                    b: name(b),
                    b_uuid: b.superblock.array_uuid,
                });
            }
            if a.superblock.device_uuid == b.superblock.device_uuid {
                return Err(AssembleError::SameMember {
                    a: name(a),
                    b: name(b),
                    uuid: a.superblock.device_uuid,
                });
            }
        }
    }
    Ok(())
}

/// The shape of the array that some of the devices make.
fn geometry(
    examined: &[Examination],
    freshest: usize,
    counts: impl Fn(usize) -> bool,
) -> Result<Geometry, AssembleError> {
    let fresh = &examined[freshest].superblock;
    let level = Level::from_number(fresh.level.number()).ok_or_else(|| AssembleError::Unsupported {
        member: name(&examined[freshest]),
        reason: format!("level {} is not one of 0, 1, 4, 5, 6", fresh.level.number()),
    })?;
    let counted: Vec<_> =
        (0..examined.len()).filter(|index| counts(*index)).map(|index| &examined[index]).collect();
    let block = counted.iter().map(|e| e.device.info().logical_block_bytes).max().unwrap_or(512);
    let block = block.max(fresh.logical_block_bytes);
    let chunk_bytes = fresh.chunk_sectors.saturating_mul(SECTOR_BYTES as u32);
    let member_sectors = match level {
        Level::Raid0 => striped_sectors(&counted, &examined[freshest])?,
        _ => fresh.member_size_sectors,
    };
    let member_bytes = member_sectors.saturating_mul(SECTOR_BYTES);
    Geometry::new(level, fresh.raid_disks as usize, chunk_bytes, member_bytes, block).map_err(|error| match error {
        GeometryError::Chunk(bytes) => AssembleError::Unsupported {
            member: name(&examined[freshest]),
            reason: format!(
                "its array has chunks of {} KiB, and Stripewise runs powers of two from 4 to 1024 KiB; use the kernel's md \
                 for it",
                bytes >> 10
            ),
        },
        error => error.into(),
    })
}

/// Level 0 stripes over all the room that its members have. The room must be equal: otherwise md makes zones
/// that we do not know.
fn striped_sectors(counted: &[&Examination], freshest: &Examination) -> Result<u64, AssembleError> {
    let chunk = u64::from(freshest.superblock.chunk_sectors.max(1));
    let whole = |e: &Examination| e.superblock.data_size_sectors / chunk;
    let first = whole(freshest);
    match counted.iter().find(|e| whole(e) != first) {
        None => Ok(first * chunk),
        Some(other) => Err(AssembleError::Unsupported {
            member: name(other),
            reason:
                "level 0 over members of different size has zones that Stripewise does not know; use the \
                     kernel's md for it"
                    .to_owned(),
        }),
    }
}

/// What a member is to the array, or why it has no part in it.
fn classify(
    examined: &[Examination],
    freshest: usize,
    index: usize,
    geometry: &Geometry,
) -> Result<Part, String> {
    let (fresh, own) = (&examined[freshest].superblock, &examined[index].superblock);
    if let Some(field) = shape_difference(fresh, own) {
        return Err(format!(
            "it disagrees on the array's {field}; it is damaged, of another array or from another time"
        ));
    }
    let role = fresh.roles.of(own.dev_number).unwrap_or(Role::Spare);
    let role = if lives(Mutant::UseStaleMember) { own.role() } else { role };
    match (role, own.role()) {
        (Role::Active(slot), Role::Active(own_slot)) if usize::from(slot) < geometry.members() => {
            check_current(fresh, own)?;
            if slot != own_slot {
                return Err(format!("it says that its role is {own_slot}, and the others say {slot}"));
            }
            own.check_supported().map_err(|reason| reason.to_string())?;
            check_size(&examined[index], geometry)?;
            check_bad_blocks(&examined[index])?;
            if lives(Mutant::CurrentMemberLeftOut) && slot == 1 {
                return Err("it is left out".to_owned());
            }
            Ok(active_part(own, index, MemberIndex(usize::from(slot)), geometry))
        }
        // A spare that was just being taken up: it has nothing of the array's data yet.
        (Role::Spare | Role::Active(_), Role::Spare) => {
            check_current(fresh, own)?;
            own.check_supported().map_err(|reason| reason.to_string())?;
            check_size(&examined[index], geometry)?;
            Ok(Part::Spare { index })
        }
        (Role::Journal, _) => Err("it is a journal device, which Stripewise does not use".to_owned()),
        _ => Err("it failed and is not current; add it anew to use it".to_owned()),
    }
}

fn check_current(fresh: &Superblock, own: &Superblock) -> Result<(), String> {
    if own.events.saturating_add(1) >= fresh.events || lives(Mutant::UseStaleMember) {
        return Ok(());
    }
    Err(format!(
        "stale: it stands at event {} and the array at {}; add it anew to use it",
        own.events, fresh.events
    ))
}

fn active_part(own: &Superblock, index: usize, slot: MemberIndex, geometry: &Geometry) -> Part {
    if !own.features.contains(Features::RECOVERY_OFFSET) {
        return Part::Active { slot, index };
    }
    let done_sectors = own.recovery_offset_sectors.min(geometry.member_bytes() / SECTOR_BYTES);
    Part::Incoming { slot, index, done_sectors }
}

/// Keeps one member of each device number, because roles are looked up by number. Two members can have one
/// number only if a spare was removed or absent. The member with more events counts.
fn without_repeated_numbers(chosen: &mut Chosen, examined: &[Examination]) {
    let superblock = |part: &Part| &examined[part.index()].superblock;
    let parts = std::mem::take(&mut chosen.parts);
    for part in parts {
        let same = |p: &Part| superblock(p).dev_number == superblock(&part).dev_number;
        let Some(at) = chosen.parts.iter().position(same) else {
            chosen.parts.push(part);
            continue;
        };
        let newer = superblock(&part).events > superblock(&chosen.parts[at]).events;
        let out = if newer { std::mem::replace(&mut chosen.parts[at], part) } else { part };
        let reason = "another member has its device number by now; add it anew to use it".to_owned();
        chosen.excluded.push(Excluded { name: name(&examined[out.index()]), reason });
    }
}

/// Adds a member, one for each role. Of two members that are being filled for a role, the first counts.
fn add_part(chosen: &mut Chosen, examined: &[Examination], part: Part) -> Result<(), AssembleError> {
    if let Part::Active { slot, index } = part
        && let Some(other) = chosen.active(slot.0)
    {
        return Err(AssembleError::SameRole {
            a: name(&examined[other]),
            b: name(&examined[index]),
            role: slot.0 as u16,
        });
    }
    if let Part::Incoming { slot, index, .. } = part
        && chosen.parts.iter().any(|p| matches!(p, Part::Incoming { slot: s, .. } if *s == slot))
    {
        let reason = "another member is being filled for the same role".to_owned();
        chosen.excluded.push(Excluded { name: name(&examined[index]), reason });
        return Ok(());
    }
    chosen.parts.push(part);
    Ok(())
}

/// Makes a filled member active if no other member holds its role: a crash fell between its last checkpoint
/// and the change that would have said so.
fn promote_complete(chosen: &mut Chosen) {
    let all_sectors = chosen.geometry.member_bytes() / SECTOR_BYTES;
    let held: Vec<bool> = (0..chosen.geometry.members()).map(|slot| chosen.active(slot).is_some()).collect();
    for part in &mut chosen.parts {
        if let Part::Incoming { slot, index, done_sectors, .. } = *part
            && done_sectors == all_sectors
            && !held[slot.0]
        {
            *part = Part::Active { slot, index };
        }
    }
}

/// Refuses an array of which two sides went on separately. If two halves cannot both have enough members,
/// there is no split: what a left-out member knows is from before the chosen members joined.
fn check_split(
    examined: &[Examination],
    chosen: &Chosen,
    options: &AssembleOptions,
) -> Result<(), AssembleError> {
    if options.force || !chosen.geometry.may_split() || lives(Mutant::SplitUnseen) {
        return Ok(());
    }
    let active = chosen.parts.iter().filter(|part| matches!(part, Part::Active { .. }));
    let active: Vec<_> = active.map(|part| &examined[part.index()].superblock).collect();
    let fresh = &examined[chosen.freshest].superblock;
    let joins = |index: usize| {
        chosen.parts.iter().any(|part| part.index() == index && !matches!(part, Part::Active { .. }))
    };
    let witnesses = examined.iter().enumerate().filter(|(index, _)| !joins(*index));
    let witnesses: Vec<_> = witnesses.map(|(_, witness)| &witness.superblock).collect();
    let other = examined.iter().find(|other| is_other_side(&other.superblock, fresh, &active, &witnesses));
    match other {
        None => Ok(()),
        Some(other) => {
            Err(AssembleError::SplitBrain { newer: name(&examined[chosen.freshest]), older: name(other) })
        }
    }
}

/// Whether a left-out member is of a side that went on without the chosen members. In that case, they leave
/// it out, it counts none of them in their roles, and no witness shows that its side did not go on.
///
/// The member counts such a witness in the role that the witness has, and the witness leaves out none of the
/// chosen members. There are two cases. Either the witness went on with the chosen members and without the
/// member. Then the member was cut off while it was only about to record a failure: had its side gone on, it
/// would have left out all members that were not there, and so would the other side. Or the witness counts
/// the member and is one event behind it. Then the member's last record had not reached the witness, and
/// their side never went on. A member that both sides count need not be there now. Device numbers alone prove
/// nothing: both sides give the next new member the same number.
fn is_other_side(
    own: &Superblock,
    fresh: &Superblock,
    active: &[&Superblock],
    witnesses: &[&Superblock],
) -> bool {
    let counts =
        |who: &Superblock, whom: &Superblock| matches!(who.roles.of(whom.dev_number), Some(Role::Active(_)));
    let shows_that_it_did_not = |witness: &&Superblock| {
        let is_counted = counts(own, witness) && own.roles.of(witness.dev_number) == Some(witness.role());
        let is_one_behind = witness.events.checked_add(1) == Some(own.events);
        is_counted
            && !active.iter().any(|chosen| leaves_out(witness, chosen.dev_number))
            && (!counts(witness, own) || is_one_behind)
    };
    matches!(own.role(), Role::Active(_))
        && !counts(fresh, own)
        && went_on_without(own, fresh)
        && !witnesses.iter().any(shows_that_it_did_not)
}

/// Whether a superblock counts none of the members that another superblock counts, and says that some of them
/// are lost.
fn went_on_without(own: &Superblock, theirs: &Superblock) -> bool {
    let of_both = || theirs.roles.as_slice().iter().zip(own.roles.as_slice());
    let shares_a_member =
        of_both().any(|(theirs, own)| matches!((theirs, own), (Role::Active(a), Role::Active(b)) if a == b));
    let their_numbers =
        (0..).zip(theirs.roles.as_slice()).filter(|(_, role)| matches!(role, Role::Active(_)));
    !shares_a_member && their_numbers.into_iter().any(|(number, _)| leaves_out(own, number))
}

/// Whether a superblock says that a member is lost.
///
/// We write "faulty" for an absent member. The kernel's md writes the same as for a number that was never
/// given. In that case, only a vacant role that no faulty member explains shows a loss.
fn leaves_out(who: &Superblock, number: u32) -> bool {
    match who.roles.of(number) {
        Some(Role::Active(_)) => false,
        Some(Role::Faulty) => true,
        _ => {
            let vacant = (0..who.raid_disks).filter(|slot| who.roles.device_in(*slot as u16).is_none());
            let faulty = who.roles.as_slice().iter().filter(|role| **role == Role::Faulty);
            vacant.count() > faulty.count()
        }
    }
}

/// The members that belong to the array and yet do not make its data whole, and why.
fn not_whole(chosen: &Chosen, examined: &[Examination]) -> Vec<Excluded> {
    let reason = |part: &Part| match *part {
        Part::Active { .. } => None,
        Part::Incoming { done_sectors, .. } => Some(format!(
            "it was being filled when the array was last used, and {} of its {} KiB are good; bring the member that \
             it replaces, or those that it is filled from",
            (done_sectors * SECTOR_BYTES) >> 10,
            chosen.geometry.member_bytes() >> 10
        )),
        Part::Spare { .. } => Some("it is a spare and holds none of the array's data".to_owned()),
    };
    let told = |part: &Part| Some(Excluded { name: name(&examined[part.index()]), reason: reason(part)? });
    chosen.parts.iter().filter_map(told).collect()
}

fn check_enough(
    chosen: &Chosen,
    examined: &[Examination],
    fresh: &Superblock,
    options: &AssembleOptions,
) -> Result<(), AssembleError> {
    let of = chosen.geometry.members();
    let have = chosen.active_count();
    let need = of - chosen.geometry.tolerance();
    if !chosen.has_enough() {
        let excluded = [chosen.excluded.clone(), not_whole(chosen, examined)].concat();
        return Err(AssembleError::TooFew { have, of, need, excluded });
    }
    let filling = |slot: usize| {
        chosen.parts.iter().any(|part| matches!(part, Part::Incoming { slot: s, .. } if s.0 == slot))
    };
    let absent = (0..of)
        .filter(|slot| chosen.active(*slot).is_none() && !filling(*slot))
        .filter(|slot| fresh.roles.device_in(*slot as u16).is_some());
    let roles: Vec<_> = absent.collect();
    if !roles.is_empty() && !options.run && !options.force {
        let active = (0..of).filter_map(|slot| Some((slot, chosen.active(slot)?)));
        let given = active.map(|(slot, index)| (slot, name(&examined[index]))).collect();
        return Err(AssembleError::Absent { roles, given, excluded: chosen.excluded.clone() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use stripewise_format::md::{ArrayName, Level as MdLevel, NewArray, NewMember, Timestamp};
    use uuid::Uuid;

    use super::*;

    const F: Role = Role::Faulty;
    const S: Role = Role::Spare;
    const A0: Role = Role::Active(0);
    const A1: Role = Role::Active(1);

    /// A mirror's superblock, by what decides: its number, its events and the roles of all numbers.
    fn superblock(dev_number: u32, events: u64, roles: &[Role]) -> Superblock {
        let mirror = NewArray {
            array_uuid: Uuid::nil(),
            name: ArrayName::new("mirror").unwrap(),
            created: Timestamp::default(),
            level: MdLevel::Raid1,
            layout: 0,
            chunk_sectors: 0,
            member_size_sectors: 2048,
            in_sync: true,
            roles: roles.to_vec(),
            raid_disks: 2,
        };
        let member = NewMember {
            dev_number,
            device_uuid: Uuid::nil(),
            member_sectors: 8192,
            data_offset_sectors: 2048,
        };
        Superblock { events, ..mirror.superblock(&member).unwrap() }
    }

    fn is_split(own: &Superblock, fresh: &Superblock, others: &[&Superblock]) -> bool {
        let witnesses: Vec<_> = [own, fresh].into_iter().chain(others.iter().copied()).collect();
        is_other_side(own, fresh, &[fresh], &witnesses)
    }

    #[test]
    fn a_side_that_served_is_no_leftover_though_a_spare_of_it_is_behind() {
        // m1 left. m0 went on alone, and was taking up the spare when power failed. Then m1 was started
        // alone.
        let own = superblock(0, 12, &[A0, F, A1]);
        let spare = superblock(2, 11, &[A0, F, S]);
        let fresh = superblock(1, 15, &[F, A1, S]);
        assert!(is_split(&own, &fresh, &[&spare]));
        // An old device whose number has since been given to a new device.
        let old = superblock(2, 5, &[A0, A1, S]);
        assert!(is_split(&own, &fresh, &[&old]));
        // Both sides have a new member with the same number, and only the other side's is there.
        let theirs = superblock(2, 15, &[F, A1, A0]);
        assert!(is_split(&own, &superblock(1, 15, &[F, A1, A0]), &[&theirs]));
    }

    #[test]
    fn a_member_cut_off_in_a_change_is_no_side() {
        // m0 recorded that the new member has m1's role, and no other member had recorded it yet.
        let own = superblock(0, 12, &[A0, F, A1]);
        let new = superblock(2, 11, &[A0, A1, A1]);
        let fresh = superblock(1, 15, &[F, A1, F]);
        assert!(!is_split(&own, &fresh, &[&new]));
        // Two behind: their side may have gone on in between.
        assert!(is_split(&own, &fresh, &[&superblock(2, 10, &[A0, A1, A1])]));
    }
}
