//! Bitmap pages' two slots from arbitrary bytes, and any page through its block and back.

#![no_main]

use std::collections::BTreeSet;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use stripewise_format::bitmap::{Page, REGIONS_PER_PAGE, newest};
use stripewise_format::crc::crc32c_with_hole;
use uuid::Uuid;

#[derive(Arbitrary, Debug)]
enum Input {
    /// Both slots as they might be read.
    Bytes(Vec<u8>, Vec<u8>),
    /// Both slots with magic and CRC made right, so that the fuzzer gets past them.
    Checked(Vec<u8>, Vec<u8>),
    /// A page's history: regions set and cleared, and which sectors of its last write arrived.
    Fields { uuid: u128, index: u32, writes: u8, changes: Vec<(u32, bool)>, arrived: [bool; 8] },
}

fn read(a: &[u8], b: &[u8]) {
    let Ok(page) = Page::decode(a).or_else(|_| Page::decode(b)) else {
        assert!(newest(a, b, Uuid::nil(), 0).is_err());
        return;
    };
    let found = newest(a, b, page.array_uuid(), page.index()).expect("one slot is valid");
    assert_eq!(found.page.regions().count(), found.page.count() as usize);
    // Reserved bytes are not carried, so only what is decoded again must be equal.
    assert_eq!(Page::decode(&found.page.encode()), Ok(found.page));
}

fn checked(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(4096, 0);
    bytes[..4].copy_from_slice(b"SWBM");
    let crc = crc32c_with_hole(&bytes, 4);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn history(mut page: Page, changes: &[(u32, bool)], arrived: [bool; 8]) {
    let mut model = BTreeSet::new();
    for (region, dirty) in changes.iter().map(|(region, dirty)| (region % (REGIONS_PER_PAGE + 1), *dirty)) {
        let changed = if dirty { model.insert(region) } else { model.remove(&region) };
        if region == REGIONS_PER_PAGE {
            assert_eq!(page.set(region, dirty), None);
            model.remove(&region);
        } else {
            assert_eq!(page.set(region, dirty), Some(changed));
        }
    }
    assert!(page.regions().eq(model.iter().copied()));
    let durable = page.encode();
    let mut next = page.clone();
    next.advance();
    let _ = next.set(7, true);
    let mut torn = [0; 4096];
    for (sector, bytes) in next.encode().chunks(512).enumerate().filter(|(sector, _)| arrived[*sector]) {
        torn[sector * 512..(sector + 1) * 512].copy_from_slice(bytes);
    }
    let found = newest(&torn, &durable, page.array_uuid(), page.index()).expect("one slot is whole");
    assert!(found.page == page || found.page == next);
}

fuzz_target!(|input: Input| match input {
    Input::Bytes(a, b) => read(&a, &b),
    Input::Checked(a, b) => read(&checked(a), &checked(b)),
    Input::Fields { uuid, index, writes, changes, arrived } => {
        let mut page = Page::new(Uuid::from_u128(uuid), index);
        (0..writes).for_each(|_| page.advance());
        history(page, &changes, arrived);
    }
});
