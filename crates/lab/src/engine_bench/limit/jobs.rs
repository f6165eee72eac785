//! Bare loops beside jobs: a check and a rebuild of all stripes.

use std::time::Duration;

use stripewise_device::memory;
use stripewise_parity as parity;

use super::{BareArray, per_second};

impl BareArray {
    /// Whole arrays a second, if every stripe were like those of this part.
    pub(super) fn all_stripes_per_second(
        &mut self,
        length: Duration,
        mut one: impl FnMut(&mut Self, usize),
    ) -> f64 {
        let stripes = (self.members[0].len() / self.chunk_bytes) as u64;
        let per_s = per_second(length, |done| one(self, (done % stripes) as usize));
        per_s * self.chunk_bytes as f64 / self.job_bytes as f64
    }

    /// Reads all columns, computes the redundant ones anew, and returns whether they are the same.
    pub(super) fn check(&mut self, stripe: usize) -> bool {
        let at = stripe * self.chunk_bytes;
        (0..self.members.len()).for_each(|column| self.load(column, at, self.chunk_bytes));
        let (data, redundant) = self.old.split_at(self.data_columns);
        let data: Vec<_> = data.iter().map(|old| Some(&old[..])).collect();
        let [p, q] = &mut self.made;
        match redundant {
            [_] => parity::p_gen(&data, p),
            _ => parity::pq_gen(&data, p, q),
        }
        redundant.iter().zip(&self.made).all(|(found, made)| found[..] == made[..])
    }

    /// Computes one column, another one in each stripe, from as few others as needed.
    pub(super) fn rebuild(&mut self, stripe: usize) {
        self.recover(stripe % self.members.len(), stripe);
    }

    pub(super) fn recover(&mut self, lost: usize, stripe: usize) {
        let (at, k) = (stripe * self.chunk_bytes, self.data_columns);
        let p = k;
        (0..k).filter(|column| *column != lost).for_each(|column| self.load(column, at, self.chunk_bytes));
        if lost < k {
            self.load(p, at, self.chunk_bytes);
        }
        let column = |column: usize| (column != lost).then(|| &self.old[column][..]);
        let data: Vec<_> = (0..k).map(column).collect();
        let made = &mut self.made[0];
        match lost {
            lost if lost < k => parity::recover_data_from_p(&self.old[p], &data, lost, made),
            lost if lost == p => parity::p_gen(&data, made),
            _ => parity::q_gen(&data, made),
        }
        memory::copy_uncached(made, &mut self.members[lost][at..at + self.chunk_bytes]);
    }
}
