//! Bare loops of operations over several whole stripes, with all members or with one lost.

use fastrand::Rng;
use stripewise_device::memory;
use stripewise_parity as parity;

use super::{BareArray, generate};

impl BareArray {
    /// The bytes of data in a stripe.
    pub(super) fn stripe_bytes(&self) -> usize {
        self.chunk_bytes * self.data_columns
    }

    /// Writes stripes. `rng` draws the lost member's column of each, if one is lost.
    pub(super) fn write_stripes(&mut self, mut rng: Option<&mut Rng>, at: usize, data: &[u8]) {
        for (index, stripe) in data.chunks(self.stripe_bytes()).enumerate() {
            let lost = rng.as_mut().map(|rng| self.lost_column(rng));
            self.write_stripe(lost, at + index * self.chunk_bytes, stripe);
        }
    }

    /// Writes a stripe: what is there of its data, and of its parity, which is made from the data.
    pub(super) fn write_stripe(&mut self, lost: Option<usize>, at: usize, data: &[u8]) {
        let (k, len) = (self.data_columns, self.chunk_bytes);
        let new: Vec<&[u8]> = data.chunks(len).collect();
        let (old, redundant) = self.old.split_at_mut(k);
        match (redundant, lost) {
            ([_], Some(lost)) if lost == k => {}
            ([_, q], Some(lost)) if lost == k => {
                let data: Vec<_> = new.iter().map(|new| Some(*new)).collect();
                parity::q_gen(&data, &mut q[..len]);
            }
            ([p, _], Some(lost)) if lost > k => generate(std::slice::from_mut(p), old, &new, 0..k, len),
            (redundant, _) => generate(redundant, old, &new, 0..k, len),
        }
        for column in (0..self.members.len()).filter(|column| Some(*column) != lost) {
            let content = new.get(column).copied().unwrap_or(&self.old[column][..len]);
            memory::copy_uncached(content, &mut self.members[column][at..at + len]);
        }
    }

    /// Reads stripes of each of which a column is lost, drawn by `rng`.
    pub(super) fn read_stripes(&mut self, rng: &mut Rng, at: usize, into: &mut [u8]) {
        for (index, stripe) in into.chunks_mut(self.stripe_bytes()).enumerate() {
            let lost = self.lost_column(rng);
            self.read_stripe(lost, at + index * self.chunk_bytes, stripe);
        }
    }

    /// Reads a stripe: what is there of its data where it goes, and P only if data is lost, which is
    /// recovered.
    pub(super) fn read_stripe(&mut self, lost: usize, at: usize, into: &mut [u8]) {
        let (k, len) = (self.data_columns, self.chunk_bytes);
        for (column, part) in into.chunks_mut(len).enumerate().filter(|(column, _)| *column != lost) {
            memory::copy_out(&self.members[column][at..at + len], part);
        }
        if lost >= k {
            return;
        }
        self.load(k, at, len);
        let (before, rest) = into.split_at_mut(lost * len);
        let (out, behind) = rest.split_at_mut(len);
        let there = before.chunks(len).map(Some).chain([None]).chain(behind.chunks(len).map(Some));
        parity::recover_data_from_p(&self.old[k][..len], &there.collect::<Vec<_>>(), lost, out);
    }
}
