//! The NBD request parser and its judge, and the client's parser of replies, from arbitrary bytes.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use stripewise_export::nbd::{
    limits::REQUEST_BYTES_MAX,
    proto::{
        Chunk, Cookie, ReplyHeader, Request, Session, TransmissionFlags, Work, check, codes::REQUEST_MAGIC,
    },
};

#[derive(Arbitrary, Debug)]
struct Input {
    request: [u8; 28],
    right_magic: bool,
    blocks: u64,
    large_blocks: bool,
    flags: u16,
    structured: bool,
    allocation: bool,
    fast_zero: bool,
    reply: Vec<u8>,
    reply_kind: u16,
}

fn judge(request: &Request, session: &Session) {
    let size = session.size_bytes;
    let block = u64::from(session.block_bytes);
    let inside = |offset: u64, len: u64| {
        assert!(len > 0 && offset % block == 0 && len % block == 0);
        assert!(offset.checked_add(len).is_some_and(|end| end <= size));
    };
    let Ok(work) = check(request, session) else { return };
    let writable = !session.flags.contains(TransmissionFlags::READ_ONLY);
    match work {
        Work::Read { offset_bytes, len_bytes, skip_bytes, take_bytes } => {
            inside(offset_bytes, u64::from(len_bytes));
            assert!(take_bytes == request.len_bytes && take_bytes <= REQUEST_BYTES_MAX);
            assert!(skip_bytes + take_bytes <= len_bytes && len_bytes <= REQUEST_BYTES_MAX + 8192);
            assert_eq!(offset_bytes + u64::from(skip_bytes), request.offset_bytes);
        }
        Work::Write { offset_bytes, len_bytes, .. } => {
            inside(offset_bytes, u64::from(len_bytes));
            assert!(writable && len_bytes == request.payload_bytes() && len_bytes <= REQUEST_BYTES_MAX);
        }
        Work::Trim { offset_bytes, len_bytes, .. } | Work::Zeroes { offset_bytes, len_bytes, .. } => {
            inside(offset_bytes, len_bytes);
            assert!(writable);
        }
        Work::Status { offset_bytes, len_bytes, .. } => {
            inside(offset_bytes, len_bytes);
            assert!(session.allocation);
        }
        Work::Flush | Work::Nothing | Work::Disconnect => {}
    }
}

fuzz_target!(|input: Input| {
    let mut bytes = input.request;
    if input.right_magic {
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        // Few commands and flags are known; most inputs should be one of them.
        (bytes[4], bytes[6]) = (0, 0);
        bytes[7] %= 9;
    }
    if let Ok(request) = Request::decode(&bytes) {
        assert_eq!(Request::decode(&request.encode()), Ok(request));
        let block_bytes = if input.large_blocks { 4096 } else { 512 };
        judge(
            &request,
            &Session {
                export: 0,
                size_bytes: input.blocks % (1 << 50) * u64::from(block_bytes),
                block_bytes,
                flags: TransmissionFlags(input.flags),
                structured: input.structured,
                allocation: input.allocation,
                fast_zero: input.fast_zero,
            },
        );
    }
    let _ = ReplyHeader::decode(&input.reply);
    if let Ok(chunk) = Chunk::decode(input.reply_kind, &input.reply, input.reply.len() as u32) {
        let encoded = chunk.encode(Cookie(1), true);
        assert!(ReplyHeader::decode(&encoded[..20]).is_ok());
    }
});
