//! P and Q: the only place that tells one parity from the other.

use std::ops::DerefMut;

use smallvec::SmallVec;
use stripewise_device::{
    IoBuf,
    parts::{Part, within},
};
use stripewise_parity as parity;

use crate::{
    mutants::{Mutant, lives},
    plan::recipe::Parity,
};

/// Makes parity of all data columns; a column that is None counts as zeroes. `out` has a buffer for each
/// parity column that `which` names.
///
/// # Panics
/// If `out` has neither one nor two buffers.
pub(crate) fn make<B: DerefMut<Target = [u8]>>(which: Parity, data: &[Option<&[u8]>], out: &mut [B]) {
    let _part = within(Part::Parity);
    let is_q = which == Parity::Q && !lives(Mutant::QTakenForP);
    match out {
        [p, q] => parity::pq_gen(data, p, q),
        [q] if is_q => parity::q_gen(data, q),
        [p] => parity::p_gen(data, p),
        _ => unreachable!("levels have one or two parity columns"),
    }
}

/// Brings parity up to date with a data column's new content.
///
/// # Panics
/// If `old_parity` has neither one nor two buffers.
#[inline]
pub(crate) fn update(which: Parity, column: usize, old: &[u8], new: &[u8], old_parity: &mut [&mut [u8]]) {
    if lives(Mutant::ParityNotUpdated) {
        return;
    }
    let _part = within(Part::Parity);
    let is_wrong = lives(Mutant::WrongQCoefficient) || lives(Mutant::FarColumnInQ) && column > 4;
    let column = column + usize::from(is_wrong);
    let is_q = which == Parity::Q && !lives(Mutant::QTakenForP);
    match old_parity {
        [p, q] => parity::pq_update(p, q, column, old, new),
        [q] if is_q => parity::q_update(q, column, old, new),
        [p] => parity::p_update(p, old, new),
        _ => unreachable!("levels have one or two parity columns"),
    }
}

/// Parity columns, made anew from all data columns.
pub(crate) fn made(which: Parity, data: &[Option<&[u8]>], len: usize) -> SmallVec<[IoBuf; 2]> {
    let mut out: SmallVec<[IoBuf; 2]> = which.columns().map(|_| IoBuf::with_len(len)).collect();
    make(which, data, &mut out);
    out
}
