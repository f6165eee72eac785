//! Every loss that P and Q can make up for, recovered by every kernel; every other refused.

use crate::reference;
use crate::row::{Bytes, Row, length};
use proptest::prelude::*;
use stripewise_parity::{Column, Kernel, Lost, Unrecoverable};

/// Loses both columns, recovers them, and compares with what they were.
fn lose_and_recover(kernel: &Kernel, row: &Row, absent: &dyn Fn(usize) -> bool, losses: &[Column]) {
    let full = row.columns(absent);
    let (p, q) = (reference::p(row.length, &full), reference::q(row.length, &full));
    let zeros = vec![0; row.length];
    let content = |column: &Column| match column {
        Column::Data(index) => full[*index].unwrap_or(&zeros),
        Column::P => &p,
        Column::Q => &q,
    };
    let data = row.columns(|index| absent(index) || losses.contains(&Column::Data(index)));
    let mut outs: Vec<Bytes> = losses.iter().map(|_| Bytes::new(row.length, 3)).collect();
    let outs_mut = outs.iter_mut().map(Bytes::get_mut);
    let mut lost: Vec<Lost<'_>> =
        losses.iter().zip(outs_mut).map(|(column, out)| Lost { column: *column, out }).collect();
    let survivor = |column, bytes| (!losses.contains(&column)).then_some(bytes);
    let outcome =
        kernel.reconstruct(&data, survivor(Column::P, &p[..]), survivor(Column::Q, &q[..]), &mut lost);
    assert_eq!(outcome, Ok(()));
    for (column, out) in losses.iter().zip(&outs) {
        assert_eq!(out.get(), content(column), "{kernel:?}, lost {losses:?}");
    }
}

#[test]
fn every_single_and_double_loss_is_recovered() {
    for (columns, length) in [(1, 65), (2, 300), (3, 64), (8, 777), (32, 129)] {
        let row = Row::new(columns, length, 42);
        let mut all: Vec<Column> = (0..columns).map(Column::Data).collect();
        all.extend([Column::P, Column::Q]);
        for kernel in Kernel::available() {
            lose_and_recover(kernel, &row, &|_| false, &[]);
            for one in &all {
                lose_and_recover(kernel, &row, &|_| false, &[*one]);
                for other in all.iter().filter(|other| *other != one) {
                    lose_and_recover(kernel, &row, &|_| false, &[*one, *other]);
                }
            }
        }
    }
}

#[test]
fn one_data_column_comes_back_from_either_parity() {
    let row = Row::new(5, 500, 9);
    let full = row.columns(|_| false);
    let (p, q) = (reference::p(500, &full), reference::q(500, &full));
    for kernel in Kernel::available() {
        for index in 0..5 {
            let data = row.columns(|column| column == index);
            for (p, q) in [(Some(&p[..]), None), (None, Some(&q[..]))] {
                let mut out = vec![0; 500];
                let lost = &mut [Lost { column: Column::Data(index), out: &mut out }];
                kernel.reconstruct(&data, p, q, lost).unwrap();
                assert_eq!(out, row.data[index].get());
            }
        }
    }
}

#[test]
fn too_many_losses_are_refused() {
    let row = Row::new(4, 64, 1);
    let (p, q) = (vec![0; 64], vec![0; 64]);
    let cases = [(1, None, None), (2, Some(&p), None), (2, None, Some(&q)), (3, Some(&p), Some(&q))];
    for (losses, p, q) in cases {
        let data = row.columns(|index| index < losses);
        let mut outs = vec![vec![0; 64]; losses];
        let outs = outs.iter_mut().enumerate();
        let mut lost: Vec<Lost<'_>> =
            outs.map(|(index, out)| Lost { column: Column::Data(index), out }).collect();
        let (p, q) = (p.map(Vec::as_slice), q.map(Vec::as_slice));
        assert_eq!(Kernel::best().reconstruct(&data, p, q, &mut lost), Err(Unrecoverable));
    }
}

#[test]
#[should_panic(expected = "named as lost")]
fn a_lost_column_takes_no_part() {
    stripewise_parity::recover_data_from_p(&[0; 64], &[Some(&[0; 64])], 0, &mut [0; 64]);
}

proptest! {
    /// Any two columns of any row, some of whose columns are absent, come back.
    #[test]
    fn any_two_losses_are_recovered(
        columns in 1..=32usize, length in length(), seed in 0..1_000_000u64,
        first in any::<prop::sample::Index>(), second in any::<prop::sample::Index>(), absent_mask in any::<u32>(),
    ) {
        let row = Row::new(columns, length, seed);
        let column = |index: usize| match index.checked_sub(columns) {
            None => Column::Data(index),
            Some(0) => Column::P,
            Some(_) => Column::Q,
        };
        let mut losses = vec![column(first.index(columns + 2)), column(second.index(columns + 2))];
        losses.dedup();
        for kernel in Kernel::available() {
            lose_and_recover(kernel, &row, &|index| absent_mask >> index & 1 != 0, &losses);
        }
    }
}
