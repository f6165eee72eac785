//! Records of the journal.
//!
//! A record is a **front**, its head and its changes in whole blocks, and then data blocks. It begins with a row of the
//! journal and fills whole rows. One CRC covers front and data, so a record is valid as a whole or not there.

use thiserror::Error;
use uuid::Uuid;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{
    key::{KEY_LEN, Key},
    space::GroupKind,
    value::{Parts, VALUE_MAX, ValueError},
};
use crate::crc::{crc32c_with_hole_of, mixed};
use crate::media::BLOCK_LEN;

/// How every record begins.
pub const RECORD_MAGIC: [u8; 8] = *b"RAFSjrnl";
/// Blocks of a record at most, padding included.
pub const RECORD_BLOCKS_MAX: u32 = 1 << 14;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawRecord {
    pub(crate) magic: [u8; 8],
    pub(crate) crc: U32,
    pub(crate) blocks: U32,
    pub(crate) uuid: [u8; 16],
    pub(crate) epoch: U64,
    pub(crate) sequence: U64,
    pub(crate) changes_bytes: U32,
    pub(crate) data_blocks: U32,
    pub(crate) reserved_56: [u8; 8],
}

const CRC_AT: usize = core::mem::offset_of!(RawRecord, crc);
const HEAD_LEN: usize = size_of::<RawRecord>();
const _: () = assert!(HEAD_LEN == 64);

/// A run of blocks of the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The first one.
    pub place: u64,
    /// How many.
    pub blocks: u32,
}

/// One change that a record makes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// The tree gets this item, in the place of the one that it has with this key.
    Put(Key, Vec<u8>),
    /// The tree loses this item, if it has it.
    Delete(Key),
    /// These blocks are taken, and their group is of this kind from now on.
    Take(GroupKind, Run),
    /// These blocks are free.
    Free(Run),
    /// The file has these blocks: so many of the record's data blocks, in turn.
    Data {
        /// The file.
        inode: u64,
        /// Its first one of these blocks.
        first: u64,
        /// How many.
        blocks: u32,
    },
    /// Data blocks of a file that came along earlier no longer count: they lie elsewhere now, or the file no longer has them.
    Forget {
        /// The file.
        inode: u64,
        /// The first of them in the file.
        first: u64,
        /// How many.
        blocks: u64,
    },
}

/// Which record it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordId {
    /// [Stands](super::superblock::Superblock::journal_id) for the file system.
    pub uuid: Uuid,
    /// That of the anchor before it: each anchor begins one.
    pub epoch: u64,
    /// Its number.
    pub sequence: u64,
}

/// A record's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHead {
    /// Which record it is.
    pub id: RecordId,
    /// Its blocks, padding included.
    pub blocks: u32,
    changes_bytes: u32,
    data_blocks: u32,
    crc: u32,
}

/// A record that is to be written.
#[derive(Debug)]
pub struct Front {
    /// Head and changes, in whole blocks. The data blocks follow.
    pub bytes: Vec<u8>,
    /// Blocks of the record. What lies behind the data blocks may be anything.
    pub blocks: u32,
}

/// Why a record does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RecordError {
    /// Fewer bytes than it has.
    #[error("the record has {wanted} bytes and only {have} were read; read all of it")]
    TooShort {
        /// Bytes given.
        have: usize,
        /// Bytes that it has.
        wanted: usize,
    },
    /// Something else, or nothing.
    #[error("no record begins here")]
    NoMagic,
    /// Another file system's.
    #[error("a record of file system {found}: left over from an earlier one")]
    Owner {
        /// The record's.
        found: Uuid,
    },
    /// Its lengths do not go together.
    #[error("the record's head gives lengths that cannot be: torn or damaged")]
    Lengths,
    /// The checksum does not match.
    #[error("the record's CRC is {stored:#010x} but its bytes give {computed:#010x}: torn or damaged")]
    Crc {
        /// As found.
        stored: u32,
        /// Over the bytes found.
        computed: u32,
    },
    /// A change is none, although the CRC is right.
    #[error("the record's CRC is right, but not its changes: {0}")]
    Change(#[from] ValueError),
}

