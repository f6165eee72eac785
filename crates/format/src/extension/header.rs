//! The extension header as a valid value. One 4 KiB block, CRC-32C over all of it.
//!
//! Reserved places between fields are written as zero and ignored when read: later versions grow into the
//! tail, which is carried unchanged. The three feature masks say whether a version may use an area with
//! fields it does not know.

use thiserror::Error;
use uuid::Uuid;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, IntoBytes};

use super::fields::{
    ArrayOptions, BitmapDescriptor, CacheOptions, CompatFeatures, Endurance, FieldError, IncompatFeatures,
    Job, JobKind, LogDescriptor, MapKind, MemberClass, ReadOnlyCompatFeatures, StrideRecord, Zeroing,
};
use super::raw::{
    self, CRC_AT, HEADER_MAGIC, HEADER_VERSION, RawHeader, SERVICE_TIMES, STRIDE_REGIONS, STRIDES, TAIL_LEN,
};
use crate::bitmap::SLOTS_PER_PAGE;
use crate::crc::{crc32c, crc32c_with_hole};
use crate::media::{BLOCK_LEN, Block};

/// Why one copy of the header cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum HeaderError {
    /// Fewer bytes than a header has.
    #[error("an extension header has {BLOCK_LEN} bytes and only {have} were read; read the whole block")]
    TooShort {
        /// Bytes given.
        have: usize,
    },
    /// All zero: never written, or wiped.
    #[error("no extension header here: the block is all zero")]
    Blank,
    /// Something else lies here.
    #[error(
        "no extension header here: other bytes are in its place; something else has been written over it"
    )]
    NoMagic,
    /// The checksum does not match.
    #[error("extension header CRC is {stored:#010x} but its bytes give {computed:#010x}: torn or damaged")]
    Crc {
        /// As found.
        stored: u32,
        /// Over the bytes found.
        computed: u32,
    },
    /// A version that this one cannot read.
    #[error("extension header version {found} is not {HEADER_VERSION}; use the Stripewise that wrote it")]
    Version {
        /// The version found.
        found: u16,
    },
    /// A length that is not one block.
    #[error(
        "the extension header says it has {found} bytes, not {BLOCK_LEN}; use the Stripewise that wrote it"
    )]
    Length {
        /// The length found.
        found: u32,
    },
    /// Features without which the area cannot be understood.
    #[error("{0}")]
    Incompatible(UnknownFeatures),
    /// A value without meaning.
    #[error(transparent)]
    Field(#[from] FieldError),
}

/// Feature bits that this version would have to know, but does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "the extension area has feature bits {bits:#x} that this version does not know; use the one that set them"
)]
pub struct UnknownFeatures {
    /// The bits.
    pub bits: u32,
}

/// One copy of the extension header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Features that may be ignored.
    pub compat: CompatFeatures,
    /// Features that forbid writing to a version that does not know them; see [`Header::check_writable`].
    pub ro_compat: ReadOnlyCompatFeatures,
    /// Features that forbid reading to a version that does not know them; a decoded header has none of these.
    pub incompat: IncompatFeatures,
    /// The array this member belongs to; equal to the superblock's.
    pub array_uuid: Uuid,
    /// This member; equal to the superblock's.
    pub device_uuid: Uuid,
    /// Grows with each write of the header; the newest valid copy counts.
    pub generation: u64,
    /// CRC-32C of the md superblock's block as Stripewise last wrote, or is about to write, it on this
    /// member.
    pub superblock_crc_current: u32,
    /// The same of the block before that.
    pub superblock_crc_previous: u32,
    /// The write-intent bitmap.
    pub bitmap: BitmapDescriptor,
    /// The log.
    pub log: LogDescriptor,
    /// What kind of device this member is.
    pub member_class: MemberClass,
    /// An operator gave the class; it was not detected.
    pub member_class_given: bool,
    /// What zeroing a range of this member does.
    pub zeroing: Zeroing,
    /// Measured service times in nanoseconds; 0: not measured. The engine defines which entry is which
    /// operation.
    pub service_time_ns: [u32; SERVICE_TIMES],
    /// Contiguity transform: strides of reads.
    pub stride_read: StrideRecord,
    /// Strides of writes.
    pub stride_write: StrideRecord,
    /// The background job under way.
    pub job: Job,
    /// An operator's choices.
    pub options: ArrayOptions,
    /// How much may be written to the member, and how much was.
    pub endurance: Endurance,
    /// Bytes for later versions, carried unchanged.
    pub tail: Tail,
}

