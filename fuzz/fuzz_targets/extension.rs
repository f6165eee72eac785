//! The extension header's two copies from arbitrary bytes, and any header through its block and back.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use stripewise_format::crc::crc32c_with_hole;
use stripewise_format::extension::*;
use uuid::Uuid;

#[derive(Arbitrary, Debug)]
enum Input {
    /// Both copies as they might be read.
    Bytes(Vec<u8>, Vec<u8>),
    /// Both copies with magic and CRC made right, so that the fuzzer gets past them.
    Checked(Vec<u8>, Vec<u8>, u64),
    /// Fields, and bytes of the older copy that a torn write has reached.
    Fields(Box<Fields>, [bool; 8]),
}

#[derive(Arbitrary, Debug)]
struct Fields {
    uuids: (u128, u128),
    masks: (u32, u32),
    generation: u64,
    crcs: (u32, u32),
    bitmap: (u64, u64, u64, u32, bool),
    log: (u64, u64),
    class: u8,
    class_given: bool,
    service_time_ns: [u32; SERVICE_TIMES],
    strides: [(u32, bool, [[u8; 2]; STRIDE_REGIONS], [u16; STRIDES]); 2],
    cache: (u64, [u32; 3], [u8; 8]),
    job: (u8, bool, u64, u64),
    policies: [u8; 4],
    speeds: (u32, u32),
    endurance: (u64, u64, u64, u64, u32),
    data_offset_bytes: u64,
}

fn stride_record(
    (s_max, s_max_given, except, times): &(u32, bool, [[u8; 2]; STRIDE_REGIONS], [u16; STRIDES]),
) -> StrideRecord {
    StrideRecord { s_max: *s_max, s_max_given: *s_max_given, except: *except, times: *times }
}

fn cache_options(fields: &Fields) -> CacheOptions {
    let (size_bytes, [age_ms, idle_ms, flush_ms], [when, what, high_percent, low_percent, read, alloc, past, gaps]) =
        fields.cache;
    CacheOptions {
        size_bytes,
        age_ms,
        idle_ms,
        flush_ms,
        when,
        what,
        high_percent,
        low_percent,
        read,
        alloc,
        past,
        gaps,
        ..CacheOptions::default()
    }
}

fn header(fields: &Fields) -> Header {
    let (offset_bytes, region_bytes, region_count, page_count, distributed) = fields.bitmap;
    let [selection_policy, cache_policy, locking_policy, consistency_policy] = fields.policies;
    Header {
        compat: CompatFeatures(fields.masks.0),
        ro_compat: ReadOnlyCompatFeatures(fields.masks.1),
        generation: fields.generation,
        superblock_crc_current: fields.crcs.0,
        superblock_crc_previous: fields.crcs.1,
        bitmap: BitmapDescriptor {
            offset_bytes,
            region_bytes,
            region_count,
            page_count,
            map_kind: if distributed { MapKind::Distributed } else { MapKind::Linear },
        },
        log: LogDescriptor { offset_bytes: fields.log.0, length_bytes: fields.log.1 },
        member_class: MemberClass::ALL[fields.class as usize % MemberClass::ALL.len()],
        member_class_given: fields.class_given,
        zeroing: Zeroing::ALL[fields.class as usize % Zeroing::ALL.len()],
        service_time_ns: fields.service_time_ns,
        stride_read: stride_record(&fields.strides[0]),
        stride_write: stride_record(&fields.strides[1]),
        job: Job {
            kind: JobKind::ALL[fields.job.0 as usize % JobKind::ALL.len()],
            paused: fields.job.1,
            position_bytes: fields.job.2,
            mismatches: fields.job.3,
        },
        options: ArrayOptions {
            selection_policy,
            cache_policy,
            cache: cache_options(fields),
            locking_policy,
            consistency_policy,
            speed_min_kib_per_s: fields.speeds.0,
            speed_max_kib_per_s: fields.speeds.1,
        },
        endurance: Endurance {
            rated_write_bytes: fields.endurance.0,
            written_bytes: fields.endurance.1,
            written_since_s: fields.endurance.2,
            warranty_end_s: fields.endurance.3,
            warranty_margin_days: fields.endurance.4,
        },
        ..Header::new(Uuid::from_u128(fields.uuids.0), Uuid::from_u128(fields.uuids.1))
    }
}

fn read(a: &[u8], b: &[u8], data_offset_bytes: u64) {
    match choose(a, b) {
        Ok((header, state)) => {
            assert_eq!(Header::decode(&header.encode()), Ok(header.clone()));
            let _ = (state.to_rewrite(), header.check_writable());
            if let Some(layout) = ExtensionLayout::for_data_offset(data_offset_bytes) {
                let _ = layout.check(&header).map_err(|error| error.to_string());
            }
        }
        Err(error) => drop(error.to_string()),
    }
}

fn checked(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(4096, 0);
    bytes[..10].copy_from_slice(b"STRPWISE\x01\x00");
    bytes[12..16].copy_from_slice(&4096_u32.to_le_bytes());
    let crc = crc32c_with_hole(&bytes, 16);
    bytes[16..20].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Whatever sectors of the newer header arrive, one of the two is read.
fn tear(old: &Header, arrived: [bool; 8]) {
    let new =
        Header { generation: old.generation.wrapping_add(1), service_time_ns: [7; SERVICE_TIMES], ..old.clone() };
    let (mut torn, whole) = (old.encode(), old.encode());
    for (sector, bytes) in new.encode().chunks(512).enumerate().filter(|(sector, _)| arrived[*sector]) {
        torn[sector * 512..(sector + 1) * 512].copy_from_slice(bytes);
    }
    let (read, _) = choose(&torn, &whole).expect("one copy is whole");
    assert!(read == *old || read == new);
}

fuzz_target!(|input: Input| match input {
    Input::Bytes(a, b) => read(&a, &b, 1 << 20),
    Input::Checked(a, b, data_offset_bytes) => read(&checked(a), &checked(b), data_offset_bytes),
    Input::Fields(fields, arrived) => {
        let header = header(&fields);
        assert_eq!(Header::decode(&header.encode()), Ok(header.clone()));
        read(&header.encode(), &[0; 4096], fields.data_offset_bytes);
        tear(&header, arrived);
    }
});
