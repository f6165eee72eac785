//! What a mount does of the paper's techniques, and how it makes changes durable.

/// How changes become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JournalMode {
    /// What changes in the tree goes to the journal, and blocks of files that it refers to are durable before that. Small syncs take their
    /// blocks along.
    #[default]
    Ordered,
    /// As `Ordered`, but blocks of small stripes that a file did not have before may become durable later than the file's length. After a
    /// crash, such blocks of files that were not synced may be unreadable. One flush less for a sync of some size.
    Writeback,
    /// As `Ordered`, but all that is synced goes through the journal, however large it is. What is overwritten where it lies is in the
    /// journal first, so that a crash does not leave it half old and half new.
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

/// A technique of the paper (rafs III). What a file system does without it is said there.
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
