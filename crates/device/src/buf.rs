//! Owned, aligned, pooled buffers.
//!
//! An [`IoBuf`] is the only access to a range of an allocation, so it is writable. It can be split into
//! disjoint parts (a read that scatters over members) and frozen into a [`SharedBuf`], which is read-only and
//! cheap to clone (a write that goes to several members). Both keep the allocation alive, so an I/O in flight
//! never outlives its memory, whatever its caller drops. Freed allocations go to a per-thread pool. Memory
//! comes from slabs that rings register (`arena.rs`), or from the heap.

#![allow(unsafe_code)]

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    cell::RefCell,
    fmt,
    ops::{Deref, DerefMut, Range},
    ptr::NonNull,
};

use crate::{
    arena,
    sync::seam::atomic::{AtomicUsize, Ordering, fence},
};

/// Alignment of every allocation, in bytes: the strictest that O_DIRECT asks for.
pub const BUF_ALIGN: usize = 4096;

/// Allocations of up to this many bytes are pooled.
const POOLED_BYTES_MAX: usize = arena::SLAB_BYTES;
const CLASSES: usize = (POOLED_BYTES_MAX / BUF_ALIGN).ilog2() as usize + 1;
/// The most that one thread's pool keeps of each size class, in bytes. Ten classes: at worst 160 MiB per
/// thread.
const POOL_CLASS_BYTES_MAX: usize = 16 << 20;

/// An allocation without a holder. Boxed, since handles point at it and it must not move.
pub(crate) type Pooled = Box<Allocation>;

#[cfg(feature = "loom")]
loom::thread_local! {
    static POOL: RefCell<[Vec<Pooled>; CLASSES]> = RefCell::default();
}
#[cfg(not(feature = "loom"))]
thread_local! {
    static POOL: RefCell<[Vec<Pooled>; CLASSES]> = const { RefCell::new([const { Vec::new() }; CLASSES]) };
}

/// A store that lends allocations of its own, and takes them back instead of the pools. It stays for ever, so that
/// what it lends need not be counted references to it.
pub(crate) trait Home: Send + Sync {
    /// Takes back an allocation that no handle refers to any more.
    fn take_back(&'static self, allocation: Pooled);
}

/// Aligned memory, always initialised.
pub(crate) struct Allocation {
    start: NonNull<u8>,
    capacity: usize,
    /// Handles to it.
    holders: AtomicUsize,
    /// Who frees the memory.
    owner: Owner,
}

/// Who frees an allocation's memory.
enum Owner {
    /// The allocation itself, when it is dropped.
    Itself,
    /// A store.
    Store(&'static dyn Home),
}

// SAFETY: the allocation is plain memory that any thread may free; access goes through IoBuf (exclusive
// range) and SharedBuf (read-only range), which keep Rust's aliasing rules between threads as well.
unsafe impl Send for Allocation {}
// SAFETY: as above; `&Allocation` alone gives no access to the bytes.
unsafe impl Sync for Allocation {}

impl Allocation {
    fn new(capacity: usize) -> Self {
        let start = class_of(capacity).and_then(|_| arena::take(capacity));
        let start = start.unwrap_or_else(|| Self::from_heap(capacity));
        Self { start, capacity, holders: AtomicUsize::new(1), owner: Owner::Itself }
    }

    /// Memory of a store.
    ///
    /// # Safety
    /// The range is initialised and aligned to [`BUF_ALIGN`]. It stays, and nothing else refers to it, before the
    /// allocation is dropped.
    pub(crate) unsafe fn of_store(start: NonNull<u8>, capacity: usize, store: &'static dyn Home) -> Pooled {
        Box::new(Self { start, capacity, holders: AtomicUsize::new(1), owner: Owner::Store(store) })
    }

    /// Where its memory starts.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    fn from_heap(capacity: usize) -> NonNull<u8> {
        let layout = Self::layout(capacity);
        // SAFETY: the layout's size is not zero (capacity is at least BUF_ALIGN).
        let start = unsafe { alloc_zeroed(layout) };
        NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout))
    }

    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, BUF_ALIGN).expect("buffer sizes are far below isize::MAX")
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if matches!(self.owner, Owner::Store(_)) || arena::give_back(self.start, self.capacity) {
            return;
        }
        // SAFETY: `start` came from `alloc_zeroed` with this same layout and is freed only here.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) }
    }
}

