//! Requests as the kernel sends them: each is decoded to what it means, and bytes that are none are refused.

use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::*;
use crate::protocol::{
    FileHandle, InitFlags, RenameFlags, Timestamp, XattrFlags,
    input::{self, setattr},
};

/// A request with this body.
fn framed(opcode: Opcode, extension_words: u16, body: &[u8]) -> Vec<u8> {
    let header = InHeader {
        len: (size_of::<InHeader>() + body.len()) as u32,
        opcode: opcode.code(),
        unique: 42,
        nodeid: 7,
        uid: 1000,
        gid: 100,
        pid: 5,
        total_extlen: extension_words,
        padding: 0,
    };
    [header.as_bytes(), body].concat()
}

fn kind(opcode: Opcode, body: &[u8]) -> ParseErrorKind {
    let error = parse(&framed(opcode, 0, body)).unwrap_err();
    assert_eq!((error.id, error.opcode), (Some(RequestId(42)), opcode.code()));
    error.kind
}

#[test]
fn a_header_says_who_asks_for_what() {
    let bytes = framed(Opcode::Lookup, 0, b"a name\xff\0");
    let request = parse(&bytes).unwrap();
    assert_eq!((request.id, request.node), (RequestId(42), NodeId(7)));
    assert_eq!(request.caller, Caller { uid: 1000, gid: 100, pid: 5 });
    assert_eq!(request.operation, Operation::Lookup { name: b"a name\xff" });
}

#[test]
fn lengths_must_be_those_that_came() {
    let mut bytes = framed(Opcode::Statfs, 0, b"");
    assert!(parse(&bytes).is_ok());
    bytes.push(0);
    let wrong = ParseErrorKind::WrongLength { stated_bytes: 40, found_bytes: 41 };
    assert_eq!(parse(&bytes).unwrap_err().kind, wrong);
    let error = parse(&bytes[..39]).unwrap_err();
    assert_eq!((error.id, error.wants_answer()), (None, false));
}

#[test]
fn a_name_must_be_one() {
    assert_eq!(kind(Opcode::Unlink, b"endless"), ParseErrorKind::EndlessName);
    assert_eq!(kind(Opcode::Rmdir, b"\0"), ParseErrorKind::BadName);
    assert_eq!(kind(Opcode::Lookup, b"a/b\0"), ParseErrorKind::BadName);
    assert_eq!(kind(Opcode::Symlink, b"name\0target"), ParseErrorKind::EndlessName);
}

#[test]
fn a_target_and_an_attribute_may_have_slashes() {
    let bytes = framed(Opcode::Symlink, 0, b"name\0a/b\0");
    let symlink = Symlink { name: b"name", target: b"a/b" };
    assert_eq!(parse(&bytes).unwrap().operation, Operation::Symlink(symlink));
    let bytes = framed(Opcode::Removexattr, 0, b"user.a/b\0");
    assert_eq!(parse(&bytes).unwrap().operation, Operation::Removexattr { name: b"user.a/b" });
}

#[test]
fn a_file_without_a_name_is_called_by_a_slash() {
    let create = input::CreateIn { flags: 2, mode: 0o100_600, ..input::CreateIn::default() };
    let body = [create.as_bytes(), b"/\0"].concat();
    assert!(matches!(parse(&framed(Opcode::Tmpfile, 0, &body)).unwrap().operation, Operation::Tmpfile(_)));
    assert_eq!(kind(Opcode::Create, &body), ParseErrorKind::BadName);
}

#[test]
fn renames_with_and_without_flags_are_one_operation() {
    let names = b"old\0new\0";
    let plain = framed(Opcode::Rename, 0, &[9_u64.as_bytes(), names].concat());
    let flags = input::Rename2In { newdir: 9, flags: 2, padding: 0 };
    let with = framed(Opcode::Rename2, 0, &[flags.as_bytes(), names].concat());
    let expected =
        |flags| Operation::Rename(Rename { name: b"old", new_parent: NodeId(9), new_name: b"new", flags });
    assert_eq!(parse(&plain).unwrap().operation, expected(RenameFlags::empty()));
    assert_eq!(parse(&with).unwrap().operation, expected(RenameFlags::EXCHANGE));
}

#[test]
fn only_marked_attributes_are_set() {
    let raw = input::SetattrIn {
        valid: setattr::SIZE | setattr::MTIME | setattr::ATIME | setattr::ATIME_NOW | setattr::CTIME,
        size: 5,
        mode: 0o777,
        mtime: (-3_i64).cast_unsigned(),
        mtimensec: 4,
        ctimensec: u32::MAX,
        ..input::SetattrIn::default()
    };
    let expected = Setattr {
        size_bytes: Some(5),
        accessed: Some(SetTime::Now),
        modified: Some(SetTime::To(Timestamp { seconds: -3, nanoseconds: 4 })),
        changed: Some(Timestamp { seconds: 0, nanoseconds: 999_999_999 }),
        ..Setattr::default()
    };
    let bytes = framed(Opcode::Setattr, 0, raw.as_bytes());
    assert_eq!(parse(&bytes).unwrap().operation, Operation::Setattr(expected));
}

