//! One turn of a background job: from its beginning to its end.

use std::time::{Duration, Instant};

use stripewise::{Array, ArrayError, Host};

use super::{
    EngineBench, arrays,
    case::Work,
    parts::Shares,
    turn::{Done, histogram},
};
use crate::bench::cpu;

/// Runs a job to its end. A rebuild begins with the loss of a member, and fills a new one.
pub(super) fn job_turn(
    work: Work,
    options: &EngineBench,
    host: &Host,
    array: &Array,
    number: u64,
) -> Result<Done, ArrayError> {
    let (elapsed, cpu) = match work {
        Work::Rebuild => rebuild(options, host, array, number)?,
        _ => check(host, array)?,
    };
    let (per_s, cpu_ns) = (1.0 / elapsed.as_secs_f64(), cpu.as_nanos() as f64);
    Ok(Done { per_s, cpu_ns, latency: histogram(), parts: Shares::default() })
}

fn check(host: &Host, array: &Array) -> Result<(Duration, Duration), ArrayError> {
    let check = array.clone();
    timed(host, array, async move { check.start_scrub(false) })
}

fn rebuild(
    options: &EngineBench,
    host: &Host,
    array: &Array,
    number: u64,
) -> Result<(Duration, Duration), ArrayError> {
    arrays::degrade(host, array)?;
    let (options, rebuilt) = (options.clone(), array.clone());
    let spare = host.block_on(async move { arrays::new_spare(&options, number).await });
    timed(host, array, async move { rebuilt.add(spare).await })
}

/// Starts a job and waits for it: real time, and processor time.
fn timed(
    host: &Host,
    array: &Array,
    start: impl Future<Output = Result<(), ArrayError>> + Send + 'static,
) -> Result<(Duration, Duration), ArrayError> {
    let (begun, cpu_before, array) = (Instant::now(), cpu::own(), array.clone());
    host.block_on(async move {
        start.await?;
        array.wait_for_jobs().await;
        Ok::<_, ArrayError>(())
    })?;
    Ok((begun.elapsed(), cpu::own() - cpu_before))
}
