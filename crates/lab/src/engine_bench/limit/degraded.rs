//! Bare loops with a member lost, for operations within one column.

use fastrand::Rng;
use stripewise_device::memory;
use stripewise_parity as parity;

use super::{BareArray, generate};

impl BareArray {
    /// The column of an operation that is on the lost member.
    pub(super) fn lost_column(&self, rng: &mut Rng) -> usize {
        if self.fixed_parity { 0 } else { rng.usize(..self.members.len()) }
    }

    /// Reads a column, or recovers it from the others and P.
    pub(super) fn read_without(&mut self, lost: usize, at: usize, column: usize, into: &mut [u8]) {
        if column != lost {
            return self.read(at, column, into);
        }
        let (k, len) = (self.data_columns, into.len());
        (0..=k).filter(|other| *other != lost).for_each(|other| self.load(other, at, len));
        let data: Vec<_> = (0..k).map(|other| (other != lost).then(|| &self.old[other][..len])).collect();
        parity::recover_data_from_p(&self.old[k][..len], &data, lost, into);
    }

    /// Writes a column. A lost one goes into its parity, using the others; another one goes into the
    /// remaining parity, using its old content.
    pub(super) fn write_without(&mut self, lost: usize, at: usize, column: usize, data: &[u8]) {
        let (k, len) = (self.data_columns, data.len());
        if column == lost {
            (0..k).filter(|other| *other != lost).for_each(|other| self.load(other, at, len));
            let (old, redundant) = self.old.split_at_mut(k);
            generate(redundant, old, &[data], lost..lost + 1, len);
        } else {
            let redundant = k..self.members.len();
            if redundant.clone().any(|parity| parity != lost) {
                self.load(column, at, len);
            }
            redundant.filter(|parity| *parity != lost).for_each(|parity| self.load(parity, at, len));
            self.update_around(lost, column, data);
            self.members[column][at..at + len].copy_from_slice(data);
        }
        // Past the caches, if the overwritten place was not read.
        let store = if column == lost {
            memory::copy_uncached
        } else {
            |from: &[u8], to: &mut [u8]| to.copy_from_slice(from)
        };
        for parity in (k..self.members.len()).filter(|parity| *parity != lost) {
            store(&self.old[parity][..len], &mut self.members[parity][at..at + len]);
        }
    }

    fn update_around(&mut self, lost: usize, column: usize, data: &[u8]) {
        let (k, len) = (self.data_columns, data.len());
        let (old, redundant) = self.old.split_at_mut(k);
        let old = &old[column][..len];
        match redundant {
            [p, q] if lost < k => parity::pq_update(&mut p[..len], &mut q[..len], column, old, data),
            [_, q] if lost == k => parity::q_update(&mut q[..len], column, old, data),
            [p, ..] if lost != k => parity::p_update(&mut p[..len], old, data),
            _ => {}
        }
    }
}
