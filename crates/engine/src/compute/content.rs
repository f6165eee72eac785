//! The new content of a write, in one buffer or in several. Once it is a [`Data`], writing it copies nothing.

use std::ops::Range;

use smallvec::{SmallVec, smallvec};
use stripewise_device::{IoBuf, SharedBuf, WriteBufs};

use crate::{
    mutants::{Mutant, lives},
    shape::rows::BLOCK_BYTES,
};

/// The data of a write, or of its part in one stripe.
#[derive(Debug, Clone)]
pub(crate) enum Data {
    /// In one buffer.
    One(SharedBuf),
    /// In several buffers, in order and without gaps. Each holds whole blocks of the array.
    Blocks(Box<[SharedBuf]>),
}

impl Data {
    /// The data of a write at `start` from these buffers. Unless they all hold whole blocks, they are copied
    /// into one: members that are opened for direct I/O accept only whole blocks, and no block may lie in two
    /// buffers.
    pub(crate) fn of(mut bufs: WriteBufs, start: u64) -> Self {
        if bufs.len() == 1 {
            return Self::One(bufs.pop().expect("there is one"));
        }
        let is_of_blocks = |buf: &SharedBuf| (buf.len() | buf.as_ptr() as usize).is_multiple_of(BLOCK_BYTES);
        if start.is_multiple_of(BLOCK_BYTES as u64) && bufs.iter().all(is_of_blocks) {
            if lives(Mutant::PartsSwapped) {
                bufs.reverse();
            }
            return Self::Blocks(bufs.into_iter().filter(|buf| !buf.is_empty()).collect());
        }
        Self::One(joined(&bufs))
    }

    /// The same data, copied if it lies at an address that is no multiple of `align` bytes: members that are
    /// opened for direct I/O refuse such memory.
    pub(crate) fn aligned(self, align: usize) -> Self {
        match self {
            Self::One(buf) if !(buf.as_ptr() as usize).is_multiple_of(align) => Self::One((&buf[..]).into()),
            data => data,
        }
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::One(buf) => buf.len(),
            Self::Blocks(bufs) => bufs.iter().map(|buf| buf.len()).sum(),
        }
    }

    /// A part of it.
    ///
    /// # Panics
    /// If the range is not within the data.
    pub(crate) fn slice(&self, range: Range<usize>) -> Self {
        match self {
            Self::One(buf) => Self::One(buf.slice(range)),
            Self::Blocks(bufs) => {
                let mut parts = bufs_in(bufs, range);
                if parts.len() == 1 {
                    Self::One(parts.remove(0))
                } else {
                    Self::Blocks(parts.into_vec().into())
                }
            }
        }
    }

    /// Copies bytes of it, from `start` on, until `into` is full.
    ///
    /// # Panics
    /// If there are not that many.
    #[inline]
    pub(crate) fn copy_to(&self, start: usize, into: &mut [u8]) {
        match self {
            Self::One(buf) => into.copy_from_slice(&buf[start..start + into.len()]),
            Self::Blocks(bufs) => {
                let content = &bufs[..];
                let mut at = 0;
                while at < into.len() {
                    let run = Content::run(&content, start + at..start + into.len());
                    into[at..at + run.len()].copy_from_slice(run);
                    at += run.len();
                }
            }
        }
    }

    /// Its buffers.
    pub(crate) fn into_bufs(self) -> WriteBufs {
        match self {
            Self::One(buf) => smallvec![buf],
            Self::Blocks(bufs) => bufs.into_iter().collect(),
        }
    }
}

