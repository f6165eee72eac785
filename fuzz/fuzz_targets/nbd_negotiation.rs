//! The NBD server's negotiation, from arbitrary bytes in arbitrary pieces, and from options that make sense.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use stripewise_export::nbd::{
    limits::OPTION_BYTES_MAX,
    proto::{
        ClientOption, ExportFacts, Info, InfoRequest, MetaQuery, Negotiation, OptionReply, OptionReplyHeader,
        Step, Then, TransmissionFlags, option_reply::OPTION_REPLY_HEADER_BYTES,
    },
};

#[derive(Arbitrary, Debug)]
enum Said {
    Bytes(Vec<u8>),
    /// An option whose header is right and whose data is anything.
    Option(u8, Vec<u8>),
    ExportName(String),
    Go(String, Vec<u16>),
    Info(String, Vec<u16>),
    ListMeta(String, Vec<String>),
    SetMeta(String, Vec<String>),
    Structured,
    List,
}

#[derive(Arbitrary, Debug)]
struct Input {
    flags: u8,
    said: Vec<Said>,
    /// How the bytes come in.
    pieces: Vec<u8>,
}

fn export(name: &str) -> ExportFacts {
    ExportFacts {
        name: name.into(),
        description: "about".into(),
        size_bytes: 1 << 30,
        block_bytes: 512,
        preferred_bytes: 4096,
        flags: TransmissionFlags::HAS_FLAGS,
        fast_zero: false,
    }
}

fn bytes_of(said: Said) -> Vec<u8> {
    let option = match said {
        Said::Bytes(bytes) => return bytes,
        Said::Option(code, data) => {
            let mut bytes = ClientOption::Unknown(u32::from(code % 13)).encode();
            bytes[12..16].copy_from_slice(&(data.len() as u32).to_be_bytes());
            bytes.extend(data);
            return bytes;
        }
        Said::ExportName(name) => ClientOption::ExportName(name),
        Said::Go(export, wanted) => ClientOption::Go(InfoRequest { export, wanted }),
        Said::Info(export, wanted) => ClientOption::Info(InfoRequest { export, wanted }),
        Said::ListMeta(export, queries) => ClientOption::ListMetaContext(MetaQuery { export, queries }),
        Said::SetMeta(export, queries) => ClientOption::SetMetaContext(MetaQuery { export, queries }),
        Said::Structured => ClientOption::StructuredReply,
        Said::List => ClientOption::List,
    };
    option.encode()
}

/// What the server says must be what a client can read.
fn read_replies(mut reply: &[u8]) {
    while let Some((head, rest)) = reply.split_first_chunk::<OPTION_REPLY_HEADER_BYTES>() {
        let header = OptionReplyHeader::decode(head).expect("the server's own reply");
        let (data, rest) = rest.split_at(header.len_bytes as usize);
        let _ = (Info::decode(data), OptionReply::parse_server(data), OptionReply::parse_meta(data));
        reply = rest;
    }
    assert!(reply.is_empty());
}

fuzz_target!(|input: Input| {
    let mut bytes = vec![0, 0, 0, input.flags];
    bytes.extend(input.said.into_iter().flat_map(bytes_of));
    let mut negotiation = Negotiation::new([export("one"), export("two")].into());
    let mut pieces = input.pieces.into_iter().cycle();
    let (mut start, mut end) = (0, 0);
    loop {
        match negotiation.advance(&bytes[start..end]) {
            Err(_) => return,
            Ok(Step::Need(len)) => {
                assert!(len > end - start && len <= OPTION_BYTES_MAX + 16);
                if end == bytes.len() {
                    return;
                }
                end = (end + 1 + usize::from(pieces.next().unwrap_or(255))).min(bytes.len());
            }
            Ok(Step::Took { consumed, reply, then }) => {
                assert!(consumed > 0 && consumed <= end - start);
                start += consumed;
                // Replies are bounded by what there is to tell, not by what is asked.
                assert!(reply.len() < 4096);
                match then {
                    Then::Transmit(session) => {
                        assert!(session.export < 2 && (session.structured || !session.allocation));
                        return;
                    }
                    Then::Close => return read_replies(&reply),
                    Then::Continue => read_replies(&reply),
                }
            }
        }
    }
});
