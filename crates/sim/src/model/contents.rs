//! What is on a modelled disk: sparse pages, as much as somebody wants kept.

use super::hasher::NumberMap;

/// What a modelled disk keeps of what is written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// Everything, in pages of 4 KiB that exist once they are written.
    Sparse,
    /// What lies below so many bytes, such as an array's metadata; all else reads as zeroes. For timing runs
    /// of big arrays through the engine: with data gone, parity cannot be checked, nor can a rebuild.
    First(u64),
    /// Nothing: every read gives zeroes.
    None,
}

const PAGE_BYTES: usize = 4096;

/// The pages that are kept.
pub(super) struct Pages {
    kept_below_bytes: u64,
    pages: NumberMap<u64, Box<[u8; PAGE_BYTES]>>,
}

impl Pages {
    pub(super) fn new(contents: Contents) -> Self {
        let kept_below_bytes = match contents {
            Contents::Sparse => u64::MAX,
            Contents::First(bytes) => bytes.checked_next_multiple_of(PAGE_BYTES as u64).unwrap_or(u64::MAX),
            Contents::None => 0,
        };
        Self { kept_below_bytes, pages: NumberMap::default() }
    }

    /// Whether anything of what lies there on is kept.
    pub(super) fn keeps(&self, offset_bytes: u64) -> bool {
        offset_bytes < self.kept_below_bytes
    }

    pub(super) fn read(&self, offset_bytes: u64, into: &mut [u8]) {
        if !self.keeps(offset_bytes) {
            return into.fill(0);
        }
        let mut done = 0;
        while done < into.len() {
            let (page, at, len) = part(offset_bytes + done as u64, into.len() - done);
            let part = &mut into[done..done + len];
            match self.pages.get(&page) {
                Some(page) => part.copy_from_slice(&page[at..at + len]),
                None => part.fill(0),
            }
            done += len;
        }
    }

    pub(super) fn write(&mut self, offset_bytes: u64, from: &[u8]) {
        let mut done = 0;
        while done < from.len() && self.keeps(offset_bytes + done as u64) {
            let (page, at, len) = part(offset_bytes + done as u64, from.len() - done);
            let page = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE_BYTES]));
            page[at..at + len].copy_from_slice(&from[done..done + len]);
            done += len;
        }
    }

    /// The range reads as zeroes; whole pages are forgotten.
    pub(super) fn zero(&mut self, offset_bytes: u64, len_bytes: u64) {
        let end = (offset_bytes + len_bytes).min(self.kept_below_bytes);
        let whole = offset_bytes.div_ceil(PAGE_BYTES as u64)..end / PAGE_BYTES as u64;
        if whole.is_empty() {
            return self.zero_parts(offset_bytes, end);
        }
        self.zero_parts(offset_bytes, whole.start * PAGE_BYTES as u64);
        self.zero_parts(whole.end * PAGE_BYTES as u64, end);
        // Whichever is less: the pages of the range, or those there are.
        if whole.end - whole.start > self.pages.len() as u64 {
            self.pages.retain(|page, _| !whole.contains(page));
        } else {
            whole.for_each(|page| drop(self.pages.remove(&page)));
        }
    }

    /// Less than a page, or less than two beside each other.
    fn zero_parts(&mut self, mut at: u64, end: u64) {
        while at < end {
            let (page, start, len) = part(at, (end - at) as usize);
            if let Some(page) = self.pages.get_mut(&page) {
                page[start..start + len].fill(0);
            }
            at += len as u64;
        }
    }
}

/// The page at an offset, where in it, and how much of `len` lies in it.
fn part(offset_bytes: u64, len: usize) -> (u64, usize, usize) {
    let at = (offset_bytes % PAGE_BYTES as u64) as usize;
    (offset_bytes / PAGE_BYTES as u64, at, len.min(PAGE_BYTES - at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_the_rest_is_zero() {
        let mut pages = Pages::new(Contents::Sparse);
        pages.write(4000, &[7; 200]);
        let mut found = [1; 400];
        pages.read(3900, &mut found);
        assert!(found[..100] == [0; 100] && found[100..300] == [7; 200] && found[300..] == [0; 100]);
        pages.zero(4096, 8192);
        pages.read(3900, &mut found);
        assert!(found[100..196] == [7; 96] && found[196..] == [0; 204]);
        pages.zero(0, 1 << 40);
        assert!(pages.pages.is_empty());
    }

    #[test]
    fn only_the_first_bytes_are_kept() {
        let mut pages = Pages::new(Contents::First(8192));
        pages.write(4096, &[7; 8192]);
        let mut found = [1; 8192];
        pages.read(4096, &mut found);
        assert!(found[..4096] == [7; 4096] && found[4096..] == [0; 4096]);
        assert_eq!(pages.pages.len(), 1);
        assert!(!Pages::new(Contents::None).keeps(0));
        assert!(Pages::new(Contents::First(u64::MAX)).keeps(1 << 60));
    }
}
