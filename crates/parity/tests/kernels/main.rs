//! Every kernel this CPU can run, on every length, alignment and column count, against the slow reference.

mod reconstruct;
mod reference;
mod row;

use proptest::prelude::*;
use row::{Bytes, COLUMN_COUNTS, LENGTHS, Row, length};
use stripewise_parity::{Kernel, field};

fn for_each_shape(mut check: impl FnMut(&Kernel, &Row)) {
    for columns in COLUMN_COUNTS {
        for length in LENGTHS {
            let row = Row::new(columns, length, (columns * 31 + length) as u64);
            Kernel::available().iter().for_each(|kernel| check(kernel, &row));
        }
    }
}

#[test]
fn the_best_kernel_is_the_first_and_portable_the_last() {
    assert_eq!(Kernel::best().name(), Kernel::available()[0].name());
    assert_eq!(Kernel::available().last().map(|kernel| kernel.name()), Some("portable"));
    assert_eq!(Kernel::by_name("portable").map(Kernel::name), Some("portable"));
    assert!(Kernel::by_name("abacus").is_none());
}

#[test]
fn xor_of_any_number_of_sources() {
    for_each_shape(|kernel, row| {
        let expected = reference::xor(row.length, &row.slices());
        let mut dst = Bytes::new(row.length, 77);
        let mut with_old = row.slices();
        let old = dst.get().to_vec();
        kernel.xor_gen(dst.get_mut(), &row.slices());
        assert_eq!(dst.get(), expected, "{kernel:?}");

        with_old.push(&old);
        let mut dst = Bytes::new(row.length, 77);
        kernel.xor_into(dst.get_mut(), &row.slices());
        assert_eq!(dst.get(), reference::xor(row.length, &with_old), "{kernel:?}");
    });
}

#[test]
fn no_sources_are_zero() {
    for kernel in Kernel::available() {
        let mut dst = vec![7; 100];
        kernel.xor_into(&mut dst, &[]);
        assert_eq!(dst, [7; 100]);
        kernel.xor_gen(&mut dst, &[]);
        assert_eq!(dst, [0; 100]);
    }
}

#[test]
fn p_and_q_with_and_without_absent_columns() {
    for_each_shape(|kernel, row| {
        let n = row.data.len();
        let absences: [&dyn Fn(usize) -> bool; 4] =
            [&|_| false, &|index| index % 3 == 1, &|index| index + 2 >= n, &|_| true];
        for absent in absences {
            let data = row.columns(absent);
            let (p, q) = (reference::p(row.length, &data), reference::q(row.length, &data));
            let (mut p_out, mut q_out) = (Bytes::new(row.length, 5), Bytes::new(row.length, 6));
            kernel.pq_gen(&data, p_out.get_mut(), q_out.get_mut());
            assert_eq!((p_out.get(), q_out.get()), (&p[..], &q[..]), "{kernel:?}");
            let (mut p_alone, mut q_alone) = (Bytes::new(row.length, 8), Bytes::new(row.length, 9));
            kernel.p_gen(&data, p_alone.get_mut());
            kernel.q_gen(&data, q_alone.get_mut());
            assert_eq!((p_alone.get(), q_alone.get()), (&p[..], &q[..]), "{kernel:?}");
            kernel.pq_into(&data, p_out.get_mut(), q_out.get_mut());
            assert!(kernel.is_zero(p_out.get()) && kernel.is_zero(q_out.get()), "{kernel:?}");
        }
    });
}

#[test]
fn every_product_of_the_field() {
    let all: Vec<u8> = (0..=255).collect();
    for (kernel, c) in Kernel::available().iter().flat_map(|kernel| (0..=255).map(move |c| (kernel, c))) {
        let mut products = vec![0; 256];
        kernel.mul_xor_into(&mut products, c, &all);
        let expected: Vec<u8> = all.iter().map(|x| reference::mul(c, *x)).collect();
        assert_eq!(products, expected, "{kernel:?} times {c}");
        assert!(all.iter().all(|x| field::mul(c, *x) == expected[usize::from(*x)]));
    }
}

#[test]
fn a_single_byte_that_is_not_zero_is_found_wherever_it_is() {
    for kernel in Kernel::available() {
        for length in LENGTHS {
            let mut bytes = vec![0; length + 3];
            assert!(kernel.is_zero(&bytes[3..]), "{kernel:?} {length}");
            for at in (0..length).step_by(1 + length / 97) {
                bytes[3 + at] = 0x40;
                assert!(!kernel.is_zero(&bytes[3..]), "{kernel:?} {length} {at}");
                bytes[3 + at] = 0;
            }
        }
    }
}

#[test]
#[should_panic(expected = "one length")]
fn lengths_must_agree() {
    stripewise_parity::xor_gen(&mut [0; 64], &[&[0; 64], &[0; 63]]);
}

proptest! {
    /// Updating P and Q for one column gives what computing them anew gives.
    #[test]
    fn updates_agree_with_generation(
        columns in 1..=32usize, length in length(), pick in any::<prop::sample::Index>(), seed in 0..1_000_000u64,
    ) {
        let index = pick.index(columns);
        let mut row = Row::new(columns, length, seed);
        let new = Bytes::new(length, seed + 1000);
        for kernel in Kernel::available() {
            let before = row.columns(|_| false);
            let mut p = reference::p(length, &before);
            let mut q = reference::q(length, &before);
            let (mut p_alone, mut q_alone) = (p.clone(), q.clone());
            let old = row.data[index].get().to_vec();
            kernel.pq_update(&mut p, &mut q, index, &old, new.get());
            kernel.p_update(&mut p_alone, &old, new.get());
            kernel.q_update(&mut q_alone, index, &old, new.get());
            row.data[index] = Bytes::new(length, seed + 1000);
            let after = row.columns(|_| false);
            prop_assert_eq!(&p, &reference::p(length, &after));
            prop_assert_eq!(&q, &reference::q(length, &after));
            prop_assert_eq!((p, q), (p_alone, q_alone));
            row.data[index].get_mut().copy_from_slice(&old);
        }
    }

    /// In a row with one wrong data column, the two syndromes tell which.
    #[test]
    fn a_wrong_column_is_located(columns in 2..=32usize, pick in any::<prop::sample::Index>(), error in 1..=255u8) {
        let index = pick.index(columns);
        let (dp, dq) = (error, reference::mul(reference::power(index), error));
        prop_assert_eq!(field::log(field::mul(dq, field::inverse(dp))), index);
    }
}