fn class_of(capacity: usize) -> Option<usize> {
    (capacity <= POOLED_BYTES_MAX).then(|| (capacity / BUF_ALIGN).ilog2() as usize)
}

/// A counted reference to an allocation; the last one returns the allocation to the pool. An `Arc` would do,
/// but costs more: here an only holder gives the allocation back without an atomic read-modify-write.
struct Handle(NonNull<Allocation>);

// SAFETY: as for `Allocation`, to which a handle is a counted reference.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    fn allocate(len: usize) -> Self {
        let capacity = len.max(1).next_multiple_of(BUF_ALIGN);
        let capacity = if capacity <= POOLED_BYTES_MAX { capacity.next_power_of_two() } else { capacity };
        let pooled = class_of(capacity)
            .and_then(|class| POOL.try_with(|pool| pool.borrow_mut()[class].pop()).ok().flatten());
        let allocation = pooled.unwrap_or_else(|| Box::new(Allocation::new(capacity)));
        Self(NonNull::from(Box::leak(allocation)))
    }

    fn allocation(&self) -> &Allocation {
        // SAFETY: the allocation lives as long as it has holders, and this is one.
        unsafe { self.0.as_ref() }
    }

    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= self.allocation().capacity);
        // SAFETY: callers keep `offset` within the capacity.
        unsafe { self.allocation().start.as_ptr().add(offset) }
    }

    /// Whether this is the only handle to the allocation. Only a holder can make more.
    fn is_only(&self) -> bool {
        self.allocation().holders.load(Ordering::Acquire) == 1
    }

    fn is_same(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        self.allocation().holders.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.is_only() {
            if self.allocation().holders.fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            fence(Ordering::Acquire);
            // In the pool it already counts the holder that it will be given to.
            self.allocation().holders.store(1, Ordering::Relaxed);
        }
        // SAFETY: it came from a leaked box, and this, the last holder, takes it back exactly once.
        let allocation = unsafe { Box::from_raw(self.0.as_ptr()) };
        if let Owner::Store(home) = allocation.owner {
            return give_back(allocation, home);
        }
        let capacity = allocation.capacity;
        let Some(class) = class_of(capacity) else { return };
        // During thread teardown the pool may be gone; then the box simply frees the memory.
        let _ = POOL.try_with(|pool| {
            let list = &mut pool.borrow_mut()[class];
            if list.len() < POOL_CLASS_BYTES_MAX / capacity {
                list.push(allocation);
            }
        });
    }
}

/// Gives an allocation back to the store that has lent it.
#[cold]
#[inline(never)]
fn give_back(allocation: Pooled, home: &'static dyn Home) {
    home.take_back(allocation);
}

/// An exclusive, aligned range of bytes.
// Compilers store a buffer as 16 bytes and 8. To look into an `Option` of one, they load the handle, and then
// the other 16 bytes. With the handle last, both loads lie in one store each, and the processor forwards them.
// With the handle first, the second load would lie across both stores, and wait until all older stores are
// done: those of the data that a member in memory has just copied.
#[repr(C)]
pub struct IoBuf {
    start: usize,
    len: usize,
    handle: Handle,
}

impl IoBuf {
    /// A buffer whose contents are arbitrary (initialised, perhaps with an earlier user's data).
    pub fn with_len(len: usize) -> Self {
        Self { handle: Handle::allocate(len), start: 0, len }
    }

    /// A buffer of zeroes.
    pub fn zeroed(len: usize) -> Self {
        let mut buf = Self::with_len(len);
        buf.fill(0);
        buf
    }

