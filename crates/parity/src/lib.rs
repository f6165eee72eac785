//! Parity for RAID 4, 5 and 6: XOR, the field GF(2^8), P and Q, and reconstruction of lost columns.
//!
//! P is the XOR of a row's data columns; Q is the sum of `2^i * D_i` in GF(2^8) modulo `0x11D`, `i` being the
//! column's index. These are Linux md's definitions, so arrays are interchangeable with the kernel's.
//!
//! Everything here is a pure function of byte slices of one length; any length and any alignment will do.
//! Slices of different lengths are the caller's bug and panic. A data column given as `None` counts as zeros
//! and costs no memory traffic: that is how short and absent columns are expressed.
//!
//! The functions of this module run on [`Kernel::best`], chosen once for this machine. [`Kernel::available`]
//! lists all that can run here, so that tests and benchmarks can force each of them.
//!
//! Not here: which columns make a row, how they rotate over members, or when parity is updated rather than
//! computed anew. That is geometry and planning, and belongs to the engine. `docs/design/parity.md` measures
//! each kernel's speed, and why there are no non-temporal stores.

pub mod field;
mod kernel;
mod kernels;
mod pass;
mod reconstruct;
mod vector;

pub use field::DATA_COLUMNS_MAX;
pub use kernel::Kernel;
pub use reconstruct::{Column, Lost, Unrecoverable};

/// `dst ^= sources[0] ^ sources[1] ^ ...`, in one pass. No sources leave `dst` as it is.
pub fn xor_into(dst: &mut [u8], sources: &[&[u8]]) {
    Kernel::best().xor_into(dst, sources);
}

/// `dst = sources[0] ^ sources[1] ^ ...`, in one pass that never reads `dst`. No sources give zeros.
pub fn xor_gen(dst: &mut [u8], sources: &[&[u8]]) {
    Kernel::best().xor_gen(dst, sources);
}

/// P of a row: the XOR of its columns, absent ones counting as zeros.
pub fn p_gen(data: &[Option<&[u8]>], p: &mut [u8]) {
    Kernel::best().p_gen(data, p);
}

/// Q of a row alone, for when P is known to be right or its member is missing.
pub fn q_gen(data: &[Option<&[u8]>], q: &mut [u8]) {
    Kernel::best().q_gen(data, q);
}

/// P and Q of a row, reading each data column once.
pub fn pq_gen(data: &[Option<&[u8]>], p: &mut [u8], q: &mut [u8]) {
    Kernel::best().pq_gen(data, p, q);
}

/// Adds the parity of `data` to P and Q: `p ^= P(data)`, `q ^= Q(data)`.
///
/// A read-modify-write of several columns is two calls: one with their old contents, one with their new.
pub fn pq_into(data: &[Option<&[u8]>], p: &mut [u8], q: &mut [u8]) {
    Kernel::best().pq_into(data, p, q);
}

/// Read-modify-write of P for one column: `p ^= old ^ new`.
pub fn p_update(p: &mut [u8], old: &[u8], new: &[u8]) {
    Kernel::best().p_update(p, old, new);
}

/// Read-modify-write of Q for data column `index`: `q ^= 2^index * (old ^ new)`.
pub fn q_update(q: &mut [u8], index: usize, old: &[u8], new: &[u8]) {
    Kernel::best().q_update(q, index, old, new);
}

/// Read-modify-write of P and Q for data column `index`, reading old and new once.
pub fn pq_update(p: &mut [u8], q: &mut [u8], index: usize, old: &[u8], new: &[u8]) {
    Kernel::best().pq_update(p, q, index, old, new);
}

/// `dst ^= coefficient * src`, the multiplication being the field's.
pub fn mul_xor_into(dst: &mut [u8], coefficient: u8, src: &[u8]) {
    Kernel::best().mul_xor_into(dst, coefficient, src);
}

/// Data column `lost` from P and the surviving columns, into `out`. `data[lost]` must be `None`.
pub fn recover_data_from_p(p: &[u8], data: &[Option<&[u8]>], lost: usize, out: &mut [u8]) {
    Kernel::best().recover_data_from_p(p, data, lost, out);
}

/// Data column `lost` from Q and the surviving columns, into `out`. `data[lost]` must be `None`.
pub fn recover_data_from_q(q: &[u8], data: &[Option<&[u8]>], lost: usize, out: &mut [u8]) {
    Kernel::best().recover_data_from_q(q, data, lost, out);
}

/// Two data columns from P, Q and the surviving columns. `data` must be `None` at both places.
pub fn recover_two_data(
    p: &[u8],
    q: &[u8],
    data: &[Option<&[u8]>],
    lost: [usize; 2],
    out_a: &mut [u8],
    out_b: &mut [u8],
) {
    Kernel::best().recover_two_data(p, q, data, lost, out_a, out_b);
}

/// Recovers every column named in `lost` from the survivors; the one entry that picks the right method.
///
/// `p` and `q` are `None` where that parity is lost or the level has none. `data` must be `None` at every
/// data column named in `lost`; where it is `None` and not named, the column counts as zeros.
pub fn reconstruct(
    data: &[Option<&[u8]>],
    p: Option<&[u8]>,
    q: Option<&[u8]>,
    lost: &mut [Lost<'_>],
) -> Result<(), Unrecoverable> {
    Kernel::best().reconstruct(data, p, q, lost)
}

/// Whether every byte is zero. Stops early at the first block that is not.
pub fn is_zero(bytes: &[u8]) -> bool {
    Kernel::best().is_zero(bytes)
}
