//! Compares `docs/on-disk-format.md` and `docs/rafs-format.md` with the raw structs: their tables must have every field
//! where the code has it.

use std::mem::offset_of;

use zerocopy::FromZeros;

use crate::bitmap::{PAGE_BITS_LEN, PAGE_MAGIC, REGIONS_PER_PAGE, RawPage};
use crate::extension::raw::RawHeader;
use crate::extension::{AREA_START_BYTES, DATA_OFFSET_MIN_BYTES, HEADER_MAGIC, HEADER_VERSION};
use crate::md::bitmap::{BITMAP_MAGIC, RawBitmapSuperblock};
use crate::md::raw::RawSuperblock;
use crate::md::{MAX_DEVICES, SUPERBLOCK_MAGIC, SUPERBLOCK_SECTOR};
use crate::rafs::{anchor, block, inode, journal, key, names, node, space, superblock, value};

/// Offset, bytes, name.
type Field = (usize, usize, String);

macro_rules! fields {
    ($raw:ty: $($field:ident),+ $(,)?) => {{
        let zeroed = <$raw>::new_zeroed();
        let fields: Vec<Field> =
            vec![$((offset_of!($raw, $field), size_of_val(&zeroed.$field), stringify!($field).to_owned())),+];
        let bytes: usize = fields.iter().map(|(_, bytes, _)| bytes).sum();
        assert_eq!(bytes, size_of::<$raw>(), "a field of {} is missing in this list", stringify!($raw));
        fields
    }};
}

