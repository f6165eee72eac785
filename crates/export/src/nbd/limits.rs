//! Every bound of the NBD server, with its reason, and the memory they add up to.
//!
//! **The bound.** A connection holds at most [`Limits::connection_in_flight_bytes`] of request and reply
//! data, counted as the buffer pool rounds it, one read-ahead buffer of [`READ_AHEAD_BYTES`], and a few
//! hundred bytes for each of its [`Limits::connection_requests`]. [`CONNECTION_RESERVE_BYTES`] of that data
//! are the connection's own; the rest comes from [`Limits::in_flight_bytes`], which the connections share. So
//! the server as a whole stays below [`Limits::memory_bound_bytes`], whatever its clients do: 432 MiB with
//! the defaults if every client asks for all it may and reads no reply. Where that is too much, lower the
//! limits.

use std::time::Duration;

/// The largest read or write, advertised as the maximum payload. The protocol text lets clients assume 32 MiB
/// without asking, so a client that other servers would serve is not refused here.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// The longest name or description: the protocol's own limit for strings.
pub const STRING_BYTES_MAX: usize = 4096;

/// Bytes received ahead of what is parsed: thirty-one 4 KiB writes come with one system call.
pub const READ_AHEAD_BYTES: usize = 128 << 10;

/// From this payload size on, the next header is received with little read-ahead. Another large write mostly
/// follows a large one, and copying so much out of the read-ahead costs more than the system call that
/// receives it in place.
pub(crate) const IN_PLACE_BYTES_MIN: usize = 32 << 10;

/// Requests that are started before the finished ones are answered. The client works on these replies while
/// the server goes on, instead of one waiting for the other.
pub(crate) const TURN_REQUESTS_MAX: u32 = 8;

/// Bytes of data that end a turn sooner, so that data just read is sent while it is in the processor's
/// caches, and its buffer is used again.
pub(crate) const TURN_BYTES_MAX: u64 = 256 << 10;

/// Kernel buffer requested for the sending side of a socket: a sender of a megabyte need not wait until the
/// peer has taken the first part. The system may allow less (`net.core.wmem_max`).
pub(crate) const SOCKET_BUFFER_BYTES: usize = 1 << 20;

/// The longest option data. Room for a name of [`STRING_BYTES_MAX`] and six queries as long.
pub const OPTION_BYTES_MAX: usize = (32 << 10) - 16;

/// An option's header comes with it.
const _: () = assert!(OPTION_BYTES_MAX + 16 <= READ_AHEAD_BYTES);

/// Options in one negotiation. Clients send below ten; a client with many more only keeps us busy.
pub const OPTIONS_MAX: u32 = 64;

/// Extents in one BLOCK_STATUS reply (32 KiB). A client continues where the reply ends.
pub const STATUS_EXTENTS_MAX: usize = 4096;

/// Messages gathered into one send: a connection's default number of requests, so that one send can answer
/// them all.
pub(crate) const SEND_MESSAGES_MAX: usize = 128;

/// Buffers in one send. The kernel takes 1024 in a vectored write.
pub(crate) const SEND_PIECES_MAX: usize = 1000;

/// Buffers in one write of the client; one with more is sent as several.
pub(crate) const WRITE_PIECES_MAX: usize = SEND_PIECES_MAX - 1;

/// A send is not made larger than this payload, so that buffers are freed while a slow client still receives.
pub(crate) const SEND_BYTES_MAX: usize = 1 << 20;

/// Data that is moved in one go; after each such part the server notes that the client makes progress. A
/// client that moves this much within [`Limits::stall`] (13 KiB/s by default) never counts as stalled,
/// however large its request is.
pub(crate) const PROGRESS_BYTES: usize = 128 << 10;

/// One WRITE_ZEROES of up to 4 GiB goes to the device in steps of this size.
pub(crate) const ZEROES_STEP_BYTES: u64 = 64 << 20;

