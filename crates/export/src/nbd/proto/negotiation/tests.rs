//! Negotiations as tables of what the client sends and what must come back.

use proptest::prelude::*;

use super::*;
use crate::nbd::proto::option_reply::{OPTION_REPLY_HEADER_BYTES, OptionReplyHeader};

fn export(name: &str) -> ExportFacts {
    ExportFacts {
        name: name.to_owned(),
        description: format!("about {name}"),
        size_bytes: 1 << 20,
        block_bytes: 512,
        preferred_bytes: 65_536,
        flags: TransmissionFlags::HAS_FLAGS,
        fast_zero: false,
    }
}

fn negotiation() -> Negotiation {
    let mut negotiation = Negotiation::new([export("first"), export("second")].into());
    let flags = ClientFlags::FIXED_NEWSTYLE | ClientFlags::NO_ZEROES;
    negotiation.advance(&flags.0.to_be_bytes()).unwrap();
    negotiation
}

/// Sends an option and returns the kinds of its replies.
fn ask(negotiation: &mut Negotiation, option: ClientOption) -> (Vec<OptionReplyKind>, Then) {
    let bytes = option.encode();
    let Step::Took { consumed, reply, then } = negotiation.advance(&bytes).unwrap() else {
        panic!("whole option")
    };
    assert_eq!(consumed, bytes.len());
    (kinds(&reply), then)
}

fn kinds(mut reply: &[u8]) -> Vec<OptionReplyKind> {
    let mut kinds = Vec::new();
    while let Some((head, rest)) = reply.split_first_chunk::<OPTION_REPLY_HEADER_BYTES>() {
        let header = OptionReplyHeader::decode(head).unwrap();
        kinds.push(header.kind);
        reply = &rest[header.len_bytes as usize..];
    }
    kinds
}

fn go(name: &str) -> ClientOption {
    ClientOption::Go(InfoRequest { export: name.to_owned(), wanted: vec![info::BLOCK_SIZE] })
}

fn set_meta(name: &str) -> ClientOption {
    ClientOption::SetMetaContext(MetaQuery {
        export: name.to_owned(),
        queries: vec![BASE_ALLOCATION.to_owned()],
    })
}

#[test]
fn the_usual_client_gets_to_transmission() {
    use OptionReplyKind::{Ack, Info, MetaContext, Server};
    let mut n = negotiation();
    assert_eq!(ask(&mut n, ClientOption::StructuredReply).0, [Ack]);
    assert_eq!(ask(&mut n, ClientOption::List).0, [Server, Server, Ack]);
    assert_eq!(ask(&mut n, set_meta("second")).0, [MetaContext, Ack]);
    let (kinds, then) = ask(&mut n, go("second"));
    assert_eq!(kinds, [Info, Info, Ack]);
    let Then::Transmit(session) = then else { panic!("{then:?}") };
    assert!(session.export == 1 && session.structured && session.allocation);
    assert!(session.flags.contains(TransmissionFlags::SEND_DF));
}

#[test]
fn a_context_belongs_to_the_export_it_was_asked_for() {
    let mut n = negotiation();
    ask(&mut n, ClientOption::StructuredReply);
    ask(&mut n, set_meta("second"));
    let (_, then) = ask(&mut n, go("first"));
    assert!(matches!(then, Then::Transmit(Session { allocation: false, .. })));
    ask(&mut n, set_meta("first"));
    ask(&mut n, set_meta("no such"));
    let (_, then) = ask(&mut n, go("first"));
    assert!(
        matches!(then, Then::Transmit(Session { allocation: false, .. })),
        "a failed choice drops the former"
    );
}

#[test]
fn the_empty_name_is_the_default_export() {
    let (_, then) = ask(&mut negotiation(), go(""));
    assert!(matches!(then, Then::Transmit(Session { export: 0, structured: false, .. })));
}

#[test]
fn unknown_names_options_and_tls_are_refused_and_the_talk_goes_on() {
    let mut n = negotiation();
    for name in ["../first", "first/", "fir\u{1}st", "FIRST", "third"] {
        assert_eq!(ask(&mut n, go(name)), (vec![OptionReplyKind::ErrUnknown], Then::Continue), "{name:?}");
    }
    assert_eq!(ask(&mut n, ClientOption::StartTls).0, [OptionReplyKind::ErrPolicy]);
    assert_eq!(ask(&mut n, ClientOption::Unknown(77)).0, [OptionReplyKind::ErrUnsupported]);
    assert_eq!(ask(&mut n, set_meta("first")).0, [OptionReplyKind::ErrInvalid], "no structured replies yet");
    assert_eq!(ask(&mut n, ClientOption::Abort), (vec![OptionReplyKind::Ack], Then::Close));
}

#[test]
fn the_old_way_to_choose_ends_in_transmission_or_hangs_up() {
    let option = ClientOption::ExportName("second".to_owned()).encode();
    let mut padded = Negotiation::new([export("first"), export("second")].into());
    padded.advance(&[0, 0, 0, 1]).unwrap();
    let Ok(Step::Took { reply, then: Then::Transmit(_), .. }) = padded.advance(&option) else {
        panic!("accepted")
    };
    assert_eq!(reply.len(), 134);
    let Ok(Step::Took { reply, .. }) = negotiation().advance(&option) else { panic!("accepted") };
    assert_eq!(reply.len(), 10);
    let unknown = ClientOption::ExportName("third".to_owned()).encode();
    assert_eq!(negotiation().advance(&unknown), Err(NegotiationError::NoSuchExport));
}

#[test]
fn hostile_openings_hang_up() {
    let mut n = Negotiation::new([export("first")].into());
    assert_eq!(n.advance(b"GET "), Err(NegotiationError::BadFlags(0x4745_5420)));
    assert!(matches!(negotiation().advance(b"GET / HTTP/1.1\r\n"), Err(NegotiationError::BadMagic(_))));
    let mut huge = ClientOption::List.encode();
    huge[12..16].fill(0xff);
    assert_eq!(negotiation().advance(&huge), Err(NegotiationError::OptionTooLong(u32::MAX)));
    let mut n = negotiation();
    let last = (0..=OPTIONS_MAX).map(|_| n.advance(&ClientOption::List.encode())).last();
    assert_eq!(last, Some(Err(NegotiationError::TooManyOptions)));
}

proptest! {
    /// However the bytes arrive, the conversation is the same.
    #[test]
    fn pieces_make_no_difference(cuts in proptest::collection::vec(1usize..40, 1..60)) {
        let said = [ClientOption::StructuredReply, set_meta("first"), ClientOption::List, go("first")];
        let bytes: Vec<u8> = said.iter().flat_map(ClientOption::encode).collect();
        let (mut n, mut start, mut end, mut cuts) = (negotiation(), 0, 0, cuts.into_iter().cycle());
        loop {
            match n.advance(&bytes[start..end]).unwrap() {
                Step::Need(len) => {
                    prop_assert!(len > end - start && start + len <= bytes.len());
                    end = (end + cuts.next().unwrap()).min(bytes.len());
                }
                Step::Took { consumed, then, .. } => {
                    start += consumed;
                    if let Then::Transmit(session) = then {
                        prop_assert!(session.allocation);
                        prop_assert_eq!(start, bytes.len());
                        break;
                    }
                }
            }
        }
    }

    #[test]
    fn any_bytes_need_more_or_are_taken_or_end_it(input: Vec<u8>) {
        let mut n = negotiation();
        let mut rest = &input[..];
        while let Ok(Step::Took { consumed, then: Then::Continue, .. }) = n.advance(rest) {
            rest = &rest[consumed..];
        }
    }
}
