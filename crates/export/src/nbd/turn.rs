//! Turns among the tasks of a worker.

use stripewise_device::sync::yield_now;

use super::limits::{TURN_BYTES_MAX, TURN_REQUESTS_MAX};

/// What a connection has started since other tasks had their turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    requests: u32,
    bytes: u64,
}

impl Turn {
    /// Counts a started request. After the last one of a turn, other tasks get their turn.
    pub(crate) async fn count(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
        if self.requests >= TURN_REQUESTS_MAX || self.bytes >= TURN_BYTES_MAX {
            *self = Self::default();
            yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Waker},
    };

    use super::*;

    /// How many requests of a size make a turn.
    fn requests_in_a_turn(bytes: u64) -> u32 {
        let (mut turn, mut cx, mut requests) = (Turn::default(), Context::from_waker(Waker::noop()), 1);
        while pin!(turn.count(bytes)).poll(&mut cx).is_ready() {
            requests += 1;
        }
        requests
    }

    #[test]
    fn a_turn_ends_with_many_requests_or_many_bytes() {
        assert_eq!(requests_in_a_turn(4096), 8);
        assert_eq!(requests_in_a_turn(128 << 10), 2);
        assert_eq!(requests_in_a_turn(32 << 20), 1);
    }
}
