//! The parser of what a kernel sends by `/dev/fuse`, from arbitrary bytes.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use stripewise_fuse::{
    Operation, Request,
    protocol::Opcode,
    request::{parse, parse_split},
};

#[derive(Arbitrary, Debug)]
struct Input {
    bytes: Vec<u8>,
    /// The header states the length that there is, and has no extensions.
    right_header: bool,
    opcode: Option<u8>,
    cut: u16,
}

fn mend(bytes: &mut [u8], opcode: Option<u8>) {
    let len = bytes.len() as u32;
    bytes[..4].copy_from_slice(&len.to_ne_bytes());
    bytes[36..38].fill(0);
    // Few opcodes are known; most inputs should have one of them.
    if let Some(opcode) = opcode {
        let known = Opcode::ALL[usize::from(opcode) % Opcode::ALL.len()];
        bytes[4..8].copy_from_slice(&known.code().to_ne_bytes());
    }
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.contains(&0) && !name.contains(&b'/')
}

fn judge(request: &Request<'_>, len: usize) {
    match &request.operation {
        Operation::Lookup { name } | Operation::Unlink { name } | Operation::Rmdir { name } => {
            assert!(is_name(name))
        }
        Operation::Rename(rename) => assert!(is_name(rename.name) && is_name(rename.new_name)),
        Operation::Create(create) => assert!(is_name(create.name)),
        Operation::Write(write) => {
            assert!(write.data.len() <= len - 80);
            assert!(write.offset_bytes.checked_add(write.data.len() as u64).is_some());
        }
        Operation::Setxattr(set) => assert!(set.name.len() + set.value.len() < len),
        Operation::BatchForget(forgets) => assert!(forgets.iter().count() <= len / 16),
        Operation::Fallocate(range) => assert!(range.offset_bytes.checked_add(range.length_bytes).is_some()),
        _ => {}
    }
}

fuzz_target!(|input: Input| {
    let mut bytes = input.bytes;
    if input.right_header && bytes.len() >= 40 {
        mend(&mut bytes, input.opcode);
    }
    let whole = parse(&bytes);
    if let Ok(request) = &whole {
        judge(request, bytes.len());
    }
    let (head, data) = bytes.split_at(usize::from(input.cut).min(bytes.len()));
    if let Ok(split) = parse_split(head, data) {
        judge(&split, bytes.len());
        // Wherever the data of a request lie, it is the same.
        assert_eq!(whole.as_ref(), Ok(&split));
    }
});