/// The header's unused end. Zero from this version; carried unchanged from a later one.
#[derive(Clone, PartialEq, Eq)]
pub struct Tail(Box<[u8; TAIL_LEN]>);

impl std::fmt::Debug for Tail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let used = self.0.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        write!(f, "Tail({used} bytes used)")
    }
}

/// Which program last wrote a member's superblock block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SuperblockOrigin {
    /// Stripewise, and the write arrived.
    Current,
    /// Stripewise, and a crash kept its newest write from arriving.
    Previous,
    /// Another program has written it since: the write-intent bitmap does not cover that program's writes.
    Foreign,
}

impl Header {
    /// The header of a new area: nothing described, nothing measured, generation 0.
    #[must_use]
    pub fn new(array_uuid: Uuid, device_uuid: Uuid) -> Self {
        Self {
            compat: CompatFeatures::default(),
            ro_compat: ReadOnlyCompatFeatures::default(),
            incompat: IncompatFeatures::default(),
            array_uuid,
            device_uuid,
            generation: 0,
            superblock_crc_current: 0,
            superblock_crc_previous: 0,
            bitmap: BitmapDescriptor::default(),
            log: LogDescriptor::default(),
            member_class: MemberClass::Unknown,
            member_class_given: false,
            zeroing: Zeroing::NotTried,
            service_time_ns: [0; SERVICE_TIMES],
            stride_read: StrideRecord::default(),
            stride_write: StrideRecord::default(),
            job: Job::default(),
            options: ArrayOptions::default(),
            endurance: Endurance::default(),
            tail: Tail(Box::new([0; TAIL_LEN])),
        }
    }

    /// Parses one copy: `block` is the 4096 bytes it lies in.
    pub fn decode(block: &[u8]) -> Result<Self, HeaderError> {
        let raw = verified(block)?;
        if raw.version.get() > HEADER_VERSION || raw.version.get() == 0 {
            return Err(HeaderError::Version { found: raw.version.get() });
        }
        if raw.header_bytes.get() as usize != BLOCK_LEN {
            return Err(HeaderError::Length { found: raw.header_bytes.get() });
        }
        match IncompatFeatures(raw.incompat.get()).unknown() {
            0 => Ok(Self::from_raw(raw)?),
            bits => Err(HeaderError::Incompatible(UnknownFeatures { bits })),
        }
    }

