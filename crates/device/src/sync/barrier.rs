//! A memory barrier between two sides, one of which runs all the time and the other hardly ever.
//!
//! The busy side calls [`light`], which costs nothing. The other side calls [`heavy`], which makes the kernel
//! run a barrier on every processor that runs a thread of this process (`membarrier(2)`). What the busy side
//! does around `light` is then ordered with what the other side does around `heavy`, as if both had run a
//! full barrier. Where the system call is not available, both do.

#[cfg(not(feature = "loom"))]
pub(super) use with_kernel::{heavy, light};

#[cfg(feature = "loom")]
pub(super) use for_loom::{full as heavy, full as light};

#[cfg(not(feature = "loom"))]
mod with_kernel {
    use std::sync::{
        OnceLock,
        atomic::{Ordering::SeqCst, compiler_fence, fence},
    };

    /// `MEMBARRIER_CMD_PRIVATE_EXPEDITED`: all threads of this process, at once.
    const EXPEDITED: libc::c_int = 1 << 3;
    /// `MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED`: this process is going to use it.
    const REGISTER: libc::c_int = 1 << 4;

    static REGISTERED: OnceLock<bool> = OnceLock::new();

    fn is_registered() -> bool {
        *REGISTERED.get_or_init(|| membarrier(REGISTER))
    }

    #[allow(unsafe_code)]
    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the call takes numbers only, and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    /// The busy side's barrier.
    #[inline]
    pub(in crate::sync) fn light() {
        if is_registered() { compiler_fence(SeqCst) } else { fence(SeqCst) }
    }

    /// The other side's barrier.
    pub(in crate::sync) fn heavy() {
        fence(SeqCst);
        // It can only fail for lack of memory, and nothing may continue without it.
        while is_registered() && !membarrier(EXPEDITED) {
            std::thread::yield_now();
        }
    }
}

#[cfg(feature = "loom")]
mod for_loom {
    pub(in crate::sync) fn full() {
        loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
    }
}
