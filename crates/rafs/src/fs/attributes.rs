//! Extended attributes.

use stripewise_format::rafs::{
    key::{Key, KeyKind},
    names::{NAME_MAX, Xattr, name_hash},
    value::VALUE_MAX,
};

use super::{
    FsError,
    state::{Now, State},
};
use crate::tree::Scan;

/// Whether an attribute may be there before it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetAttribute {
    /// It may, and it may not.
    Either,
    /// It must not.
    Create,
    /// It must.
    Replace,
}

impl State {
    /// The value of an attribute.
    pub(super) async fn attribute(&mut self, number: u64, name: &[u8]) -> Result<Vec<u8>, FsError> {
        self.live(number).await?;
        let all = self.attributes_of(number, self.attribute_key(number, name)).await?;
        let found = all.into_iter().find(|one| one.name == name);
        found.map(|one| one.value).ok_or(FsError::NoAttribute)
    }

    /// The names of all attributes.
    pub(super) async fn attributes(&mut self, number: u64) -> Result<Vec<Vec<u8>>, FsError> {
        self.live(number).await?;
        let mut names = Vec::new();
        let mut scan =
            Scan::over(Key::new(number, KeyKind::Xattr, 0)..=Key::new(number, KeyKind::Xattr, u64::MAX));
        while let Some(items) = scan.batch(self.store.tree()).await? {
            for item in items {
                names.extend(decode(number, &item.value)?.into_iter().map(|one| one.name));
            }
        }
        Ok(names)
    }

    /// Sets an attribute.
    pub(super) async fn set_attribute(
        &mut self,
        number: u64,
        name: &[u8],
        value: &[u8],
        how: SetAttribute,
        now: Now,
    ) -> Result<(), FsError> {
        if !(1..=NAME_MAX).contains(&name.len()) || name.contains(&0) {
            return Err(FsError::Name);
        }
        self.live(number).await?;
        self.look_at_inode(number).await?;
        let key = self.attribute_key(number, name);
        let mut all = self.attributes_of(number, key).await?;
        match (all.iter().any(|one| one.name == name), how) {
            (true, SetAttribute::Create) => return Err(FsError::Exists),
            (false, SetAttribute::Replace) => return Err(FsError::NoAttribute),
            _ => {}
        }
        all.retain(|one| one.name != name);
        all.push(Xattr { name: name.to_vec(), value: value.to_vec() });
        let bytes = all.iter().map(|one| 3 + one.name.len() + one.value.len()).sum();
        let too_long = FsError::AttributeTooLong { bytes, max: VALUE_MAX };
        let encoded = Xattr::encode(&all).ok_or(too_long)?;
        self.reserve(1)?;
        self.begin()?;
        let put = self.store.put(key, encoded.into()).await.map_err(FsError::from);
        let put = put.and_then(|()| self.note_status(number, now));
        self.end(put)
    }

    /// Removes an attribute.
    pub(super) async fn remove_attribute(
        &mut self,
        number: u64,
        name: &[u8],
        now: Now,
    ) -> Result<(), FsError> {
        self.live(number).await?;
        self.look_at_inode(number).await?;
        let key = self.attribute_key(number, name);
        let mut all = self.attributes_of(number, key).await?;
        let before = all.len();
        all.retain(|one| one.name != name);
        if all.len() == before {
            return Err(FsError::NoAttribute);
        }
        let rest = if all.is_empty() { None } else { Xattr::encode(&all) };
        self.begin()?;
        let changed = match rest {
            Some(rest) => self.store.put(key, rest.into()).await,
            None => self.store.remove(key).await.map(|_| ()),
        };
        let changed = changed.map_err(FsError::from).and_then(|()| self.note_status(number, now));
        self.end(changed)
    }

    /// Something of an inode that is in memory has changed, but not its content.
    fn note_status(&mut self, number: u64, now: Now) -> Result<(), FsError> {
        self.touch(number)?.changed_ns = now.ns;
        Ok(())
    }

    fn attribute_key(&self, number: u64, name: &[u8]) -> Key {
        Key::new(number, KeyKind::Xattr, name_hash(name, self.store.superblock().hash_seed))
    }

    async fn attributes_of(&self, number: u64, key: Key) -> Result<Vec<Xattr>, FsError> {
        match self.store.tree().get(key).await? {
            Some(value) => decode(number, &value),
            None => Ok(Vec::new()),
        }
    }
}

fn decode(number: u64, value: &[u8]) -> Result<Vec<Xattr>, FsError> {
    Xattr::decode(value).map_err(|error| FsError::Item { inode: number, error })
}
