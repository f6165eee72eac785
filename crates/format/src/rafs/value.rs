//! Values of items: what may be wrong with them, and reading them part by part.

use thiserror::Error;

/// Bytes of a value at most. Two such items do not fit into one leaf.
pub const VALUE_MAX: usize = 2400;
/// Bytes of a file, or of a link's target, that its inline item holds at most.
pub const INLINE_MAX: usize = 2048;

/// Why a value is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ValueError {
    /// It is too short or too long.
    #[error("no {what} has {found} bytes; run fsck")]
    Length {
        /// What it should be.
        what: &'static str,
        /// Its bytes.
        found: usize,
    },
    /// A field says what cannot be.
    #[error("the {field} cannot be {found}; run fsck")]
    Nonsense {
        /// The field.
        field: &'static str,
        /// What it says.
        found: u64,
    },
}

/// Takes parts from the front of a value.
pub(super) struct Parts<'a> {
    what: &'static str,
    len: usize,
    left: &'a [u8],
}

impl<'a> Parts<'a> {
    pub(super) fn new(what: &'static str, value: &'a [u8]) -> Self {
        Self { what, len: value.len(), left: value }
    }

    pub(super) fn is_over(&self) -> bool {
        self.left.is_empty()
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], ValueError> {
        let (part, left) = self.left.split_at_checked(count).ok_or(self.length())?;
        self.left = left;
        Ok(part)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], ValueError> {
        let (part, left) = self.left.split_first_chunk().ok_or(self.length())?;
        self.left = left;
        Ok(*part)
    }

    pub(super) fn u8(&mut self) -> Result<u8, ValueError> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, ValueError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, ValueError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, ValueError> {
        self.array().map(u64::from_le_bytes)
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.left)
    }

    fn length(&self) -> ValueError {
        ValueError::Length { what: self.what, found: self.len }
    }
}
