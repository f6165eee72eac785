//! Recipes without new data: to recover one column, to read around lost columns, and to check and repair
//! redundancy.

use std::ops::Range;

use smallvec::SmallVec;

use super::recipe::{Cells, How, Parity, Recipe, Source, Span, Sum, Write};
use crate::shape::geometry::Geometry;

/// The rows of a column as a recipe has them.
fn cells(column: usize, rows: Span) -> Cells {
    Cells { column: column as u16, rows }
}

/// Recovers some rows of one column from the other columns. Fills an empty recipe, and returns where its
/// reads and sums leave the content. None if too many columns are lost: the recipe then stays as it was.
pub(crate) fn recover(
    geometry: &Geometry,
    column: usize,
    rows: Span,
    is_readable: impl Fn(usize) -> bool,
    recipe: &mut Recipe,
) -> Option<Source> {
    let is_source = |source: &usize| *source != column && is_readable(*source);
    if !geometry.has_parity() {
        let copy = geometry.copies_of(column).find(is_source)?;
        recipe.reads.push(cells(copy, rows));
        return Some(Source::Old(copy as u16));
    }
    let data_columns = geometry.data_columns();
    let lost = (0..data_columns).filter(|column| !is_source(column)).count();
    let parity: SmallVec<[usize; 2]> =
        (data_columns..geometry.members()).filter(is_source).take(lost).collect();
    if parity.len() < lost {
        return None;
    }
    let sources = (0..data_columns).filter(is_source).chain(parity);
    recipe.reads.extend(sources.map(|source| cells(source, rows)));
    if lost > 0 {
        recipe.recovers.push(rows);
    }
    let is = |parity: usize| column == data_columns + parity;
    let Some(parity) = Parity::of(is(0), is(1)) else { return Some(Source::Old(column as u16)) };
    recipe.sums.push(Sum { rows, parity, how: How::Make });
    Some(Source::Sum)
}

/// A read of some bytes of some data columns' chunks. Columns that are there are read once. Lost columns are
/// recovered from them and from whatever else that takes. None if nothing is lost, or too much.
pub(crate) fn read_around<'p>(
    geometry: &Geometry,
    pieces: impl Iterator<Item = (usize, &'p Range<usize>)> + Clone,
    is_readable: impl Fn(usize) -> bool,
) -> Option<Recipe> {
    let lost = pieces.clone().filter(|(column, _)| !is_readable(*column));
    let (column, first) = lost.clone().next()?;
    let hull = lost.fold(first.clone(), |all, (_, bytes)| all.start.min(bytes.start)..all.end.max(bytes.end));
    let mut recipe = Recipe::default();
    recover(geometry, column, Span::touching(&hull), &is_readable, &mut recipe)?;
    for (column, bytes) in pieces.filter(|(column, _)| is_readable(*column)) {
        let wanted = Span::touching(bytes);
        let read = recipe.reads.iter_mut().find(|read| usize::from(read.column) == column);
        let rows = &mut read.expect("a recovery reads all data columns that are there").rows;
        *rows = Span { start: rows.start.min(wanted.start), end: rows.end.max(wanted.end) };
    }
    Some(recipe)
}