impl RecordId {
    /// The record of these changes, in rows of `row_blocks`. None if it would be larger than [`RECORD_BLOCKS_MAX`].
    ///
    /// # Panics
    /// If there are not as many data blocks as the changes say, or one is not a block long.
    #[must_use]
    pub fn encode(&self, changes: &[Change], data: &[impl AsRef<[u8]>], row_blocks: u32) -> Option<Front> {
        let wanted: u64 = changes.iter().map(Change::data_blocks).sum();
        assert_eq!(wanted, data.len() as u64, "every data block belongs to a change");
        assert!(data.iter().all(|block| block.as_ref().len() == BLOCK_LEN), "data comes in whole blocks");
        let mut bytes = vec![0; HEAD_LEN];
        changes.iter().for_each(|change| change.encode(&mut bytes));
        let changes_bytes = bytes.len() - HEAD_LEN;
        bytes.resize(bytes.len().next_multiple_of(BLOCK_LEN), 0);
        let blocks = (bytes.len() / BLOCK_LEN + data.len()).next_multiple_of(row_blocks as usize);
        let blocks = u32::try_from(blocks).ok().filter(|blocks| *blocks <= RECORD_BLOCKS_MAX)?;
        let raw = RawRecord {
            magic: RECORD_MAGIC,
            crc: U32::ZERO,
            blocks: blocks.into(),
            uuid: *self.uuid.as_bytes(),
            epoch: self.epoch.into(),
            sequence: self.sequence.into(),
            changes_bytes: (changes_bytes as u32).into(),
            data_blocks: (data.len() as u32).into(),
            reserved_56: [0; 8],
        };
        bytes[..HEAD_LEN].copy_from_slice(raw.as_bytes());
        let crc = mixed(crc32c_with_hole_of(&bytes, CRC_AT, data));
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        Some(Front { bytes, blocks })
    }
}

impl RecordHead {
    /// Reads the head of a record of this file system from its first block. Its CRC was not looked at.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn decode(block: &[u8], uuid: Uuid) -> Result<Self, RecordError> {
        let too_short = RecordError::TooShort { have: block.len(), wanted: HEAD_LEN };
        let (raw, _) = RawRecord::ref_from_prefix(block).map_err(|_| too_short)?;
        if raw.magic != RECORD_MAGIC {
            return Err(RecordError::NoMagic);
        }
        let found = Uuid::from_bytes(raw.uuid);
        if found != uuid {
            return Err(RecordError::Owner { found });
        }
        let head = Self {
            id: RecordId { uuid, epoch: raw.epoch.get(), sequence: raw.sequence.get() },
            blocks: raw.blocks.get(),
            changes_bytes: raw.changes_bytes.get(),
            data_blocks: raw.data_blocks.get(),
            crc: raw.crc.get(),
        };
        let has_room = head.end() <= u64::from(head.blocks) * BLOCK_LEN as u64;
        if head.blocks > RECORD_BLOCKS_MAX || !has_room {
            return Err(RecordError::Lengths);
        }
        Ok(head)
    }

    /// Bytes of head and changes, in whole blocks.
    #[must_use]
    pub fn front_bytes(&self) -> usize {
        (HEAD_LEN + self.changes_bytes as usize).next_multiple_of(BLOCK_LEN)
    }

    /// Where the data blocks end.
    fn end(&self) -> u64 {
        self.front_bytes() as u64 + u64::from(self.data_blocks) * BLOCK_LEN as u64
    }

    /// The record's changes, and its data blocks, out of all of its bytes.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn open<'a>(&self, record: &'a [u8]) -> Result<(Vec<Change>, &'a [u8]), RecordError> {
        let wanted = self.end() as usize;
        let too_short = RecordError::TooShort { have: record.len(), wanted };
        let (front, data) = record.get(..wanted).ok_or(too_short)?.split_at(self.front_bytes());
        let computed = mixed(crc32c_with_hole_of(front, CRC_AT, &[data]));
        if computed != self.crc {
            return Err(RecordError::Crc { stored: self.crc, computed });
        }
        let changes = Change::decode_all(&front[HEAD_LEN..HEAD_LEN + self.changes_bytes as usize])?;
        let data_blocks: u64 = changes.iter().map(Change::data_blocks).sum();
        if data_blocks != u64::from(self.data_blocks) {
            return Err(ValueError::Nonsense { field: "number of data blocks", found: data_blocks }.into());
        }
        Ok((changes, data))
    }
}

const PUT: u8 = 1;
const DELETE: u8 = 2;
const TAKE: u8 = 3;
const FREE: u8 = 4;
const DATA: u8 = 5;
const FORGET: u8 = 6;