    /// A buffer holding a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buf = Self::with_len(bytes.len());
        buf.copy_from_slice(bytes);
        buf
    }

    /// A buffer of all of an allocation that a store lends.
    pub(crate) fn lent(allocation: Pooled) -> Self {
        let len = allocation.capacity;
        Self { handle: Handle(NonNull::from(Box::leak(allocation))), start: 0, len }
    }

    /// Keeps the first `at` bytes and returns the rest as a buffer of its own.
    ///
    /// # Panics
    /// If `at` is beyond the end.
    pub fn split_off(&mut self, at: usize) -> Self {
        assert!(at <= self.len, "split at {at} of a buffer of {}", self.len);
        let tail = Self { handle: self.handle.clone(), start: self.start + at, len: self.len - at };
        self.len = at;
        tail
    }

    /// Returns the first `at` bytes as a buffer of their own and keeps the rest.
    pub fn split_to(&mut self, at: usize) -> Self {
        let tail = self.split_off(at);
        std::mem::replace(self, tail)
    }

    /// Joins `tail` back, which must be the range right behind this one in the same allocation; else returns
    /// it.
    pub fn unsplit(&mut self, tail: Self) -> Result<(), Self> {
        let adjacent = self.handle.is_same(&tail.handle) && self.start + self.len == tail.start;
        if !adjacent {
            return Err(tail);
        }
        self.len += tail.len;
        Ok(())
    }

    /// Shortens the buffer to `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Makes the buffer read-only and shareable.
    pub fn freeze(self) -> SharedBuf {
        SharedBuf { handle: self.handle, start: self.start, len: self.len }
    }
}

impl Deref for IoBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies in the allocation, is initialised, and no other IoBuf or SharedBuf covers
        // it.
        unsafe { std::slice::from_raw_parts(self.handle.at(self.start), self.len) }
    }
}

impl DerefMut for IoBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; splitting keeps the ranges of live IoBufs disjoint, so this one is
        // exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.handle.at(self.start), self.len) }
    }
}

impl AsRef<[u8]> for IoBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for IoBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IoBuf({} bytes)", self.len)
    }
}

/// A read-only range of bytes, cheap to clone and to slice.
#[derive(Clone)]
pub struct SharedBuf {
    handle: Handle,
    start: usize,
    len: usize,
}

impl SharedBuf {
    /// The given part of this range.
    ///
    /// # Panics
    /// If `range` is not within the buffer.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "slice {range:?} of {}", self.len);
        Self { handle: self.handle.clone(), start: self.start + range.start, len: range.end - range.start }
    }

    /// As [`SharedBuf::slice`], but consumes the buffer.
    ///
    /// # Panics
    /// If `range` is not within the buffer.
    pub fn into_slice(mut self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "slice {range:?} of {}", self.len);
        self.start += range.start;
        self.len = range.end - range.start;
        self
    }

    /// Takes the buffer back for writing if no other buffer holds a part of its allocation.
    pub fn try_into_owned(self) -> Result<IoBuf, Self> {
        if !self.handle.is_only() {
            return Err(self);
        }
        Ok(IoBuf { handle: self.handle, start: self.start, len: self.len })
    }
}

/// A shared block of [`BUF_ALIGN`] bytes, in two words: caches keep many.
#[derive(Clone)]
pub struct Block {
    handle: Handle,
    /// Of its bytes: who reads them need not look at the allocation.
    start: NonNull<u8>,
}

// SAFETY: as for the handle, to whose memory `start` points.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// Makes a buffer a block.
    ///
    /// # Panics
    /// If the buffer is not all of an allocation of a block's size.
    pub fn of(buf: IoBuf) -> Self {
        let &Allocation { start, capacity, .. } = buf.handle.allocation();
        assert!(buf.start == 0 && buf.len == BUF_ALIGN && capacity == BUF_ALIGN, "a block is an allocation");
        Self { handle: buf.handle, start }
    }

    /// Shares a buffer as a block, without copying it. Gives it back if it has not a block's size.
    pub fn sharing(buf: SharedBuf) -> Result<Self, SharedBuf> {
        if buf.len != BUF_ALIGN {
            return Err(buf);
        }
        let start = NonNull::new(buf.handle.at(buf.start)).expect("memory has an address");
        Ok(Self { handle: buf.handle, start })
    }

    /// Some of its bytes, which it lends.
    ///
    /// # Panics
    /// If the range is not within the block.
    pub fn lend(&self, range: Range<usize>) -> SharedBuf {
        assert!(range.start <= range.end && range.end <= BUF_ALIGN, "{range:?} of a block");
        let in_allocation = self.start.addr().get() - self.handle.allocation().start.addr().get();
        SharedBuf { handle: self.handle.clone(), start: in_allocation + range.start, len: range.len() }
    }

    /// Where its bytes start.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Its bytes, to be changed, if nobody else refers to them.
    #[inline]
    pub fn get_mut(&mut self) -> Option<&mut [u8]> {
        // SAFETY: a block's bytes from `start` on lie in the allocation and are initialised. There is no other handle to
        // it, and only a holder makes more: this one, which is borrowed.
        self.handle
            .is_only()
            .then(|| unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), BUF_ALIGN) })
    }

    /// Whether both are the same memory. An address is not used again as long as a block refers to it.
    pub fn is_same(&self, other: &Self) -> bool {
        self.start == other.start
    }
}

