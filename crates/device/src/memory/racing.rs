//! Copies that may race with each other. In Rust's terms that would be a data race, which is undefined
//! behaviour. So the C library or machine code makes them, behind the compiler's back, as the kernel or a
//! controller would.

use std::hint::black_box;

use libc::{c_int, c_void, size_t};

#[cfg(target_arch = "x86_64")]
pub(super) use self::by_line::{copy_out, copy_uncached};
#[cfg(not(target_arch = "x86_64"))]
pub(super) use self::{copy as copy_out, copy as copy_uncached};

/// # Safety
/// Both ranges are valid, and apart.
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    type Copy = unsafe extern "C" fn(*mut c_void, *const c_void, size_t) -> *mut c_void;
    let copy: Copy = black_box(libc::memcpy);
    // SAFETY: the caller vouches for both ranges, and that they are apart.
    unsafe { copy(to.cast(), from.cast(), len) };
}

/// # Safety
/// The range is valid.
pub(super) unsafe fn zero(to: *mut u8, len: usize) {
    type Set = unsafe extern "C" fn(*mut c_void, c_int, size_t) -> *mut c_void;
    let set: Set = black_box(libc::memset);
    // SAFETY: the caller vouches for the range.
    unsafe { set(to.cast(), 0, len) };
}

/// Copies between memory that is in a cache and memory that may not be, line by line. Each loop is aligned to
/// a cache line. Otherwise chance decides whether its code fills one line or lies across two: a whole
/// stripe's copies then took a sixteenth longer.
#[cfg(target_arch = "x86_64")]
mod by_line {
    use std::{
        arch::{asm, x86_64::__cpuid},
        sync::OnceLock,
    };

    use super::copy;

    /// A line of the processor's caches.
    const LINE_BYTES: usize = 64;
    const PAGE_BYTES: usize = 4096;

    /// As [`copy`], past the caches. Memory that is not in a cache need not be read before it is overwritten
    /// then. That makes a copy to it faster by a quarter to a half, and a copy to memory that is in a cache
    /// slower by as much.
    ///
    /// # Safety
    /// As [`copy`].
    pub(in crate::memory) unsafe fn copy_uncached(from: *const u8, to: *mut u8, len: usize) {
        let done = if to.addr().is_multiple_of(LINE_BYTES) { len - len % LINE_BYTES } else { 0 };
        if done > 0 {
            // SAFETY: the lines lie in both ranges, and `to` is aligned.
            unsafe { stream(from, to, done) };
        }
        // SAFETY: what is left of both ranges.
        unsafe { copy(from.add(done), to.add(done), len - done) };
    }

