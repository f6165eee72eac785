//! What clients ask of a server.

use clap::ValueEnum;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    /// Random reads of 4 KiB, 32 in flight on each connection.
    RandomRead,
    /// Random writes of 4 KiB, 32 in flight on each connection.
    RandomWrite,
    /// Sequential reads of 1 MiB, 8 in flight on each connection.
    SequentialRead,
    /// Sequential writes of 1 MiB, 8 in flight on each connection.
    SequentialWrite,
}

impl Case {
    /// The largest request.
    pub(super) const BYTES_MAX: usize = 1 << 20;

    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    pub(super) fn is_write(self) -> bool {
        matches!(self, Self::RandomWrite | Self::SequentialWrite)
    }

    pub(super) fn is_sequential(self) -> bool {
        matches!(self, Self::SequentialRead | Self::SequentialWrite)
    }

    pub(super) fn bytes(self) -> usize {
        if self.is_sequential() { Self::BYTES_MAX } else { 4 << 10 }
    }

    /// Requests that each connection keeps under way.
    pub(super) fn depth(self) -> usize {
        if self.is_sequential() { 8 } else { 32 }
    }
}
