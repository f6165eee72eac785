//! The kernel for every CPU: plain integer code, shaped so that the compiler can use whatever vectors the
//! target is sure to have (SSE2 on x86-64, NEON on AArch64).
#![allow(unsafe_code)]

use crate::field::REDUCTION;
use crate::vector::Vector;

super::kernel!("portable", Words, 1, 1);

const WORDS: usize = 8;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Eight bytes to a word.
#[derive(Clone, Copy)]
struct Words([u64; WORDS]);

// SAFETY: `load` and `store` touch exactly the array; no CPU features are needed.
unsafe impl Vector for Words {
    const BYTES: usize = 8 * WORDS;
    /// Per bit of the coefficient a word of ones or zeros.
    type Factor = [u64; 8];

    #[inline(always)]
    unsafe fn zero() -> Self {
        Words([0; WORDS])
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller vouches for the bytes; the read is unaligned.
        Words(unsafe { from.cast::<[u64; WORDS]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller vouches for the bytes; the write is unaligned.
        unsafe { to.cast::<[u64; WORDS]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        Words(std::array::from_fn(|k| self.0[k] ^ other.0[k]))
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        Words(std::array::from_fn(|k| self.0[k] | other.0[k]))
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        self.0.into_iter().fold(0, |any, word| any | word) == 0
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        Words(self.0.map(double))
    }

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> Self::Factor {
        std::array::from_fn(|bit| if coefficient >> bit & 1 != 0 { !0 } else { 0 })
    }

    /// The sum of `2^bit * x` over the coefficient's bits, without a branch.
    #[inline(always)]
    unsafe fn scale(self, factor: Self::Factor) -> Self {
        let (mut product, mut x) = ([0; WORDS], self.0);
        for mask in factor {
            product = std::array::from_fn(|k| product[k] ^ (x[k] & mask));
            x = x.map(double);
        }
        Words(product)
    }
}

/// Doubles eight elements. `carries << 1` minus `carries >> 7` is 0xFF in each byte whose top bit was set
/// (the borrow chain cancels), which selects the bytes to reduce.
#[inline(always)]
fn double(word: u64) -> u64 {
    let carries = word & HIGH_BITS;
    let reduce = (carries << 1).wrapping_sub(carries >> 7);
    ((word ^ carries) << 1) ^ (reduce & u64::from_ne_bytes([REDUCTION; 8]))
}
