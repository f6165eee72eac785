//! Computes what the columns of a stripe hold from the columns that were read. Pure functions.

use smallvec::SmallVec;
use stripewise_device::{
    IoBuf, SharedBuf,
    parts::{Part, within},
};
use stripewise_parity as parity;

use super::sums;
use crate::{
    plan::recipe::{Recipe, Source},
    shape::geometry::Geometry,
};

/// What was read of each column of a stripe: the same bytes of every chunk.
pub(crate) type Columns<'a> = SmallVec<[Option<&'a [u8]>; 8]>;

/// The content of lost data columns, from the other columns and parity. None if more columns are lost than
/// there is parity.
pub(crate) fn recover_data(
    data: &[Option<&[u8]>],
    p: Option<&[u8]>,
    q: Option<&[u8]>,
    lost: &[usize],
    len: usize,
) -> Option<SmallVec<[IoBuf; 2]>> {
    let mut recovered: SmallVec<[IoBuf; 2]> = lost.iter().map(|_| IoBuf::with_len(len)).collect();
    {
        let mut targets: SmallVec<[parity::Lost<'_>; 2]> = lost
            .iter()
            .zip(&mut recovered)
            .map(|(column, out)| parity::Lost { column: parity::Column::Data(*column), out })
            .collect();
        parity::reconstruct(data, p, q, &mut targets).ok()?;
    }
    Some(recovered)
}

/// The content that a [recipe](crate::plan::recover) gives back, from what was read.
///
/// # Panics
/// If something that the recipe reads is missing.
pub(crate) fn content(
    recipe: &Recipe,
    from: Source,
    geometry: &Geometry,
    read: &Columns<'_>,
    out: &mut [u8],
) {
    match from {
        Source::Old(column) => old(column.into(), geometry, read, out),
        Source::Sum => with_all_data(geometry, read, out.len(), |data| {
            sums::make(recipe.sums[0].parity, data, &mut [out]);
        }),
        Source::New(_) | Source::Joined | Source::Zeroes => unreachable!("nothing is given back of these"),
    }
}

/// The redundancy that a [repair](crate::plan::recover::repair) writes, in the order of its writes.
///
/// # Panics
/// If something that the recipe reads is missing.
pub(crate) fn repaired(
    recipe: &Recipe,
    geometry: &Geometry,
    read: &Columns<'_>,
    len: usize,
) -> SmallVec<[SharedBuf; 2]> {
    match &recipe.sums[..] {
        [] => {
            let copy = recipe.reads.first().and_then(|cells| read[usize::from(cells.column)]);
            let copy = copy.map(|copy| IoBuf::copy_of(copy).freeze());
            recipe.writes.iter().map(|_| copy.clone().expect("what is copied was read")).collect()
        }
        [sum, ..] => with_all_data(geometry, read, len, |data| {
            sums::made(sum.parity, data, len).into_iter().map(IoBuf::freeze).collect()
        }),
    }
}

/// The content of a column that was read, or of a data column that must be recovered.
fn old(column: usize, geometry: &Geometry, read: &Columns<'_>, out: &mut [u8]) {
    if let Some(bytes) = read[column] {
        return out.copy_from_slice(bytes);
    }
    let (data, parity) = read.split_at(geometry.data_columns());
    if (0..data.len()).any(|other| other != column && data[other].is_none()) {
        return with_all_data(geometry, read, out.len(), |data| {
            out.copy_from_slice(data[column].expect("all data is there"));
        });
    }
    // Nothing else is lost: the content is computed straight into `out`.
    let _part = within(Part::Parity);
    let mut lost = [parity::Lost { column: parity::Column::Data(column), out }];
    let (p, q) = (parity[0], parity.get(1).copied().flatten());
    parity::reconstruct(data, p, q, &mut lost).expect("a recipe recovers only what its parity allows");
}

/// Calls `call` with the content of all data columns. Columns that were not read are recovered first.
fn with_all_data<T>(
    geometry: &Geometry,
    read: &Columns<'_>,
    len: usize,
    call: impl FnOnce(&[Option<&[u8]>]) -> T,
) -> T {
    let (data, parity) = read.split_at(geometry.data_columns());
    let lost: SmallVec<[usize; 2]> = (0..data.len()).filter(|column| data[*column].is_none()).collect();
    let recovered = {
        let _part = within(Part::Parity);
        recover_data(data, parity[0], parity.get(1).copied().flatten(), &lost, len)
    };
    let recovered = recovered.expect("a recipe recovers only what its parity allows");
    let mut whole: Columns<'_> = data.iter().copied().collect();
    lost.iter().zip(&recovered).for_each(|(column, buf)| whole[*column] = Some(buf));
    call(&whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::{recipe::Span, recover},
        shape::geometry::{Level, MemberIndex},
    };

    const LEN: usize = 4096;

    /// What the columns of a stripe hold, with redundancy in agreement.
    fn stripe(geometry: &Geometry) -> Vec<Vec<u8>> {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut random = || (0..LEN).map(|_| rng.u8(..)).collect::<Vec<u8>>();
        if !geometry.has_parity() {
            let content = random();
            return (0..geometry.members()).map(|_| content.clone()).collect();
        }
        let mut columns: Vec<Vec<u8>> = (0..geometry.data_columns()).map(|_| random()).collect();
        let (mut p, mut q) = (vec![0; LEN], vec![0; LEN]);
        let data: Vec<Option<&[u8]>> = columns.iter().map(|column| Some(&column[..])).collect();
        parity::pq_gen(&data, &mut p, &mut q);
        columns.extend([p, q].into_iter().take(geometry.parity_columns()));
        columns
    }

    /// The columns that a recipe reads.
    fn read<'a>(recipe: &Recipe, columns: &'a [Vec<u8>]) -> Columns<'a> {
        let is_read = |column| recipe.reads.iter().any(|cells| usize::from(cells.column) == column);
        columns.iter().enumerate().map(|(column, bytes)| is_read(column).then_some(&bytes[..])).collect()
    }

    /// Every level, with every loss of members that it tolerates.
    fn for_each_loss(mut check: impl FnMut(&Geometry, &[usize])) {
        for level in [Level::Raid1, Level::Raid4, Level::Raid5, Level::Raid6] {
            for members in level.members_min()..7 {
                let geometry = Geometry::new(level, members, LEN as u32, 1 << 20, 512).unwrap();
                for lost in 0..1usize << members {
                    let lost: Vec<usize> = (0..members).filter(|member| lost >> member & 1 != 0).collect();
                    let is_lost = |member: MemberIndex| lost.contains(&member.0);
                    if geometry.survives(is_lost) {
                        check(&geometry, &lost);
                    }
                }
            }
        }
    }

    #[test]
    fn every_column_is_given_back_whatever_else_is_lost() {
        for_each_loss(|geometry, lost| {
            let columns = stripe(geometry);
            for wanted in lost {
                let mut recipe = Recipe::default();
                let rows = Span { start: 0, end: 1 };
                let is_readable = |column: usize| !lost.contains(&column);
                let from = recover::recover(geometry, *wanted, rows, is_readable, &mut recipe).unwrap();
                let mut out = vec![0; LEN];
                content(&recipe, from, geometry, &read(&recipe, &columns), &mut out);
                assert!(out == columns[*wanted], "{geometry:?} without {lost:?}: {wanted}");
            }
        });
    }

    #[test]
    fn a_repair_writes_what_redundancy_should_hold() {
        for_each_loss(|geometry, lost| {
            let columns = stripe(geometry);
            let recipe = recover::repair(geometry, LEN, |column| !lost.contains(&column));
            let repaired = repaired(&recipe, geometry, &read(&recipe, &columns), LEN);
            assert_eq!(repaired.len(), recipe.writes.len());
            for (write, content) in recipe.writes.iter().zip(&repaired) {
                assert!(content[..] == columns[usize::from(write.column)], "{geometry:?} without {lost:?}");
            }
            // As many redundant columns are checked as could still be lost.
            let is_lost = |member: MemberIndex| lost.contains(&member.0);
            assert_eq!(recipe.writes.len(), geometry.spare(is_lost), "{geometry:?} without {lost:?}");
        });
    }
}
