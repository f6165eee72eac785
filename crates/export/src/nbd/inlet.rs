//! The receiving half of a connection: a small read-ahead for headers, and payloads received in place.

use stripewise_device::{IoBuf, IoError, sync::yield_now, uring::net::Stream};
use thiserror::Error;

use super::limits::{IN_PLACE_BYTES_MIN, PROGRESS_BYTES, READ_AHEAD_BYTES};

/// A small read-ahead: a header and some more.
const THRIFTY_BYTES: usize = 512;

/// Why nothing more can be received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum InletError {
    #[error("the peer closed the connection")]
    Closed,
    #[error("the connection broke: {0}")]
    Broken(#[from] IoError),
}

/// Received bytes in order.
pub(crate) struct Inlet {
    stream: Stream,
    /// Some, except while the ring has it.
    buf: Option<IoBuf>,
    start: usize,
    end: usize,
    thrifty: bool,
}

impl Inlet {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream, buf: Some(IoBuf::with_len(READ_AHEAD_BYTES)), start: 0, end: 0, thrifty: false }
    }

    /// Bytes received and not consumed.
    pub(crate) fn available(&self) -> &[u8] {
        &self.buf.as_deref().unwrap_or_default()[self.start..self.end]
    }

    /// How much the peer has sent that was not consumed yet.
    pub(crate) fn arrived_bytes(&self) -> usize {
        self.end - self.start + self.stream.arrived_bytes()
    }

    /// Drops the first `len` available bytes.
    pub(crate) fn consume(&mut self, len: usize) {
        debug_assert!(len <= self.end - self.start);
        self.start += len;
    }

    /// Waits until `len` bytes are available.
    pub(crate) async fn ensure(&mut self, len: usize) -> Result<(), InletError> {
        assert!(len <= READ_AHEAD_BYTES, "{len} bytes do not fit into the read-ahead");
        while self.end - self.start < len {
            self.compact();
            let limit = if self.thrifty {
                (self.end + THRIFTY_BYTES).min(READ_AHEAD_BYTES)
            } else {
                READ_AHEAD_BYTES
            };
            self.fill(limit.max(len)).await?;
        }
        self.thrifty = false;
        Ok(())
    }

    /// Consumes a fixed number of bytes as an array.
    pub(crate) async fn take<const N: usize>(&mut self) -> Result<[u8; N], InletError> {
        self.ensure(N).await?;
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.available()[..N]);
        self.consume(N);
        Ok(bytes)
    }

    /// Consumes `len` bytes as a vector; for the small, bounded bodies of a handshake.
    pub(crate) async fn take_vec(&mut self, len: usize) -> Result<Vec<u8>, InletError> {
        self.ensure(len).await?;
        let bytes = self.available()[..len].to_vec();
        self.consume(len);
        Ok(bytes)
    }

    fn compact(&mut self) {
        if let Some(buf) = &mut self.buf
            && self.start > 0
        {
            buf.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
    }

    /// Receives once into the read-ahead between `end` and `limit`, after a turn for other tasks: these
    /// answer earlier requests, and serve other connections.
    async fn fill(&mut self, limit: usize) -> Result<(), InletError> {
        yield_now().await;
        let mut buf = self.buf.take().expect("the read-ahead is here between receives");
        let rest = buf.split_off(limit);
        let room = buf.split_off(self.end);
        let received = self.stream.receive(room).await;
        join(&mut buf, received.buf);
        join(&mut buf, rest);
        self.buf = Some(buf);
        match received.result? {
            0 => Err(InletError::Closed),
            len => {
                self.end += len;
                Ok(())
            }
        }
    }

    /// Fills `buf` entirely: copies the bytes in the read-ahead, and receives the rest in place. Calls
    /// `goes_on` before each part that it has to wait for.
    pub(crate) async fn read_into(
        &mut self,
        mut buf: IoBuf,
        goes_on: impl Fn(),
    ) -> Result<IoBuf, InletError> {
        let ready = buf.len().min(self.end - self.start);
        buf[..ready].copy_from_slice(&self.available()[..ready]);
        self.consume(ready);
        self.thrifty = buf.len() >= IN_PLACE_BYTES_MIN;
        let mut filled = ready;
        while filled < buf.len() {
            goes_on();
            let rest = buf.split_off((filled + PROGRESS_BYTES).min(buf.len()));
            let room = buf.split_off(filled);
            let received = self.stream.receive_all(room).await;
            join(&mut buf, received.buf);
            join(&mut buf, rest);
            match received.result? {
                0 => return Err(InletError::Closed),
                len => filled += len,
            }
        }
        Ok(buf)
    }

    /// Receives `len` bytes and forgets them.
    pub(crate) async fn discard(&mut self, mut len: u64) -> Result<(), InletError> {
        while len > 0 {
            self.ensure(1).await?;
            let now = len.min((self.end - self.start) as u64);
            self.consume(now as usize);
            len -= now;
        }
        Ok(())
    }
}

fn join(head: &mut IoBuf, tail: IoBuf) {
    head.unsplit(tail).expect("the parts were split from one buffer");
}
