//! Writes that wait behind one another, and where a stream of them continues.

use std::{num::NonZeroU32, ops::Range, task::Waker};

use super::claim::Place;
use crate::shape::geometry::StripeIndex;

/// Where a stream of gathered writes continues. Kept until a write comes there.
pub(super) struct Expected {
    pub(super) stripe: StripeIndex,
    pub(super) start: usize,
    /// How many requests were gathered last.
    pub(super) parts: NonZeroU32,
}

impl Expected {
    pub(super) fn is_at(&self, place: &Place) -> bool {
        self.stripe == place.stripe && self.start == place.bytes.start
    }
}

/// What lies before a write in its stripe.
pub(super) enum Before {
    Nothing,
    /// A stream.
    Stream,
    /// This many requests. Requests in the stripes before may make them a stream.
    Some(u32),
}

/// Writes of one stripe that wait, without gaps between them. `W` is what is kept of each.
pub(super) struct Gather<W> {
    pub(super) bytes: Range<usize>,
    pub(super) parts: Vec<W>,
    /// How many requests the write before consists of.
    pub(super) parts_before: u32,
    /// The writes' ticket, once they reach the end of the stripe.
    pub(super) full: Option<u64>,
    /// The write that they wait for has ended.
    pub(super) is_due: bool,
    /// Wakes the task that will write them.
    pub(super) waker: Option<Waker>,
}

/// The state of a gather.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    /// There is nothing more to wait for.
    pub(crate) is_complete: bool,
    /// Requests in it.
    pub(crate) parts: u32,
}

impl<W> Gather<W> {
    /// The number of requests in it, if it reaches the end of its stripe; else 0.
    pub(super) fn closed_parts(&self) -> u32 {
        self.full.map_or(0, |_| self.parts.len() as u32)
    }

    /// The write that they wait for has ended. Returns the task to wake.
    pub(super) fn make_due(&mut self) -> Option<Waker> {
        self.is_due = true;
        self.waker.take()
    }

    /// Whether there is nothing more to wait for.
    pub(super) fn is_complete(&self) -> bool {
        self.full.is_some() || self.is_due && self.parts.len() as u32 >= self.parts_before
    }

    pub(super) fn standing(&self) -> Standing {
        Standing { is_complete: self.is_complete(), parts: self.parts.len() as u32 }
    }
}