impl Change {
    /// The data blocks that come with it.
    fn data_blocks(&self) -> u64 {
        if let Self::Data { blocks, .. } = self { (*blocks).into() } else { 0 }
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Put(key, value) => {
                assert!(value.len() <= VALUE_MAX, "a value fits a node");
                bytes.push(PUT);
                bytes.extend(key.encode());
                bytes.extend((value.len() as u16).to_le_bytes());
                bytes.extend(value);
            }
            Self::Delete(key) => {
                bytes.push(DELETE);
                bytes.extend(key.encode());
            }
            Self::Take(kind, run) => {
                bytes.extend([TAKE, *kind as u8]);
                encode_run(*run, bytes);
            }
            Self::Free(run) => {
                bytes.push(FREE);
                encode_run(*run, bytes);
            }
            Self::Data { inode, first, blocks } => {
                bytes.push(DATA);
                bytes.extend(inode.to_le_bytes());
                bytes.extend(first.to_le_bytes());
                bytes.extend(blocks.to_le_bytes());
            }
            Self::Forget { inode, first, blocks } => {
                bytes.push(FORGET);
                [inode, first, blocks].into_iter().for_each(|number| bytes.extend(number.to_le_bytes()));
            }
        }
    }

    fn decode_all(bytes: &[u8]) -> Result<Vec<Self>, ValueError> {
        let mut parts = Parts::new("change", bytes);
        let mut changes = Vec::new();
        while !parts.is_over() {
            changes.push(Self::decode(&mut parts)?);
        }
        Ok(changes)
    }

    fn decode(parts: &mut Parts<'_>) -> Result<Self, ValueError> {
        match parts.u8()? {
            PUT => {
                let key = decode_key(parts)?;
                let len = usize::from(parts.u16()?);
                if len > VALUE_MAX {
                    return Err(ValueError::Length { what: "value", found: len });
                }
                Ok(Self::Put(key, parts.take(len)?.to_vec()))
            }
            DELETE => Ok(Self::Delete(decode_key(parts)?)),
            TAKE => Ok(Self::Take(GroupKind::decode(parts.u8()?)?, decode_run(parts)?)),
            FREE => Ok(Self::Free(decode_run(parts)?)),
            DATA => decode_data(parts),
            FORGET => decode_forget(parts),
            other => Err(ValueError::Nonsense { field: "change's kind", found: other.into() }),
        }
    }
}

fn decode_data(parts: &mut Parts<'_>) -> Result<Change, ValueError> {
    let (inode, first, blocks) = (parts.u64()?, parts.u64()?, parts.u32()?);
    if blocks == 0 || first.checked_add(blocks.into()).is_none() {
        return Err(ValueError::Nonsense { field: "number of blocks that come along", found: blocks.into() });
    }
    Ok(Change::Data { inode, first, blocks })
}

fn decode_forget(parts: &mut Parts<'_>) -> Result<Change, ValueError> {
    let (inode, first, blocks) = (parts.u64()?, parts.u64()?, parts.u64()?);
    if first.checked_add(blocks).is_none() {
        return Err(ValueError::Nonsense { field: "number of blocks that are forgotten", found: blocks });
    }
    Ok(Change::Forget { inode, first, blocks })
}

fn encode_run(run: Run, bytes: &mut Vec<u8>) {
    bytes.extend(run.place.to_le_bytes());
    bytes.extend(run.blocks.to_le_bytes());
}

fn decode_run(parts: &mut Parts<'_>) -> Result<Run, ValueError> {
    let run = Run { place: parts.u64()?, blocks: parts.u32()? };
    let is_one = run.blocks > 0 && run.place.checked_add(run.blocks.into()).is_some();
    let nonsense = ValueError::Nonsense { field: "run's number of blocks", found: run.blocks.into() };
    if is_one { Ok(run) } else { Err(nonsense) }
}

