//! Data at addresses that direct I/O refuses is written all the same, and costs no member.

#![allow(clippy::unwrap_used)]

mod common;

use common::Ground;
use stripewise::{IoBuf, WriteFlags};

#[test]
fn a_write_from_any_address_costs_no_member() {
    let ground = Ground::new();
    let array = ground.open();
    let lens = [4096, 65536, 2 * array.geometry().stripe_bytes() as usize];
    for (round, len) in lens.into_iter().enumerate() {
        let byte = round as u8 + 1;
        let data = IoBuf::copy_of(&vec![byte; len + 4096]).freeze().slice(1..len + 1);
        let array = array.clone();
        ground.host.block_on(async move {
            array.write(0, data, WriteFlags::default()).await.unwrap();
            let read = array.read(0, IoBuf::with_len(len)).await.unwrap();
            assert!(read.iter().all(|read| *read == byte), "{len} bytes");
            assert_eq!(array.report().await.degraded(), 0, "{len} bytes");
        });
    }
}
