//! Which parts of the array hold nothing, as the members tell, so that copies of a sparse array stay sparse.

use std::{collections::BTreeSet, ops::Range, sync::Arc};

use rangemap::RangeSet;
use stripewise_device::{Extent, IoError};

use super::Stripes;
use crate::{
    cache::Cache,
    members::member::Member,
    mutants::{Mutant, lives},
    shape::geometry::{MemberIndex, StripeIndex},
};

/// Stripes looked at for one answer: 16 MiB of each member at the default chunk.
const STRIPES_MAX: u64 = 256;

/// The holes of one member within a range of its data, in order.
type Holes = Vec<Range<u64>>;

impl Stripes {
    /// Extents of a range of the array, from its start on. A chunk is a hole if its member says so; where the
    /// member is missing the answer is "stored".
    pub(crate) async fn extents(&self, offset_bytes: u64, len_bytes: u64) -> Result<Vec<Extent>, IoError> {
        let _request = self.requests.enter();
        let geometry = self.geometry();
        self.check_request(&geometry, offset_bytes, len_bytes)?;
        if len_bytes == 0 {
            return Ok(Vec::new());
        }
        let chunk = geometry.chunk_bytes();
        let first = offset_bytes / geometry.stripe_bytes();
        let end = (offset_bytes + len_bytes).min((first + STRIPES_MAX) * geometry.stripe_bytes());
        let stripes = first..end.div_ceil(geometry.stripe_bytes());
        // Before members are asked: what is not cached now, they hold.
        let cached = self.cached_chunks(&stripes);
        let holes = self.holes_of_members(&stripes).await?;
        let mut extents: Vec<Extent> = Vec::new();
        for span in geometry.split(offset_bytes..end) {
            for column in span.columns(chunk) {
                let bytes = span.in_column(column, chunk).0;
                let start = geometry.chunk_start(span.stripe);
                let on_member = start + bytes.start as u64..start + bytes.end as u64;
                let member = geometry.member_of(span.stripe, column);
                match cached.contains(&(span.stripe, column)) {
                    true => add_parts(&mut extents, &Holes::new(), on_member),
                    false => add_parts(&mut extents, &holes[member.0], on_member),
                }
            }
        }
        Ok(extents)
    }

    /// Chunks of which something is cached, by stripe and column.
    fn cached_chunks(&self, stripes: &Range<u64>) -> BTreeSet<(StripeIndex, usize)> {
        let columns = self.geometry().data_columns();
        let chunks = |stripe: u64| (0..columns).map(move |column| (StripeIndex(stripe), column));
        let held = |cache: &Arc<Cache>| {
            let all = stripes.clone().flat_map(chunks);
            all.filter(|(stripe, column)| cache.holds(*stripe, *column)).collect()
        };
        self.cache().as_ref().map(held).unwrap_or_default()
    }

    async fn holes_of_members(&self, stripes: &Range<u64>) -> Result<Vec<Holes>, IoError> {
        let topology = self.members.load();
        let range = topology.geometry.member_range(stripes);
        let mut all = Vec::with_capacity(topology.geometry.members());
        for member in (0..topology.geometry.members()).map(MemberIndex) {
            all.push(match &topology.slots[member.0].primary {
                Some(primary) => holes_of(primary, range.clone()).await.unwrap_or_default(),
                None if lives(Mutant::HolesOfMissing) => Holes::from([range.clone()]),
                None => Holes::new(),
            });
        }
        Ok(all)
    }
}

async fn holes_of(member: &Member, range: Range<u64>) -> Result<Holes, IoError> {
    let mut holes: RangeSet<u64> = RangeSet::new();
    let mut at = range.start;
    while at < range.end {
        let start = member.data_offset_bytes + at;
        let extents = member.device.extents(start, range.end - at).await?;
        let before = at;
        for extent in extents {
            if extent.is_hole && extent.len_bytes > 0 {
                holes.insert(at..at + extent.len_bytes);
            }
            at += extent.len_bytes;
        }
        if at == before {
            break; // a device that answers nothing says nothing
        }
    }
    Ok(without_listed(holes, member.bad_blocks.unreadable(), member.data_offset_bytes))
}

/// The holes without the sectors that the member's log lists: what the member has there is not what the array
/// holds.
fn without_listed(mut holes: RangeSet<u64>, listed: Vec<Range<u64>>, data_offset_bytes: u64) -> Holes {
    let in_data = |at: u64| at.saturating_sub(data_offset_bytes);
    let listed = listed.into_iter().map(|bytes| in_data(bytes.start)..in_data(bytes.end));
    listed.filter(|bytes| !bytes.is_empty()).for_each(|bytes| holes.remove(bytes));
    holes.into_iter().collect()
}

/// Adds a range of a member as parts that are holes or not.
fn add_parts(extents: &mut Vec<Extent>, holes: &Holes, range: Range<u64>) {
    let mut at = range.start;
    while at < range.end {
        let next = holes.iter().find(|hole| hole.end > at);
        let (end, is_hole) = match next {
            Some(hole) if hole.start <= at => (hole.end.min(range.end), true),
            Some(hole) => (hole.start.min(range.end), false),
            None => (range.end, false),
        };
        match extents.last_mut() {
            Some(last) if last.is_hole == is_hole => last.len_bytes += end - at,
            _ => extents.push(Extent { len_bytes: end - at, is_hole }),
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_sectors_are_no_holes() {
        let holes = || RangeSet::from_iter([0..4096, 8192..16384]);
        let listed = vec![0..512, (1 << 20) + 9216..(1 << 20) + 10240, (1 << 20) + 16384..(1 << 21)];
        assert_eq!(without_listed(holes(), listed, 1 << 20), [0..4096, 8192..9216, 10240..16384]);
    }

    #[test]
    fn parts_follow_the_holes() {
        let mut extents = Vec::new();
        add_parts(&mut extents, &vec![10..20, 30..50], 0..40);
        let expected = [(10, false), (10, true), (10, false), (10, true)];
        let expected: Vec<_> = expected.map(|(len_bytes, is_hole)| Extent { len_bytes, is_hole }).into();
        assert_eq!(extents, expected);
        add_parts(&mut extents, &Holes::from([Range { start: 0, end: 100 }]), 0..5);
        assert_eq!(extents.last(), Some(&Extent { len_bytes: 15, is_hole: true }), "neighbours are joined");
    }
}