impl Deref for Block {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: a block's bytes from `start` on lie in the allocation and are initialised. They came from an exclusive
        // IoBuf that was consumed, or from a SharedBuf, so only read-only views of them exist.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), BUF_ALIGN) }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({:p})", self.start)
    }
}

impl Deref for SharedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies in the allocation and is initialised; it came from an exclusive IoBuf that
        // was consumed, so only read-only views of it exist.
        unsafe { std::slice::from_raw_parts(self.handle.at(self.start), self.len) }
    }
}

impl AsRef<[u8]> for SharedBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<IoBuf> for SharedBuf {
    fn from(buf: IoBuf) -> Self {
        buf.freeze()
    }
}

/// A copy: members take buffers that are aligned, which other memory is not.
impl From<&[u8]> for SharedBuf {
    fn from(bytes: &[u8]) -> Self {
        IoBuf::copy_of(bytes).freeze()
    }
}

/// A copy, as of a slice.
impl From<Vec<u8>> for SharedBuf {
    fn from(bytes: Vec<u8>) -> Self {
        bytes[..].into()
    }
}

/// A copy, as of a slice.
impl From<Vec<u8>> for IoBuf {
    fn from(bytes: Vec<u8>) -> Self {
        Self::copy_of(&bytes)
    }
}

impl fmt::Debug for SharedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBuf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_aligned_and_reused() {
        let first = IoBuf::with_len(10_000);
        let address = first.as_ptr();
        assert_eq!(address as usize % BUF_ALIGN, 0);
        drop(first);
        assert_eq!(IoBuf::with_len(9_000).as_ptr(), address, "same size class comes from the pool");
    }

    #[test]
    fn split_parts_are_disjoint_and_join_again() {
        let mut head = IoBuf::zeroed(8192);
        let mut tail = head.split_off(4096);
        head.fill(1);
        tail.fill(2);
        let stranger = head.unsplit(IoBuf::with_len(16)).unwrap_err();
        assert_eq!(stranger.len(), 16);
        head.unsplit(tail).unwrap();
        assert!(head[..4096].iter().all(|b| *b == 1) && head[4096..].iter().all(|b| *b == 2));
    }

    #[test]
    fn a_block_may_share_a_part_of_a_buffer() {
        let mut whole = IoBuf::zeroed(4 * BUF_ALIGN);
        whole[2 * BUF_ALIGN..].fill(2);
        whole[2 * BUF_ALIGN + 512] = 3;
        let whole = whole.freeze();
        let part = |from: usize| whole.slice(from..from + BUF_ALIGN);
        let mut block = Block::sharing(part(2 * BUF_ALIGN)).unwrap();
        assert_eq!((block.len(), block[0], block[512]), (BUF_ALIGN, 2, 3));
        assert_eq!(block.lend(512..1024).as_ptr(), whole[2 * BUF_ALIGN + 512..].as_ptr());
        assert!(block.is_same(&Block::sharing(part(2 * BUF_ALIGN)).unwrap()));
        assert!(!block.is_same(&Block::sharing(part(3 * BUF_ALIGN)).unwrap()));
        assert!(block.get_mut().is_none(), "others hold parts of its allocation");
        assert_eq!(Block::sharing(whole.slice(0..512)).unwrap_err().len(), 512);
        drop(whole);
        assert_eq!(block.get_mut().unwrap()[512], 3);
    }

    #[test]
    fn a_shared_buffer_is_owned_again_only_when_alone() {
        let shared = IoBuf::copy_of(b"parity").freeze();
        let part = shared.slice(0..3);
        let shared = shared.try_into_owned().unwrap_err();
        assert_eq!(&*part, b"par");
        drop(part);
        assert_eq!(&*shared.try_into_owned().unwrap(), b"parity");
    }

    #[test]
    fn buffers_cross_threads() {
        let buf = IoBuf::copy_of(&[7; 5000]);
        let sum: u32 = std::thread::spawn(move || buf.iter().map(|b| u32::from(*b)).sum()).join().unwrap();
        assert_eq!(sum, 35_000);
    }
}
