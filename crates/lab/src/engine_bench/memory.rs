//! Arrays over members in memory, to be measured.

use std::sync::Arc;

use stripewise_device::{Device, ZeroFlags, uring::Runtime};
use stripewise_engine::{Array, ArrayError, CreateError, CreateOptions, geometry::Level, locking::Preset};

/// Makes an array of members that agree already.
///
/// # Errors
/// [`CreateError`]: members or chunks that an array cannot have.
pub fn create(
    runtime: &Runtime,
    level: Level,
    chunk_bytes: u32,
    members: Vec<Arc<dyn Device>>,
    preset: &'static Preset,
) -> Result<Array, CreateError> {
    let mut create = CreateOptions::new("bench", level, members);
    create.chunk_bytes = chunk_bytes;
    create.assume_clean = true;
    create.preset = preset;
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
