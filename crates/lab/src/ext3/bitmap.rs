//! A bitmap of a group: which of its blocks, or inodes, are taken.

/// Bits in a word.
const WORD: u32 = u64::BITS;

/// Bits from 0 on, each taken or free.
#[derive(Debug, Clone)]
pub(super) struct Bitmap {
    /// A set bit is taken. Those from the length on are set.
    words: Vec<u64>,
    len: u32,
    free: u32,
}

impl Bitmap {
    /// All are free.
    pub(super) fn new(len: u32) -> Self {
        let mut words = vec![0; len.div_ceil(WORD) as usize];
        if let Some(last) = words.last_mut().filter(|_| !len.is_multiple_of(WORD)) {
            *last = u64::MAX << (len % WORD);
        }
        Self { words, len, free: len }
    }

    /// How many are free.
    pub(super) fn free(&self) -> u32 {
        self.free
    }

    /// How many there are.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn is_free(&self, index: u32) -> bool {
        index < self.len && self.words[(index / WORD) as usize] >> (index % WORD) & 1 == 0
    }

    /// Takes a free one.
    ///
    /// # Panics
    /// If it is taken.
    pub(super) fn take(&mut self, index: u32) {
        assert!(self.is_free(index), "{index} is given twice");
        self.words[(index / WORD) as usize] |= 1 << (index % WORD);
        self.free -= 1;
    }

    /// Gives one back.
    ///
    /// # Panics
    /// If it is free.
    pub(super) fn give_back(&mut self, index: u32) {
        assert!(index < self.len && !self.is_free(index), "{index} is given back twice");
        self.words[(index / WORD) as usize] &= !(1 << (index % WORD));
        self.free += 1;
    }

    /// The first free one from `from` on and before `to`.
    pub(super) fn first_free(&self, from: u32, to: u32) -> Option<u32> {
        let to = to.min(self.len);
        let mut at = from;
        while at < to {
            let free = !self.words[(at / WORD) as usize] >> (at % WORD);
            if free != 0 {
                let found = at + free.trailing_zeros();
                return (found < to).then_some(found);
            }
            at = (at / WORD + 1) * WORD;
        }
        None
    }

    /// The start of the first byte from `from` on that is free as a whole and starts before `to`.
    pub(super) fn first_free_byte(&self, from: u32, to: u32) -> Option<u32> {
        let is_free = |at: &u32| self.words[(at / WORD) as usize] >> (at % WORD) & 0xff == 0;
        (from.next_multiple_of(8)..to.min(self.len)).step_by(8).find(is_free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_found_no_more_until_it_is_given_back() {
        let mut bitmap = Bitmap::new(200);
        (0..150).for_each(|index| bitmap.take(index));
        assert_eq!(
            (bitmap.first_free(0, 200), bitmap.first_free(0, 150), bitmap.free()),
            (Some(150), None, 50)
        );
        assert_eq!(bitmap.first_free_byte(0, 200), Some(152));
        bitmap.give_back(70);
        assert_eq!((bitmap.first_free(3, 200), bitmap.first_free(71, 200)), (Some(70), Some(150)));
        (150..200).for_each(|index| bitmap.take(index));
        assert_eq!(
            (bitmap.first_free(71, 900), bitmap.first_free_byte(0, 900), bitmap.free()),
            (None, None, 1)
        );
    }

    #[test]
    #[should_panic(expected = "given twice")]
    fn nothing_is_given_twice() {
        let mut bitmap = Bitmap::new(8);
        (0..2).for_each(|_| bitmap.take(3));
    }
}
