//! The passes: each walks its slices once, a group of registers at a time, whatever the kernel's registers
//! are.
//!
//! A pass says what happens to the bytes at one offset; [`run`] does the walking and the ragged end. The
//! constructor of each pass (`Kernel`'s methods) checks that its slices have equal lengths, which makes the
//! unchecked group access sound.
#![allow(unsafe_code)]

use crate::vector::{Group, Vector};

/// What to do at one offset.
///
/// # Safety
/// `length` must be the length of every slice that `block` touches.
pub(crate) unsafe trait Pass {
    /// Bytes to walk.
    fn length(&self) -> usize;

    /// Handles the group at byte `at`; false ends the walk.
    ///
    /// # Safety
    /// The CPU has the features of `V`. The group lies within `length`, or `PARTIAL` holds, `N` is 1 and at
    /// least one byte is left.
    unsafe fn block<V: Vector, const N: usize, const PARTIAL: bool>(&mut self, at: usize) -> bool;
}

/// Walks a pass from start to end: groups of `N` registers, single registers, then the remaining bytes.
///
/// # Safety
/// The CPU has the features of `V`.
#[inline(always)]
pub(crate) unsafe fn run<V: Vector, const N: usize>(mut pass: impl Pass) {
    let length = pass.length();
    let mut at = 0;
    // SAFETY (all three): the caller vouches for the CPU; the conditions keep the group within `length`.
    while length - at >= N * V::BYTES {
        // SAFETY: as above.
        if !unsafe { pass.block::<V, N, false>(at) } {
            return;
        }
        at += N * V::BYTES;
    }
    while length - at >= V::BYTES {
        // SAFETY: as above.
        if !unsafe { pass.block::<V, 1, false>(at) } {
            return;
        }
        at += V::BYTES;
    }
    if at < length {
        // SAFETY: as above; at least one byte is left.
        unsafe { pass.block::<V, 1, true>(at) };
    }
}

/// `dst = [dst ^] sources[0] ^ sources[1] ^ ...`
pub(crate) struct Xor<'a> {
    pub(crate) dst: &'a mut [u8],
    pub(crate) sources: &'a [&'a [u8]],
    /// Whether what `dst` holds takes part.
    pub(crate) keep: bool,
}

// SAFETY: `Kernel` checked that all slices have one length.
unsafe impl Pass for Xor<'_> {
    #[inline(always)]
    fn length(&self) -> usize {
        self.dst.len()
    }

    #[inline(always)]
    unsafe fn block<V: Vector, const N: usize, const PARTIAL: bool>(&mut self, at: usize) -> bool {
        // SAFETY: the caller's conditions are those of `Group`.
        unsafe {
            let mut sum = Group::<V, N>::zero();
            if self.keep {
                sum = Group::read::<PARTIAL>(self.dst, at);
            }
            for source in self.sources {
                sum = sum.xor(Group::read::<PARTIAL>(source, at));
            }
            sum.write::<PARTIAL>(self.dst, at);
        }
        true
    }
}

/// `p = [p ^] sum(D_i)`, `q = [q ^] sum(2^i * D_i)`; either may be left out by its flag.
pub(crate) struct Syndromes<'a, const P: bool, const Q: bool> {
    pub(crate) data: &'a [Option<&'a [u8]>],
    pub(crate) p: &'a mut [u8],
    pub(crate) q: &'a mut [u8],
    /// Whether what `p` and `q` hold takes part.
    pub(crate) keep: bool,
}

