//! AVX-512 with GFNI (Intel from Ice Lake, AMD from Zen 4): multiplication by any constant is one
//! instruction, the affine transform with the constant's bit matrix.
//!
//! The affine transform and not GF2P8MULB, which multiplies modulo AES's polynomial (0x11B) and not ours.
#![allow(unsafe_code)]

use super::avx512::Avx512;
use crate::field::MATRICES;
use crate::vector::Vector;
use std::arch::x86_64::*;

super::kernel!("avx512-gfni", Gfni, 4, 4, target_feature(enable = "avx512f,avx512bw,gfni"));

#[derive(Clone, Copy)]
struct Gfni(Avx512);

// SAFETY: memory is touched by `Avx512` alone, which is one. In every method below, the caller vouches for
// AVX-512 F and BW and GFNI, and for the bytes behind a pointer.
unsafe impl Vector for Gfni {
    const BYTES: usize = Avx512::BYTES;
    /// The bit matrix in all eight lanes.
    type Factor = __m512i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see the impl.
        Gfni(unsafe { Avx512::zero() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: see the impl.
        Gfni(unsafe { Avx512::load(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: see the impl.
        unsafe { self.0.store(to) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: see the impl.
        Gfni(unsafe { self.0.xor(other.0) })
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        // SAFETY: see the impl.
        Gfni(unsafe { self.0.or(other.0) })
    }

    #[inline(always)]
    unsafe fn is_zero(self) -> bool {
        // SAFETY: see the impl.
        unsafe { self.0.is_zero() }
    }

    #[inline(always)]
    unsafe fn double(self) -> Self {
        // SAFETY: see the impl.
        unsafe { self.scale(Self::factor(2)) }
    }

    /// Two affine transforms that do not wait for each other, and one three-way XOR.
    #[inline(always)]
    unsafe fn horner_two(self, high: Self, low: Self) -> Self {
        // SAFETY: see the impl.
        unsafe { self.scale(Self::factor(4)).xor(high.scale(Self::factor(2))).xor(low) }
    }

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> Self::Factor {
        // SAFETY: see the impl.
        unsafe { _mm512_set1_epi64(MATRICES[usize::from(coefficient)] as i64) }
    }

    #[inline(always)]
    unsafe fn scale(self, factor: Self::Factor) -> Self {
        // SAFETY: see the impl.
        Gfni(Avx512(unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(self.0.0, factor) }))
    }
}