    /// The block of one copy, CRC and all.
    #[must_use]
    pub fn encode(&self) -> Block {
        let mut block = [0; BLOCK_LEN];
        block.copy_from_slice(self.to_raw().as_bytes());
        let crc = crc32c_with_hole(&block, CRC_AT);
        block[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// Whether this version may write into the area.
    pub fn check_writable(&self) -> Result<(), UnknownFeatures> {
        match self.ro_compat.unknown() {
            0 => Ok(()),
            bits => Err(UnknownFeatures { bits }),
        }
    }

    /// Notes that the md superblock's block will next be written as `block`. The header must be durable
    /// before that write starts.
    pub fn expect_superblock(&mut self, block: &Block) {
        self.superblock_crc_previous = self.superblock_crc_current;
        self.superblock_crc_current = crc32c(block);
    }

    /// Which program wrote the superblock's block found on the member.
    #[must_use]
    pub fn superblock_origin(&self, block: &Block) -> SuperblockOrigin {
        match crc32c(block) {
            crc if crc == self.superblock_crc_current => SuperblockOrigin::Current,
            crc if crc == self.superblock_crc_previous => SuperblockOrigin::Previous,
            _ => SuperblockOrigin::Foreign,
        }
    }

    fn from_raw(raw: &RawHeader) -> Result<Self, FieldError> {
        if raw.member_class_given > 1 {
            return Err(FieldError { field: "member_class_given", value: raw.member_class_given.into() });
        }
        Ok(Self {
            compat: CompatFeatures(raw.compat.get()),
            ro_compat: ReadOnlyCompatFeatures(raw.ro_compat.get()),
            incompat: IncompatFeatures(raw.incompat.get()),
            array_uuid: Uuid::from_bytes(raw.array_uuid),
            device_uuid: Uuid::from_bytes(raw.device_uuid),
            generation: raw.generation.get(),
            superblock_crc_current: raw.superblock_crc_current.get(),
            superblock_crc_previous: raw.superblock_crc_previous.get(),
            bitmap: bitmap_from_raw(raw)?,
            log: LogDescriptor {
                offset_bytes: raw.log_offset_bytes.get(),
                length_bytes: raw.log_length_bytes.get(),
            },
            member_class: MemberClass::from_number(raw.member_class)?,
            member_class_given: raw.member_class_given == 1,
            // It is advice: a result that only a later version knows is tried anew.
            zeroing: Zeroing::from_number(raw.zeroing).unwrap_or_default(),
            service_time_ns: raw.service_time_ns.map(U32::get),
            stride_read: strides_from_raw(
                raw.s_max_read,
                (raw.s_max_given, 1),
                raw.stride_except_read,
                raw.stride_time_read,
            ),
            stride_write: strides_from_raw(
                raw.s_max_write,
                (raw.s_max_given, 2),
                raw.stride_except_write,
                raw.stride_time_write,
            ),
            job: job_from_raw(raw)?,
            options: ArrayOptions {
                selection_policy: raw.selection_policy,
                cache_policy: raw.cache_policy,
                cache: CacheOptions {
                    size_bytes: raw.cache_size_bytes.get(),
                    age_ms: raw.cache_age_ms.get(),
                    idle_ms: raw.cache_idle_ms.get(),
                    flush_ms: raw.cache_flush_ms.get(),
                    when: raw.cache_when,
                    what: raw.cache_what,
                    high_percent: raw.cache_high_percent,
                    low_percent: raw.cache_low_percent,
                    read: raw.cache_read,
                    alloc: raw.cache_alloc,
                    past: raw.cache_past,
                    gaps: raw.cache_gaps,
                    is_open: raw.cache_open != 0,
                },
                locking_policy: raw.locking_policy,
                consistency_policy: raw.consistency_policy,
                speed_min_kib_per_s: raw.speed_min_kib_per_s.get(),
                speed_max_kib_per_s: raw.speed_max_kib_per_s.get(),
            },
            endurance: Endurance {
                rated_write_bytes: raw.rated_write_bytes.get(),
                written_bytes: raw.written_bytes.get(),
                written_since_s: raw.written_since_s.get(),
                warranty_end_s: raw.warranty_end_s.get(),
                warranty_margin_days: raw.warranty_margin_days.get(),
            },
            tail: Tail(Box::new(raw.tail)),
        })
    }

    fn to_raw(&self) -> RawHeader {
        RawHeader {
            magic: HEADER_MAGIC,
            version: HEADER_VERSION.into(),
            header_bytes: (BLOCK_LEN as u32).into(),
            compat: self.compat.0.into(),
            ro_compat: self.ro_compat.0.into(),
            incompat: self.incompat.0.into(),
            array_uuid: self.array_uuid.into_bytes(),
            device_uuid: self.device_uuid.into_bytes(),
            generation: self.generation.into(),
            superblock_crc_current: self.superblock_crc_current.into(),
            superblock_crc_previous: self.superblock_crc_previous.into(),
            bitmap_offset_bytes: self.bitmap.offset_bytes.into(),
            bitmap_region_bytes: self.bitmap.region_bytes.into(),
            bitmap_region_count: self.bitmap.region_count.into(),
            bitmap_page_count: self.bitmap.page_count.into(),
            bitmap_slots_per_page: SLOTS_PER_PAGE.into(),
            bitmap_map_kind: self.bitmap.map_kind as u8,
            log_offset_bytes: self.log.offset_bytes.into(),
            log_length_bytes: self.log.length_bytes.into(),
            member_class: self.member_class as u8,
            member_class_given: u8::from(self.member_class_given),
            zeroing: self.zeroing as u8,
            service_time_ns: self.service_time_ns.map(Into::into),
            s_max_read: self.stride_read.s_max.into(),
            s_max_write: self.stride_write.s_max.into(),
            job_kind: self.job.kind as u8,
            job_paused: u8::from(self.job.paused),
            job_position_bytes: self.job.position_bytes.into(),
            job_mismatches: self.job.mismatches.into(),
            selection_policy: self.options.selection_policy,
            cache_policy: self.options.cache_policy,
            locking_policy: self.options.locking_policy,
            consistency_policy: self.options.consistency_policy,
            speed_min_kib_per_s: self.options.speed_min_kib_per_s.into(),
            speed_max_kib_per_s: self.options.speed_max_kib_per_s.into(),
            rated_write_bytes: self.endurance.rated_write_bytes.into(),
            written_bytes: self.endurance.written_bytes.into(),
            written_since_s: self.endurance.written_since_s.into(),
            warranty_end_s: self.endurance.warranty_end_s.into(),
            warranty_margin_days: self.endurance.warranty_margin_days.into(),
            cache_size_bytes: self.options.cache.size_bytes.into(),
            cache_age_ms: self.options.cache.age_ms.into(),
            cache_idle_ms: self.options.cache.idle_ms.into(),
            cache_flush_ms: self.options.cache.flush_ms.into(),
            cache_when: self.options.cache.when,
            cache_what: self.options.cache.what,
            cache_high_percent: self.options.cache.high_percent,
            cache_low_percent: self.options.cache.low_percent,
            cache_read: self.options.cache.read,
            cache_alloc: self.options.cache.alloc,
            cache_past: self.options.cache.past,
            cache_gaps: self.options.cache.gaps,
            cache_open: self.options.cache.is_open.into(),
            stride_time_read: self.stride_read.times.map(Into::into),
            stride_time_write: self.stride_write.times.map(Into::into),
            stride_except_read: self.stride_read.except,
            stride_except_write: self.stride_write.except,
            s_max_given: u8::from(self.stride_read.s_max_given)
                | u8::from(self.stride_write.s_max_given) << 1,
            tail: *self.tail.0,
            ..raw::zeroed()
        }
    }
}

/// The raw header in `block`, if magic and CRC are right.
pub(crate) fn verified(block: &[u8]) -> Result<&RawHeader, HeaderError> {
    let (raw, _) =
        RawHeader::ref_from_prefix(block).map_err(|_| HeaderError::TooShort { have: block.len() })?;
    if raw.as_bytes().iter().all(|byte| *byte == 0) {
        return Err(HeaderError::Blank);
    }
    if raw.magic != HEADER_MAGIC {
        return Err(HeaderError::NoMagic);
    }
    let (stored, computed) = (raw.crc.get(), crc32c_with_hole(raw.as_bytes(), CRC_AT));
    if stored == computed { Ok(raw) } else { Err(HeaderError::Crc { stored, computed }) }
}

fn bitmap_from_raw(raw: &RawHeader) -> Result<BitmapDescriptor, FieldError> {
    let slots = raw.bitmap_slots_per_page.get();
    if slots != SLOTS_PER_PAGE {
        return Err(FieldError { field: "bitmap_slots_per_page", value: slots.into() });
    }
    Ok(BitmapDescriptor {
        offset_bytes: raw.bitmap_offset_bytes.get(),
        region_bytes: raw.bitmap_region_bytes.get(),
        region_count: raw.bitmap_region_count.get(),
        page_count: raw.bitmap_page_count.get(),
        map_kind: MapKind::from_number(raw.bitmap_map_kind)?,
    })
}

fn strides_from_raw(
    s_max: U32,
    (given, bit): (u8, u8),
    except: [[u8; 2]; STRIDE_REGIONS],
    times: [U16; STRIDES],
) -> StrideRecord {
    StrideRecord { s_max: s_max.get(), s_max_given: given & bit != 0, except, times: times.map(U16::get) }
}

fn job_from_raw(raw: &RawHeader) -> Result<Job, FieldError> {
    if raw.job_paused > 1 {
        return Err(FieldError { field: "job_paused", value: raw.job_paused.into() });
    }
    Ok(Job {
        kind: JobKind::from_number(raw.job_kind)?,
        paused: raw.job_paused == 1,
        position_bytes: raw.job_position_bytes.get(),
        mismatches: raw.job_mismatches.get(),
    })
}
