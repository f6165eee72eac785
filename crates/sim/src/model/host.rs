//! The drive's side of the host interface: firmware and wire, each busy with one thing at a time.

use super::SECTOR_BYTES;

/// Firmware and wire.
pub(super) struct Host {
    command_ns: u64,
    status_ns: u64,
    /// Picoseconds, so that the rounding of rates does not add up.
    sector_ps: u64,
    firmware_free: u64,
    wire_free: u64,
}

impl Host {
    /// `command_ns` is the firmware's time for each command's arrival, `status_ns` from an end until the host
    /// knows.
    pub(super) fn new(command_ns: u32, status_ns: u32, interface_bytes_per_s: u64) -> Self {
        Self {
            command_ns: u64::from(command_ns),
            status_ns: u64::from(status_ns),
            sector_ps: SECTOR_BYTES * 1_000_000_000_000 / interface_bytes_per_s,
            firmware_free: 0,
            wire_free: 0,
        }
    }

    /// A command arrives; the firmware has understood it at the time returned.
    pub(super) fn command(&mut self, now: u64) -> u64 {
        self.firmware_free = self.firmware_free.max(now) + self.command_ns;
        self.firmware_free
    }

    /// Data moves over the wire from `from` on at the earliest; it is over at the time returned.
    pub(super) fn transfer(&mut self, from: u64, sectors: u64) -> u64 {
        self.wire_free = self.wire_free.max(from) + self.wire_ns(sectors);
        self.wire_free
    }

    /// Data that was read from the medium until `now` and went over the wire meanwhile, but for the last
    /// sector.
    pub(super) fn transfer_behind(&mut self, now: u64, sectors: u64) -> u64 {
        self.wire_free = (self.wire_free + self.wire_ns(sectors)).max(now + self.wire_ns(1));
        self.wire_free
    }

    fn wire_ns(&self, sectors: u64) -> u64 {
        (sectors * self.sector_ps).div_ceil(1000)
    }

    /// When the host has the status of a command that ended at `time`.
    pub(super) fn status(&self, time: u64) -> u64 {
        time + self.status_ns
    }
}