fn document(name: &str) -> String {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn assert_row(document: &str, name: &str, value: &str) {
    let row = format!("| `{name}` | `{value}` |");
    assert!(document.contains(&row), "the document lacks the row {row}");
}

/// The rows of the first `| offset | bytes | field |` table after `<!-- layout: name -->`.
fn table(document: &str, name: &str) -> Vec<Field> {
    let mark = format!("<!-- layout: {name} -->");
    let (_, after) = document.split_once(&mark).unwrap_or_else(|| panic!("no {mark} in the document"));
    let rows =
        after.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let mut rows = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    assert_eq!(rows.next().unwrap()[1..4], ["offset", "bytes", "field"]);
    let number = |cell: &str| cell.parse().unwrap_or_else(|_| panic!("{name}: {cell} is not a number"));
    rows.skip(1).map(|row| (number(row[1]), number(row[2]), row[3].trim_matches('`').to_owned())).collect()
}

#[test]
fn tables_are_what_the_code_has() {
    let document = document("on-disk-format.md");
    let superblock = fields!(RawSuperblock: magic, major_version, feature_map, pad0, set_uuid, set_name, ctime, level,
        layout, size, chunksize, raid_disks, bitmap_offset, new_level, reshape_position, delta_disks, new_layout,
        new_chunk, new_offset, data_offset, data_size, super_offset, recovery_offset, dev_number, cnt_corrected_read,
        device_uuid, devflags, bblog_shift, bblog_size, bblog_offset, utime, events, resync_offset, sb_csum, max_dev,
        logical_block_size, pad3);
    assert_eq!(table(&document, "md superblock"), superblock);
    let bitmap = fields!(RawBitmapSuperblock: magic, version, uuid, events, events_cleared, sync_size, state,
        chunksize, daemon_sleep, write_behind, sectors_reserved, nodes, cluster_name, pad);
    assert_eq!(table(&document, "md bitmap"), bitmap);
    let header = fields!(RawHeader: magic, version, reserved_10, header_bytes, crc, compat, ro_compat, incompat,
        array_uuid, device_uuid, generation, superblock_crc_current, superblock_crc_previous, bitmap_offset_bytes,
        bitmap_region_bytes, bitmap_region_count, bitmap_page_count, bitmap_slots_per_page, bitmap_map_kind,
        reserved_111, log_offset_bytes, log_length_bytes, member_class, member_class_given, zeroing, reserved_131, service_time_ns, s_max_read,
        s_max_write, job_kind, job_paused, reserved_178, job_position_bytes, job_mismatches, selection_policy,
        cache_policy, locking_policy, consistency_policy, reserved_204, speed_min_kib_per_s, speed_max_kib_per_s,
        rated_write_bytes, written_bytes, written_since_s, warranty_end_s, warranty_margin_days, reserved_252, cache_size_bytes,
        cache_age_ms, cache_idle_ms, cache_flush_ms, cache_when, cache_what, cache_high_percent, cache_low_percent,
        cache_read, cache_alloc, cache_past, cache_gaps, cache_open, reserved_285, stride_time_read, stride_time_write, stride_except_read,
        stride_except_write, s_max_given, reserved_561, tail);
    assert_eq!(table(&document, "extension header"), header);
    let page = fields!(RawPage: magic, crc, array_uuid, page_index, reserved_28, generation, bits);
    assert_eq!(table(&document, "bitmap page"), page);
}

/// Checks the rows of the table of constants: name and value, as the document has them.
#[test]
fn constants_are_what_the_code_has() {
    let document = document("on-disk-format.md");
    let has = |name: &str, value: String| assert_row(&document, name, &value);
    has("SUPERBLOCK_MAGIC", format!("{SUPERBLOCK_MAGIC:#x}"));
    has("SUPERBLOCK_SECTOR", SUPERBLOCK_SECTOR.to_string());
    has("MAX_DEVICES", MAX_DEVICES.to_string());
    has("BITMAP_MAGIC", format!("{BITMAP_MAGIC:#x}"));
    has("AREA_START_BYTES", AREA_START_BYTES.to_string());
    has("DATA_OFFSET_MIN_BYTES", DATA_OFFSET_MIN_BYTES.to_string());
    has("HEADER_MAGIC", String::from_utf8_lossy(&HEADER_MAGIC).into_owned());
    has("HEADER_VERSION", HEADER_VERSION.to_string());
    has("PAGE_MAGIC", String::from_utf8_lossy(&PAGE_MAGIC.to_le_bytes()).into_owned());
    has("PAGE_BITS_LEN", PAGE_BITS_LEN.to_string());
    has("REGIONS_PER_PAGE", REGIONS_PER_PAGE.to_string());
}

#[test]
fn tables_of_the_file_system_are_what_the_code_has() {
    let document = document("rafs-format.md");
    let head = fields!(block::RawHead: magic, crc, reserved_12, place, uuid, generation);
    assert_eq!(table(&document, "head"), head);
    let superblock = fields!(superblock::RawSuperblock: version, order, reserved_5, compat, ro_compat, incompat, created_us,
        data_columns, rows, stripes, group_stripes, reserved_60, journal_stripes, hash_seed, label);
    assert_eq!(table(&document, "rafs superblock"), superblock);
    let anchor = fields!(anchor::RawAnchor: root_place, root_generation, root_level, is_clean, reserved_18, journal_epoch,
        journal_sequence, journal_block, next_inode, inodes, used_blocks);
    assert_eq!(table(&document, "anchor"), anchor);
    let inode = fields!(inode::RawInode: mode, uid, gid, links, size_bytes, blocks, accessed_ns, modified_ns, changed_ns, born_ns,
        generation, flags, device, parent, next_number);
    assert_eq!(table(&document, "inode"), inode);
    let header = fields!(node::RawHeader: level, entry_len, count, used, reserved_6);
    assert_eq!(table(&document, "node header"), header);
    assert_eq!(table(&document, "node slot"), fields!(node::RawSlot: key, offset, len));
    assert_eq!(table(&document, "node child"), fields!(node::RawChild: key, place, generation));
    let record = fields!(journal::RawRecord: magic, crc, blocks, uuid, epoch, sequence, changes_bytes, data_blocks, reserved_56);
    assert_eq!(table(&document, "record"), record);
}

#[test]
fn constants_of_the_file_system_are_what_the_code_has() {
    let document = document("rafs-format.md");
    let has = |name: &str, value: u64| assert_row(&document, name, &value.to_string());
    has("VERSION", superblock::VERSION.into());
    has("LABEL_LEN", superblock::LABEL_LEN as u64);
    has("FIRST_JOURNAL_STRIPE", superblock::FIRST_JOURNAL_STRIPE);
    has("STRIPE_BLOCKS_MAX", superblock::STRIPE_BLOCKS_MAX.into());
    has("GROUP_BLOCKS_MAX", superblock::GROUP_BLOCKS_MAX.into());
    has("KEY_LEN", key::KEY_LEN as u64);
    has("VALUE_MAX", value::VALUE_MAX as u64);
    has("LEVEL_MAX", node::LEVEL_MAX.into());
    has("NODE_ROOM", node::NODE_ROOM as u64);
    has("INLINE_MAX", value::INLINE_MAX as u64);
    has("NAME_MAX", names::NAME_MAX as u64);
    has("CHECKED_BLOCKS_MAX", space::CHECKED_BLOCKS_MAX as u64);
    has("RECORD_BLOCKS_MAX", journal::RECORD_BLOCKS_MAX.into());
}
