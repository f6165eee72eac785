//! Bitmap pages: what is written is read back, the right slot is taken, bits are where the document says.

#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeSet;

use proptest::prelude::*;
use stripewise_format::bitmap::*;
use stripewise_format::media::Block;
use uuid::Uuid;

const ARRAY: Uuid = Uuid::from_u128(5);

prop_compose! {
    fn any_page()(uuid: u128, index: u32, generation in 0..100_u64, bits in any::<[u8; 32]>(), at in 0..4024_usize) -> Page {
        let mut page = Page::new(Uuid::from_u128(uuid), index);
        (0..generation).for_each(|_| page.advance());
        page.bits_mut()[at..at + 32].copy_from_slice(&bits);
        page
    }
}

/// Page 3 of the array, after `writes` writes, with these regions set.
fn page(writes: u64, regions: &[u32]) -> Page {
    let mut page = Page::new(ARRAY, 3);
    (0..writes).for_each(|_| page.advance());
    regions.iter().for_each(|region| assert_eq!(page.set(*region, true), Some(true)));
    page
}

fn set(page: &Page) -> Vec<u32> {
    page.regions().collect()
}

proptest! {
    #[test]
    fn what_is_written_is_read(page in any_page()) {
        let block = page.encode();
        prop_assert_eq!(&Page::decode(&block).unwrap(), &page);
        prop_assert_eq!(&Page::decode_for(&block, page.array_uuid(), page.index()).unwrap(), &page);
    }

    #[test]
    fn a_flipped_bit_is_seen(page in any_page(), at in 0_usize..4096, bit in 0..8_u32) {
        let mut block = page.encode();
        block[at] ^= 1 << bit;
        prop_assert!(Page::decode(&block).is_err());
    }

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..5000)) {
        prop_assert!(Page::decode(&bytes).is_err());
        prop_assert!(newest(&bytes, &bytes, ARRAY, 0).is_err());
    }

    #[test]
    fn regions_are_a_set(regions in prop::collection::btree_set(0..REGIONS_PER_PAGE, 0..200)) {
        let mut page = Page::new(ARRAY, 0);
        prop_assert!(regions.iter().all(|region| page.set(*region, true) == Some(true)));
        prop_assert!(regions.iter().all(|region| page.set(*region, true) == Some(false)));
        prop_assert!(regions.iter().all(|region| page.get(*region) == Some(true)));
        prop_assert_eq!(page.regions().collect::<BTreeSet<_>>(), regions.clone());
        prop_assert_eq!(page.count() as usize, regions.len());
        prop_assert!(regions.iter().all(|region| page.set(*region, false) == Some(true)));
        prop_assert!(page.is_clean());
    }

    #[test]
    fn a_merge_is_the_union(a in any_page(), b in any_page()) {
        let mut merged = a.clone();
        merged.merge(&b);
        let union: BTreeSet<u32> = a.regions().chain(b.regions()).collect();
        prop_assert_eq!(merged.regions().collect::<BTreeSet<_>>(), union);
        prop_assert_eq!(merged.generation(), a.generation().max(b.generation()));
    }

    /// Whichever sectors of a page's next write arrive, the state before it or the new one is read.
    #[test]
    fn a_torn_write_leaves_the_state_before(arrived in prop::collection::vec(any::<bool>(), 8)) {
        let (old, durable, new) = (page(1, &[1]), page(2, &[1, 2]), page(3, &[1, 2, 30_000]));
        let mut torn = old.encode();
        for (sector, bytes) in new.encode().chunks(512).enumerate().filter(|(sector, _)| arrived[*sector]) {
            torn[sector * 512..(sector + 1) * 512].copy_from_slice(bytes);
        }
        let read = newest(&torn, &durable.encode(), ARRAY, 3).unwrap();
        prop_assert!(read.page == durable || read.page == new);
    }
}

#[test]
fn bits_are_where_the_document_says() {
    let block = page(1, &[0, 9, REGIONS_PER_PAGE - 1]).encode();
    assert_eq!((&block[..4], block[40], block[41], block[4095]), (&b"SWBM"[..], 1, 2, 0x80));
    let mut page = page(1, &[]);
    assert_eq!((page.get(REGIONS_PER_PAGE), page.set(u32::MAX, true)), (None, None));
    assert_eq!(pages_for_regions(0), 0);
    assert_eq!(pages_for_regions(32_448), 1);
    assert_eq!(pages_for_regions(32_449), 2);
    assert_eq!(slot_offset_bytes(3, Slot::B), 7 * 4096);
}

#[test]
fn the_newest_valid_slot_counts() {
    let read = |a: &Block, b: &Block| newest(a, b, ARRAY, 3).unwrap();
    let (old, new) = (page(1, &[1]).encode(), page(2, &[2]).encode());
    assert_eq!((set(&read(&old, &new).page), read(&old, &new).slot), (vec![2], Slot::B));
    assert_eq!((set(&read(&new, &old).page), read(&new, &old).slot), (vec![2], Slot::A));
    let mut torn = new;
    torn[100] ^= 4;
    let fallen_back = read(&old, &torn);
    assert_eq!((set(&fallen_back.page), fallen_back.slot.other()), (vec![1], Slot::B));
    assert!(matches!(fallen_back.lost, Some(PageError::Crc { .. })));
    assert_eq!(set(&read(&page(2, &[7]).encode(), &new).page), [2, 7]);
}

#[test]
fn pages_of_others_do_not_count() {
    let block = page(1, &[]).encode();
    let none = newest(&block, &[0; 4096], Uuid::from_u128(6), 3).unwrap_err();
    assert_eq!(none.a, PageError::Array { found: ARRAY, wanted: Uuid::from_u128(6) });
    assert_eq!(none.b, PageError::NoMagic { found: 0 });
    let elsewhere = newest(&block, &block, ARRAY, 4).unwrap_err();
    assert_eq!(elsewhere.a, PageError::Index { found: 3, wanted: 4 });
    assert_eq!(Page::decode(&block[..4095]).unwrap_err(), PageError::TooShort { have: 4095 });
}
