//! The sending half of a connection: whole messages, as many in one send as have gathered.
//!
//! A message's head and payload are never separated by another message, as one task sends all of them.

use smallvec::SmallVec;
use stripewise_device::{IoBuf, IoError, SharedBuf, WriteBufs, bufs_len, uring::net::Stream};

use super::{
    limits::{SEND_BYTES_MAX, SEND_MESSAGES_MAX, SEND_PIECES_MAX},
    mailbox::Mailbox,
    proto::Head,
};

/// One message. `_keep` lives until it is sent: a share of a budget, say.
#[derive(Debug)]
pub(crate) struct Message<K> {
    pub(crate) head: Head,
    pub(crate) payload: WriteBufs,
    pub(crate) _keep: K,
}

impl<K> Message<K> {
    fn payload_bytes(&self) -> usize {
        bufs_len(&self.payload)
    }

    fn pieces(&self) -> usize {
        self.payload.len() + 1
    }
}

/// Sends what comes into `mailbox` until it is closed or the connection breaks. Told is when a send begins, and when it is done.
pub(crate) async fn send_all<K>(
    stream: &Stream,
    mailbox: &Mailbox<Message<K>>,
    is_sending: impl Fn(bool),
) -> Result<(), IoError> {
    let mut batch = Vec::new();
    loop {
        let (mut bytes, mut pieces) = (0, 0);
        let fits = |batch: &[Message<K>], next: &Message<K>| {
            bytes += batch.last().map_or(0, Message::payload_bytes);
            pieces += batch.last().map_or(0, Message::pieces);
            let (bytes, pieces) = (bytes + next.payload_bytes(), pieces + next.pieces());
            batch.len() < SEND_MESSAGES_MAX && bytes <= SEND_BYTES_MAX && pieces <= SEND_PIECES_MAX
        };
        if !mailbox.receive(&mut batch, fits).await {
            return Ok(());
        }
        is_sending(true);
        let sent = stream.send(gather(&mut batch)).await;
        is_sending(false);
        batch.clear();
        sent?;
    }
}

/// All heads lie in one buffer; neighbouring heads without payload between them become one piece.
fn gather<K>(batch: &mut [Message<K>]) -> WriteBufs {
    let mut heads = IoBuf::with_len(batch.iter().map(|m| m.head.as_bytes().len()).sum());
    let mut end = 0;
    for message in batch.iter() {
        let head = message.head.as_bytes();
        heads[end..end + head.len()].copy_from_slice(head);
        end += head.len();
    }
    let heads = heads.freeze();
    let mut bufs = SmallVec::new();
    let (mut start, mut at) = (0, 0);
    for message in batch {
        at += message.head.as_bytes().len();
        if !message.payload.is_empty() {
            push(&mut bufs, heads.slice(start..at));
            message.payload.drain(..).for_each(|buf| push(&mut bufs, buf));
            start = at;
        }
    }
    push(&mut bufs, heads.slice(start..at));
    bufs
}

fn push(bufs: &mut WriteBufs, buf: SharedBuf) {
    if !buf.is_empty() {
        bufs.push(buf);
    }
}
