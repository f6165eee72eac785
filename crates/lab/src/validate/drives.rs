//! The drives under test, and their requests.

use fastrand::Rng;
use stripewise_sim::model::{
    Asked, ModelOp, SECTOR_BYTES,
    hdd::HddParams,
    ssd::{SsdParams, UNIT_BYTES},
};

/// The block of the papers' small requests.
pub(crate) const BLOCK: u64 = 4096;
/// A write that may complete in the drive's buffer.
pub(crate) const WRITE: ModelOp = ModelOp::Write { fua: false };

/// The hard disks.
pub(crate) fn hdds() -> Vec<HddParams> {
    vec![
        HddParams::wd_caviar_black_640(),
        HddParams::seagate_cheetah_15k4_73(),
        HddParams::seagate_exos_x18(),
    ]
}

/// The SSDs, at full size.
pub(crate) fn ssds() -> Vec<SsdParams> {
    vec![SsdParams::intel_x25e_64(), SsdParams::intel_535_120(), SsdParams::samsung_980_pro_1tb()]
}

/// The SSDs, halved in size so many times.
pub(super) fn smaller_ssds(halvings: u32) -> Vec<SsdParams> {
    ssds().into_iter().map(|drive| drive.scaled(halvings)).collect()
}

/// The place of the drive in a list whose name contains these words; checks use it to find their drive.
pub(super) fn place_of<'a>(mut names: impl Iterator<Item = &'a str>, words: &str) -> usize {
    names.position(|name| name.contains(words)).unwrap_or_else(|| panic!("no drive is called {words}"))
}

/// Units of 4 KiB that a drive holds.
pub(super) fn units(params: &SsdParams) -> u32 {
    (params.sectors * SECTOR_BYTES / UNIT_BYTES) as u32
}

/// Requests for blocks anywhere in the first `blocks`, without end.
pub(super) fn random(op: ModelOp, blocks: u64, seed: u64) -> impl Iterator<Item = Asked> {
    let mut rng = Rng::with_seed(seed);
    std::iter::repeat_with(move || (op, rng.u64(..blocks) * BLOCK, BLOCK))
}

/// One request after another, without end.
pub(super) fn sequential(op: ModelOp, start_bytes: u64, len_bytes: u64) -> impl Iterator<Item = Asked> {
    (0..).map(move |index| (op, start_bytes + index * len_bytes, len_bytes))
}
