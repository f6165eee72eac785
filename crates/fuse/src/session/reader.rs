//! What each thread of a session does: it reads requests, and hands them on.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use stripewise_device::IoBuf;

use super::{
    Message, Negotiated, Reply, Server, SessionError,
    channel::{Channel, Received},
};
use crate::{
    Errno,
    protocol::{Opcode, WRITE_HEAD_BYTES},
    request::{Operation, ParseError},
};

/// A thread's place to read to: the head of a request, and the rest, which is page-aligned.
pub(super) struct Reader {
    channel: Arc<Channel>,
    head: [u8; WRITE_HEAD_BYTES],
    body: IoBuf,
}

/// What a read has brought.
pub(super) enum Step {
    Message(Message),
    Refused(ParseError),
    Nothing,
    End,
}

impl Reader {
    pub(super) fn new(channel: Arc<Channel>, body_bytes: usize) -> Self {
        Self { channel, head: [0; WRITE_HEAD_BYTES], body: IoBuf::with_len(body_bytes) }
    }

    /// Waits for a request.
    pub(super) fn step(&mut self) -> Result<Step, SessionError> {
        Ok(match self.channel.receive(&mut self.head, &mut self.body).map_err(SessionError::Receive)? {
            Received::Nothing => Step::Nothing,
            Received::End => Step::End,
            Received::Request(len) => match Message::take(&self.head, &mut self.body, len) {
                Ok(message) => Step::Message(message),
                Err(error) => Step::Refused(error),
            },
        })
    }
}

/// Serves requests until the mount is gone.
pub(super) fn serve(
    channel: &Arc<Channel>,
    negotiated: &Negotiated,
    server: &dyn Server,
) -> Result<(), SessionError> {
    let mut reader = Reader::new(channel.clone(), negotiated.body_bytes());
    loop {
        match reader.step()? {
            Step::Message(message) => hand_on(channel, message, server),
            Step::Refused(error) => refuse(channel, &error),
            Step::Nothing => {}
            Step::End => return Ok(()),
        }
    }
}

fn hand_on(channel: &Arc<Channel>, message: Message, server: &dyn Server) {
    let request = message.request();
    let id = request.id;
    let reply = match request.operation {
        Operation::Unknown(opcode) => {
            tracing::debug!(opcode, "a FUSE request of an unknown kind gets ENOSYS");
            return channel.send_error(id, Errno::NOSYS);
        }
        // There is one at the beginning, and it was answered.
        Operation::Init(_) => return channel.send_error(id, Errno::IO),
        Operation::Forget { .. } | Operation::BatchForget(_) | Operation::Interrupt { .. } => {
            Reply::silent(id)
        }
        _ => Reply::new(channel.clone(), id),
    };
    // Its reply is dropped as it unwinds, and answers EIO. Other requests go on.
    if catch_unwind(AssertUnwindSafe(|| server.handle(message, reply))).is_err() {
        tracing::error!(id = id.0, "a FUSE server panicked; its request fails with EIO");
    }
}

/// Answers what could not be parsed, so that its caller does not wait for ever.
pub(super) fn refuse(channel: &Channel, error: &ParseError) {
    tracing::warn!(%error, name = ?Opcode::from_code(error.opcode), "a FUSE request is refused");
    if let Some(id) = error.id.filter(|_| error.wants_answer()) {
        channel.send_error(id, Errno::IO);
    }
}