/// The bounds that an operator can set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; a further one is closed at once.
    pub connections: usize,
    /// Requests of one connection that are not yet answered; the Linux client sends up to 128.
    pub connection_requests: u32,
    /// Request and reply data of one connection, no more than all connections may hold. At least 40 MiB: the
    /// largest request and its rounding must fit.
    pub connection_in_flight_bytes: u64,
    /// Request and reply data of all connections together, besides the reserve of each. At least 40 MiB, as
    /// for one.
    pub in_flight_bytes: u64,
    /// How long a client may take to negotiate, and, when all places are taken, be connected without a
    /// request.
    pub handshake: Duration,
    /// How long a client may move no data in the middle of a reply or of a write's data while others wait for
    /// the memory that it holds.
    pub stall: Duration,
    /// How long a client may send no request and move no data; none for no limit.
    pub idle: Option<Duration>,
    /// How long a stopping server waits for clients to take their last replies.
    pub stop_grace: Duration,
}

/// What a connection may always have under way, whatever others hold: a queue of small requests.
pub const CONNECTION_RESERVE_BYTES: u64 = 1 << 20;

/// The least sensible [`Limits::connection_in_flight_bytes`] and [`Limits::in_flight_bytes`]; smaller values
/// are raised to it.
pub const CONNECTION_IN_FLIGHT_BYTES_MIN: u64 = 40 << 20;

const _: () = assert!(CONNECTION_IN_FLIGHT_BYTES_MIN >= charged_bytes(REQUEST_BYTES_MAX as u64 + 2 * 4096));

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 128,
            connection_requests: 128,
            connection_in_flight_bytes: 64 << 20,
            in_flight_bytes: 256 << 20,
            handshake: Duration::from_secs(10),
            stall: Duration::from_secs(10),
            idle: None,
            stop_grace: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// The limits with impossible values raised to the least possible ones. The bound on all connections also
    /// bounds each one.
    pub(crate) fn sane(mut self) -> Self {
        self.connections = self.connections.max(1);
        self.connection_requests = self.connection_requests.max(1);
        self.in_flight_bytes = self.in_flight_bytes.max(CONNECTION_IN_FLIGHT_BYTES_MIN);
        self.connection_in_flight_bytes =
            self.connection_in_flight_bytes.clamp(CONNECTION_IN_FLIGHT_BYTES_MIN, self.in_flight_bytes);
        self
    }

    /// The most memory that clients can make the server hold, the buffer pools' reserves aside.
    pub fn memory_bound_bytes(&self) -> u64 {
        // A task and its queue places: a few hundred bytes, taken as 1 KiB.
        let overhead = READ_AHEAD_BYTES as u64 * 2 + u64::from(self.connection_requests) * 1024;
        self.in_flight_bytes + self.connections as u64 * (CONNECTION_RESERVE_BYTES + overhead)
    }

    /// For trusted clients, all of which may hold as much as a connection may.
    pub(crate) fn unshared(connections: usize) -> Self {
        let limits = Self::default();
        Self { in_flight_bytes: connections as u64 * limits.connection_in_flight_bytes, ..limits }
    }
}

/// What a buffer of `len` bytes really takes: the pool rounds up to 4 KiB and, to 2 MiB, to powers of two.
pub(crate) const fn charged_bytes(len: u64) -> u64 {
    match len {
        0 => 0,
        1..=4096 => 4096,
        4097..=0x20_0000 => len.next_power_of_two(),
        _ => len.next_multiple_of(4096),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_may_hold_bounds_what_one_may() {
        let sane = |in_flight_bytes, connection_in_flight_bytes| {
            let limits = Limits { in_flight_bytes, connection_in_flight_bytes, ..Limits::default() }.sane();
            (limits.in_flight_bytes >> 20, limits.connection_in_flight_bytes >> 20)
        };
        assert_eq!(sane(48 << 20, 64 << 20), (48, 48));
        assert_eq!(sane(256 << 20, 64 << 20), (256, 64));
        assert_eq!(sane(1 << 20, 1 << 20), (40, 40), "the largest request must fit");
    }
}
