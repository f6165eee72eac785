//! A kernel: the safe operations over one instruction set's passes, and the choice of the best for this CPU.
//!
//! This is the safety boundary of the crate: it checks lengths, and every [`Kernel`] comes from the list of
//! kernels whose CPU features were detected.
#![allow(unsafe_code)]

use crate::field::{DATA_COLUMNS_MAX, power};
use crate::kernels::DETECTED;
use crate::pass::{IsZero, MulXor, Solve, SolveTwo, Syndromes, Update, Xor};
use std::fmt;
use std::sync::OnceLock;

/// All operations, as compiled for one instruction set.
///
/// Each method does what the crate's function of the same name does, and panics where it does.
pub struct Kernel {
    pub(crate) name: &'static str,
    pub(crate) xor: unsafe fn(Xor<'_>),
    pub(crate) p: unsafe fn(Syndromes<'_, true, false>),
    pub(crate) q: unsafe fn(Syndromes<'_, false, true>),
    pub(crate) pq: unsafe fn(Syndromes<'_, true, true>),
    pub(crate) update_q: unsafe fn(Update<'_, false>),
    pub(crate) update_pq: unsafe fn(Update<'_, true>),
    pub(crate) mul_xor: unsafe fn(MulXor<'_>),
    pub(crate) solve: unsafe fn(Solve<'_>),
    pub(crate) solve_two: unsafe fn(SolveTwo<'_>),
    pub(crate) is_zero: unsafe fn(IsZero<'_>),
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kernel").field(&self.name).finish()
    }
}

// SAFETY of every call through a function pointer below: `DETECTED` hands out only kernels that this CPU can
// run, and the lengths were checked in the lines above the call.
impl Kernel {
    /// The kernels this CPU can run, best first. The last is always `portable`.
    pub fn available() -> &'static [&'static Kernel] {
        &DETECTED
    }

    /// The best kernel of this CPU.
    pub fn best() -> &'static Kernel {
        static BEST: OnceLock<&Kernel> = OnceLock::new();
        BEST.get_or_init(|| Self::available()[0])
    }

    /// The kernel of that name, if this CPU can run it.
    pub fn by_name(name: &str) -> Option<&'static Kernel> {
        Self::available().iter().copied().find(|kernel| kernel.name == name)
    }

    /// `avx512-gfni`, `avx512`, `avx2` or `portable`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// `dst ^= sources[0] ^ sources[1] ^ ...`
    pub fn xor_into(&self, dst: &mut [u8], sources: &[&[u8]]) {
        self.run_xor(dst, sources, true);
    }

    /// `dst = sources[0] ^ sources[1] ^ ...`
    pub fn xor_gen(&self, dst: &mut [u8], sources: &[&[u8]]) {
        self.run_xor(dst, sources, false);
    }

    fn run_xor(&self, dst: &mut [u8], sources: &[&[u8]], keep: bool) {
        sources.iter().for_each(|source| same_length(dst, source));
        // SAFETY: see the impl.
        unsafe { (self.xor)(Xor { dst, sources, keep }) }
    }

    /// P of a row.
    pub fn p_gen(&self, data: &[Option<&[u8]>], p: &mut [u8]) {
        check_columns(data, p);
        // SAFETY: see the impl.
        unsafe { (self.p)(Syndromes { data, p, q: &mut [], keep: false }) }
    }

    /// Q of a row.
    pub fn q_gen(&self, data: &[Option<&[u8]>], q: &mut [u8]) {
        check_columns(data, q);
        // SAFETY: see the impl.
        unsafe { (self.q)(Syndromes { data, p: &mut [], q, keep: false }) }
    }

    /// P and Q of a row.
    pub fn pq_gen(&self, data: &[Option<&[u8]>], p: &mut [u8], q: &mut [u8]) {
        self.run_pq(data, p, q, false);
    }

    /// `p ^= P(data)`, `q ^= Q(data)`
    pub fn pq_into(&self, data: &[Option<&[u8]>], p: &mut [u8], q: &mut [u8]) {
        self.run_pq(data, p, q, true);
    }

    fn run_pq(&self, data: &[Option<&[u8]>], p: &mut [u8], q: &mut [u8], keep: bool) {
        same_length(p, q);
        check_columns(data, p);
        // SAFETY: see the impl.
        unsafe { (self.pq)(Syndromes { data, p, q, keep }) }
    }

    /// `p ^= old ^ new`
    pub fn p_update(&self, p: &mut [u8], old: &[u8], new: &[u8]) {
        self.xor_into(p, &[old, new]);
    }

    /// `q ^= 2^index * (old ^ new)`
    pub fn q_update(&self, q: &mut [u8], index: usize, old: &[u8], new: &[u8]) {
        let coefficient = coefficient_of(index);
        same_length(q, old);
        same_length(q, new);
        // SAFETY: see the impl.
        unsafe { (self.update_q)(Update { p: &mut [], q, coefficient, old, new }) }
    }

    /// `p ^= old ^ new`, `q ^= 2^index * (old ^ new)`
    pub fn pq_update(&self, p: &mut [u8], q: &mut [u8], index: usize, old: &[u8], new: &[u8]) {
        let coefficient = coefficient_of(index);
        same_length(q, p);
        same_length(q, old);
        same_length(q, new);
        // SAFETY: see the impl.
        unsafe { (self.update_pq)(Update { p, q, coefficient, old, new }) }
    }

    /// `dst ^= coefficient * src`
    pub fn mul_xor_into(&self, dst: &mut [u8], coefficient: u8, src: &[u8]) {
        same_length(dst, src);
        // SAFETY: see the impl.
        unsafe { (self.mul_xor)(MulXor { dst, coefficient, src }) }
    }

    /// Whether every byte is zero.
    pub fn is_zero(&self, bytes: &[u8]) -> bool {
        let mut answer = true;
        // SAFETY: see the impl.
        unsafe { (self.is_zero)(IsZero { bytes, answer: &mut answer }) };
        answer
    }

    /// `out = coefficient * (out ^ q)`
    pub(crate) fn solve(&self, out: &mut [u8], coefficient: u8, q: &[u8]) {
        same_length(out, q);
        // SAFETY: see the impl.
        unsafe { (self.solve)(Solve { out, coefficient, q }) }
    }

    /// See [`SolveTwo`].
    pub(crate) fn solve_two(&self, pass: SolveTwo<'_>) {
        same_length(pass.a, pass.b);
        same_length(pass.a, pass.p);
        same_length(pass.a, pass.q);
        // SAFETY: see the impl.
        unsafe { (self.solve_two)(pass) }
    }
}

fn same_length(a: &[u8], b: &[u8]) {
    assert_eq!(a.len(), b.len(), "parity works on slices of one length");
}

fn check_columns(data: &[Option<&[u8]>], parity: &[u8]) {
    assert!(data.len() <= DATA_COLUMNS_MAX, "Q tells no more than {DATA_COLUMNS_MAX} columns apart");
    data.iter().flatten().for_each(|column| same_length(column, parity));
}

fn coefficient_of(index: usize) -> u8 {
    assert!(index < DATA_COLUMNS_MAX, "Q tells no more than {DATA_COLUMNS_MAX} columns apart");
    power(index)
}
