//! One turn of a background job: from its beginning to its end.

use std::time::{Duration, Instant};

use stripewise_device::uring::Runtime;
use stripewise_engine::{Array, ArrayError};

use super::{
    Options, arrays,
    case::Work,
    parts::Shares,
    turn::{Counts, Done, Turn, histogram, own_processor_time},
};

/// Runs a job to its end. A rebuild begins with the loss of a member, and fills a new one.
pub(super) fn job_turn(
    turn: &Turn,
    options: &Options,
    runtime: &Runtime,
    array: &Array,
) -> Result<Done, ArrayError> {
    let (elapsed, cpu) = match turn.work {
        Work::Rebuild => rebuild(options, runtime, array, turn.seed)?,
        _ => check(runtime, array)?,
    };
    let (per_s, cpu_ns) = (1.0 / elapsed.as_secs_f64(), cpu.as_nanos() as f64);
    Ok(Done {
        per_s,
        cpu_ns,
        latency: histogram(),
        parts: Shares::default(),
        counts: Counts::default(),
        operations: 1,
    })
}

fn check(runtime: &Runtime, array: &Array) -> Result<(Duration, Duration), ArrayError> {
    let check = array.clone();
    timed(runtime, array, async move { check.start_scrub(false) })
}

fn rebuild(
    options: &Options,
    runtime: &Runtime,
    array: &Array,
    number: u64,
) -> Result<(Duration, Duration), ArrayError> {
    arrays::degrade(runtime, array)?;
    let (options, rebuilt) = (options.clone(), array.clone());
    let spare = runtime.block_on(async move { arrays::new_spare(&options, number).await });
    timed(runtime, array, async move { rebuilt.add(spare).await })
}

/// Starts a job and waits for it: real time, and processor time.
fn timed(
    runtime: &Runtime,
    array: &Array,
    start: impl Future<Output = Result<(), ArrayError>> + Send + 'static,
) -> Result<(Duration, Duration), ArrayError> {
    let (begun, cpu_before, array) = (Instant::now(), own_processor_time(), array.clone());
    runtime.block_on(async move {
        start.await?;
        array.wait_for_jobs().await;
        Ok::<_, ArrayError>(())
    })?;
    Ok((begun.elapsed(), own_processor_time() - cpu_before))
}
