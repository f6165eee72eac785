//! What a modelled SSD is made of: numbers from data sheets and of the NAND's generation, and where each is
//! from.

use crate::model::SECTOR_BYTES;

/// Bytes of a unit: the grain of the mapping, in which data is placed and moved.
pub const UNIT_BYTES: u64 = 4096;
/// Sectors of a unit.
pub(super) const UNIT_SECTORS: u64 = UNIT_BYTES / SECTOR_BYTES;
/// Blocks that a die must have beyond what the host can fill: two write points, two that are free before
/// collection begins, the victim, and as many again, so that victims have something to give.
const SPARE_BLOCKS_MIN: u64 = 10;

/// Everything that makes one model of SSD differ from another.
///
/// The planes of a die are folded into its page: what all of them sense at once is one page, and a program
/// takes one or more whole pages. Host data goes to whichever die is idle, so no plane works
/// alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SsdParams {
    /// The maker's name for it.
    pub name: &'static str,
    /// User sectors of 512 bytes.
    pub sectors: u64,
    /// Buses between controller and flash.
    pub channels: u32,
    /// Dies that share a bus and work independently.
    pub dies_per_channel: u32,
    /// Erase blocks of a die, each over all planes.
    pub blocks_per_die: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Units of 4 KiB in a page: the bytes that all planes sense at once.
    pub page_units: u32,
    /// Pages that are programmed together: 1, or 3 where a word line takes three bits per cell in one go.
    pub pages_per_program: u32,
    /// From the array of cells to the die's register, for a page.
    pub read_ns: u32,
    /// From the register to the cells, for all pages that are programmed together.
    pub program_ns: u32,
    /// Erasing a block.
    pub erase_ns: u32,
    /// Rate of one channel.
    pub channel_bytes_per_s: u64,
    /// Firmware's time for each command's arrival, one command after another.
    pub command_ns: u32,
    /// From the end of a request's work until the host has the status.
    pub status_ns: u32,
    /// Rate of the host interface.
    pub interface_bytes_per_s: u64,
    /// Commands the drive works on; more wait at the host.
    pub queue_depth: usize,
    /// Units of the write buffer, in DRAM or in the controller.
    pub buffer_units: u32,
    /// Writes complete when they are in the buffer; else when they are programmed.
    pub write_buffer: bool,
    /// The buffer's content survives a power failure, so flush and FUA need not wait for programs.
    pub power_loss_protected: bool,
}

impl SsdParams {
    /// A drive of the same ratios with a 2^`halvings`-th of the capacity. Each halving takes half of the
    /// blocks or, where blocks have more units than a die has blocks, half of the pages of each block and of
    /// the time to erase it. Rates, latencies and what erasing costs a page stay; how long it takes until the
    /// drive is full shrinks likewise. What changes: the two open and two free blocks of a die weigh more
    /// among fewer (about 4 in `blocks_per_die` of the flash is lost to them), and blocks of few units are
    /// collected a little more cheaply than large ones.
    pub fn scaled(self, halvings: u32) -> Self {
        let mut scaled = self.clone();
        for _ in 0..halvings {
            let programs = scaled.pages_per_block / scaled.pages_per_program;
            if scaled.units_per_block() > scaled.blocks_per_die && programs.is_multiple_of(2) {
                scaled.pages_per_block /= 2;
                scaled.erase_ns /= 2;
            } else {
                scaled.blocks_per_die /= 2;
            }
        }
        let units = u128::from(self.user_units()) * u128::from(scaled.raw_units());
        let units = (units / u128::from(self.raw_units())) as u64;
        Self { sectors: units * UNIT_SECTORS, ..scaled }
    }

    /// The same flash with so much spare space: percent of the user's capacity.
    pub fn with_over_provisioning(self, percent: u32) -> Self {
        let units = self.raw_units() * 100 / u64::from(100 + percent);
        Self { sectors: units * UNIT_SECTORS, ..self }
    }

    /// The same drive, which acknowledges writes from its buffer or only from flash.
    pub fn with_write_buffer(self, write_buffer: bool) -> Self {
        Self { write_buffer, ..self }
    }

    /// The same drive with or without capacitors that save its buffer.
    pub fn with_power_loss_protection(self, power_loss_protected: bool) -> Self {
        Self { power_loss_protected, ..self }
    }

    /// Dies of the drive.
    pub fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    /// Units of flash, spare space included.
    pub fn raw_units(&self) -> u64 {
        let units_per_block = u64::from(self.pages_per_block) * u64::from(self.page_units);
        u64::from(self.dies()) * u64::from(self.blocks_per_die) * units_per_block
    }

    /// Flash over user capacity, at least 1.
    pub fn raw_ratio(&self) -> f64 {
        (self.raw_units() * UNIT_SECTORS) as f64 / self.sectors as f64
    }

    pub(super) fn user_units(&self) -> u32 {
        (self.sectors / UNIT_SECTORS) as u32
    }

    pub(super) fn units_per_block(&self) -> u32 {
        self.pages_per_block * self.page_units
    }

    pub(super) fn units_per_die(&self) -> u32 {
        self.blocks_per_die * self.units_per_block()
    }

    /// Units that are programmed together.
    pub(super) fn program_units(&self) -> u32 {
        self.page_units * self.pages_per_program
    }

    /// Units that one die may hold.
    pub(super) fn valid_units_max(&self) -> u32 {
        self.units_per_die() - SPARE_BLOCKS_MIN as u32 / 2 * self.units_per_block()
    }

    /// # Panics
    /// If the numbers contradict one another.
    pub(super) fn check(&self) {
        assert!(
            self.channels > 0 && self.dies_per_channel > 0 && self.page_units > 0 && self.queue_depth > 0
        );
        // First, since all other counts are 32 bits wide.
        assert!(
            self.raw_units() < u64::from(u32::MAX),
            "units are numbered in 32 bits: 16 TiB of flash at most"
        );
        assert!(
            self.pages_per_block.is_multiple_of(self.pages_per_program),
            "a program lies within its block"
        );
        assert!(
            self.units_per_block() <= u32::from(u16::MAX),
            "valid units of a block are counted in 16 bits"
        );
        assert!(self.buffer_units >= self.program_units(), "the buffer holds what is programmed together");
        assert!(self.sectors.is_multiple_of(UNIT_SECTORS), "whole units");
        let spare_units = u64::from(self.dies()) * SPARE_BLOCKS_MIN * u64::from(self.units_per_block());
        assert!(
            u64::from(self.user_units()) + spare_units <= self.raw_units(),
            "{}: {SPARE_BLOCKS_MIN} spare blocks in each die",
            self.name
        );
    }
}