/// Copies buffers into one.
fn joined(bufs: &[SharedBuf]) -> SharedBuf {
    let mut parts: SmallVec<[&[u8]; 4]> = bufs.iter().map(|buf| &**buf).collect();
    if lives(Mutant::PartsSwapped) {
        parts.reverse();
    }
    let mut whole = IoBuf::with_len(parts.iter().map(|part| part.len()).sum());
    let mut at = 0;
    for part in parts {
        whole[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    whole.freeze()
}

/// New content, addressed in bytes from the start of a stripe's write.
pub(crate) trait Content {
    /// Contiguous bytes from the start of the range: at least one, at most the whole range.
    fn run(&self, range: Range<usize>) -> &[u8];

    /// All bytes of the range, for a write. The last call may give away the content's own reference to its
    /// memory.
    fn take(&mut self, range: Range<usize>, is_last: bool) -> WriteBufs;
}

/// Content in one buffer. None once all of it was taken.
pub(crate) struct OneBuf(pub(crate) Option<SharedBuf>);

impl OneBuf {
    fn buf(&self) -> &SharedBuf {
        self.0.as_ref().expect("the last write takes the data")
    }
}

impl Content for OneBuf {
    #[inline]
    fn run(&self, range: Range<usize>) -> &[u8] {
        &self.buf()[range]
    }

    #[inline]
    fn take(&mut self, range: Range<usize>, is_last: bool) -> WriteBufs {
        // Passing on the request's own reference costs nothing. That works if this is the whole buffer.
        match self.0.take_if(|buf| is_last && range.len() == buf.len()) {
            Some(whole) => smallvec![whole],
            None => smallvec![self.buf().slice(range)],
        }
    }
}

/// Content in several buffers.
impl Content for &[SharedBuf] {
    fn run(&self, range: Range<usize>) -> &[u8] {
        let mut start = range.start;
        for buf in self.iter() {
            if start < buf.len() {
                return &buf[start..buf.len().min(start + range.len())];
            }
            start -= buf.len();
        }
        unreachable!("what is new is in one of the buffers")
    }

    fn take(&mut self, range: Range<usize>, _: bool) -> WriteBufs {
        bufs_in(self, range)
    }
}

/// The parts of the buffers that a range of their bytes covers.
fn bufs_in(bufs: &[SharedBuf], range: Range<usize>) -> WriteBufs {
    let mut parts = WriteBufs::new();
    let mut start = 0;
    for buf in bufs {
        let (from, to) = (range.start.max(start), range.end.min(start + buf.len()));
        if from < to {
            parts.push(buf.slice(from - start..to - start));
        }
        start += buf.len();
    }
    assert!(range.end <= start, "{range:?} of {start} bytes");
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(bufs: &[SharedBuf]) -> Vec<u8> {
        bufs.iter().flat_map(|buf| buf.iter().copied()).collect()
    }

    fn blocks(of: &[(u8, usize)]) -> WriteBufs {
        of.iter()
            .map(|(value, blocks)| IoBuf::copy_of(&vec![*value; blocks * BLOCK_BYTES]).freeze())
            .collect()
    }

    #[test]
    fn whole_blocks_stay_where_they_are_and_others_are_copied() {
        let bufs = blocks(&[(1, 1), (2, 3), (3, 2)]);
        let at = bufs[1].as_ptr();
        let Data::Blocks(kept) = Data::of(bufs.clone(), 4096) else { panic!("they are whole blocks") };
        assert_eq!(kept[1].as_ptr(), at);
        let Data::One(copied) = Data::of(bufs.clone(), 512) else { panic!("a block would be in two") };
        assert_eq!(copied[..], bytes(&bufs));
        let odd: WriteBufs = smallvec![bufs[1].slice(0..512), bufs[1].slice(512..4096)];
        assert!(matches!(Data::of(odd, 0), Data::One(copied) if copied[..] == [2; 4096]));
    }

    #[test]
    fn a_slice_has_the_bytes_of_the_range() {
        let bufs = blocks(&[(1, 1), (2, 3), (3, 2)]);
        let all = bytes(&bufs);
        let data = Data::of(bufs, 0);
        assert_eq!(data.len(), all.len());
        for start in 0..=6 {
            for end in start..=6 {
                let range = start * BLOCK_BYTES..end * BLOCK_BYTES;
                let part = data.slice(range.clone());
                assert_eq!(part.len(), range.len());
                assert!(bytes(&part.into_bufs()) == all[range]);
            }
        }
    }

    #[test]
    fn a_run_ends_where_its_buffer_does() {
        let bufs = blocks(&[(1, 1), (2, 3)]);
        let mut content = &bufs[..];
        assert_eq!(content.run(0..8192), [1; 4096]);
        assert_eq!(content.run(4096..8192), [2; 4096]);
        assert_eq!(content.run(8192..16384), [2; 8192]);
        assert_eq!(bytes(&content.take(2048..6144, true)), [vec![1; 2048], vec![2; 2048]].concat());
    }
}
