//! Arrays over members in memory, to be measured.

use std::sync::Arc;

use stripewise::{
    Array, ArrayError, CreateOptions, Device, Host, ZeroFlags, geometry::Level, locking::Preset,
};

/// Makes an array of members that agree already.
pub(super) fn create(
    host: &Host,
    level: Level,
    chunk_bytes: u32,
    members: Vec<Arc<dyn Device>>,
    preset: &'static Preset,
) -> anyhow::Result<Array> {
    let mut create = CreateOptions::new("bench", level, members);
    create.chunk_bytes = chunk_bytes;
    create.assume_clean = true;
    create.preset = preset;
    Ok(host.create(create)?)
}

/// Writes everything once, so that no page fault of the memory members falls into the measurement.
pub(super) fn touch_all(host: &Host, array: &Array) -> Result<(), ArrayError> {
    let array = array.clone();
    host.block_on(async move {
        let capacity = array.geometry().capacity_bytes();
        array.write_zeroes(0, capacity, ZeroFlags::default()).await
    })
}