// SAFETY: `Kernel` checked that all slices in use have one length.
unsafe impl<const P: bool, const Q: bool> Pass for Syndromes<'_, P, Q> {
    #[inline(always)]
    fn length(&self) -> usize {
        if P { self.p.len() } else { self.q.len() }
    }

    /// Q by Horner's rule from the last column down, so that a column costs a doubling instead of a general
    /// multiplication; two columns at a time, which lets wide kernels merge operations.
    #[inline(always)]
    unsafe fn block<V: Vector, const N: usize, const PARTIAL: bool>(&mut self, at: usize) -> bool {
        let (first, pairs) = self.data.as_rchunks();
        // SAFETY: the caller's conditions are those of `Group`.
        unsafe {
            let mut sums = Sums::<V, N, P, Q> { p: Group::zero(), q: Group::zero() };
            for [low, high] in pairs.iter().rev() {
                match (low, high) {
                    (Some(low), Some(high)) => {
                        sums.add_two(Group::read::<PARTIAL>(high, at), Group::read::<PARTIAL>(low, at));
                    }
                    _ => {
                        sums.add::<PARTIAL>(*high, at);
                        sums.add::<PARTIAL>(*low, at);
                    }
                }
            }
            for column in first {
                sums.add::<PARTIAL>(*column, at);
            }
            if P {
                sums.p.settle::<PARTIAL>(self.p, at, self.keep);
            }
            if Q {
                sums.q.settle::<PARTIAL>(self.q, at, self.keep);
            }
        }
        true
    }
}

/// P and Q of the columns seen so far, from the last down.
struct Sums<V, const N: usize, const P: bool, const Q: bool> {
    p: Group<V, N>,
    q: Group<V, N>,
}

impl<V: Vector, const N: usize, const P: bool, const Q: bool> Sums<V, N, P, Q> {
    /// # Safety
    /// As for [`Group::read`].
    #[inline(always)]
    unsafe fn add<const PARTIAL: bool>(&mut self, column: Option<&[u8]>, at: usize) {
        // SAFETY: the caller's conditions are those of `Group`.
        unsafe {
            if Q {
                self.q = self.q.double();
            }
            let Some(column) = column else { return };
            let d = Group::read::<PARTIAL>(column, at);
            if P {
                self.p = self.p.xor(d);
            }
            if Q {
                self.q = self.q.xor(d);
            }
        }
    }

    /// # Safety
    /// As for [`Vector`].
    #[inline(always)]
    unsafe fn add_two(&mut self, high: Group<V, N>, low: Group<V, N>) {
        // SAFETY: the caller vouches for the CPU.
        unsafe {
            if P {
                self.p = self.p.xor(high).xor(low);
            }
            if Q {
                self.q = self.q.horner_two(high, low);
            }
        }
    }
}

impl<V: Vector, const N: usize> Group<V, N> {
    /// Stores a parity, added to the old bytes if `keep` is set.
    ///
    /// # Safety
    /// As for [`Group::read`].
    #[inline(always)]
    unsafe fn settle<const PARTIAL: bool>(self, to: &mut [u8], at: usize, keep: bool) {
        // SAFETY: the caller's conditions are those of `Group`.
        unsafe {
            let sum = if keep { self.xor(Group::read::<PARTIAL>(to, at)) } else { self };
            sum.write::<PARTIAL>(to, at);
        }
    }
}

/// With `d = old ^ new`: `p ^= d` (where `P`), `q ^= coefficient * d`.
pub(crate) struct Update<'a, const P: bool> {
    pub(crate) p: &'a mut [u8],
    pub(crate) q: &'a mut [u8],
    pub(crate) coefficient: u8,
    pub(crate) old: &'a [u8],
    pub(crate) new: &'a [u8],
}

// SAFETY: `Kernel` checked that all slices in use have one length.
unsafe impl<const P: bool> Pass for Update<'_, P> {
    #[inline(always)]
    fn length(&self) -> usize {
        self.q.len()
    }

    #[inline(always)]
    unsafe fn block<V: Vector, const N: usize, const PARTIAL: bool>(&mut self, at: usize) -> bool {
        // SAFETY: the caller's conditions are those of `Group`.
        unsafe {
            let old = Group::<V, N>::read::<PARTIAL>(self.old, at);
            let d = old.xor(Group::read::<PARTIAL>(self.new, at));
            if P {
                d.settle::<PARTIAL>(self.p, at, true);
            }
            d.scale(V::factor(self.coefficient)).settle::<PARTIAL>(self.q, at, true);
        }
        true
    }
}

