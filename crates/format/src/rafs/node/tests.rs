//! Nodes keep what they say, and any bytes give a node or an error.

use proptest::prelude::*;

use super::*;
use crate::rafs::key::KeyKind;

fn key(object: u64) -> Key {
    Key::new(object, KeyKind::Extent, 1)
}

fn item(object: u64, len: usize) -> Item {
    Item { key: key(object), value: vec![object as u8; len].into() }
}

fn encode(node: &Node) -> Vec<u8> {
    let mut payload = vec![0xAA; PAYLOAD_LEN];
    match node {
        Node::Leaf(items) => encode_leaf(items, &mut payload),
        Node::Inner { level, children } => encode_inner(*level, children, &mut payload),
    }
    payload
}

fn leaf(lens: &[usize]) -> Vec<u8> {
    encode(&Node::Leaf(lens.iter().zip(1..).map(|(len, object)| item(object, *len)).collect()))
}

fn inner(count: u64) -> Vec<u8> {
    let child = |object| Child { key: key(object), place: object * 10, generation: object * 100 };
    encode(&Node::Inner { level: 1, children: (1..=count).map(child).collect() })
}

/// The error of a payload after a change.
fn error(mut payload: Vec<u8>, change: impl FnOnce(&mut [u8])) -> NodeError {
    change(&mut payload);
    Node::decode(&payload).unwrap_err()
}

fn set_u16(payload: &mut [u8], at: usize, number: u16) {
    payload[at..at + 2].copy_from_slice(&number.to_le_bytes());
}

#[test]
fn the_limits_are_kept() {
    let full = leaf(&[VALUE_MAX, NODE_ROOM - VALUE_MAX - 3 * SLOT_LEN, 0]);
    assert!(matches!(Node::decode(&full), Ok(Node::Leaf(items)) if items.len() == 3));
    let wide = inner((NODE_ROOM / CHILD_LEN) as u64);
    assert!(matches!(Node::decode(&wide), Ok(Node::Inner { level: 1, children }) if children.len() == 122));
    assert_eq!(Node::decode(&leaf(&[])), Ok(Node::Leaf(Vec::new())));
}

#[test]
fn headers_that_lie_are_told_apart() {
    let short = Node::decode(&leaf(&[])[..PAYLOAD_LEN - 1]).unwrap_err();
    assert_eq!(short, NodeError::TooShort { have: PAYLOAD_LEN - 1 });
    assert_eq!(error(inner(2), |p| p[0] = LEVEL_MAX + 1), NodeError::Level { found: LEVEL_MAX + 1 });
    let leaf_with_children = NodeError::EntryLen { level: 0, found: CHILD_LEN as u8, wanted: SLOT_LEN };
    assert_eq!(error(inner(2), |p| p[0] = 0), leaf_with_children);
    assert_eq!(error(inner(2), |p| set_u16(p, 2, 123)), NodeError::Count { found: 123, max: 122 });
    assert_eq!(error(inner(2), |p| set_u16(p, 2, 0)), NodeError::NoChildren { level: 1 });
    assert_eq!(error(inner(2), |p| set_u16(p, 4, 65)), NodeError::Used { found: 65, wanted: 66 });
    assert_eq!(error(leaf(&[3]), |p| set_u16(p, 4, 25)), NodeError::Used { found: 25, wanted: 24 });
}

#[test]
fn entries_that_lie_are_told_apart() {
    let (first, second) = (HEADER_LEN, HEADER_LEN + SLOT_LEN);
    let unknown = NodeError::Key { entry: 1, source: UnknownKind(9) };
    assert_eq!(error(leaf(&[1, 1]), |p| p[second + 8] = 9), unknown);
    assert_eq!(error(leaf(&[1, 1]), |p| p[first] = 2), NodeError::Unsorted { entry: 1 });
    assert_eq!(error(inner(3), |p| p[HEADER_LEN + CHILD_LEN] = 9), NodeError::Unsorted { entry: 2 });
    let long = NodeError::ValueLen { entry: 0, len: VALUE_MAX + 1 };
    assert_eq!(error(leaf(&[1]), |p| set_u16(p, first + 19, VALUE_MAX as u16 + 1)), long);
    let overlap = NodeError::Misplaced { entry: 1, found: 4047, wanted: 4046 };
    assert_eq!(error(leaf(&[1, 1]), |p| set_u16(p, second + 17, 4047)), overlap);
    let long_second = |p: &mut [u8]| set_u16(p, second + 19, 2400);
    assert_eq!(error(leaf(&[2000, 1]), long_second), NodeError::OutOfBounds { entry: 1 });
}

fn keys(max: usize) -> impl Strategy<Value = Vec<Key>> {
    let key = (any::<u64>(), prop::sample::select(&KeyKind::ALL[..]), any::<u64>());
    let key = key.prop_map(|(object, kind, offset)| Key::new(object, kind, offset));
    prop::collection::btree_set(key, 0..=max).prop_map(|keys| keys.into_iter().collect())
}

/// Items of the given keys and lengths, as many as fit.
fn fitting(keys: &[Key], lens: &[usize]) -> Node {
    let mut room = NODE_ROOM;
    let items = keys.iter().zip(lens.iter().cycle()).map_while(|(key, len)| {
        room = room.checked_sub(SLOT_LEN + len)?;
        Some(Item { key: *key, value: vec![*len as u8; *len].into() })
    });
    Node::Leaf(items.collect())
}

fn nodes() -> impl Strategy<Value = Node> {
    let len = prop_oneof![0..60_usize, 0..=VALUE_MAX];
    let leaves =
        (keys(200), prop::collection::vec(len, 1..50)).prop_map(|(keys, lens)| fitting(&keys, &lens));
    let numbers = (any::<u64>(), any::<u64>());
    let inner = (1..=LEVEL_MAX, keys(122), numbers).prop_filter_map("children", |(level, keys, (a, b))| {
        let child = |(key, n): (Key, u64)| Child { key, place: a ^ n, generation: b ^ n };
        let children: Vec<_> = keys.into_iter().zip(0..).map(child).collect();
        (!children.is_empty()).then_some(Node::Inner { level, children })
    });
    prop_oneof![leaves, inner]
}

proptest! {
    #[test]
    fn what_was_encoded_decodes(node in nodes()) {
        prop_assert_eq!(Node::decode(&encode(&node)), Ok(node));
    }

    #[test]
    fn changed_bytes_give_an_error_or_a_node_that_encodes_again(
        node in nodes(),
        changes in prop::collection::vec((0..PAYLOAD_LEN, any::<u8>()), 0..4),
        in_head in prop::collection::vec((0..64_usize, any::<u8>()), 0..3),
    ) {
        let mut payload = encode(&node);
        changes.into_iter().chain(in_head).for_each(|(at, byte)| payload[at] = byte);
        if let Ok(node) = Node::decode(&payload) {
            prop_assert_eq!(Node::decode(&encode(&node)), Ok(node));
        }
    }

    #[test]
    fn any_bytes_give_an_answer(bytes in prop::collection::vec(any::<u8>(), PAYLOAD_LEN), level in 0..3_u8, count in 0..200_u8) {
        let mut payload = bytes;
        let _ = Node::decode(&payload);
        let header = [level, if level == 0 { SLOT_LEN as u8 } else { CHILD_LEN as u8 }, count, 0];
        payload[..4].copy_from_slice(&header);
        let _ = Node::decode(&payload);
    }
}
