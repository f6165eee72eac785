//! Entries of folders, and extended attributes. Items are found by a hash of the name, so an item holds all of one hash.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{
    inode::FileType,
    value::{Parts, VALUE_MAX, ValueError},
};

/// Bytes of a name at most.
pub const NAME_MAX: usize = 255;

/// What the items of a name are found by: XXH3, seeded by the superblock, so that nobody can choose names of one hash.
#[must_use]
pub fn name_hash(name: &[u8], seed: u64) -> u64 {
    xxh3_64_with_seed(name, seed)
}

/// An entry of a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The inode.
    pub inode: u64,
    /// The entry's number in its folder, which no entry of another name there ever had.
    pub number: u64,
    /// What the inode is.
    pub file_type: FileType,
    /// The name, 1 to [`NAME_MAX`] bytes without `/` and zero.
    pub name: Vec<u8>,
}

impl Entry {
    /// The bytes of some entries; none if they do not fit a value.
    #[must_use]
    pub fn encode(entries: &[Self]) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        for Self { inode, number, file_type, name } in entries {
            value.extend(inode.to_le_bytes());
            value.extend(number.to_le_bytes());
            value.push(*file_type as u8);
            value.push(u8::try_from(name.len()).ok()?);
            value.extend(name);
        }
        (value.len() <= VALUE_MAX).then_some(value)
    }

    /// Reads a value: one entry or more.
    ///
    /// # Errors
    /// [`ValueError`].
    pub fn decode(value: &[u8]) -> Result<Vec<Self>, ValueError> {
        let mut parts = Parts::new("folder's entry", value);
        let mut entries = Vec::new();
        loop {
            let (inode, number, file_type) = (parts.u64()?, parts.u64()?, parts.u8()?);
            let nonsense = ValueError::Nonsense { field: "entry's type", found: file_type.into() };
            let file_type = FileType::of(file_type).ok_or(nonsense)?;
            let len = parts.u8()?;
            let name = parts.take(len.into())?.to_vec();
            if inode == 0 {
                return Err(ValueError::Nonsense { field: "entry's inode", found: 0 });
            }
            if !is_name(&name) {
                return Err(ValueError::Nonsense { field: "entry's name of bytes", found: len.into() });
            }
            entries.push(Self { inode, number, file_type, name });
            if parts.is_over() {
                return Ok(entries);
            }
        }
    }
}

/// Whether these bytes may be a name in a folder.
#[must_use]
pub fn is_name(name: &[u8]) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name != b"."
        && name != b".."
        && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

/// An extended attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Xattr {
    /// Its name with its namespace, as `user.mime_type`: 1 to [`NAME_MAX`] bytes.
    pub name: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
}

impl Xattr {
    /// The bytes of some attributes; none if they do not fit a value.
    #[must_use]
    pub fn encode(attributes: &[Self]) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for Self { name, value } in attributes {
            bytes.push(u8::try_from(name.len()).ok()?);
            bytes.extend(u16::try_from(value.len()).ok()?.to_le_bytes());
            bytes.extend(name);
            bytes.extend(value);
        }
        (bytes.len() <= VALUE_MAX).then_some(bytes)
    }

    /// Reads a value: one attribute or more.
    ///
    /// # Errors
    /// [`ValueError`].
    pub fn decode(value: &[u8]) -> Result<Vec<Self>, ValueError> {
        let mut parts = Parts::new("extended attribute", value);
        let mut attributes = Vec::new();
        loop {
            let (name_len, value_len) = (parts.u8()?, parts.u16()?);
            let name = parts.take(name_len.into())?.to_vec();
            let value = parts.take(value_len.into())?.to_vec();
            if name.is_empty() || name.contains(&0) {
                return Err(ValueError::Nonsense {
                    field: "attribute's name of bytes",
                    found: name_len.into(),
                });
            }
            attributes.push(Self { name, value });
            if parts.is_over() {
                return Ok(attributes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entries() -> impl Strategy<Value = Vec<Entry>> {
        let name = prop::collection::vec(any::<u8>(), 1..60).prop_filter("a name", |name| is_name(name));
        let one = (1..u64::MAX, any::<u64>(), prop::sample::select(FileType::ALL.to_vec()), name);
        let one = one.prop_map(|(inode, number, file_type, name)| Entry { inode, number, file_type, name });
        prop::collection::vec(one, 1..20)
    }

    proptest! {
        #[test]
        fn entries_are_read_as_they_were_written(entries in entries()) {
            let value = Entry::encode(&entries).unwrap();
            prop_assert_eq!(Entry::decode(&value), Ok(entries));
        }

        #[test]
        fn attributes_are_read_as_they_were_written(
            pairs in prop::collection::vec(("[a-z.]{1,40}", prop::collection::vec(any::<u8>(), 0..100)), 1..10),
        ) {
            let attributes: Vec<_> =
                pairs.into_iter().map(|(name, value)| Xattr { name: name.into_bytes(), value }).collect();
            let value = Xattr::encode(&attributes).unwrap();
            prop_assert_eq!(Xattr::decode(&value), Ok(attributes));
        }

        #[test]
        fn any_bytes_give_an_answer(value in prop::collection::vec(any::<u8>(), 0..600)) {
            if let Ok(entries) = Entry::decode(&value) {
                prop_assert_eq!(Entry::encode(&entries), Some(value.clone()));
            }
            if let Ok(attributes) = Xattr::decode(&value) {
                prop_assert_eq!(Xattr::encode(&attributes), Some(value));
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_not_written_and_what_is_no_name_not_read() {
        let entry =
            |name: &[u8]| Entry { inode: 1, number: 2, file_type: FileType::File, name: name.to_vec() };
        assert!(Entry::encode(&vec![entry(&[b'a'; 255]); 8]).is_some());
        assert!(Entry::encode(&vec![entry(&[b'a'; 255]); 9]).is_none());
        assert!(Entry::encode(&[entry(&[b'a'; 256])]).is_none());
        for name in [&b".."[..], b".", b"a/b", b"", b"a\0"] {
            let value = Entry::encode(&[entry(name)]).unwrap();
            assert!(matches!(Entry::decode(&value), Err(ValueError::Nonsense { .. })), "{name:?}");
        }
        assert!(Entry::decode(&[]).is_err() && Xattr::decode(&[]).is_err());
    }
}
