//! Getting one column of a row from the others: which to read, and how to compute. Pure functions.

use smallvec::{SmallVec, smallvec};
use stripewise_device::{
    IoBuf,
    parts::{Part, within},
};
use stripewise_parity as parity;

use super::sums;
use crate::{plan::recipe::Parity, shape::geometry::Geometry};

/// Columns, few.
pub(crate) type Columns = SmallVec<[usize; 4]>;

/// What to read to get a column back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sources {
    /// Columns to read.
    pub(crate) read: Columns,
    /// Data columns that are lost, the wanted one among them if it is data.
    pub(crate) lost_data: Columns,
}

impl Sources {
    /// Chooses what to read. None: too many columns are lost.
    pub(crate) fn choose(
        geometry: &Geometry,
        wanted: usize,
        is_readable: impl Fn(usize) -> bool,
    ) -> Option<Self> {
        let k = geometry.data_columns();
        if !geometry.has_parity() {
            let mirrors = geometry.parity_columns() > 0;
            let other = (0..geometry.members()).find(|c| mirrors && *c != wanted && is_readable(*c))?;
            return Some(Self { read: smallvec![other], lost_data: Columns::new() });
        }
        let usable = |c: &usize| *c != wanted && is_readable(*c);
        let lost_data: Columns = (0..k).filter(|c| !usable(c)).collect();
        let parity: Columns = (k..geometry.members()).filter(usable).take(lost_data.len()).collect();
        if parity.len() < lost_data.len() {
            return None;
        }
        let mut read: Columns = (0..k).filter(usable).collect();
        read.extend(parity);
        Some(Self { read, lost_data })
    }
}

/// The content of lost data columns, from the others and parity. None: they are more than the parity given.
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

/// Computes the wanted column from what was read.
pub(crate) fn solve(geometry: &Geometry, wanted: usize, sources: &Sources, read: &[&[u8]], out: &mut [u8]) {
    if !geometry.has_parity() {
        return out.copy_from_slice(read[0]);
    }
    let k = geometry.data_columns();
    let find = |column: usize| sources.read.iter().position(|c| *c == column).map(|i| read[i]);
    let (p, q) = (find(k), find(k + 1));
    let data: SmallVec<[Option<&[u8]>; 8]> = (0..k).map(find).collect();
    let _part = within(Part::Parity);
    if sources.lost_data[..] == [wanted] {
        let mut lost = [parity::Lost { column: parity::Column::Data(wanted), out }];
        return parity::reconstruct(&data, p, q, &mut lost).expect("sources are enough by choice");
    }
    let recovered =
        recover_data(&data, p, q, &sources.lost_data, out.len()).expect("sources are enough by choice");
    if let Some(index) = sources.lost_data.iter().position(|c| *c == wanted) {
        return out.copy_from_slice(&recovered[index]);
    }
    let mut data: SmallVec<[Option<&[u8]>; 8]> = data.iter().copied().collect();
    for (column, buf) in sources.lost_data.iter().zip(&recovered) {
        data[*column] = Some(buf);
    }
    sums::make(if wanted == k { Parity::P } else { Parity::Q }, &data, &mut [out]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::geometry::Level;

    #[test]
    fn sources_are_as_few_as_can_be() {
        let raid6 = Geometry::new(Level::Raid6, 6, 4096, 1 << 20, 512).unwrap();
        let all = Sources::choose(&raid6, 1, |_| true).unwrap();
        assert_eq!(all.read[..], [0, 2, 3, 4], "P is enough for one");
        let two = Sources::choose(&raid6, 1, |c| c != 2).unwrap();
        assert_eq!(two.read[..], [0, 3, 4, 5]);
        let without_p = Sources::choose(&raid6, 1, |c| c != 4).unwrap();
        assert_eq!(without_p.read[..], [0, 2, 3, 5]);
        assert_eq!(Sources::choose(&raid6, 1, |c| c != 2 && c != 4), None);
        let parity = Sources::choose(&raid6, 5, |c| c != 0).unwrap();
        assert_eq!((parity.read[..].to_vec(), parity.lost_data[..].to_vec()), (vec![1, 2, 3, 4], vec![0]));
    }
}
