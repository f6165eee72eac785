//! Records of RAFS' journal from arbitrary bytes, and with a CRC that is made right.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stripewise_format::crc::{crc32c_with_hole, mixed};
use stripewise_format::rafs::journal::{RECORD_MAGIC, RecordHead};
use uuid::Uuid;

fn read(bytes: &[u8]) {
    let head = match RecordHead::decode(bytes, Uuid::nil()) {
        Ok(head) => head,
        Err(error) => return drop(error.to_string()),
    };
    match head.open(bytes) {
        Ok((changes, data)) => {
            let data: Vec<&[u8]> = data.chunks(4096).collect();
            let front = head.id.encode(&changes, &data, 1).expect("it was as long before");
            assert_eq!(front.bytes.len(), head.front_bytes());
        }
        Err(error) => drop(error.to_string()),
    }
}

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    let mut record = bytes.to_vec();
    record.resize(8192, 0);
    record[..8].copy_from_slice(&RECORD_MAGIC);
    record[16..32].fill(0);
    // Two blocks: a front of one or two, and data in what is left.
    record[12..16].copy_from_slice(&2_u32.to_le_bytes());
    let changes = u32::from_le_bytes([record[48], record[49], 0, 0]) % 8129;
    let fronts = (64 + changes).div_ceil(4096);
    record[48..52].copy_from_slice(&changes.to_le_bytes());
    record[52..56].copy_from_slice(&(2 - fronts).to_le_bytes());
    let crc = mixed(crc32c_with_hole(&record, 8));
    record[8..12].copy_from_slice(&crc.to_le_bytes());
    read(&record);
});
