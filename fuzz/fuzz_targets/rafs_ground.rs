//! RAFS' superblocks and anchors from arbitrary payloads, whose CRC is made right.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stripewise_format::rafs::anchor::Anchor;
use stripewise_format::rafs::block::{BlockKind, HEAD_LEN, Head, seal};
use stripewise_format::rafs::superblock::Superblock;
use uuid::Uuid;

fn sealed(kind: BlockKind, place: u64, payload: &[u8]) -> Vec<u8> {
    let mut block = vec![0; 4096];
    let len = payload.len().min(4096 - HEAD_LEN);
    block[HEAD_LEN..HEAD_LEN + len].copy_from_slice(&payload[..len]);
    seal(&mut block, kind, &Head { place, uuid: Uuid::nil(), generation: 3 });
    block
}

fuzz_target!(|payload: &[u8]| {
    let _ = Superblock::decode(payload).map_err(|error| error.to_string());
    match Superblock::decode(&sealed(BlockKind::Superblock, 0, payload)) {
        Ok((superblock, generation)) => {
            assert!(superblock.first_group_stripe() < superblock.stripes);
            assert!(superblock.first_group_stripe() + superblock.groups() < superblock.stripes + 1);
            let again = superblock.encode(0, generation);
            assert_eq!(Superblock::decode(&again), Ok((superblock, generation)));
        }
        Err(error) => drop(error.to_string()),
    }
    match Anchor::decode(&sealed(BlockKind::Anchor, 64, payload), 64, Uuid::nil()) {
        Ok(anchor) => assert_eq!(Anchor::decode(&anchor.encode(64, Uuid::nil()), 64, Uuid::nil()), Ok(anchor)),
        Err(error) => drop(error.to_string()),
    }
});