    /// Stores lines past the caches. A thread that learns of the end of the copy sees them.
    ///
    /// # Safety
    /// Both ranges are valid, and apart; they are whole lines, at least one, and `to` begins with one.
    unsafe fn stream(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller vouches for both ranges.
        unsafe {
            asm!(
                ".p2align 6",
                "2:",
                "movdqu {a}, [{from} + {at}]",
                "movdqu {b}, [{from} + {at} + 16]",
                "movdqu {c}, [{from} + {at} + 32]",
                "movdqu {d}, [{from} + {at} + 48]",
                "movntdq [{to} + {at}], {a}",
                "movntdq [{to} + {at} + 16], {b}",
                "movntdq [{to} + {at} + 32], {c}",
                "movntdq [{to} + {at} + 48], {d}",
                "add {at}, {line}",
                "cmp {at}, {bytes}",
                "jne 2b",
                "sfence",
                from = in(reg) from,
                to = in(reg) to,
                bytes = in(reg) bytes,
                at = inout(reg) 0_usize => _,
                line = const LINE_BYTES,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack),
            );
        }
    }

    /// As [`copy`], from memory that may not be in a cache. A Sapphire Rapids prefetches within a page and
    /// little past its end. From memory, four pages side by side are copied a third faster than one after the
    /// other; from its caches, as fast. Registers narrower than a line would make cached copies slower by a
    /// quarter. On a Zen 4, pages side by side are slower by a fifth. So only Intel's processors with AVX-512
    /// copy this way. Copies shorter than four pages, or to an unaligned place, use [`copy`].
    ///
    /// # Safety
    /// As [`copy`].
    pub(in crate::memory) unsafe fn copy_out(from: *const u8, to: *mut u8, len: usize) {
        const BLOCK_BYTES: usize = 4 * PAGE_BYTES;
        let is_worth_it = len >= BLOCK_BYTES && to.addr().is_multiple_of(LINE_BYTES);
        let blocks = if is_worth_it && gains_side_by_side() { len / BLOCK_BYTES } else { 0 };
        for at in (0..blocks).map(|block| block * BLOCK_BYTES) {
            // SAFETY: the block lies in both ranges, `to` is aligned, and the processor has AVX-512.
            unsafe { copy_four_pages(from.add(at), to.add(at)) };
        }
        let done = blocks * BLOCK_BYTES;
        // SAFETY: what is left of both ranges.
        unsafe { copy(from.add(done), to.add(done), len - done) };
    }

    /// Whether pages side by side are faster on this processor.
    fn gains_side_by_side() -> bool {
        static GAINS: OnceLock<bool> = OnceLock::new();
        *GAINS.get_or_init(|| {
            // SAFETY: every x86-64 processor has the instruction; newer compilers ask for no such word.
            #[allow(unused_unsafe)]
            let vendor = unsafe { __cpuid(0) };
            let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat();
            name == b"GenuineIntel" && is_x86_feature_detected!("avx512f")
        })
    }

    /// Copies a line of each page, then the next of each. Registers from 16 on leave no state behind that
    /// would slow down older instructions.
    ///
    /// # Safety
    /// Both ranges are four pages, valid, and apart; `to` begins with a line.
    #[target_feature(enable = "avx512f")]
    unsafe fn copy_four_pages(from: *const u8, to: *mut u8) {
        // SAFETY: the caller vouches for four pages at either address; the loop runs over the first page, and
        // the others lie at fixed distances.
        unsafe {
            asm!(
                ".p2align 6",
                "2:",
                "vmovdqu64 zmm16, [{from} + {at}]",
                "vmovdqu64 zmm17, [{from} + {at} + {page}]",
                "vmovdqu64 zmm18, [{from} + {at} + 2 * {page}]",
                "vmovdqu64 zmm19, [{from} + {at} + 3 * {page}]",
                "vmovdqa64 [{to} + {at}], zmm16",
                "vmovdqa64 [{to} + {at} + {page}], zmm17",
                "vmovdqa64 [{to} + {at} + 2 * {page}], zmm18",
                "vmovdqa64 [{to} + {at} + 3 * {page}], zmm19",
                "add {at}, {line}",
                "cmp {at}, {page}",
                "jne 2b",
                from = in(reg) from,
                to = in(reg) to,
                at = inout(reg) 0_usize => _,
                page = const PAGE_BYTES,
                line = const LINE_BYTES,
                out("zmm16") _,
                out("zmm17") _,
                out("zmm18") _,
                out("zmm19") _,
                options(nostack),
            );
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::IoBuf;

        #[test]
        fn four_pages_side_by_side_are_copied_whole() {
            if !is_x86_feature_detected!("avx512f") {
                return;
            }
            let from: Vec<u8> =
                (0..4 * PAGE_BYTES + 1).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
            let mut to = IoBuf::zeroed(5 * PAGE_BYTES);
            // SAFETY: four pages on either side, apart; a buffer begins with a page, and the processor has
            // AVX-512.
            unsafe { copy_four_pages(from[1..].as_ptr(), to.as_mut_ptr()) };
            assert!(to[..4 * PAGE_BYTES] == from[1..]);
            assert!(to[4 * PAGE_BYTES..].iter().all(|byte| *byte == 0), "and no more");
        }
    }
}
