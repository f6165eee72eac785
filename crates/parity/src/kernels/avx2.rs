//! AVX2: 32-byte registers; multiplication by two 16-entry shuffles per register, one for each nibble.
#![allow(unsafe_code)]

use crate::field::{NIBBLES, REDUCTION};
use crate::vector::Vector;
use std::arch::x86_64::*;

super::kernel!("avx2", Avx2, 4, 2, target_feature(enable = "avx2"));

#[derive(Clone, Copy)]
struct Avx2(__m256i);

// SAFETY: loads and stores touch exactly 32 bytes. In every method below, the caller vouches for AVX2, and
// for the bytes behind a pointer.
unsafe impl Vector for Avx2 {
    const BYTES: usize = 32;
    /// Products with the low and with the high nibbles, each in both halves of the register.
    type Factor = [__m256i; 2];

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see the impl.
        Avx2(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: see the impl; the load is unaligned.
        Avx2(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: see the impl; the store is unaligned.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: see the impl.
        Avx2(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: see the impl.
        Avx2(unsafe { _mm256_or_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: see the impl.
        unsafe { _mm256_testz_si256(self.0, self.0) != 0 }
    }

    /// A byte is negative exactly if its top bit is carried out.
    #[inline(always)]
    unsafe fn double(self) -> Self {
        // SAFETY: see the impl.
        unsafe {
            let carries = _mm256_cmpgt_epi8(_mm256_setzero_si256(), self.0);
            let reduce = _mm256_and_si256(carries, _mm256_set1_epi8(REDUCTION as i8));
            Avx2(_mm256_xor_si256(_mm256_add_epi8(self.0, self.0), reduce))
        }
    }

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> Self::Factor {
        let [low, high] = &NIBBLES[usize::from(coefficient)];
        // SAFETY: see the impl; both tables have 16 bytes.
        unsafe {
            [
                _mm256_broadcastsi128_si256(_mm_loadu_si128(low.as_ptr().cast())),
                _mm256_broadcastsi128_si256(_mm_loadu_si128(high.as_ptr().cast())),
            ]
        }
    }

    #[inline(always)]
    unsafe fn scale(self, [low, high]: Self::Factor) -> Self {
        // SAFETY: see the impl.
        unsafe {
            let nibble = _mm256_set1_epi8(0x0F);
            let from_low = _mm256_shuffle_epi8(low, _mm256_and_si256(self.0, nibble));
            let from_high =
                _mm256_shuffle_epi8(high, _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), nibble));
            Avx2(_mm256_xor_si256(from_low, from_high))
        }
    }
}
