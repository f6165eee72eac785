//! The kernels: one file per instruction set, each no more than its [`Vector`](crate::vector::Vector) and the
//! CPU features it needs.
//!
//! Adding one is a file here and a line in [`DETECTED`].

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512_gfni;
mod portable;

use crate::Kernel;
use std::sync::LazyLock;

/// What this CPU can run, best first. Only kernels whose features were detected ever leave this module: that
/// is the promise on which every call through a [`Kernel`] rests.
pub(crate) static DETECTED: LazyLock<Vec<&'static Kernel>> = LazyLock::new(|| {
    let mut kernels = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        let avx512 = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        if avx512 && is_x86_feature_detected!("gfni") {
            kernels.push(&avx512_gfni::KERNEL);
        }
        if avx512 {
            kernels.push(&avx512::KERNEL);
        }
        if is_x86_feature_detected!("avx2") {
            kernels.push(&avx2::KERNEL);
        }
    }
    kernels.push(&portable::KERNEL);
    kernels
});

/// Compiles one pass for one kernel: a function that enables the CPU features and inlines everything below
/// it.
macro_rules! entry {
    ($pass:ty, $vector:ty, $registers:literal $(, $features:meta)?) => {{
        $(#[$features])?
        unsafe fn entry(pass: $pass) {
            // SAFETY: the caller vouches for the CPU.
            unsafe { crate::pass::run::<$vector, $registers>(pass) }
        }
        entry
    }};
}

/// Gathers all passes for one vector type as `KERNEL`: with the number of registers to work on together where bytes are only added, and
/// where they are multiplied, too, which takes registers of its own; and with the attribute that enables the CPU features.
macro_rules! kernel {
    ($name:literal, $vector:ty, $added:literal, $multiplied:literal $(, $features:meta)?) => {
        pub(crate) static KERNEL: crate::Kernel = crate::Kernel {
            name: $name,
            xor: crate::kernels::entry!(crate::pass::Xor<'_>, $vector, $added $(, $features)?),
            p: crate::kernels::entry!(crate::pass::Syndromes<'_, true, false>, $vector, $added $(, $features)?),
            q: crate::kernels::entry!(crate::pass::Syndromes<'_, false, true>, $vector, $multiplied $(, $features)?),
            pq: crate::kernels::entry!(crate::pass::Syndromes<'_, true, true>, $vector, $multiplied $(, $features)?),
            update_q: crate::kernels::entry!(crate::pass::Update<'_, false>, $vector, $multiplied $(, $features)?),
            update_pq: crate::kernels::entry!(crate::pass::Update<'_, true>, $vector, $multiplied $(, $features)?),
            mul_xor: crate::kernels::entry!(crate::pass::MulXor<'_>, $vector, $multiplied $(, $features)?),
            solve: crate::kernels::entry!(crate::pass::Solve<'_>, $vector, $multiplied $(, $features)?),
            solve_two: crate::kernels::entry!(crate::pass::SolveTwo<'_>, $vector, $multiplied $(, $features)?),
            is_zero: crate::kernels::entry!(crate::pass::IsZero<'_>, $vector, $added $(, $features)?),
        };
    };
}

use {entry, kernel};
