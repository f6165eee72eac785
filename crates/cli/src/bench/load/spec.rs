//! What a load is, and what it must be to fit a device.

use std::time::Duration;

use anyhow::ensure;
use serde::{Deserialize, Serialize};
use stripewise::DeviceInfo;
use stripewise_lab::load::{Load, Offsets, Sizes, Stop};

/// The longest request: beyond what any stripe has.
const BLOCK_BYTES_MAX: u64 = 64 << 20;

/// A week.
const MILLISECONDS_MAX: u64 = 7 * 24 * 3600 * 1000;
/// Memory for requests under way.
const UNDER_WAY_BYTES_MAX: u64 = 512 << 20;

/// What is done, in fio's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lower")]
pub(crate) enum Pattern {
    /// Reads, one after another.
    Read,
    /// Writes, one after another.
    Write,
    /// Reads anywhere.
    RandRead,
    /// Writes anywhere.
    RandWrite,
    /// Reads and writes, one after another.
    Rw,
    /// Reads and writes anywhere.
    RandRw,
}

/// When it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Amount {
    Bytes(u64),
    Milliseconds(u64),
}

/// A load.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LoadSpec {
    pub(crate) rw: Pattern,
    pub(crate) block_bytes: u64,
    pub(crate) iodepth: u32,
    pub(crate) numjobs: u32,
    pub(crate) amount: Amount,
    pub(crate) read_percent: u8,
    pub(crate) seed: u64,
}

impl LoadSpec {
    fn read_percent(&self) -> u8 {
        match self.rw {
            Pattern::Read | Pattern::RandRead => 100,
            Pattern::Write | Pattern::RandWrite => 0,
            Pattern::Rw | Pattern::RandRw => self.read_percent,
        }
    }

    /// Whether anything is overwritten.
    pub(crate) fn writes(&self) -> bool {
        self.read_percent() < 100
    }

    /// The load, if it fits the device.
    pub(crate) fn load(&self, device: &DeviceInfo) -> anyhow::Result<Load> {
        let (bytes, block) = (self.block_bytes, u64::from(device.logical_block_bytes));
        ensure!(bytes > 0 && bytes % block == 0, "--bs {bytes}: give a multiple of {block}");
        ensure!(bytes <= BLOCK_BYTES_MAX, "--bs {bytes}: give at most {BLOCK_BYTES_MAX}");
        let under_way = bytes * u64::from(self.iodepth) * u64::from(self.numjobs);
        ensure!(
            under_way <= UNDER_WAY_BYTES_MAX,
            "--bs, --iodepth and --numjobs: {under_way} bytes would be under way at once; at most {UNDER_WAY_BYTES_MAX} are"
        );
        ensure!(bytes <= device.size_bytes, "--bs {bytes}: the device has {} bytes", device.size_bytes);
        let stop = match self.amount {
            Amount::Bytes(size) => {
                ensure!(size >= bytes, "--size {size}: give at least one request of {bytes}");
                Stop::Requests(size / bytes)
            }
            Amount::Milliseconds(time) => {
                ensure!(time <= MILLISECONDS_MAX, "--runtime: give at most a week");
                Stop::Time(Duration::from_millis(time))
            }
        };
        let sequential = matches!(self.rw, Pattern::Read | Pattern::Write | Pattern::Rw);
        Ok(Load {
            clients: self.numjobs,
            depth: self.iodepth,
            offsets: if sequential { Offsets::Sequential } else { Offsets::Uniform },
            sizes: Sizes::Fixed(bytes),
            unit_bytes: bytes,
            read_percent: self.read_percent(),
            stop,
            seed: Some(self.seed),
            ..Load::default()
        })
    }
}
