//! Arrays over members in memory, for measurements.

use std::sync::Arc;

use stripewise_device::{Device, ZeroFlags, uring::Runtime};
use stripewise_engine::{Array, ArrayError, CreateError, CreateOptions, geometry::Level};

use super::LockSetting;

/// Makes an array of members that already agree, with the preset and the map of a lock setting. Locks that
/// differ from the preset's take effect when it is assembled with them.
///
/// # Errors
/// [`CreateError`]: the array cannot have such members or chunks.
pub fn create(
    runtime: &Runtime,
    level: Level,
    chunk_bytes: u32,
    members: Vec<Arc<dyn Device>>,
    locks: &LockSetting,
    region_bytes: Option<u64>,
) -> Result<Array, CreateError> {
    let mut create = CreateOptions::new("bench", level, members);
    create.chunk_bytes = chunk_bytes;
    create.assume_clean = true;
    create.preset = locks.preset();
    create.map = Some(locks.map());
    create.region_bytes = region_bytes;
    let env = runtime.env();
    runtime.block_on(async move { Array::create(env, create).await })
}

/// Writes everything once, so that no page fault of the memory members falls into the measurement.
///
/// # Errors
/// As a write.
pub fn touch_all(runtime: &Runtime, array: &Array) -> Result<(), ArrayError> {
    let array = array.clone();
    runtime.block_on(async move {
        let capacity = array.geometry().capacity_bytes();
        array.write_zeroes(0, capacity, ZeroFlags::default()).await
    })
}
