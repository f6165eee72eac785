//! AVX-512 without GFNI (Intel's Skylake-SP and Cascade Lake): as AVX2, in 64-byte registers.
#![allow(unsafe_code)]

use crate::field::{NIBBLES, REDUCTION};
use crate::vector::Vector;
use std::arch::x86_64::*;

super::kernel!("avx512", Avx512, 4, 4, target_feature(enable = "avx512f,avx512bw"));

#[derive(Clone, Copy)]
pub(super) struct Avx512(pub(super) __m512i);

// SAFETY: loads and stores touch exactly 64 bytes. In every method below, the caller vouches for AVX-512 F
// and BW, and for the bytes behind a pointer.
unsafe impl Vector for Avx512 {
    const BYTES: usize = 64;
    /// Products with the low and with the high nibbles, each in all four lanes of the register.
    type Factor = [__m512i; 2];

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see the impl.
        Avx512(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: see the impl; the load is unaligned.
        Avx512(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: see the impl; the store is unaligned.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: see the impl.
        Avx512(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: see the impl.
        Avx512(unsafe { _mm512_or_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: see the impl.
        unsafe { _mm512_test_epi64_mask(self.0, self.0) == 0 }
    }

    /// A byte is negative exactly if its top bit is carried out.
    #[inline(always)]
    unsafe fn double(self) -> Self {
        // SAFETY: see the impl.
        unsafe {
            let carries = _mm512_movepi8_mask(self.0);
            let reduce = _mm512_maskz_set1_epi8(carries, REDUCTION as i8);
            Avx512(_mm512_xor_si512(_mm512_add_epi8(self.0, self.0), reduce))
        }
    }

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> Self::Factor {
        let [low, high] = &NIBBLES[usize::from(coefficient)];
        // SAFETY: see the impl; both tables have 16 bytes.
        unsafe {
            [
                _mm512_broadcast_i32x4(_mm_loadu_si128(low.as_ptr().cast())),
                _mm512_broadcast_i32x4(_mm_loadu_si128(high.as_ptr().cast())),
            ]
        }
    }

    #[inline(always)]
    unsafe fn scale(self, [low, high]: Self::Factor) -> Self {
        // SAFETY: see the impl.
        unsafe {
            let nibble = _mm512_set1_epi8(0x0F);
            let from_low = _mm512_shuffle_epi8(low, _mm512_and_si512(self.0, nibble));
            let from_high =
                _mm512_shuffle_epi8(high, _mm512_and_si512(_mm512_srli_epi64::<4>(self.0), nibble));
            Avx512(_mm512_xor_si512(from_low, from_high))
        }
    }
}
