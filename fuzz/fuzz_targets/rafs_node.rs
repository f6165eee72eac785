//! Nodes of RAFS' tree from arbitrary payloads, and the values of its items from arbitrary bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stripewise_format::rafs::block::PAYLOAD_LEN;
use stripewise_format::rafs::inode::Inode;
use stripewise_format::rafs::names::{Entry, Xattr};
use stripewise_format::rafs::node::{Node, encode_inner, encode_leaf};
use stripewise_format::rafs::space::{Extent, Group};

fn values(value: &[u8]) {
    if let Ok(inode) = Inode::decode(value) {
        assert_eq!(inode.encode(), value);
    }
    if let Ok(entries) = Entry::decode(value) {
        assert!(Entry::encode(&entries).is_none_or(|again| again == value));
    }
    if let Ok(attributes) = Xattr::decode(value) {
        assert!(Xattr::encode(&attributes).is_none_or(|again| again == value));
    }
    if let Ok(extent) = Extent::decode(value) {
        assert!(extent.blocks > 0);
    }
    if let Ok(group) = Group::decode(value, 8, 64) {
        assert_eq!(group.encode(), value);
    }
}

fuzz_target!(|bytes: &[u8]| {
    values(bytes);
    let mut payload = bytes.to_vec();
    payload.resize(PAYLOAD_LEN, 0);
    match Node::decode(&payload) {
        Ok(node) => {
            let mut again = vec![0; PAYLOAD_LEN];
            match &node {
                Node::Leaf(items) => encode_leaf(items, &mut again),
                Node::Inner { level, children } => encode_inner(*level, children, &mut again),
            }
            assert_eq!(Node::decode(&again), Ok(node));
        }
        Err(error) => drop(error.to_string()),
    }
});
