//! The data of writes: received in place, noting when the client last made progress.

use std::sync::atomic::Ordering;

use stripewise_device::{IoBuf, SharedBuf};

use super::connection::Connection;
use crate::nbd::inlet::{Inlet, InletError};

/// How often a task that waits for memory looks for stalled clients, within the time that these have.
pub(super) const STALL_LOOKS: u32 = 5;

/// Receives the data of a write. If the write had to wait for memory, `late_ns` is the time of the client's
/// request: the data that has arrived since then does not prove that the client goes on, but the first byte
/// from now on does.
pub(super) async fn receive_payload(
    connection: &Connection,
    inlet: &mut Inlet,
    len_bytes: usize,
    late_ns: Option<u64>,
) -> Result<SharedBuf, InletError> {
    let goes_on = || connection.note_progress(&connection.receiving_ns, true);
    let mut buf = IoBuf::with_len(len_bytes);
    if let Some(asked_ns) = late_ns {
        let rest = buf.split_off((inlet.arrived_bytes() + 1).min(len_bytes));
        let stall_ns = connection.shared().limits().stall.as_nanos() as u64;
        let since_ns = stalled_since(asked_ns, connection.shared().now_ns(), stall_ns);
        connection.receiving_ns.store(since_ns, Ordering::Relaxed);
        buf = inlet.read_into(buf, || {}).await?;
        buf.unsplit(inlet.read_into(rest, goes_on).await?).expect("the parts were split from one buffer");
    } else {
        buf = inlet.read_into(buf, goes_on).await?;
    }
    connection.note_progress(&connection.receiving_ns, false);
    Ok(buf.freeze())
}

/// From when on a client counts as stalled if nothing new was received since its request: it had time to send
/// while it waited, and gets a little more now.
fn stalled_since(asked_ns: u64, now_ns: u64, stall_ns: u64) -> u64 {
    let grace_ns = stall_ns / u64::from(STALL_LOOKS);
    asked_ns.max(now_ns.saturating_sub(stall_ns - grace_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_had_time_to_send_while_it_waited_gets_little_more() {
        let (asked, stall) = (1000, 500);
        assert_eq!(stalled_since(asked, 1010, stall), 1000, "it has hardly waited");
        assert_eq!(stalled_since(asked, 9000, stall), 8600, "a fifth of the time is left");
    }
}