#[test]
fn forgets_are_counted() {
    let ones = [3_u64, 1, 4, 2].map(u64::to_ne_bytes).concat();
    let body = [input::BatchForgetIn { count: 2, dummy: 0 }.as_bytes(), &ones].concat();
    let bytes = framed(Opcode::BatchForget, 0, &body);
    let Operation::BatchForget(forgets) = parse(&bytes).unwrap().operation else { panic!("no forgets") };
    assert_eq!(forgets.iter().collect::<Vec<_>>(), [(NodeId(3), 1), (NodeId(4), 2)]);
    let many = input::BatchForgetIn { count: u32::MAX, dummy: 0 };
    let error = parse(&framed(Opcode::BatchForget, 0, many.as_bytes())).unwrap_err();
    assert!(matches!(error.kind, ParseErrorKind::Short { .. }) && !error.wants_answer());
}

fn write_body(size: u32, offset: u64) -> Vec<u8> {
    input::WriteIn { fh: 3, offset, size, ..input::WriteIn::default() }.as_bytes().to_vec()
}

#[test]
fn data_may_lie_behind_the_head_or_elsewhere() {
    let joined = framed(Opcode::Write, 0, &[&write_body(4, 8)[..], b"data"].concat());
    let (head, data) = joined.split_at(80);
    for request in [parse(&joined).unwrap(), parse_split(head, data).unwrap()] {
        let Operation::Write(write) = request.operation else { panic!("no write") };
        assert_eq!((write.handle, write.offset_bytes, write.data), (FileHandle(3), 8, &b"data"[..]));
    }
    assert_eq!(parse_split(&joined[..82], &joined[82..]).unwrap_err().kind, ParseErrorKind::UnexpectedData);
    let lookup = framed(Opcode::Lookup, 0, b"a\0b");
    let error = parse_split(&lookup[..42], &lookup[42..]).unwrap_err();
    assert_eq!(error.kind, ParseErrorKind::UnexpectedData);
}

#[test]
fn ranges_must_have_an_end_and_data_their_length() {
    assert!(matches!(kind(Opcode::Write, &write_body(4, 0)), ParseErrorKind::Short { needed_bytes: 4, .. }));
    assert!(matches!(kind(Opcode::Write, &write_body(4, u64::MAX)), ParseErrorKind::BadValue { .. }));
    let lseek = input::LseekIn { whence: 2, ..input::LseekIn::default() };
    assert_eq!(kind(Opcode::Lseek, lseek.as_bytes()), ParseErrorKind::BadValue { field: "whence", value: 2 });
}

#[test]
fn an_attribute_has_exactly_its_value() {
    let set = input::SetxattrIn { size: 3, flags: 1 };
    let body = [set.as_bytes(), b"user.a\0\0b\0"].concat();
    let expected = Setxattr { name: b"user.a", value: b"\0b\0", flags: XattrFlags::CREATE };
    assert_eq!(parse(&framed(Opcode::Setxattr, 0, &body)).unwrap().operation, Operation::Setxattr(expected));
    assert!(matches!(kind(Opcode::Setxattr, &body[..17]), ParseErrorKind::Short { .. }));
}

#[test]
fn extensions_are_cut_off() {
    let bytes = framed(Opcode::Lookup, 1, b"name\0\x01\x02\x03\x04\x05\x06\x07\x08");
    let request = parse(&bytes).unwrap();
    assert_eq!(request.extensions, [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(request.operation, Operation::Lookup { name: b"name" });
    assert!(parse(&framed(Opcode::Lookup, 2, b"name\0")).is_err());
}

#[test]
fn init_is_short_in_old_kernels() {
    let offered = InitFlags::ASYNC_READ | InitFlags::INIT_EXT;
    let short = input::InitIn { major: 7, minor: 31, max_readahead: 8, flags: offered.halves().0 };
    let long = input::InitInExtension { flags2: 1 << 4, unused: [0; 11] };
    let flags = |body: &[u8]| match parse(&framed(Opcode::Init, 0, body)).unwrap().operation {
        Operation::Init(init) => init.flags,
        other => panic!("{other:?}"),
    };
    assert_eq!(flags(short.as_bytes()), offered);
    let both = [short.as_bytes(), long.as_bytes()].concat();
    assert_eq!(flags(&both), offered | InitFlags::DIRECT_IO_ALLOW_MMAP);
}

#[test]
fn an_unknown_opcode_is_told_as_it_is() {
    let mut bytes = framed(Opcode::Statfs, 0, b"whatever");
    bytes[4..8].copy_from_slice(&9999_u32.to_ne_bytes());
    assert_eq!(parse(&bytes).unwrap().operation, Operation::Unknown(9999));
}

#[test]
fn opcodes_are_their_numbers() {
    for opcode in Opcode::ALL {
        assert_eq!(Opcode::from_code(opcode.code()), Some(*opcode));
    }
    assert_eq!((Opcode::Write.code(), Opcode::Syncfs.code(), Opcode::Statx.code()), (16, 50, 52));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes);
    }

    /// With a true header, each decoder sees random bodies.
    #[test]
    fn random_bodies_never_panic(
        which in 0..Opcode::ALL.len(),
        body in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0), Just(b'a')], 0..200),
        extension_words in prop_oneof![4 => Just(0_u16), 1 => any::<u16>()],
        cut in any::<prop::sample::Index>(),
    ) {
        let bytes = framed(Opcode::ALL[which], extension_words, &body);
        let whole = parse(&bytes);
        let (head, data) = bytes.split_at(cut.index(bytes.len()));
        // Wherever the data of a request lie, it is the same.
        if let Ok(split) = parse_split(head, data) {
            prop_assert_eq!(whole, Ok(split));
        }
    }
}
