//! Recovers lost columns, using the kernels' operations and no `unsafe`.
//!
//! The algebra is that of "The mathematics of RAID-6", section 4. With `Pxy`, `Qxy` the parities of the
//! survivors, `dp = P ^ Pxy` and `dq = Q ^ Qxy`, the lost columns x < y obey `Dx + Dy = dp` and `2^x Dx + 2^y
//! Dy = dq`.

use crate::field::{inverse, mul, power};
use crate::kernel::Kernel;
use crate::pass::SolveTwo;
use std::fmt;

/// A column of a row, by its role.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Column {
    /// The data column of that index.
    Data(usize),
    /// The XOR parity.
    P,
    /// The Reed-Solomon parity.
    Q,
}

/// A column to recover, and its destination.
#[derive(Debug)]
pub struct Lost<'a> {
    /// Which column.
    pub column: Column,
    /// Receives its bytes; need not be zeroed.
    pub out: &'a mut [u8],
}

/// More columns are lost than the surviving parities can make up for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unrecoverable;

impl fmt::Display for Unrecoverable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("more columns are lost than the surviving parity can recover")
    }
}

impl std::error::Error for Unrecoverable {}

impl Kernel {
    /// Data column `lost` from P and the survivors.
    pub fn recover_data_from_p(&self, p: &[u8], data: &[Option<&[u8]>], lost: usize, out: &mut [u8]) {
        assert_lost(data, lost);
        self.p_gen(data, out);
        self.xor_into(out, &[p]);
    }

    /// Data column `lost` from Q and the survivors.
    pub fn recover_data_from_q(&self, q: &[u8], data: &[Option<&[u8]>], lost: usize, out: &mut [u8]) {
        assert_lost(data, lost);
        self.q_gen(data, out);
        self.solve(out, inverse(power(lost)), q);
    }

    /// Two data columns from P, Q and the survivors.
    pub fn recover_two_data(
        &self,
        p: &[u8],
        q: &[u8],
        data: &[Option<&[u8]>],
        lost: [usize; 2],
        out_a: &mut [u8],
        out_b: &mut [u8],
    ) {
        lost.into_iter().for_each(|index| assert_lost(data, index));
        assert_ne!(lost[0], lost[1], "a column is lost but once");
        let [x, y] = lost.map(power);
        self.pq_gen(data, out_a, out_b);
        // Dx * (2^x + 2^y) = 2^y dp + dq. The divisor is not zero, since indexes below 255 have distinct
        // powers.
        let divide = inverse(x ^ y);
        let (for_p, for_q) = (mul(y, divide), divide);
        self.solve_two(SolveTwo { a: out_a, b: out_b, p, q, for_p, for_q });
    }

    /// Recovers every column named in `lost`, which may be in any order.
    pub fn reconstruct(
        &self,
        data: &[Option<&[u8]>],
        p: Option<&[u8]>,
        q: Option<&[u8]>,
        lost: &mut [Lost<'_>],
    ) -> Result<(), Unrecoverable> {
        lost.sort_unstable_by_key(|lost| lost.column);
        match lost {
            [] => Ok(()),
            [one] => self.recover_one(data, p, q, one),
            [one, other] => self.recover_two(data, p, q, one, other),
            _ => Err(Unrecoverable),
        }
    }

    fn recover_one(
        &self,
        data: &[Option<&[u8]>],
        p: Option<&[u8]>,
        q: Option<&[u8]>,
        lost: &mut Lost<'_>,
    ) -> Result<(), Unrecoverable> {
        match (lost.column, p, q) {
            (Column::Data(index), Some(p), _) => self.recover_data_from_p(p, data, index, lost.out),
            (Column::Data(index), None, Some(q)) => self.recover_data_from_q(q, data, index, lost.out),
            (Column::Data(_), None, None) => return Err(Unrecoverable),
            (Column::P, ..) => self.p_gen(data, lost.out),
            (Column::Q, ..) => self.q_gen(data, lost.out),
        }
        Ok(())
    }

    /// `one` comes before `other` in the order data, P, Q.
    fn recover_two(
        &self,
        data: &[Option<&[u8]>],
        p: Option<&[u8]>,
        q: Option<&[u8]>,
        one: &mut Lost<'_>,
        other: &mut Lost<'_>,
    ) -> Result<(), Unrecoverable> {
        match (one.column, other.column) {
            (Column::Data(a), Column::Data(b)) => {
                let (Some(p), Some(q)) = (p, q) else { return Err(Unrecoverable) };
                self.recover_two_data(p, q, data, [a, b], one.out, other.out);
            }
            (Column::Data(index), Column::P) => {
                self.recover_data_from_q(q.ok_or(Unrecoverable)?, data, index, one.out);
                self.p_gen(data, other.out);
                self.xor_into(other.out, &[one.out]);
            }
            (Column::Data(index), Column::Q) => {
                self.recover_data_from_p(p.ok_or(Unrecoverable)?, data, index, one.out);
                self.q_gen(data, other.out);
                self.mul_xor_into(other.out, power(index), one.out);
            }
            (Column::P, Column::Q) => self.pq_gen(data, one.out, other.out),
            pair => unreachable!("sorted, and a column is lost but once: {pair:?}"),
        }
        Ok(())
    }
}

/// A lost column must not take part in the survivors' parity.
fn assert_lost(data: &[Option<&[u8]>], index: usize) {
    assert!(data[index].is_none(), "data column {index} is named as lost, but its bytes are given");
}
