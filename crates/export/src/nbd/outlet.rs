//! The sending half of a connection: whole messages, with all that have gathered in one send.
//!
//! No other message comes between a message's head and its payload, as one task sends all of them.

use smallvec::SmallVec;
use stripewise_device::{IoBuf, IoError, SharedBuf, WriteBufs, bufs_len, uring::net::Stream};

use super::{
    limits::{PROGRESS_BYTES, SEND_BYTES_MAX, SEND_MESSAGES_MAX, SEND_PIECES_MAX},
    mailbox::Mailbox,
    proto::Head,
};

/// One message. `_keep`, a share of a budget, say, lives until the message is sent.
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

/// Sends the messages of `mailbox` until it is closed or the connection breaks. Calls `is_sending(true)`
/// before each part and `is_sending(false)` after the last.
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
        let sent = send_parts(stream, gather(&mut batch), &is_sending).await;
        is_sending(false);
        batch.clear();
        sent?;
    }
}

async fn send_parts(stream: &Stream, mut bufs: WriteBufs, is_sending: &impl Fn(bool)) -> Result<(), IoError> {
    while !bufs.is_empty() {
        is_sending(true);
        stream.send(take_front(&mut bufs, PROGRESS_BYTES)).await?;
    }
    Ok(())
}

/// Takes up to `len` bytes from the front.
fn take_front(bufs: &mut WriteBufs, len: usize) -> WriteBufs {
    if bufs_len(bufs) <= len {
        return std::mem::take(bufs);
    }
    let (mut front, mut room, mut whole) = (WriteBufs::new(), len, 0);
    for buf in bufs.iter_mut() {
        if room == 0 {
            break;
        }
        let now = room.min(buf.len());
        front.push(buf.slice(0..now));
        room -= now;
        if now < buf.len() {
            *buf = buf.slice(now..buf.len());
        } else {
            whole += 1;
        }
    }
    bufs.drain(..whole);
    front
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_whole_in_order_and_none_is_larger_than_it_may_be() {
        let bytes: Vec<u8> = (0..=99).collect();
        let whole = IoBuf::copy_of(&bytes).freeze();
        let mut bufs: WriteBufs =
            [0..30, 30..31, 31..70, 70..100].map(|part| whole.slice(part)).into_iter().collect();
        let mut seen = Vec::new();
        while !bufs.is_empty() {
            let part = take_front(&mut bufs, 32);
            assert!((1..=32).contains(&bufs_len(&part)));
            part.iter().for_each(|buf| seen.extend_from_slice(buf));
        }
        assert_eq!(seen, bytes);
    }
}
