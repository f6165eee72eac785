//! The slabs that pooled buffers come from. Slabs stay in place as long as the process runs, so rings
//! register them with the kernel once; the kernel then need not look up and pin the pages of every request.
//!
//! A slab is cut into buffers of one size. Buffers of other sizes, and all buffers once the slabs are used
//! up, come from the heap: they are as good, but not registered.

#![allow(unsafe_code)]

use std::{
    ptr::NonNull,
    sync::{LazyLock, Mutex, PoisonError},
};

use memmap2::{Advice, MmapOptions, MmapRaw};

/// Bytes of a slab, and the largest buffer that comes from one.
pub(crate) const SLAB_BYTES: usize = 2 << 20;
/// Buffers of at least this size are large: a slab holds only one or two of them.
const LARGE_BYTES: usize = SLAB_BYTES / 2;
/// At most this many slabs are cut into large buffers: else a few clients with large requests would leave
/// none for small ones.
const LARGE_SLABS_MAX: usize = SLABS_MAX / 2;
/// Slabs of the process: 512 MiB of address space, of which only the used part takes memory.
pub(crate) const SLABS_MAX: usize = 256;

/// None if there is not that much address space.
static ARENA: LazyLock<Option<Arena>> = LazyLock::new(Arena::reserve);

struct Arena {
    map: MmapRaw,
    /// Bytes before the first slab.
    skipped: usize,
    free: Mutex<Free>,
}

/// Free buffers, as offsets from the first slab.
#[derive(Default)]
struct Free {
    /// By size: the index is the base-2 logarithm of the bytes.
    buffers: [Vec<usize>; SLAB_BYTES.ilog2() as usize + 1],
    slabs_cut: usize,
    /// Those of them cut into large buffers.
    large_cut: usize,
}

impl Arena {
    fn reserve() -> Option<Self> {
        let len = (SLABS_MAX + 1) * SLAB_BYTES;
        let map: MmapRaw = MmapOptions::new().len(len).no_reserve_swap().map_anon().ok()?.into();
        // Only speed depends on it; some systems have no large pages.
        let _ = map.advise(Advice::HugePage);
        let start = map.as_mut_ptr().addr();
        Some(Self { skipped: start.next_multiple_of(SLAB_BYTES) - start, map, free: Mutex::default() })
    }

    /// Where the first slab begins.
    fn start(&self) -> *mut u8 {
        self.map.as_mut_ptr().wrapping_add(self.skipped)
    }

    /// A buffer's offset, if it lies in the arena.
    fn offset_of(&self, buffer: *const u8) -> Option<usize> {
        let offset = buffer.addr().checked_sub(self.start().addr())?;
        (offset < SLABS_MAX * SLAB_BYTES).then_some(offset)
    }

    fn take(&self, bytes: usize) -> Option<NonNull<u8>> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = free.take(bytes)?;
        NonNull::new(self.start().wrapping_add(offset))
    }
}

impl Free {
    fn take(&mut self, bytes: usize) -> Option<usize> {
        let is_large = bytes >= LARGE_BYTES;
        let buffers = &mut self.buffers[bytes.ilog2() as usize];
        let may_cut = self.slabs_cut < SLABS_MAX && !(is_large && self.large_cut == LARGE_SLABS_MAX);
        if buffers.is_empty() && may_cut {
            let slab = self.slabs_cut * SLAB_BYTES;
            self.slabs_cut += 1;
            self.large_cut += usize::from(is_large);
            buffers.extend((slab..slab + SLAB_BYTES).step_by(bytes).rev());
        }
        buffers.pop()
    }
}

/// A buffer of this many bytes, a power of two, aligned to its size, with arbitrary content; None if no slab
/// has one.
pub(crate) fn take(bytes: usize) -> Option<NonNull<u8>> {
    debug_assert!(bytes.is_power_of_two());
    if bytes > SLAB_BYTES {
        return None;
    }
    ARENA.as_ref()?.take(bytes)
}

/// Takes back a buffer that [`take`] gave out; false if it came from elsewhere.
pub(crate) fn give_back(buffer: NonNull<u8>, bytes: usize) -> bool {
    let Some(arena) = ARENA.as_ref() else { return false };
    let Some(offset) = arena.offset_of(buffer.as_ptr()) else { return false };
    let mut free = arena.free.lock().unwrap_or_else(PoisonError::into_inner);
    free.buffers[bytes.ilog2() as usize].push(offset);
    true
}

/// The slab that a range lies in, if it lies in the arena.
pub(crate) fn slab_of(start: *const u8) -> Option<usize> {
    Some(ARENA.as_ref()?.offset_of(start)? / SLAB_BYTES)
}

/// A slab's memory, which is never returned to the system.
pub(crate) fn slab(index: usize) -> Option<*mut u8> {
    Some(ARENA.as_ref()?.start().wrapping_add(index * SLAB_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_apart_aligned_and_used_again() {
        let sizes = [4096, 4096, 65_536, 4096, SLAB_BYTES];
        let taken: Vec<_> = sizes.map(|bytes| (take(bytes).unwrap(), bytes)).to_vec();
        for (at, (buffer, bytes)) in taken.iter().enumerate() {
            let start = buffer.as_ptr().addr();
            assert_eq!(start % bytes, 0);
            let slab_start = slab(slab_of(buffer.as_ptr()).unwrap()).unwrap().addr();
            assert!(slab_start <= start && start + bytes <= slab_start + SLAB_BYTES);
            for (other, other_bytes) in &taken[..at] {
                let other = other.as_ptr().addr();
                assert!(other + other_bytes <= start || start + bytes <= other);
            }
        }
        for (buffer, bytes) in &taken {
            assert!(give_back(*buffer, *bytes));
        }
        // Other tests take and give back, too.
        let again: Vec<_> = (0..SLAB_BYTES / 4096).map(|_| take(4096).unwrap()).collect();
        assert!(again.contains(&taken[0].0));
        again.into_iter().for_each(|buffer| assert!(give_back(buffer, 4096)));
    }

    #[test]
    fn what_is_not_of_here_is_told_apart() {
        assert!(take(2 * SLAB_BYTES).is_none());
        let own = Box::new(0_u8);
        assert!(slab_of(&raw const *own).is_none() && !give_back(NonNull::from(&*own), 1));
    }

    #[test]
    fn without_slabs_there_are_no_buffers_and_large_ones_leave_some_for_small_ones() {
        let mut free = Free::default();
        let mut most = |bytes: usize| (0..SLABS_MAX + 1).filter_map(|_| free.take(bytes)).count();
        assert_eq!(most(SLAB_BYTES), LARGE_SLABS_MAX);
        assert_eq!(most(LARGE_BYTES), 0);
        assert_eq!(most(SLAB_BYTES / 4), SLABS_MAX + 1);
        while free.take(4096).is_some() {}
        assert_eq!((free.slabs_cut, free.take(65536)), (SLABS_MAX, None));
    }
}
