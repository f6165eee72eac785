//! Which superblock speaks for the array if members disagree: a pure function of what lies on them.
//!
//! Members of one array share its identity and its time of creation. A device with the same identity and
//! another time is a member of another array, made with a UUID that was already in use. Members with equally
//! many events are equally current. Among them, the shape that most of them describe counts. If no side has
//! more members, no device decides: the order in which devices were given must not matter.

use stripewise_format::md::Superblock;

use super::{
    candidates::{name, shape_difference},
    options::AssembleError,
};
use crate::{
    metadata::examine::Examination,
    mutants::{Mutant, lives},
};

/// The member whose superblock is the newest of those that agree; of equals, the one given first.
///
/// # Errors
/// [`AssembleError::Disagree`] if equally many members speak for each of two arrays.
pub(super) fn freshest(examined: &[Examination]) -> Result<usize, AssembleError> {
    let created = |index: usize| examined[index].superblock.created.seconds();
    let of_one_array = majority(examined, (0..examined.len()).collect(), |a, b| created(a) == created(b))?;
    let events = |index: &usize| examined[*index].superblock.events;
    let most = of_one_array.iter().map(events).max().expect("there is at least one device");
    let newest = of_one_array.into_iter().filter(|index| events(index) == most).collect();
    let superblock = |index: usize| -> &Superblock { &examined[index].superblock };
    let agreed = majority(examined, newest, |a, b| shape_difference(superblock(a), superblock(b)).is_none())?;
    Ok(agreed[0])
}

/// The largest group of devices that are alike, in the order given.
fn majority(
    examined: &[Examination],
    devices: Vec<usize>,
    are_alike: impl Fn(usize, usize) -> bool,
) -> Result<Vec<usize>, AssembleError> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for index in devices {
        match groups.iter_mut().find(|group| are_alike(group[0], index)) {
            Some(group) => group.push(index),
            None => groups.push(vec![index]),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    if let [first, second, ..] = &groups[..]
        && first.len() == second.len()
        && !lives(Mutant::FirstGivenCounts)
    {
        let (a, b) = (&examined[first[0]], &examined[second[0]]);
        let field = shape_difference(&a.superblock, &b.superblock).expect("groups differ in something");
        return Err(AssembleError::Disagree { a: name(a), b: name(b), field });
    }
    Ok(groups.swap_remove(0))
}
