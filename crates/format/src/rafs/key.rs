//! The keys of the tree: `(object, kind, offset)`, in this order.

use thiserror::Error;

/// Bytes of a key on disk: object (8), kind (1), offset (8), little-endian.
pub const KEY_LEN: usize = 17;

/// What an item is. Kinds are numbered so that an inode's items lie in the order in which they are looked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum KeyKind {
    /// A stripe group.
    Group = 1,
    /// An inode without a name.
    Orphan = 2,
    /// An inode.
    Inode = 3,
    /// The bytes of a small file, or a symbolic link's target.
    Inline = 4,
    /// Extended attributes whose names have one hash.
    Xattr = 5,
    /// A folder's entries whose names have one hash.
    Name = 6,
    /// A folder's entry, by its number.
    Number = 7,
    /// A run of a file's blocks.
    Extent = 8,
}

impl KeyKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Group,
        Self::Orphan,
        Self::Inode,
        Self::Inline,
        Self::Xattr,
        Self::Name,
        Self::Number,
        Self::Extent,
    ];

    fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// A key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key {
    /// An inode's number; 0 is the file system itself.
    pub object: u64,
    /// What the item is.
    pub kind: KeyKind,
    /// What it means depends on the kind.
    pub offset: u64,
}

/// A kind that no version knows, or a later one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("a key of kind {0}, which this version does not know; use a later version, or run fsck")]
pub struct UnknownKind(pub u8);

impl Key {
    /// A key.
    #[must_use]
    pub const fn new(object: u64, kind: KeyKind, offset: u64) -> Self {
        Self { object, kind, offset }
    }

    /// The key right before this one; none before the first.
    #[must_use]
    pub fn before(self) -> Option<Self> {
        let Self { object, kind, offset } = self;
        if let Some(offset) = offset.checked_sub(1) {
            return Some(Self { offset, ..self });
        }
        let kind_before = KeyKind::of(kind as u8 - 1);
        let last_kind = KeyKind::ALL[KeyKind::ALL.len() - 1];
        match kind_before {
            Some(kind) => Some(Self::new(object, kind, u64::MAX)),
            None => Some(Self::new(object.checked_sub(1)?, last_kind, u64::MAX)),
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> [u8; KEY_LEN] {
        let mut bytes = [0; KEY_LEN];
        bytes[..8].copy_from_slice(&self.object.to_le_bytes());
        bytes[8] = self.kind as u8;
        bytes[9..].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    /// Reads a key.
    ///
    /// # Errors
    /// [`UnknownKind`].
    pub fn decode(bytes: &[u8; KEY_LEN]) -> Result<Self, UnknownKind> {
        let number = |from: usize| {
            let mut part = [0; 8];
            part.copy_from_slice(&bytes[from..from + 8]);
            u64::from_le_bytes(part)
        };
        let kind = KeyKind::of(bytes[8]).ok_or(UnknownKind(bytes[8]))?;
        Ok(Self { object: number(0), kind, offset: number(9) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_what_they_say_and_unknown_kinds_are_named() {
        for kind in KeyKind::ALL {
            let key = Key::new(u64::MAX - 1, kind, 3);
            assert_eq!(Key::decode(&key.encode()), Ok(key));
        }
        assert_eq!(Key::decode(&[9; KEY_LEN]), Err(UnknownKind(9)));
        assert_eq!(Key::new(0, KeyKind::Group, 0).before(), None);
        assert_eq!(Key::new(3, KeyKind::Extent, 7).before(), Some(Key::new(3, KeyKind::Extent, 6)));
        let before = Key::new(3, KeyKind::Number, u64::MAX);
        assert_eq!(Key::new(3, KeyKind::Extent, 0).before(), Some(before));
        let before = Key::new(2, KeyKind::Extent, u64::MAX);
        assert_eq!(Key::new(3, KeyKind::Group, 0).before(), Some(before));
        assert!(Key::new(1, KeyKind::Extent, 9) < Key::new(2, KeyKind::Group, 0));
        assert!(Key::new(1, KeyKind::Inode, 9) < Key::new(1, KeyKind::Inline, 0));
    }
}
