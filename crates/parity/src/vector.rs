//! What a kernel must be able to do with one register: the few operations from which every pass is written
//! once.
//!
//! Methods are `inline(always)` in every implementation, because only when inlined into a function that
//! enables the CPU features do they compile to the wide instructions.
#![allow(unsafe_code)]

/// Bytes of the widest vector.
pub(crate) const BYTES_MAX: usize = 64;

/// A register full of field elements.
///
/// # Safety
/// `BYTES` must be the exact number of bytes that `load` reads and `store` writes, and at most [`BYTES_MAX`].
/// Every method may only be called on a CPU that has the features of the implementing kernel.
pub(crate) unsafe trait Vector: Copy {
    /// Bytes of one register.
    const BYTES: usize;
    /// A coefficient, prepared for [`Vector::scale`].
    type Factor: Copy;

    /// All zeros.
    unsafe fn zero() -> Self;
    /// Reads `BYTES` bytes at any alignment.
    unsafe fn load(from: *const u8) -> Self;
    /// Writes `BYTES` bytes at any alignment.
    unsafe fn store(self, to: *mut u8);
    /// The field's addition.
    unsafe fn xor(self, other: Self) -> Self;
    /// Bitwise or, to gather nonzero bits.
    unsafe fn or(self, other: Self) -> Self;
    /// Whether all bytes are zero.
    unsafe fn is_zero(self) -> bool;
    /// Each byte times the generator.
    unsafe fn double(self) -> Self;
    /// Two steps of Horner's rule at once: `4 * self + 2 * high + low`.
    #[inline(always)]
    unsafe fn horner_two(self, high: Self, low: Self) -> Self {
        // SAFETY: the caller vouches for the CPU.
        unsafe { self.double().xor(high).double().xor(low) }
    }
    /// Prepares a coefficient.
    unsafe fn factor(coefficient: u8) -> Self::Factor;
    /// Each byte times a coefficient.
    unsafe fn scale(self, factor: Self::Factor) -> Self;
}

/// `N` registers that are worked on together, to hide each other's latency.
#[derive(Clone, Copy)]
pub(crate) struct Group<V, const N: usize>([V; N]);

impl<V: Vector, const N: usize> Group<V, N> {
    /// # Safety
    /// As for [`Vector`].
    #[inline(always)]
    pub(crate) unsafe fn zero() -> Self {
        // SAFETY: the caller vouches for the CPU.
        Group(unsafe { [V::zero(); N] })
    }

    /// Reads the group at byte `at`. With `PARTIAL`, `N` is 1 and the slice may end inside the register,
    /// whose missing bytes are zeros; else the whole group must lie within the slice.
    ///
    /// # Safety
    /// As for [`Vector`], and the bounds above.
    #[inline(always)]
    pub(crate) unsafe fn read<const PARTIAL: bool>(from: &[u8], at: usize) -> Self {
        if PARTIAL {
            let mut padded = [0; BYTES_MAX];
            padded[..from.len() - at].copy_from_slice(&from[at..]);
            // SAFETY: `padded` holds at least one register.
            return Group(unsafe { [V::load(padded.as_ptr()); N] });
        }
        debug_assert!(at + N * V::BYTES <= from.len());
        // SAFETY: the caller vouches for the CPU, and that N registers from `at` lie within the slice.
        unsafe {
            let mut group = Self::zero();
            for (k, register) in group.0.iter_mut().enumerate() {
                *register = V::load(from.as_ptr().add(at + k * V::BYTES));
            }
            group
        }
    }

    /// Writes the group at byte `at`, under the same conditions as [`Group::read`].
    ///
    /// # Safety
    /// As for [`Group::read`].
    #[inline(always)]
    pub(crate) unsafe fn write<const PARTIAL: bool>(self, to: &mut [u8], at: usize) {
        if PARTIAL {
            let mut padded = [0; BYTES_MAX];
            // SAFETY: `padded` holds at least one register.
            unsafe { self.0[0].store(padded.as_mut_ptr()) };
            let rest = to.len() - at;
            return to[at..].copy_from_slice(&padded[..rest]);
        }
        debug_assert!(at + N * V::BYTES <= to.len());
        for (k, register) in self.0.into_iter().enumerate() {
            // SAFETY: the caller vouches for the CPU, and that N registers from `at` lie within the slice.
            unsafe { register.store(to.as_mut_ptr().add(at + k * V::BYTES)) };
        }
    }

    /// # Safety
    /// As for [`Vector`].
    #[inline(always)]
    pub(crate) unsafe fn xor(mut self, other: Self) -> Self {
        for k in 0..N {
            // SAFETY: the caller vouches for the CPU.
            self.0[k] = unsafe { self.0[k].xor(other.0[k]) };
        }
        self
    }

    /// # Safety
    /// As for [`Vector`].
    #[inline(always)]
    pub(crate) unsafe fn double(mut self) -> Self {
        for k in 0..N {
            // SAFETY: the caller vouches for the CPU.
            self.0[k] = unsafe { self.0[k].double() };
        }
        self
    }

    /// # Safety
    /// As for [`Vector`].
    #[inline(always)]
    pub(crate) unsafe fn horner_two(mut self, high: Self, low: Self) -> Self {
        for k in 0..N {
            // SAFETY: the caller vouches for the CPU.
            self.0[k] = unsafe { self.0[k].horner_two(high.0[k], low.0[k]) };
        }
        self
    }

    /// # Safety
    /// As for [`Vector`].
    #[inline(always)]
    pub(crate) unsafe fn scale(mut self, factor: V::Factor) -> Self {
        for k in 0..N {
            // SAFETY: the caller vouches for the CPU.
            self.0[k] = unsafe { self.0[k].scale(factor) };
        }
        self
    }

    /// # Safety
    /// As for [`Vector`].
    #[inline(always)]
    pub(crate) unsafe fn is_zero(self) -> bool {
        let mut any = self.0[0];
        for k in 1..N {
            // SAFETY: the caller vouches for the CPU.
            any = unsafe { any.or(self.0[k]) };
        }
        // SAFETY: as above.
        unsafe { any.is_zero() }
    }
}