fn decode_key(parts: &mut Parts<'_>) -> Result<Key, ValueError> {
    let bytes: [u8; KEY_LEN] = parts.array()?;
    Key::decode(&bytes)
        .map_err(|unknown| ValueError::Nonsense { field: "key's kind", found: unknown.0.into() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rafs::key::KeyKind;

    const ID: RecordId = RecordId { uuid: Uuid::from_u128(5), epoch: 2, sequence: 900 };

    fn change() -> impl Strategy<Value = Change> {
        let key = (any::<u64>(), prop::sample::select(KeyKind::ALL.to_vec()), any::<u64>())
            .prop_map(|(object, kind, offset)| Key::new(object, kind, offset));
        let run = (0..u64::MAX / 2, 1..1000_u32).prop_map(|(place, blocks)| Run { place, blocks });
        prop_oneof![
            (key.clone(), prop::collection::vec(any::<u8>(), 0..=VALUE_MAX))
                .prop_map(|(key, value)| Change::Put(key, value)),
            key.prop_map(Change::Delete),
            (prop::sample::select(GroupKind::ALL.to_vec()), run.clone())
                .prop_map(|(kind, run)| Change::Take(kind, run)),
            run.prop_map(Change::Free),
            (any::<u64>(), 0..u64::MAX / 2, 1..4_u32).prop_map(|(inode, first, blocks)| Change::Data {
                inode,
                first,
                blocks
            }),
            (any::<u64>(), 0..u64::MAX / 2, 0..u64::MAX / 2)
                .prop_map(|(inode, first, blocks)| { Change::Forget { inode, first, blocks } }),
        ]
    }

    /// A record's bytes, and what it was made of.
    fn written(changes: &[Change], row_blocks: u32) -> (Vec<u8>, Vec<u8>) {
        let count: u64 = changes.iter().map(Change::data_blocks).sum();
        let data: Vec<_> = (0..count).map(|number| vec![number as u8 + 1; BLOCK_LEN]).collect();
        let front = ID.encode(changes, &data, row_blocks).unwrap();
        let mut bytes = front.bytes;
        data.iter().for_each(|block| bytes.extend(block));
        assert!(front.blocks.is_multiple_of(row_blocks) && bytes.len() <= front.blocks as usize * BLOCK_LEN);
        bytes.resize(front.blocks as usize * BLOCK_LEN, 0xEE);
        (bytes, data.concat())
    }

    proptest! {
        #[test]
        fn records_are_read_as_they_were_written(
            changes in prop::collection::vec(change(), 0..20),
            row_blocks in 1..9_u32,
        ) {
            let (bytes, data) = written(&changes, row_blocks);
            let head = RecordHead::decode(&bytes[..BLOCK_LEN], ID.uuid).unwrap();
            prop_assert_eq!((head.id, head.blocks as usize * BLOCK_LEN), (ID, bytes.len()));
            prop_assert_eq!(head.open(&bytes), Ok((changes, &data[..])));
        }

        /// A record is valid as a whole or not there.
        #[test]
        fn a_record_that_lacks_a_sector_is_none(
            changes in prop::collection::vec(change(), 1..10),
            sector in any::<prop::sample::Index>(),
        ) {
            let (mut bytes, data) = written(&changes, 4);
            let len = RecordHead::decode(&bytes, ID.uuid).unwrap().front_bytes() + data.len();
            let at = sector.index(len / 512) * 512;
            prop_assume!(bytes[at..at + 512].iter().any(|byte| *byte != 0));
            bytes[at..at + 512].fill(0);
            let read = RecordHead::decode(&bytes, ID.uuid).and_then(|head| head.open(&bytes).map(|_| ()));
            prop_assert!(read.is_err());
        }

        #[test]
        fn any_changes_give_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Change::decode_all(&bytes);
        }

        #[test]
        fn any_head_gives_an_answer(bytes in prop::collection::vec(any::<u8>(), HEAD_LEN..=BLOCK_LEN)) {
            let mut bytes = bytes;
            bytes[..8].copy_from_slice(&RECORD_MAGIC);
            bytes[16..32].copy_from_slice(ID.uuid.as_bytes());
            if let Ok(head) = RecordHead::decode(&bytes, ID.uuid) {
                prop_assert!(head.open(&bytes).is_err());
            }
        }
    }

    #[test]
    fn data_has_blocks_that_a_file_can_have() {
        let decoded = |first, blocks| {
            let mut bytes = Vec::new();
            Change::Data { inode: 3, first, blocks }.encode(&mut bytes);
            Change::decode_all(&bytes)
        };
        assert!(decoded(0, 1).is_ok() && decoded(u64::MAX - 2, 2).is_ok());
        for (first, blocks) in [(0, 0), (u64::MAX, 1), (u64::MAX - 2, 3)] {
            assert!(matches!(decoded(first, blocks), Err(ValueError::Nonsense { .. })), "{first}+{blocks}");
        }
    }

    #[test]
    fn what_is_no_record_is_told_apart() {
        let (bytes, _) = written(&[Change::Delete(Key::new(1, KeyKind::Inode, 0))], 4);
        let head = |bytes: &[u8]| RecordHead::decode(bytes, ID.uuid);
        assert_eq!(head(&bytes[..60]), Err(RecordError::TooShort { have: 60, wanted: 64 }));
        assert_eq!(head(&[0; BLOCK_LEN]), Err(RecordError::NoMagic));
        let other = Uuid::from_u128(6);
        assert_eq!(RecordHead::decode(&bytes, other), Err(RecordError::Owner { found: ID.uuid }));
        let mut longer = bytes.clone();
        longer[core::mem::offset_of!(RawRecord, data_blocks)] = 4;
        assert_eq!(head(&longer), Err(RecordError::Lengths));
        let short = head(&bytes).unwrap().open(&bytes[..100]);
        assert_eq!(short, Err(RecordError::TooShort { have: 100, wanted: BLOCK_LEN }));
        let large = Change::Data { inode: 1, first: 0, blocks: RECORD_BLOCKS_MAX };
        let data = vec![[0; BLOCK_LEN]; RECORD_BLOCKS_MAX as usize];
        assert!(ID.encode(&[large], &data, 4).is_none());
    }
}
