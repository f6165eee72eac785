//! The experiment on non-temporal stores: our AVX-512 + GFNI loops once more, with streaming stores for the
//! parity. Kept here and not in the crate because of what it showed.

use crate::row::Row;
use std::arch::x86_64::*;

const DOUBLE: i64 = i64::from_le_bytes(rows_of_doubling());

/// The bit matrix of multiplying by 2 modulo 0x11D; the row of output bit `i` is byte `7 - i`.
const fn rows_of_doubling() -> [u8; 8] {
    let mut rows = [0; 8];
    let mut out = 0;
    while out < 8 {
        let from_below = if out > 0 { 1 << (out - 1) } else { 0 };
        let from_carry = if 0x1D >> out & 1 != 0 { 0x80 } else { 0 };
        rows[7 - out] = from_below | from_carry;
        out += 1;
    }
    rows
}

pub fn supported() -> bool {
    is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("gfni")
}

pub fn xor(row: &mut Row) {
    let (data, p, _) = row.parts::<4>();
    // SAFETY: the CPU was asked; columns are 64-byte aligned, of one length that is a multiple of 256.
    unsafe { run::<false>(&data, p, &mut []) }
}

pub fn pq(row: &mut Row) {
    let (data, p, q) = row.parts::<8>();
    // SAFETY: as above.
    unsafe { run::<true>(&data, p, q) }
}

#[target_feature(enable = "avx512f,avx512bw,gfni")]
unsafe fn run<const Q: bool>(data: &[Option<&[u8]>], p: &mut [u8], q: &mut [u8]) {
    let double = _mm512_set1_epi64(DOUBLE);
    // SAFETY: the caller vouches for lengths and alignment.
    unsafe {
        for at in (0..p.len()).step_by(256) {
            let mut sum_p = [_mm512_setzero_si512(); 4];
            let mut sum_q = sum_p;
            for column in data.iter().rev().flatten() {
                for k in 0..4 {
                    let d = _mm512_load_si512(column.as_ptr().add(at + 64 * k).cast());
                    sum_p[k] = _mm512_xor_si512(sum_p[k], d);
                    if Q {
                        sum_q[k] = _mm512_xor_si512(_mm512_gf2p8affine_epi64_epi8::<0>(sum_q[k], double), d);
                    }
                }
            }
            for k in 0..4 {
                _mm512_stream_si512(p.as_mut_ptr().add(at + 64 * k).cast(), sum_p[k]);
                if Q {
                    _mm512_stream_si512(q.as_mut_ptr().add(at + 64 * k).cast(), sum_q[k]);
                }
            }
        }
        _mm_sfence();
    }
}