/// The repair of a stripe with chunks of this length: it writes all redundancy that can be computed from the
/// readable columns. Lost columns are recovered from the first parity columns. The remaining parity columns
/// are written.
pub(crate) fn repair(geometry: &Geometry, chunk_len: usize, is_readable: impl Fn(usize) -> bool) -> Recipe {
    let mut recipe = Recipe::default();
    let (chunk, is_readable) = (0..chunk_len, |column: &usize| is_readable(*column));
    let rows = Span::touching(&chunk);
    if !geometry.has_parity() {
        // All mirrors should hold what the first readable mirror holds.
        let mut copies = geometry.copies_of(0).filter(is_readable);
        if let Some(first) = copies.next() {
            recipe.reads.push(cells(first, rows));
            recipe.writes.extend(copies.map(|copy| Write::of(copy, &chunk, Source::Old(first as u16), true)));
        }
        return recipe;
    }
    let data_columns = geometry.data_columns();
    let lost = (0..data_columns).filter(|column| !is_readable(column)).count();
    let parity: SmallVec<[usize; 2]> = (data_columns..geometry.members()).filter(is_readable).collect();
    if parity.len() <= lost {
        return recipe;
    }
    let (sources, checked) = parity.split_at(lost);
    let sources = (0..data_columns).filter(is_readable).chain(sources.iter().copied());
    recipe.reads.extend(sources.map(|source| cells(source, rows)));
    if lost > 0 {
        recipe.recovers.push(rows);
    }
    let is_checked = |parity: usize| checked.contains(&(data_columns + parity));
    let parity = Parity::of(is_checked(0), is_checked(1)).expect("more parity is left than is lost");
    recipe.sums.push(Sum { rows, parity, how: How::Make });
    recipe.writes.extend(checked.iter().map(|column| Write::of(*column, &chunk, Source::Sum, true)));
    recipe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::geometry::Level;

    const ROWS: Span = Span { start: 0, end: 1 };

    fn raid6() -> Geometry {
        Geometry::new(Level::Raid6, 6, 16384, 1 << 20, 512).unwrap()
    }

    /// The columns read, and where the content is.
    fn recovered(column: usize, lost: &[usize]) -> Option<(Vec<u16>, Source)> {
        let mut recipe = Recipe::default();
        let from = recover(&raid6(), column, ROWS, |column| !lost.contains(&column), &mut recipe)?;
        let lost_data = (0..4).any(|data| data == column || lost.contains(&data));
        assert_eq!(!recipe.recovers.is_empty(), lost_data);
        Some((recipe.reads.iter().map(|read| read.column).collect(), from))
    }

    #[test]
    fn a_column_is_recovered_from_as_few_as_can_be() {
        assert_eq!(recovered(1, &[]), Some((vec![0, 2, 3, 4], Source::Old(1))), "P is enough for one");
        assert_eq!(recovered(1, &[2]), Some((vec![0, 3, 4, 5], Source::Old(1))));
        assert_eq!(recovered(1, &[4]), Some((vec![0, 2, 3, 5], Source::Old(1))));
        assert_eq!(recovered(1, &[2, 4]), None);
        assert_eq!(recovered(5, &[0]), Some((vec![1, 2, 3, 4], Source::Sum)));
        assert_eq!(recovered(4, &[]), Some((vec![0, 1, 2, 3], Source::Sum)));
        let mirrors = Geometry::new(Level::Raid1, 3, 16384, 1 << 20, 512).unwrap();
        let mut recipe = Recipe::default();
        assert_eq!(recover(&mirrors, 0, ROWS, |column| column != 1, &mut recipe), Some(Source::Old(2)));
        let stripes = Geometry::new(Level::Raid0, 3, 16384, 1 << 20, 512).unwrap();
        assert_eq!(recover(&stripes, 0, ROWS, |_| true, &mut Recipe::default()), None, "there are no copies");
    }

    #[test]
    fn a_read_around_reads_each_column_once() {
        let (whole, half) = (0..16384, 8192..16384);
        let around = |pieces: &[(usize, &Range<usize>)], lost: usize| {
            let recipe = read_around(&raid6(), pieces.iter().copied(), |column| column != lost)?;
            let of = |read: &Cells| (read.column, read.rows.range());
            Some(recipe.reads.iter().map(of).collect::<Vec<_>>())
        };
        // A whole stripe except for half of its first chunk. The lost chunk is wanted whole, so the others
        // are, too.
        let pieces = [(0, &half), (1, &whole), (2, &whole), (3, &whole)];
        assert_eq!(around(&pieces, 1), Some(vec![(0, 0..4), (2, 0..4), (3, 0..4), (4, 0..4)]));
        // The lost half takes half of the other columns. A column that is wanted whole is read whole.
        assert_eq!(around(&pieces, 0), Some(vec![(1, 0..4), (2, 0..4), (3, 0..4), (4, 2..4)]));
        assert_eq!(around(&pieces[..2], 0), Some(vec![(1, 0..4), (2, 2..4), (3, 2..4), (4, 2..4)]));
        assert_eq!(around(&pieces, 4), None, "nothing is lost that is read");
    }

    #[test]
    fn a_repair_writes_the_parity_that_is_left_over() {
        let repaired = |lost: &[usize]| {
            let recipe = repair(&raid6(), 16384, |column| !lost.contains(&column));
            (recipe.reads.len(), recipe.writes.iter().map(|write| write.column).collect::<Vec<_>>())
        };
        assert_eq!(repaired(&[]), (4, vec![4, 5]));
        assert_eq!(repaired(&[1]), (4, vec![5]), "P gives the lost column");
        assert_eq!(repaired(&[4]), (4, vec![5]));
        assert_eq!(repaired(&[1, 2]), (0, vec![]), "nothing is left to check");
        let mirrors = Geometry::new(Level::Raid1, 3, 16384, 1 << 20, 512).unwrap();
        let recipe = repair(&mirrors, 512, |column| column != 0);
        assert_eq!(recipe.writes[..], [Write::of(2, &(0..512), Source::Old(1), true)]);
    }
}