/// `dst ^= coefficient * src`
pub(crate) struct MulXor<'a> {
    pub(crate) dst: &'a mut [u8],
    pub(crate) coefficient: u8,
    pub(crate) src: &'a [u8],
}

// SAFETY: `Kernel` checked that both slices have one length.
unsafe impl Pass for MulXor<'_> {
    #[inline(always)]
    fn length(&self) -> usize {
        self.dst.len()
    }

    #[inline(always)]
    unsafe fn block<V: Vector, const N: usize, const PARTIAL: bool>(&mut self, at: usize) -> bool {
        // SAFETY: the caller's conditions are those of `Group`.
        unsafe {
            let product = Group::<V, N>::read::<PARTIAL>(self.src, at).scale(V::factor(self.coefficient));
            product.settle::<PARTIAL>(self.dst, at, true);
        }
        true
    }
}

/// The last step of recovering one column from Q: `out = coefficient * (out ^ q)`.
pub(crate) struct Solve<'a> {
    pub(crate) out: &'a mut [u8],
    pub(crate) coefficient: u8,
    pub(crate) q: &'a [u8],
}

// SAFETY: `Kernel` checked that both slices have one length.
unsafe impl Pass for Solve<'_> {
    #[inline(always)]
    fn length(&self) -> usize {
        self.out.len()
    }

    #[inline(always)]
    unsafe fn block<V: Vector, const N: usize, const PARTIAL: bool>(&mut self, at: usize) -> bool {
        // SAFETY: the caller's conditions are those of `Group`.
        unsafe {
            let dq = Group::<V, N>::read::<PARTIAL>(self.out, at).xor(Group::read::<PARTIAL>(self.q, at));
            dq.scale(V::factor(self.coefficient)).write::<PARTIAL>(self.out, at);
        }
        true
    }
}

/// The last step of recovering two columns. In, `a` and `b` hold P and Q of the survivors; with `dp = a ^ p`
/// and `dq = b ^ q`, out come `a = for_p * dp ^ for_q * dq` and `b = a ^ dp`.
pub(crate) struct SolveTwo<'a> {
    pub(crate) a: &'a mut [u8],
    pub(crate) b: &'a mut [u8],
    pub(crate) p: &'a [u8],
    pub(crate) q: &'a [u8],
    pub(crate) for_p: u8,
    pub(crate) for_q: u8,
}

// SAFETY: `Kernel` checked that all slices have one length.
unsafe impl Pass for SolveTwo<'_> {
    #[inline(always)]
    fn length(&self) -> usize {
        self.a.len()
    }

    #[inline(always)]
    unsafe fn block<V: Vector, const N: usize, const PARTIAL: bool>(&mut self, at: usize) -> bool {
        // SAFETY: the caller's conditions are those of `Group`.
        unsafe {
            let dp = Group::<V, N>::read::<PARTIAL>(self.a, at).xor(Group::read::<PARTIAL>(self.p, at));
            let dq = Group::<V, N>::read::<PARTIAL>(self.b, at).xor(Group::read::<PARTIAL>(self.q, at));
            let a = dp.scale(V::factor(self.for_p)).xor(dq.scale(V::factor(self.for_q)));
            a.write::<PARTIAL>(self.a, at);
            a.xor(dp).write::<PARTIAL>(self.b, at);
        }
        true
    }
}

/// Whether all bytes are zero; stops at the first group that is not.
pub(crate) struct IsZero<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) answer: &'a mut bool,
}

// SAFETY: there is but one slice.
unsafe impl Pass for IsZero<'_> {
    #[inline(always)]
    fn length(&self) -> usize {
        self.bytes.len()
    }

    #[inline(always)]
    unsafe fn block<V: Vector, const N: usize, const PARTIAL: bool>(&mut self, at: usize) -> bool {
        // SAFETY: the caller's conditions are those of `Group`.
        *self.answer = unsafe { Group::<V, N>::read::<PARTIAL>(self.bytes, at).is_zero() };
        *self.answer
    }
}
