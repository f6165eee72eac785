//! What a mount does of the paper's techniques, and how it makes changes durable.

use std::str::FromStr;

use thiserror::Error;

/// An option does not know this word.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{word}`: give {known}")]
pub struct UnknownWord {
    word: String,
    known: String,
}

/// The one of several that has this name.
fn named<T: Copy>(word: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, UnknownWord> {
    let unknown = || UnknownWord {
        word: word.to_owned(),
        known: all.iter().map(|one| name(*one)).collect::<Vec<_>>().join(", "),
    };
    all.iter().copied().find(|one| name(*one) == word).ok_or_else(unknown)
}

/// How changes become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JournalMode {
    /// What changes in the tree goes to the journal, and blocks of files that it refers to are durable before that. Small syncs take their
    /// blocks along.
    #[default]
    Ordered,
    /// As `Ordered`, but blocks of small stripes that a file did not have before may become durable later than the file's length. After a
    /// crash, such blocks may be unreadable of files that were not synced, and did not replace others by a rename. One flush less for a
    /// sync of some size.
    Writeback,
    /// As `Ordered`, but all that is synced goes through the journal, however large it is. A block that is overwritten where it lies is in
    /// the journal first, so that a crash does not leave it half old and half new.
    Data,
    /// A checkpoint instead of a record. For measurements: the paper's are without a journal.
    None,
}

impl JournalMode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::Ordered, Self::Writeback, Self::Data, Self::None];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::Writeback => "writeback",
            Self::Data => "data",
            Self::None => "none",
        }
    }
}

impl FromStr for JournalMode {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        named(word, &Self::ALL, Self::name)
    }
}

/// A technique of the paper (rafs III), and what a mount does without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Technique {
    /// The layout: whole pieces of large files have stripes of their own. Without it, all blocks lie among those of other files.
    Layout,
    /// The stripe-aware buffer: writes wait until T_f or T_t. Without it, they are written out as soon as they come.
    Buffer,
    /// The stripe-aware flush: what is written out together is chosen to fill a stripe. Without it, it goes in the order of its age.
    Flush,
    /// The stripe-granularity allocation: emptier stripes come first, and whole rows in them. Without it, the next free blocks do.
    Allocation,
}

impl Technique {
    /// All techniques.
    pub const ALL: [Self; 4] = [Self::Layout, Self::Buffer, Self::Flush, Self::Allocation];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Layout => "layout",
            Self::Buffer => "buffer",
            Self::Flush => "flush",
            Self::Allocation => "allocation",
        }
    }
}

impl FromStr for Technique {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        named(word, &Self::ALL, Self::name)
    }
}

/// By which rules a file system is mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preset {
    /// Ours: stripes with most free rows come first, and what is left in half-empty ones moves together.
    #[default]
    Default,
    /// The paper's: stripes with most free blocks come first, nothing is cleaned, and all of a file that is longer than a stripe lies in
    /// stripes of its own.
    Paper,
}

impl Preset {
    /// All presets.
    pub const ALL: [Self; 2] = [Self::Default, Self::Paper];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Paper => "paper",
        }
    }
}

impl FromStr for Preset {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        named(word, &Self::ALL, Self::name)
    }
}

/// The techniques that are off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Without([bool; Technique::ALL.len()]);

impl Without {
    /// Without this one, too.
    #[must_use]
    pub fn and(mut self, technique: Technique) -> Self {
        self.0[technique as usize] = true;
        self
    }

    /// Whether a technique is off.
    #[must_use]
    pub fn has(self, technique: Technique) -> bool {
        self.0[technique as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_others_are_told_what_there_is() {
        for mode in JournalMode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
        }
        assert_eq!("paper".parse(), Ok(Preset::Paper));
        let off = Without::default().and(Technique::Flush);
        assert!(off.has(Technique::Flush) && !off.has(Technique::Layout));
        let told = "stripes".parse::<Technique>().unwrap_err().to_string();
        assert_eq!(told, "`stripes`: give layout, buffer, flush, allocation");
    }
}
